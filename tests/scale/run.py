#!/usr/bin/env python3
"""Scale and overload: run.py [--small] [CASE]...

Runs the cases one after the other on a server each (build/perdure, or $PERDURE), prints a line a case - PASS or FAIL, its name,
what was measured - and exits with 1 if one failed. --small: sizes for a quick look. Without names: all of them.
Memory is the most that the process had resident (VmHWM); latencies are of a machine that runs clients, workers and server at once.
"""

import argparse
import os
import sys
import time
import traceback

sys.dont_write_bytecode = True

import cases_disk  # noqa: E402
import cases_many  # noqa: E402
import cases_one  # noqa: E402
import lib  # noqa: E402

CASES = {c.__name__: c for m in (cases_many, cases_one, cases_disk) for c in m.CASES}


class Context:
    """What a case is given: its size, and servers that are closed after it."""

    def __init__(self, small):
        self.small = small
        self.opened = []
        self.notes = []

    def size(self, full, small):
        return small if self.small else full

    def server(self, **kw):
        s = lib.Server(**kw)
        self.opened.append(s)
        return s.start()

    def drive(self, server, role, **kw):
        d = lib.Drive(server, role, **kw)
        self.opened.append(d)
        return d

    def note(self, fmt, *args):
        self.notes.append(fmt % args)

    def memory(self, server, full_mib, small_mib=None, what="resident"):
        """The bound that the case is about."""
        peak = server.peak_rss() / lib.MIB
        bound = full_mib if not self.small or small_mib is None else small_mib
        self.note("%s %.0f of %d MiB", what, peak, bound)
        lib.check(peak <= bound, "%s: %.0f MiB, the bound is %d" % (what, peak, bound))

    def close(self):
        for x in reversed(self.opened):
            x.close()


def run(name, small):
    t = Context(small)
    begun = time.monotonic()
    failure = None
    try:
        CASES[name](t)
    except lib.Failed as e:
        failure = str(e)
    except Exception:  # a fault of the case itself: the others still run
        failure = traceback.format_exc()
    finally:
        logs = [s.log()[-3000:] for s in t.opened if isinstance(s, lib.Server) and os.path.exists(s.log_path())]
        t.close()
    took = time.monotonic() - begun
    if failure:
        print(failure)
        for text in logs:
            print("server's log:\n" + text)
    print("%s scale.%s%s: %s; %.0f s" % ("FAIL" if failure else "PASS", name, " (small)" if small else "",
                                         "; ".join(t.notes) or "nothing measured", took), flush=True)
    return not failure


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--small", action="store_true")
    p.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    args = p.parse_args()
    unknown = [c for c in args.cases if c not in CASES]
    if unknown:
        p.error("no case %s; there are: %s" % (", ".join(unknown), ", ".join(CASES)))
    results = [run(name, args.small) for name in args.cases or CASES]
    print("scale: %d passed, %d failed" % (sum(results), len(results) - sum(results)))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
