#!/bin/sh
# The documentation, held to the product: links, tables, settings, metrics, error texts, and its commands
# are run.
# timeout: 600
exec python3 tests/docs/check_docs.py
