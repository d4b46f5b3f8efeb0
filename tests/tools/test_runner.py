#!/usr/bin/env python3
"""tools/run-tests counts what suites say, and sees those that say nothing, hang or lie."""

import os
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

RUNNER = Path(__file__).resolve().parents[2] / "tools" / "run-tests"

JUNIT = """<testsuite>
<testcase name="unit/test_a" classname="unit/test_a"><system-out>[==========] Running 3 test(s).
[ RUN      ] adds
[       OK ] adds
[ RUN      ] fails
[  FAILED  ] fails
[  SKIPPED ] later
[  FAILED  ] tests: 1 test(s), listed below:
[  FAILED  ] fails
</system-out><failure message="Failed"/></testcase>
<testcase name="unit/test_crash" classname="unit/test_crash"><system-out>[       OK ] one
</system-out><failure message="SEGFAULT"/></testcase>
<testcase name="test_b" classname="tests.sdk"/>
<testcase name="test_c" classname="tests.sdk"><skipped message="no node"/></testcase>
</testsuite>"""


class RunTests(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        (self.root / "tools").mkdir()
        (self.root / "tests" / "suites").mkdir(parents=True)
        shutil.copy(RUNNER, self.root / "tools" / "run-tests")

    def suite(self, name, body, head=""):
        path = self.root / "tests" / "suites" / name
        path.write_text(f"#!/bin/sh\n{head}\n{body}\n")
        path.chmod(0o755)

    def run_tests(self, *arguments):
        done = subprocess.run([str(self.root / "tools" / "run-tests"), *arguments],
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout.rstrip("\n").split("\n")

    def test_counts_over_all_suites(self):
        self.suite("10-a.sh", "echo PASS one; echo chatter; echo PASS two")
        self.suite("20-b.sh", "echo 'SKIP three: no disk'; echo PASS four")
        status, lines = self.run_tests()
        self.assertEqual((status, lines[-1]), (0, "3 passed, 0 failed, 1 skipped"))
        self.assertIn("SKIP 20-b: three: no disk", lines)
        status, lines = self.run_tests("10")
        self.assertEqual((status, lines[-1]), (0, "2 passed, 0 failed"))

    def test_a_failure_shows_and_fails(self):
        self.suite("10-a.sh", "echo the reason; echo FAIL one; exit 1")
        self.suite("20-b.sh", "echo PASS two")
        status, lines = self.run_tests()
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))
        self.assertIn("   | the reason", lines)

    def test_a_silent_or_lying_suite_fails(self):
        self.suite("10-silent.sh", "true")
        self.suite("20-dies.sh", "echo PASS one; exit 3")
        self.suite("30-lies.sh", "echo FAIL one")
        status, lines = self.run_tests()
        self.assertEqual((status, lines[-1]), (1, "1 passed, 4 failed"))

    def test_no_test_is_a_failure(self):
        self.suite("10-a.sh", "echo 'SKIP one: no reason'")
        self.assertEqual(self.run_tests()[0], 1)
        self.assertEqual(self.run_tests("nothing-of-that-name")[0], 1)

    def test_a_hanging_suite_is_ended_with_its_children(self):
        mark = self.root / "pid"
        self.suite("10-a.sh", f"echo PASS one; sleep 1000 & echo $! >{mark}; wait", "# timeout: 1")
        start = time.monotonic()
        status, lines = self.run_tests()
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))
        self.assertLess(time.monotonic() - start, 15)
        self.assert_gone(int(mark.read_text()))

    def test_what_a_suite_leaves_behind_is_ended(self):
        mark = self.root / "pid"
        self.suite("10-a.sh", f"sleep 1000 & echo $! >{mark}; echo PASS one")
        self.assertEqual(self.run_tests()[0], 0)
        self.assert_gone(int(mark.read_text()))

    def assert_gone(self, pid):
        for _ in range(100):  # its new parent may not have collected it yet
            try:
                os.kill(pid, 0)
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except (ProcessLookupError, FileNotFoundError):
                return
            if state == "Z":
                return
            time.sleep(0.05)
        self.fail(f"process {pid} goes on")

    def test_junit_and_cmocka(self):
        (self.root / "out.xml").write_text(JUNIT)
        self.suite("10-a.sh", "echo JUNIT out.xml; exit 1")
        status, lines = self.run_tests()
        # adds, one, test_b; fails and the crash; later and test_c
        self.assertEqual((status, lines[-1]), (1, "3 passed, 2 failed, 2 skipped"))
        self.suite("10-a.sh", "echo JUNIT missing.xml; exit 1")
        self.assertEqual(self.run_tests()[1][-1], "0 passed, 1 failed")

    def test_parallel_neighbours_overlap(self):
        for name in ("10-a.sh", "20-b.sh"):
            self.suite(name, "sleep 1; echo PASS one", "# parallel: yes")
        start = time.monotonic()
        self.assertEqual(self.run_tests()[1][-1], "2 passed, 0 failed")
        self.assertLess(time.monotonic() - start, 1.9)


if __name__ == "__main__":
    unittest.main()
