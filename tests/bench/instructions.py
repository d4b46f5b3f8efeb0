#!/usr/bin/env python3
"""Counts the instructions of the five scenarios of tests/bench/instructions.c, and holds them to
tests/bench/instructions.txt.

    instructions.py [--build DIR] [--update] [--top N] [SCENARIO]...

Only what the compiler made of src/ counts: no SQLite, no libc, no nghttp2, no test code, and nothing that
the simulated worker calls to read its items (sink_send). The numbers are
the same on every run; 2 % is nothing to look at. Prints PASS, FAIL or SKIP and a name, a line each. With
--update the file is written anew: do that in the commit that makes a scenario dearer on purpose, and say
why in it. --top lists the files of src/ that take most.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KEPT = os.path.join(ROOT, "tests/bench/instructions.txt")
ROUNDS = {"hello1": 10, "chain50": 1, "fanout100": 2, "event": 5, "unary": 50}
GROWTH = 1.10


def costs(path):
    """Instructions of each source file, from callgrind's output: self cost only."""
    names, total = {}, collections.Counter()
    current, skip = "", False
    for line in open(path, encoding="utf-8", errors="replace"):
        m = re.match(r"(fl|fi|fe)=\((\d+)\)(?: (.*))?$", line.rstrip("\n"))
        if m:
            if m[3]:
                names[m[2]] = m[3]
            current = names.get(m[2], "")
        elif re.match(r"(cfi|cfl)=\((\d+)\) ", line):  # names are given where they come first
            m = re.match(r"c..=\((\d+)\) (.*)$", line.rstrip("\n"))
            names[m[1]] = m[2]
        elif line.startswith("calls="):
            skip = True  # the next line is what the callee took
        elif re.match(r"[+\-*\d]", line):
            if not skip:
                total[current] += int(line.split()[1])
            skip = False
    return total


def source_of(name):
    """A file of src/ as in the repository; None: it is somebody else's."""
    i = name.rfind("/src/")
    path = "src/" + name[i + 5 :] if i >= 0 else name
    return path if path.startswith("src/") and os.path.exists(os.path.join(ROOT, path)) else None


def count(build, scenario):
    program = os.path.join(ROOT, build, "tests/bench/instructions")
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "out")
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", "--toggle-collect=measured", "--toggle-collect=sink_send*",
             "--callgrind-out-file=" + out, program, scenario, str(ROUNDS[scenario])],
            capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit("%s failed:\n%s%s" % (scenario, run.stdout, run.stderr))
        files = collections.Counter()
        for name, n in costs(out).items():
            if source_of(name):
                files[source_of(name)] += n
    compiler = run.stdout.split("compiler ", 1)[1].strip()
    return sum(files.values()) // ROUNDS[scenario], files, compiler


def read_kept():
    kept, compiler = {}, None
    if os.path.exists(KEPT):
        for line in open(KEPT, encoding="utf-8"):
            if line.startswith("compiler "):
                compiler = line.split(" ", 1)[1].strip()
            elif line.strip() and not line.startswith("#"):
                name, n = line.split()
                kept[name] = int(n)
    return kept, compiler


def write_kept(counts, compiler):
    with open(KEPT, "w", encoding="utf-8") as f:
        f.write("# Instructions of src/ for one round of sixteen, release build, by tests/bench/instructions.py.\n"
                "# Written by: tests/bench/instructions.py --update\n"
                "compiler %s\n" % compiler)
        for name in ROUNDS:
            f.write("%s %d\n" % (name, counts[name]))


def judge(name, n, kept, compiler, kept_compiler):
    if name not in kept:
        return "FAIL instructions.%s: no count is kept; --update writes it" % name
    ratio = n / kept[name]
    text = "instructions.%s (%d, kept %d, %+.1f %%)" % (name, n, kept[name], (ratio - 1) * 100)
    if compiler != kept_compiler:
        return "SKIP %s: counts are kept for %s, this is %s" % (text, kept_compiler, compiler)
    if ratio > GROWTH:
        return ("FAIL %s: more than 10 %% dearer; if that is meant, run tests/bench/instructions.py "
                "--update and commit the file" % text)
    return "PASS " + text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--top", type=int, default=0)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    args = parser.parse_args()
    chosen = args.scenarios or list(ROUNDS)
    kept, kept_compiler = read_kept()
    counts, failed, compiler = dict(kept), False, None
    for name in chosen:
        if name not in ROUNDS:
            parser.error("there is no scenario " + name)
        n, files, compiler = count(args.build, name)
        counts[name] = n
        if args.update:
            print("%s %d (was %s)" % (name, n, kept.get(name, "not kept")))
        else:
            verdict = judge(name, n, kept, compiler, kept_compiler)
            failed = failed or verdict.startswith("FAIL")
            print(verdict, flush=True)
        for path, cost in files.most_common(args.top):
            print("    %8d  %s" % (cost // ROUNDS[name], path))
    if args.update:
        missing = [name for name in ROUNDS if name not in counts]
        if missing:
            sys.exit("not counted yet: " + " ".join(missing))
        write_kept(counts, compiler)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
