/* flush_probe.c - what a flush of this disk takes: 16 KiB appended to a file and fdatasync(), again and again.
 *
 *   flush_probe DIRECTORY [COUNT]
 *
 * As a commit of the store does it: the file has its size already, and is written from its start again when the end is reached.
 * Prints JSON: p50_ms and p99_ms of write and flush.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/time.h"

#define WRITE 16384
#define FILE_BYTES (32 << 20)
#define COUNT_MAX 1000000

static int by_value(const void *a, const void *b)
{
    usec_t x = *(const usec_t *)a, y = *(const usec_t *)b;
    return x < y ? -1 : x > y;
}

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int argc, char **argv)
{
    static uint8_t data[WRITE];
    char path[4096];
    uint64_t count = 1000;
    const struct clock *clock = clock_system();

    if (argc < 2 || (argc > 2 && !bytes_parse_u64(bytes_str(argv[2]), &count)) || count == 0 ||
        count > COUNT_MAX) {
        fprintf(stderr, "usage: flush_probe DIRECTORY [COUNT]\n");
        return 2;
    }
    snprintf(path, sizeof(path), "%s/flush-probe-%ld", argv[1], (long)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return fail(path);
    (void)unlink(path);
    for (off_t at = 0; at < FILE_BYTES; at += WRITE)
        if (pwrite(fd, data, WRITE, at) != WRITE)
            return fail("write");
    if (fsync(fd) != 0)
        return fail("fsync");
    usec_t *took = calloc(count, sizeof(*took));
    if (!took)
        return fail("memory");
    for (uint64_t i = 0; i < count; i++) {
        off_t at = (off_t)(i * WRITE % FILE_BYTES);
        data[0] = (uint8_t)i;
        usec_t begun = clock_monotonic(clock);
        if (pwrite(fd, data, WRITE, at) != WRITE || fdatasync(fd) != 0)
            return fail("flush");
        took[i] = clock_monotonic(clock) - begun;
    }
    qsort(took, count, sizeof(*took), by_value);
    printf("{\"count\":%llu,\"p50_ms\":%.3f,\"p99_ms\":%.3f}\n", (unsigned long long)count,
           (double)took[count / 2] / 1000,
           (double)took[(size_t)((double)(count - 1) * 0.99)] / 1000);
    free(took);
    close(fd);
    return 0;
}
