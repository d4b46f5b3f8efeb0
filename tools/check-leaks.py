#!/usr/bin/env python3
"""Check that nothing of a machine is committed: its paths, package registries' hosts, private keys.

    tools/check-leaks.py [--self-test]

Prints `FILE:LINE: what it is` for each finding, and exits 1 when there was one.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Written in pieces, so that this file does not find itself.
PATTERNS = {
    "a path of a machine": r"(?<![\w.])/(?:wo" r"rk|ro" r"ot|ho" r"me/\w+|Us" r"ers/\w+|tmp/per" r"dure)\b/?",
    "the host of a package registry": (
        r"\b(?:py" r"pi\.org|pythonho" r"sted\.org|registry\.np" r"mjs|proxy\.go" r"lang\.org|"
        r"repo1?\.mav" r"en\.(?:apache\.)?org|deb\.de" r"bian\.org|index\.cra" r"tes\.io)\b"),
    "a private key": r"-----BEGIN [A-Z ]*PRIV" r"ATE KEY-----",
    "a token": r"\b(?:AK" r"IA[0-9A-Z]{16}|gh" r"[pousr]_[A-Za-z0-9]{36}|xo" r"x[bap]-[0-9A-Za-z-]{10,})",
}


def findings(text):
    for number, line in enumerate(text.splitlines(), 1):
        for what, pattern in PATTERNS.items():
            match = re.search(pattern, line)
            if match:
                yield number, f"{what}: {match.group(0)}"


def self_test():
    assert list(findings("see /wo" "rk/main"))
    assert list(findings("HOME=/ro" "ot/.cache"))
    assert list(findings("from https://proxy.go" "lang.org/x"))
    assert list(findings("-----BEGIN EC PRIV" "ATE KEY-----"))
    assert not list(findings("a/wo" "rk/item, $root/tests, framework/root.c ../ro" "ot.h"))


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    out = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], check=True, capture_output=True)
    bad = 0
    for name in filter(None, out.stdout.decode().split("\0")):
        path = ROOT / name
        if not path.is_file():
            continue
        data = path.read_bytes()
        if b"\0" in data[:8192]:
            continue
        for number, what in findings(data.decode(errors="replace")):
            print(f"{name}:{number}: {what}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
