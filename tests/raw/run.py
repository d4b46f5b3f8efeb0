#!/usr/bin/env python3
"""Runs the raw conformance tests: run.py [--jobs N] [--only PATTERN]... [--skip PATTERN]... [MODULE]..."""

import argparse
import glob
import os
import sys

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--jobs", type=int, default=int(os.environ.get("PERDURE_RAW_JOBS", "8")))
    p.add_argument("--only", action="append")
    p.add_argument("--skip", action="append")
    p.add_argument("modules", nargs="*")
    args = p.parse_args()
    modules = args.modules or sorted(
        os.path.basename(f)[:-3] for f in glob.glob(os.path.join(HERE, "test_*.py"))
    )
    modules = [m if m.startswith("test_") else "test_" + m for m in modules]
    from lib import runner

    ok = runner.run(modules, args.jobs, args.only, args.skip)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if ok else 1)  # threads of grpcio may still hang on dead channels


main()
