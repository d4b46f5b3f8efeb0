#!/bin/sh
# Python, JavaScript and Go programs at work while the server is killed 30 times, at moments from a
# fixed seed. checklist: 138, 50; reports: BL-012, BL-014, BL-026, BL-030, BL-065, BL-173, BL-178
# timeout: 480
exec "$(dirname "$0")/../crash/suite.sh" --kills 30 --seed 20260101
