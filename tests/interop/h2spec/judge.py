"""Judge an h2spec report: judge.py REPORT.xml MISSES. Prints PASS, FAIL or SKIP lines; exits 0 or 1.

MISSES has a line for each case that may miss: its name (package/number), a blank, and why.
"""

import sys
import xml.etree.ElementTree as ElementTree


def cases(path):
    """Yields (name, title, what went wrong or None) of each case, in h2spec's own order and numbers."""
    for suite in ElementTree.parse(path).getroot():
        for number, case in enumerate(suite.findall("testcase"), 1):
            wrong = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
            text = None if wrong is None else wrong.tag + ": " + " ".join((wrong.text or "").split())
            yield f"{case.get('package')}/{number}", case.get("classname"), text


def read_misses(path):
    lines = [line.split(None, 1) for line in open(path, encoding="utf-8")]
    return {line[0]: line[1].strip() for line in lines if line and not line[0].startswith("#")}


def main():
    misses = read_misses(sys.argv[2])
    failed = False
    count = 0
    for name, title, wrong in cases(sys.argv[1]):
        count += 1
        if wrong is None and name not in misses:
            print(f"PASS h2spec.{name}")
        elif wrong is not None and name in misses:
            print(f"SKIP h2spec.{name}: {misses[name]}")
        else:
            failed = True
            print(f"{title}\n{wrong or 'passes now: take it out of the list'}\nFAIL h2spec.{name}")
    if count != 145:
        failed = True
        print(f"FAIL h2spec.count ({count} cases instead of 145)")
    sys.exit(failed)


if __name__ == "__main__":
    main()
