/* backup.c - `perdure backup DEST`: the store of a running server, as it is at one moment, into a file. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/proto_json.h"
#include "cli/session.h"
#include "cli/text.h"
#include "perdure_admin.pb-c.h"
#include "wire/wire.h"

struct copying {
    const char *path;
    int fd;
    struct arena *arena; /* of one chunk */
    uint64_t total, got, wal_bytes;
    enum err result;
    struct error *err;
};

static enum err write_all(struct copying *c, struct bytes data)
{
    while (data.len > 0) {
        ssize_t n = write(c->fd, data.ptr, data.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(c->err, ERR_IO, "could not write \"%s\": %s", c->path,
                             strerror(errno));
        data = bytes_of(data.ptr + n, data.len - (size_t)n);
        c->got += (uint64_t)n;
    }
    return OK;
}

static bool take(void *arg, struct bytes message)
{
    struct copying *c = arg;
    Perdure__V1__BackupChunk *chunk;

    arena_reset(c->arena);
    c->result = wire_unpack(&perdure__v1__backup_chunk__descriptor, c->arena, message, &WIRE_LIMITS,
                            &chunk, c->err);
    if (c->result)
        error_wrap(c->err, c->result, "the answer of the server does not decode");
    else if (chunk->total > 0) {
        c->total = chunk->total;
        c->wal_bytes = chunk->wal_bytes;
    }
    if (!c->result)
        c->result = write_all(c, bytes_of(chunk->data.data, chunk->data.len));
    return c->result == OK;
}

static enum err finish(struct copying *c)
{
    if (c->got != c->total || c->total == 0)
        return error_set(c->err, ERR_UNAVAILABLE,
                         "%" PRIu64 " of %" PRIu64 " bytes came; try again", c->got, c->total);
    if (fsync(c->fd) != 0)
        return error_set(c->err, ERR_IO, "could not flush \"%s\": %s", c->path, strerror(errno));
    return OK;
}

static enum err print(struct invocation *in, const struct copying *c, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf text = {0};

    if (in->json)
        return output_json(json_pack("{s:s, s:I, s:I}", "path", c->path, "bytes",
                                     (json_int_t)c->total, "walBytes", (json_int_t)c->wal_bytes),
                           err);
    strbuf_appendf(&text,
                   "%s: %" PRIu64 " bytes; the server's log had %" PRIu64
                   " bytes at the end, and is emptied again\n",
                   c->path, c->total, c->wal_bytes);
    return output_text(&text, err);
}

enum err run_backup(struct invocation *in, struct error *err)
{
    Perdure__V1__BackupRequest req = PERDURE__V1__BACKUP_REQUEST__INIT;
    struct copying c = {.path = in->args[0], .arena = in->arena, .err = err};

    c.fd = open(c.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (c.fd < 0)
        return error_set(err, errno == EEXIST ? ERR_INVALID : ERR_IO,
                         "cannot make \"%s\": %s; give a path where no file is", c.path,
                         strerror(errno));
    c.arena = arena_create();
    enum err e =
        session_stream(in, ADMIN("BackupStore"), &req.base, SESSION_FOREVER, take, &c, err);
    e = e ? e : c.result;
    e = e ? e : finish(&c);
    arena_free(c.arena);
    close(c.fd);
    if (e)
        (void)unlink(c.path);
    return e ? e : print(in, &c, err);
}
