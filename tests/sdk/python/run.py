#!/usr/bin/env python3
"""Runs the tests with the Python SDK: run.py [-j N] [-k EXPRESSION] [MODULE]...

Each module is a pytest process of its own, N of them at a time. Prints PASS, FAIL or SKIP and a
name, a line each; what failed, on stderr. Exit status 1 when one failed.
"""

import argparse
import concurrent.futures
import glob
import os
import subprocess
import sys
import threading

LONG = ["events", "continue", "children", "waits", "restart"]  # these begin first
HERE = os.path.dirname(os.path.abspath(__file__))
LOCK = threading.Lock()


def one(path, args):
    """Runs a module; its lines are passed on as they come."""
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:terminal", "-p", "no:cacheprovider",
               "-p", "failures", "--capture=sys", "--rootdir", HERE, path]
    if args.k:
        command += ["-k", args.k]
    env = dict(os.environ, PYTHONPATH=HERE, PYTHONUNBUFFERED="1")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=HERE, env=env, text=True)
    seen = 0
    for line in process.stdout:
        seen += 1
        with LOCK:
            sys.stdout.write(line)
            sys.stdout.flush()
    status = process.wait()
    if status == 5 and args.k:  # nothing selected here
        return True
    if status not in (0, 1) or not seen:
        with LOCK:
            print("FAIL python.%s: pytest ended with %s" % (os.path.basename(path), status), flush=True)
        return False
    return status == 0


def order(path):
    name = os.path.basename(path)[len("test_"):-len(".py")]
    return (LONG.index(name) if name in LONG else len(LONG), name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-j", type=int, default=int(os.environ.get("PERDURE_SDK_JOBS", "4")))
    parser.add_argument("-k")
    parser.add_argument("modules", nargs="*")
    args = parser.parse_args()
    paths = [os.path.join(HERE, m if m.endswith(".py") else "test_%s.py" % m) for m in args.modules]
    paths = paths or sorted(glob.glob(os.path.join(HERE, "test_*.py")), key=order)
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        results = list(pool.map(lambda p: one(p, args), paths))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
