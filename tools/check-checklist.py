#!/usr/bin/env python3
"""Which numbers of the checklist, and which public reports, does no test name?

    check-checklist.py [--list] [FOLDER...]

Tests name them in a comment or docstring, the marker first on its line (or after a `;`):

    checklist: 12, 13, 31-33         the behaviour of these numbers is shown
    checklist-partial: 4             all of it but what entities, locks, restart and rewind add
    reports: BL-001, BL-034          the test of these public reports

Prints the required numbers that nothing names (exit status 1), those that are only named as partial,
and the reports that are to be named by now and are not (exit status 1). --list: who names what.
"""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["tests", "examples"]
SOURCES = {".py", ".js", ".go", ".java", ".c", ".h", ".sh", ".txt", ".md"}


def numbers(text):
    """Of "1, 4-8": {1, 4, 5, 6, 7, 8}."""
    found = set()
    for part in re.split(r"[,\s]+", text.strip()):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


# What the server must show so far: its orchestrations, without entities and rewind.
REQUIRED = numbers("1-8, 10-87, 89-94, 102-107, 125-134, 137-139, 141-154, 157, 158, 160, 161")
# Of these a part is about entities, locks or rewind, which come later.
PARTIAL = numbers("4, 18, 32, 90, 127, 160")

# Of the public reports whose target is the Durable Task protocol, both protocols or operation, those that tests must
# name by now.
REPORTS = numbers("""1-15, 18, 19, 21, 22, 25-28, 30-32, 34, 35, 37, 39, 40, 42-44, 46-48, 51-57, 62,
                     64-66, 68-74, 76, 77, 84, 86-88, 90-92, 94, 96-100, 103-106, 109, 110, 112-116, 118-120, 122,
                     124-129, 131, 132, 135, 137, 138, 141, 142, 173-179""")
# Of these a part is shown; what is left waits for this.
IN_PART = {
    "days instead of an hour a night, a published rate, a command that checks a store": numbers("13, 119"),
    "PostgreSQL and several nodes (the embedded store's part is shown)": numbers("15, 118"),
    "the way to PostgreSQL (power cuts and copies are shown)": numbers("137"),
    "events kept for ids that are not there yet, by choice": numbers("35"),
    "history streaming to workers": numbers("106, 114"),
    "entities": numbers("44, 84"),
    "lists": numbers("103"),
    "an early warning, and a suspension at the limit where the specification has a failure": numbers("94"),
}
# What the others of these wait for.
LATER = {
    "PostgreSQL and several nodes": numbers("17, 24, 117, 136"),
    "items that are parked after so many deliveries (the specification has none: an abandoned one comes again, with "
    "backoff)": numbers("29"),
    "start-or-signal in one call, which the protocol has not": numbers("36"),
    "entities": numbers("45, 79-83, 85"),
    "lists by name and tag, lists and purges of millions, purge by filter in the command": numbers("61, 102, 107"),
    "the breaks of a stream by a large item, history streaming": numbers("89"),
    "retention, export and import of settings": numbers("139, 140"),
    "users with passwords (there are keys and certificates), encryption of what is stored": numbers("133, 134"),
    "backup": numbers("149"),
    "the dashboard": numbers("143-145"),
    "a test mode whose clock jumps": numbers("146"),
    "limits and priorities by key": numbers("148, 180"),
}

MARKER = re.compile(r"(?:^|;)[\s/*#\"'-]*(checklist|checklist-partial|reports):\s*([^;*\"']+)", re.IGNORECASE)


def scan(folders):
    found = {"checklist": {}, "checklist-partial": {}, "reports": {}}
    bad = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in SOURCES or not path.is_file() or "node_modules" in path.parts:
                continue
            name = os.path.relpath(path, ROOT)
            for line_number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                # The marker may also follow the end of a sentence.
                line = re.sub(r"\.\s+(?=(checklist|checklist-partial|reports):)", "; ", line)
                for kind, text in MARKER.findall(line):
                    kind = kind.lower()
                    text = re.split(r"\.\s|\.$", text)[0]
                    try:
                        if kind == "reports":
                            values = {int(n) for n in re.findall(r"BL-(\d+)", text)}
                            if not values or re.sub(r"BL-\d+|[,\s]", "", text):
                                raise ValueError
                        else:
                            values = numbers(text.strip().rstrip("."))
                    except ValueError:
                        bad.append("%s:%d: cannot read the marker %r" % (name, line_number, text.strip()))
                        continue
                    for value in values:
                        found[kind].setdefault(value, []).append("%s:%d" % (name, line_number))
    return found, bad


def show(values, prefix=""):
    return ", ".join("%s%03d" % (prefix, v) if prefix else str(v) for v in sorted(values)) or "none"


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("-")]
    found, bad = scan(arguments or FOLDERS)
    if "--list" in sys.argv:
        for kind, by_value in found.items():
            for value, places in sorted(by_value.items()):
                print("%s %d: %s" % (kind, value, " ".join(sorted(set(places)))))
    # Nobody can show the rest of PARTIAL yet, whatever a marker says.
    whole = set(found["checklist"]) - PARTIAL
    partial = set(found["checklist-partial"]) | (set(found["checklist"]) & PARTIAL)
    missing = REQUIRED - whole - partial
    not_whole = (REQUIRED & partial) - whole
    reports = REPORTS - set(found["reports"])
    for numbers_later in LATER.values():
        for named in sorted(numbers_later & set(found["reports"])):
            bad.append("BL-%03d is left for later, but a test names it: %s" % (named, found["reports"][named][0]))
    for line in bad:
        print(line)
    print("checklist numbers that no test names: %s" % show(missing))
    print("named in part only, the rest is built later: %s" % show(not_whole & PARTIAL))
    print("named in part only without need: %s" % show(not_whole - PARTIAL))
    print("reports that no test names: %s" % show(reports, "BL-"))
    for why, numbers_part in IN_PART.items():
        print("reports named in part, the rest needs %s: %s" % (why, show(numbers_part, "BL-")))
    for why, numbers_later in LATER.items():
        print("reports left for later, they need %s: %s" % (why, show(numbers_later, "BL-")))
    print("%d of %d numbers, %d reports" % (len(REQUIRED & (whole | partial)), len(REQUIRED), len(found["reports"])))
    return 1 if missing or (not_whole - PARTIAL) or reports or bad else 0


if __name__ == "__main__":
    sys.exit(main())
