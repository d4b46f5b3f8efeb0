#!/usr/bin/env python3
"""Holds the documentation to the product: PASS or FAIL and a name, a line each.

    tests/docs/check_docs.py [--static]

Static checks compare the pages with the source; live ones run their commands against $PERDURE
(build/perdure). How to mark a code block: pages.py.
"""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import live_checks  # noqa: E402
import pages as pages_module  # noqa: E402
import static_checks  # noqa: E402


def report(name, findings):
    try:
        found = list(findings)
    except Exception as error:  # a check that breaks is a failed one
        found = [f"{type(error).__name__}: {error}"]
    for finding in found:
        print(f"  {finding}")
    print(f"{'FAIL' if found else 'PASS'} docs.{name}", flush=True)
    return not found


def main():
    pages = pages_module.load()
    good = report("self_test", static_checks.self_test(pages))
    for name, check in static_checks.checks():
        good = report(name, check(pages)) and good
    if "--static" not in sys.argv[1:]:
        for name, findings in live_checks.run(pages):
            good = report(name, findings) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
