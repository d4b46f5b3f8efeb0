#include "store/sqlite_file.h"

#include "base/strbuf.h"

#include "base/assert.h"
#include "store/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_LEN 100 /* of every SQLite file */
#define HEADER_WRITE_VERSION 18
#define VERSION_ROLLBACK 1
#define HEADER_APPLICATION_ID 68

static char *format_path(const char *a, const char *b)
{
    char *out = NULL;

    if (asprintf(&out, "%s%s", a, b) < 0)
        abort(); /* out of memory */
    return out;
}

/* The absolute path with symbolic links followed: one database has one name and one lock. */
static enum err resolve(struct bytes path, char **out, struct error *err)
{
    char given[PATH_MAX], dir[PATH_MAX], real[PATH_MAX];

    if (path.len == 0)
        return error_set(err, ERR_STORE_OPEN,
                         "the path is empty: give one, as in sqlite:perdure.db");
    if (path.len >= sizeof(given) || memchr(path.ptr, '\0', path.len))
        return error_set(err, ERR_STORE_OPEN, "the path is too long or holds a NUL byte");
    memcpy(given, path.ptr, path.len);
    given[path.len] = '\0';
    if (realpath(given, real)) {
        *out = format_path(real, "");
        return OK;
    }
    if (errno != ENOENT)
        return error_set(err, ERR_STORE_OPEN, "\"%s\": %s", given, strerror(errno));

    char *slash = strrchr(given, '/');
    const char *base = slash ? slash + 1 : given;
    size_t dir_len = slash ? (size_t)(slash - given) : 0;
    memcpy(dir, given, dir_len);
    dir[dir_len] = '\0';
    const char *parent = slash ? (dir_len ? dir : "/") : ".";
    if (base[0] == '\0')
        return error_set(err, ERR_STORE_OPEN, "\"%s\": names a directory; give a file", given);
    if (!realpath(parent, real))
        return error_set(err, ERR_STORE_OPEN,
                         "\"%s\": directory \"%s\": %s; create it or give another path", given,
                         parent, strerror(errno));
    char *with_slash = format_path(real, real[1] ? "/" : "");
    *out = format_path(with_slash, base);
    free(with_slash);
    return OK;
}

static enum err locked_error(const struct sqlite_file *f, int fd, struct error *err)
{
    char text[32] = "";
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    uint64_t pid = 0;

    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\0'))
        n--;
    if (n > 0 && bytes_parse_u64(bytes_of(text, (size_t)n), &pid))
        return error_set(
            err, ERR_STORE_OPEN,
            "\"%s\" is in use by process %llu (lock \"%s\"): stop that server, or give "
            "this one another file",
            f->path, (unsigned long long)pid, f->lock_path);
    return error_set(err, ERR_STORE_OPEN,
                     "\"%s\" is in use by another process (lock \"%s\"): stop that server, or give "
                     "this one another file",
                     f->path, f->lock_path);
}

/* One try: *again when the file was removed by its last holder between open and lock. */
static enum err lock_once(struct sqlite_file *f, bool *again, struct error *err)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat held, named;
    int fd = open(f->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    enum err e;

    *again = false;
    if (fd < 0)
        return error_set(err, ERR_STORE_OPEN,
                         "cannot open lock file \"%s\": %s; the directory must be writable",
                         f->lock_path, strerror(errno));
    if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
        if (errno == EAGAIN || errno == EACCES)
            e = locked_error(f, fd, err);
        else
            e = error_set(err, ERR_STORE_OPEN, "cannot lock \"%s\": %s", f->lock_path,
                          strerror(errno));
        close(fd);
        return e;
    }
    if (fstat(fd, &held) != 0 || stat(f->lock_path, &named) != 0 || held.st_ino != named.st_ino ||
        held.st_dev != named.st_dev) {
        close(fd);
        *again = true;
        return OK;
    }
    f->lock_fd = fd;
    return OK;
}

static enum err lock(struct sqlite_file *f, struct error *err)
{
    bool again = true;
    enum err e = OK;

    for (int tries = 0; again && tries < 100; tries++)
        if ((e = lock_once(f, &again, err)))
            return e;
    if (again)
        return error_set(err, ERR_STORE_OPEN, "could not lock \"%s\": others keep replacing it",
                         f->lock_path);

    /* The pid is for people and messages; the lock itself is the kernel's. A full disk is no reason
     * to refuse. */
    char text[32];
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(f->lock_fd, 0) != 0 || pwrite(f->lock_fd, text, (size_t)len, 0) != len)
        IGNORE_RESULT(ftruncate(f->lock_fd, 0)); /* half a pid would mislead */
    return OK;
}

static bool is_zero(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i])
            return false;
    return true;
}

static bool has_beside(const struct sqlite_file *f, const char *ending)
{
    char *path = format_path(f->path, ending);
    struct stat sb;
    bool has = stat(path, &sb) == 0 && sb.st_size > 0;

    free(path);
    return has;
}

