/* bad_disk.c - a disk that misbehaves under a real server: LD_PRELOAD, for tests/scale and tests/suites/46-scale.sh.
 *
 * PERDURE_BAD_DISK names a file of a struct control, which is mapped: the test changes it while the server runs. It touches
 * what SQLite does with files of a store ("*.db", "*.db-wal", "*.db-shm", "*.db-journal") and statvfs(), nothing else.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

struct control {
    _Atomic uint32_t flush_ms;    /* how much longer a flush takes */
    _Atomic uint32_t write_errno; /* what a write gets; EROFS: opening for writing as well */
    _Atomic uint64_t bytes_free;  /* what statvfs() tells; 0: the truth */
    _Atomic uint64_t flushes;     /* counted here */
    _Atomic uint64_t refused;
};

static struct control nothing, *control = &nothing;

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("PERDURE_BAD_DISK");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *p = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED)
        control = p;
    close(fd);
}

static int is_store_path(const char *path)
{
    const char *name = strrchr(path, '/');
    return strstr(name ? name : path, ".db") != NULL;
}

static int is_store_fd(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n <= 0)
        return 0;
    path[n] = 0;
    return is_store_path(path);
}

static int refuses(int fd)
{
    int e = (int)atomic_load(&control->write_errno);
    if (e == 0 || !is_store_fd(fd))
        return 0;
    atomic_fetch_add(&control->refused, 1);
    errno = e;
    return 1;
}

/* In slices: it ends soon after the test has ended it. */
static void flush_slowly(void)
{
    const struct timespec slice = {.tv_nsec = 10000000};

    atomic_fetch_add(&control->flushes, 1);
    for (uint32_t ms = 0; ms < atomic_load(&control->flush_ms); ms += 10)
        nanosleep(&slice, NULL);
}

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

int fdatasync(int fd);
int fdatasync(int fd)
{
    flush_slowly();
    return REAL(fdatasync)(fd);
}

int fsync(int fd)
{
    flush_slowly();
    return REAL(fsync)(fd);
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t at)
{
    return refuses(fd) ? -1 : REAL(pwrite64)(fd, buf, n, at);
}

ssize_t write(int fd, const void *buf, size_t n)
{
    return refuses(fd) ? -1 : REAL(write)(fd, buf, n);
}

int ftruncate64(int fd, off64_t len)
{
    return refuses(fd) ? -1 : REAL(ftruncate64)(fd, len);
}

int open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(ap, unsigned) : 0;
    va_end(ap);
    if (atomic_load(&control->write_errno) == EROFS && (flags & O_ACCMODE) != O_RDONLY &&
        is_store_path(path)) {
        errno = EROFS;
        return -1;
    }
    return REAL(open64)(path, flags, mode);
}

int statvfs64(const char *path, struct statvfs64 *out)
{
    int rc = REAL(statvfs64)(path, out);
    uint64_t left = atomic_load(&control->bytes_free);
    if (rc == 0 && left)
        out->f_bavail = left / out->f_frsize;
    return rc;
}

int statvfs(const char *path, struct statvfs *out)
{
    int rc = REAL(statvfs)(path, out);
    uint64_t left = atomic_load(&control->bytes_free);
    if (rc == 0 && left)
        out->f_bavail = left / out->f_frsize;
    return rc;
}
