#!/usr/bin/env python3
"""Check who includes whom, and calls that have one home or none.

    tools/check-layers.py          the checkout
    tools/check-layers.py --self-test

Prints `FILE:LINE: what is wrong` for each finding, and exits 1 when there was one.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Folder -> what of src/ it may include besides itself: folders, or single headers.
LAYERS = {
    "base": [],
    "loop": ["base"],
    "wire": ["base"],
    "rpc": ["base"],
    "store": ["base"],
    "engine": ["base", "store/store.h"],
    "durabletask": ["base", "wire", "rpc", "engine", "store/store.h"],
    "agnt5": ["base", "wire", "rpc", "engine", "store/store.h"],
    "http": ["base", "loop", "engine", "durabletask", "agnt5"],
    "client": ["base", "loop", "wire", "rpc"],
    "bench": ["base", "loop", "wire", "rpc", "client"],
    "cli": ["base", "loop", "wire", "rpc", "client", "bench", "store/store.h", "durabletask/verify.h"],
    "server": None,  # everything
}
# Who may see generated message types.
MESSAGES = {"wire", "durabletask", "agnt5", "client", "bench", "cli", "server"}

# Calls that have a home: everything else is given a struct clock or a struct prng.
HOMES = {
    "clock_gettime gettimeofday time nanosleep usleep sleep": {"src/base/clock.c"},
    "getrandom getentropy rand random srand srandom arc4random drand48": {"src/base/prng.c"},
}
# Calls that have none.
BANNED = {
    "strcpy strcat stpcpy sprintf vsprintf gets": "no length: use strbuf, snprintf or memcpy",
    "atoi atol atoll atof strtok": "no errors: use bytes_parse_u64() and its like",
    "alloca": "no limit: use an arena",
    "assert": "vanishes in release builds: use ASSERT()",
}
LINES_MAX = 1000

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
TESTS = re.compile(r"\btests/[\w./-]+\.(?:c|h|py|sh)\b")
CALL = re.compile(r"(?<![\w.>])([a-z_]\w*)\s*\(")


def without_comments(text):
    """The code with comments and the text of strings blanked, line by line as before."""

    def blank(match):
        token = match.group(0)
        if token.startswith("/"):
            return re.sub(r"[^\n]", " ", token)
        return token[0] + re.sub(r"[^\n]", " ", token[1:-1]) + token[-1]

    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text,
                  flags=re.DOTALL)


def check_include(folder, target, exists):
    """What is wrong with this include from src/<folder>, or None."""
    if target.endswith(".pb-c.h"):
        return None if folder in MESSAGES else f"{folder} may not see messages ({target})"
    if "/" not in target or not exists(target):
        return f'include "{target}" by its path from src/'
    allowed = LAYERS[folder]
    owner = target.split("/")[0]
    if owner == folder or allowed is None or owner in allowed or target in allowed:
        return None
    return f"{folder} may not include {target}"


def check_source(name, text, exists):
    """Yields (line, finding) of one file of src/, named from the checkout."""
    folder = name.split("/")[1]
    if folder not in LAYERS:
        yield 1, f"src/{folder} has no place among the layers"
        return
    lines = text.splitlines()
    if len(lines) > LINES_MAX:
        yield len(lines), f"more than {LINES_MAX} lines: look for the second module"
    includes = [(i, m.group(1)) for i, line in enumerate(lines, 1) if (m := INCLUDE.match(line))]
    for i, target in includes:
        finding = check_include(folder, target, exists)
        if finding:
            yield i, finding
    own = name[len("src/"):-len(".c")] + ".h"
    if name.endswith(".c") and exists(own):
        first = next((line for line in lines if re.match(r"\s*#\s*include\b", line)), "")
        if f'"{own}"' not in first and f'"{folder}/internal.h"' not in first:
            yield 1, f'include "{own}" first, so that it compiles alone'
    if name.endswith(".h") and not re.search(r"^#pragma once$", text, re.MULTILINE):
        yield 1, "a header needs #pragma once"
    for i, line in enumerate(without_comments(text).splitlines(), 1):
        yield from ((i, finding) for finding in check_line(name, line))


def check_model(name, text):
    """Yields (line, finding) of one file of the simulator's model: base/ and the messages are all that it may see of the product."""
    for i, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        target = match.group(1) if match else ""
        if target and not target.startswith("base/") and not target.endswith(".pb-c.h") \
                and "/" in target:
            yield i, f"the model may not include {target}"