/* Whether SQLite has a rollback journal to play back: then the header says little. */
static bool has_journal(const struct sqlite_file *f)
{
    return has_beside(f, "-journal");
}

bool sqlite_file_has_log(const struct sqlite_file *f)
{
    return has_beside(f, "-wal") || has_journal(f);
}

/* Migration 1 sets the application_id in the transaction that makes the tables, and the WAL mode
 * comes after it. So a file with another number is not ours; with none and in WAL mode neither;
 * with none and no tables it is empty, or its creation was cut: the schema tells (sqlite.c). */
static enum err check_header(const struct sqlite_file *f, const uint8_t *header, size_t len,
                             struct error *err)
{
    static const char MAGIC[16] = "SQLite format 3"; /* with its NUL */
    uint32_t id = 0;

    if (is_zero(header, MIN(len, sizeof(MAGIC))) && has_journal(f))
        return OK;
    if (len < HEADER_LEN || memcmp(header, MAGIC, sizeof(MAGIC)) != 0)
        return error_set(
            err, ERR_STORE_OPEN,
            "\"%s\" is not an SQLite database; it was left as it is: give another file", f->path);
    for (size_t i = 0; i < 4; i++)
        id = id << 8 | header[HEADER_APPLICATION_ID + i];
    if (id != SCHEMA_APPLICATION_ID &&
        (id != 0 || header[HEADER_WRITE_VERSION] != VERSION_ROLLBACK))
        return error_set(err, ERR_STORE_OPEN,
                         "\"%s\" is an SQLite database of another program (application_id %u); it "
                         "was left as it is: "
                         "give another file",
                         f->path, id);
    return OK;
}

static enum err look_at(struct sqlite_file *f, struct error *err)
{
    uint8_t header[HEADER_LEN];
    struct stat sb;
    int fd = open(f->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t n = 0;

    f->created = fd >= 0;
    if (fd < 0 && errno == EEXIST)
        fd = open(f->path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == EISDIR)
        return error_set(err, ERR_STORE_OPEN, "\"%s\" is a directory: give a file", f->path);
    if (fd < 0)
        return error_set(err, ERR_STORE_OPEN,
                         "\"%s\": %s; this user must be able to read and write it", f->path,
                         strerror(errno));
    if (fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode))
        n = sb.st_size == 0 ? 0 : pread(fd, header, sizeof(header), 0);
    else
        n = -2;
    int saved = errno;
    close(fd);
    if (n == -2)
        return error_set(err, ERR_STORE_OPEN, "\"%s\" is not a regular file: give another path",
                         f->path);
    if (n < 0)
        return error_set(err, ERR_STORE_OPEN, "could not read \"%s\": %s", f->path,
                         strerror(saved));
    if (sb.st_size == 0)
        return OK;
    return check_header(f, header, (size_t)n, err);
}

/* What a process before us wrote to the log and did not flush, or could not: after a flush that failed the system goes on
 * showing pages that are not on the disk, and no later flush writes them. So the log is flushed and then read from the disk
 * again: a transaction that is not wholly there is none. */
static enum err settle_log(const struct sqlite_file *f, struct error *err)
{
    char *path = format_path(f->path, "-wal");
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    enum err e = OK;

    if (fd >= 0 && fsync(fd) != 0)
        e = error_set(err, ERR_STORE_OPEN, "could not flush \"%s\": %s; try again", path,
                      strerror(errno));
    if (fd >= 0 && e == OK)
        (void)posix_fadvise(fd, 0, 0,
                            POSIX_FADV_DONTNEED); /* a hint: what stays cached was flushed */
    if (fd >= 0)
        close(fd);
    free(path);
    return e; /* a log that cannot be opened is SQLite's to complain about */
}

enum err sqlite_file_open(struct bytes path, struct sqlite_file *f, struct error *err)
{
    enum err e;

    *f = (struct sqlite_file){.lock_fd = -1};
    if ((e = resolve(path, &f->path, err)))
        return e;
    f->lock_path = format_path(f->path, ".lock");
    if ((e = lock(f, err)) || (e = look_at(f, err)) || (e = settle_log(f, err))) {
        sqlite_file_close(f);
        return e;
    }
    return OK;
}

enum err sqlite_file_exists(struct bytes path, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf name = {0};
    struct stat sb;

    strbuf_append_bytes(&name, path);
    if (stat(strbuf_cstr(&name), &sb) == 0)
        return OK;
    return error_set(err, ERR_STORE_OPEN, "\"%s\": %s", strbuf_cstr(&name), strerror(errno));
}

void sqlite_file_close(struct sqlite_file *f)
{
    struct stat sb;

    if (f->lock_fd >= 0) {
        if (f->created && stat(f->path, &sb) == 0 && sb.st_size == 0)
            (void)unlink(f->path);  /* left over from an open that failed */
        (void)unlink(f->lock_path); /* while it is locked: lock_once() notices */
        close(f->lock_fd);
    }
    free(f->path);
    free(f->lock_path);
    *f = (struct sqlite_file){.lock_fd = -1};
}
