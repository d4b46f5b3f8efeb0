/* process.h - what a process and all its descendants have used, from /proc.
 *
 * Blocking reads of a few files a process, so for the beginning and the end of a measurement.
 * Tests: tests/unit/test_bench_process.c
 */
#pragma once

#include "base/time.h"

struct process_use {
    bool is_known;  /* the process was there */
    unsigned count; /* processes */
    usec_t cpu;     /* user and system, of those that live and of children they have waited for */
    uint64_t rss_bytes, rss_peak_bytes;
    bool knows_written;     /* /proc/PID/io could be read, of each */
    uint64_t written_bytes; /* given to file systems that have a disk below */
};

/* pid 0: nothing is known. */
struct process_use process_tree_use(int pid);
