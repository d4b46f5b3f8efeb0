#!/usr/bin/env python3
"""Load at concurrency 64 for some time: the store's log stays bounded, and nothing fails.

    wal_bound.py SECONDS

The bound is twice wal.bytes (64 MiB): past wal.bytes the executor waits for a checkpoint between two batches, and
what a batch and the checkpoint's own time add is far less than as much again. Prints PASS or FAIL lines.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PERDURE = os.environ.get("PERDURE", os.path.join(ROOT, "build", "perdure"))
WAL_BYTES = 64 << 20
BOUND = 2 * WAL_BYTES


def main():
    seconds = int(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="wal-bound-") as folder:
        path = os.path.join(folder, "store.db")
        server = subprocess.Popen(
            [PERDURE, "serve", "--store", "sqlite:" + path, "--listen", "localhost:0", "--http", "off"],
            stdout=subprocess.PIPE,
            text=True,
        )
        words = dict(w.split("=", 1) for w in server.stdout.readline().split() if "=" in w)
        load = subprocess.Popen(
            [PERDURE, "bench", "hello1", "--server", words["grpc"], "--concurrency", "64",
             "--duration", "%ds" % seconds, "--pid", str(server.pid)]
        )
        largest = 0
        while load.poll() is None:
            try:
                largest = max(largest, os.stat(path + "-wal").st_size)
            except FileNotFoundError:
                pass
            time.sleep(0.2)
        server.send_signal(signal.SIGTERM)
        status = server.wait(timeout=60)
    print("largest log: %.1f MiB, bound %.0f MiB" % (largest / 2**20, BOUND / 2**20))
    ok = True
    for name, good in (
        ("load.every_instance_was_right", load.returncode == 0),
        ("load.the_log_grew_enough_to_tell", largest > WAL_BYTES // 4),
        ("load.the_log_stays_bounded", largest <= BOUND),
        ("load.the_server_ends_well", status == 0),
    ):
        print("%s %s" % ("PASS" if good else "FAIL", name))
        ok = ok and good
    return 0 if ok else 1


sys.exit(main())