def check_line(name, line):
    if "//" in line:
        yield "comments are /* */ sentences"
    for call in CALL.findall(line):
        for calls, homes in HOMES.items():
            if call in calls.split() and name not in homes:
                yield f"{call}() belongs in {', '.join(sorted(homes))}"
        for calls, why in BANNED.items():
            if call in calls.split():
                yield f"{call}(): {why}"


def check_tests(text, exists):
    """Yields (line, finding): a file under tests/ that a comment names is there."""
    for i, line in enumerate(text.splitlines(), 1):
        for path in TESTS.findall(line):
            if not exists(path):
                yield i, f"{path} is not there"


def tracked(*patterns):
    out = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", "--", *patterns],
                         check=True, capture_output=True, text=True).stdout
    return [name for name in out.split("\0") if name and (ROOT / name).exists()]


def self_test():
    """The checker finds what it is for."""
    headers = {"base/x.h", "store/store.h", "store/driver.h", "engine/a.h", "loop/loop.h"}
    cases = [
        ("src/base/y.c", '#include "store/store.h"\n', "base may not include store/store.h"),
        ("src/engine/b.c", '#include "store/driver.h"\n', "engine may not include"),
        ("src/engine/b.c", '#include "loop/loop.h"\n', "engine may not include"),
        ("src/engine/b.c", '#include "durabletask.pb-c.h"\n', "may not see messages"),
        ("src/engine/a.c", '#include "base/x.h"\n#include "engine/a.h"\n', "first"),
        ("src/loop/l.c", '#include "x.h"\n', "by its path"),
        ("src/loop/l.c", "int a = clock_gettime(1, &t);\n", "belongs in src/base/clock.c"),
        ("src/loop/l.c", "x = rand ();\n", "belongs in src/base/prng.c"),
        ("src/loop/l.c", "strcpy(a, b);\n", "no length"),
        ("src/loop/l.c", "assert(a);\n", "vanishes"),
        ("src/loop/l.c", "int a; // why\n", "comments are"),
        ("src/loop/l.h", "int a;\n", "#pragma once"),
        ("src/other/l.c", "\n", "no place"),
    ]
    fine = [
        ("src/engine/b.c", '#include "base/x.h"\n#include "store/store.h"\n'),
        ("src/base/clock.c", "int a = clock_gettime(1, &t);\n"),
        ("src/loop/l.c", '/* rand() http://x */ char *a = "sleep(1) // strcpy(x)"; c->time(1);\n'),
        ("src/server/s.c", '#include "store/driver.h"\n'),
    ]
    for name, text, want in cases:
        found = [finding for _, finding in check_source(name, text, headers.__contains__)]
        assert any(want in finding for finding in found), (name, text, found)
    found = list(check_tests("/* Tests: tests/unit/a.c, tests/b.py */\n", {"tests/b.py"}.__contains__))
    assert found == [(1, "tests/unit/a.c is not there")], found
    found = list(check_model("tests/sim/model/x.c", '#include "base/a.h"\n#include "durabletask.pb-c.h"\n'
                             '#include "internal.h"\n#include "engine/engine.h"\n#include "wire/pack.h"\n'))
    assert [i for i, _ in found] == [4, 5], found
    for name, text in fine:
        found = list(check_source(name, text, headers.__contains__))
        assert not found, (name, text, found)


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    findings = 0
    for name in tracked("src/*.c", "src/*.h"):
        text = (ROOT / name).read_text()
        found = list(check_source(name, text, lambda t: (ROOT / "src" / t).exists()))
        found += check_tests(text, lambda path: (ROOT / path).exists())
        for line, finding in found:
            print(f"{name}:{line}: {finding}")
            findings += 1
    for name in tracked("tests/sim/model/*.c", "tests/sim/model/*.h"):
        for line, finding in check_model(name, (ROOT / name).read_text()):
            print(f"{name}:{line}: {finding}")
            findings += 1
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
