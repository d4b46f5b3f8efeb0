#!/usr/bin/env python3
"""Runs the tests of the command and of what surrounds the server: run.py [--jobs N] [--only PATTERN]... [MODULE]...

They use servers, workers and clients of tests/raw/lib. A test is a function test_NAME(t) of a module
here. Prints PASS, FAIL or SKIP and a name, a line each; what failed, on stderr.
"""

import argparse
import concurrent.futures
import glob
import importlib
import os
import sys
import threading

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "raw")]

from lib import runner  # noqa: E402


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--jobs", type=int, default=4)
    p.add_argument("--only", action="append")
    p.add_argument("modules", nargs="*")
    args = p.parse_args()
    names = args.modules or sorted(
        os.path.basename(f)[5:-3] for f in glob.glob(os.path.join(HERE, "test_*.py"))
    )
    lock = threading.Lock()

    def out(line, detail=None):
        with lock:
            if detail:
                print("--- %s\n%s" % (line, detail), file=sys.stderr, flush=True)
            print(line, flush=True)

    tests = []
    for name in names:
        for attr, fn in vars(importlib.import_module("test_" + name)).items():
            if attr.startswith("test_") and callable(fn):
                full = "cli.%s.%s" % (name, attr[5:])
                if not args.only or runner.chosen(full, args.only):
                    tests.append((full, fn))
    pool = runner.Pool()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as executor:
        ok = all(list(executor.map(lambda t: runner._run_one(pool, t[0], t[1], out), tests)))
    pool.close()
    for trouble in pool.troubles:
        out("FAIL cli.server", trouble)
        ok = False
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if ok and tests else 1)  # threads of grpcio may still hang on dead channels


main()
