#!/bin/sh
# Every number of the checklist, and every public report that is to have a test, is named by one.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
if python3 "$root/tools/check-checklist.py"; then
    echo "PASS checklist.numbers_and_reports"
else
    echo "FAIL checklist.numbers_and_reports"
    exit 1
fi
