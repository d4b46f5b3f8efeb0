"""A pytest plugin in place of its terminal: details of what failed go to stderr."""

import sys


def pytest_runtest_logreport(report):
    if not report.failed:
        return
    print("--- %s (%s)" % (report.nodeid, report.when), file=sys.stderr)
    print(report.longreprtext, file=sys.stderr)
    for title, text in report.sections:
        print("--- %s\n%s" % (title, text[-4000:]), file=sys.stderr)
    sys.stderr.flush()


def pytest_collectreport(report):
    if report.failed:
        print("FAIL python.%s: cannot be collected" % report.nodeid, flush=True)
        print(report.longreprtext, file=sys.stderr, flush=True)
