/* key.c - `perdure key`: makes, shows and revokes the API keys of a file, which a server reads (base/keys.h).
 *
 * The file is replaced as a whole, under a lock of its folder: a reader sees the one or the other, and two commands do not lose each
 * other's keys.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/keys.h"
#include "base/prng.h"
#include "cli/command.h"
#include "cli/text.h"

const struct option KEY_OPTIONS[] = {
    {"api-keys", "FILE", "the server's file of keys (PERDURE_API_KEYS)", NULL, false},
    {"roles", "LIST", "create: read, client, worker, admin, with commas (client,worker)", NULL,
     false},
    {"hubs", "LIST", "create: task hubs that the key is for, with commas; * for all (*)", NULL,
     false},
    {"name", "TEXT", "create: what people call it", NULL, false},
    {NULL, NULL, NULL, NULL, false},
};

static const char HEADING[] = "# API keys of Perdure: `perdure key create`, `list` and `revoke` "
                              "write this file.\n";

/* ---- the file ------------------------------------------------------------------------------------ */

struct key_file {
    const char *path;
    char *folder;
    int folder_fd; /* locked */
    struct stat old;
    bool is_there;
    struct strbuf text;
    struct keys *keys;
};

static void key_file_close(struct key_file *f)
{
    if (f->folder_fd >= 0)
        close(f->folder_fd);
    free(f->folder);
    strbuf_deinit(&f->text);
    keys_unref(f->keys);
}

static enum err failed(const char *what, const char *path, struct error *err)
{
    return error_set(err, ERR_IO, "could not %s \"%s\": %s", what, path, strerror(errno));
}

static enum err lock_folder(struct key_file *f, struct error *err)
{
    char *copy = strdup(f->path);

    ASSERT(copy);
    f->folder = strdup(dirname(copy));
    free(copy);
    ASSERT(f->folder);
    f->folder_fd = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->folder_fd < 0)
        return failed("open the folder", f->folder, err);
    if (flock(f->folder_fd, LOCK_EX) != 0)
        return failed("lock the folder", f->folder, err);
    return OK;
}

static enum err read_text(struct key_file *f, struct error *err)
{
    FILE *in = fopen(f->path, "re");

    if (!in)
        return failed("read the API keys", f->path, err);
    for (size_t n = 1; n > 0 && f->text.len <= KEYS_BYTES_MAX;) {
        n = fread(strbuf_reserve(&f->text, KIB(16)), 1, KIB(16), in);
        f->text.len += n;
    }
    fclose(in);
    return OK;
}

/* Opens, locks and reads it. `may_be_new`: it need not be there. */
static enum err key_file_open(struct key_file *f, const char *path, bool may_be_new,
                              struct error *err)
{
    enum err e;

    *f = (struct key_file){.path = path, .folder_fd = -1};
    if ((e = lock_folder(f, err)))
        return e;
    f->is_there = stat(path, &f->old) == 0;
    if (!f->is_there && may_be_new && errno == ENOENT) {
        strbuf_append_str(&f->text, HEADING);
        return keys_parse(strbuf_bytes(&f->text), &f->keys, err);
    }
    if ((e = keys_read(path, &f->keys, err)))
        return e;
    return read_text(f, err);
}

/* Whoever owned it goes on to: the server may run as another user than who administers it. */
static enum err write_new(const struct key_file *f, const char *temporary, struct error *err)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return failed("create", temporary, err);
    bool ok = (!f->is_there || (f->old.st_uid == geteuid() && f->old.st_gid == getegid()) ||
               fchown(fd, f->old.st_uid, f->old.st_gid) == 0);
    for (size_t at = 0; ok && at < f->text.len;) {
        ssize_t n = write(fd, f->text.ptr + at, f->text.len - at);
        ok = n > 0;
        at += ok ? (size_t)n : 0;
    }
    ok = ok && fsync(fd) == 0 && rename(temporary, f->path) == 0;
    enum err e = ok ? OK : failed("write", f->path, err);
    close(fd);
    if (!ok)
        (void)unlink(temporary);
    (void)fsync(f->folder_fd); /* the name, as far as the file system can */
    return e;
}

static enum err key_file_write(const struct key_file *f, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf temporary = {0};

    strbuf_appendf(&temporary, "%s.new-%ld", f->path, (long)getpid());
    return write_new(f, strbuf_cstr(&temporary), err);
}

/* ---- what is shown ------------------------------------------------------------------------------- */

static json_t *words(struct bytes list)
{
    json_t *array = json_array();

    while (list.len > 0) {
        const uint8_t *comma = memchr(list.ptr, ',', list.len);
        size_t n = comma ? (size_t)(comma - list.ptr) : list.len;
        json_array_append_new(array, json_stringn((const char *)list.ptr, n));
        n = MIN(n + 1, list.len);
        list = bytes_of(list.ptr + n, list.len - n);
    }
    return array;
}

static json_t *key_json(const struct key *k)
{
    CLEANUP(strbuf_deinit) struct strbuf roles = {0};
    char created[USEC_TEXT_LEN];

    roles_format(k->roles, &roles);
    usec_format(k->created, created);
    return json_pack("{s:s, s:o, s:o, s:s, s:o}", "id", k->id, "roles", words(strbuf_bytes(&roles)),
                     "hubs", words(k->hubs), "created", created, "name",
                     json_stringn((const char *)k->name.ptr, k->name.len));
}

static void put_row(struct table *t, const struct key *k)
{
    CLEANUP(strbuf_deinit) struct strbuf roles = {0};
    char created[USEC_TEXT_LEN];

    roles_format(k->roles, &roles);
    usec_format(k->created, created);
    table_cell(t, bytes_str(k->id));
    table_cell(t, strbuf_bytes(&roles));
    table_cell(t, k->hubs);
    table_cell(t, bytes_str(created));
    table_cell(t, k->name.len ? k->name : BYTES_LIT("-"));
}

/* ---- create -------------------------------------------------------------------------------------- */

static enum err check_name(struct bytes name, struct error *err)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] < ' ' || name.ptr[i] == 127)
            return error_set(err, ERR_INVALID, "--name: control characters are not allowed");
    if (name.len > KEY_NAME_MAX)
        return error_set(err, ERR_INVALID, "--name: more than %d bytes", KEY_NAME_MAX);
    return OK;
}

static enum err add_key(struct key_file *f, const struct key *wanted, char key[KEY_TEXT_LEN + 1],
                        struct error *err)
{
    uint8_t random[KEY_ID_LEN / 2 + KEY_SECRET_BYTES + 16];
    struct keys *all;

    if (f->text.len > 0 && f->text.ptr[f->text.len - 1] != '\n')
        strbuf_append_char(&f->text, '\n');
    random_secret(random, sizeof(random));
    key_make(random, wanted->roles, wanted->hubs, clock_wall(clock_system()), wanted->name, key,
             &f->text);
    enum err e = keys_parse(strbuf_bytes(&f->text), &all, err); /* what is written can be read */
    if (e)
        return error_wrap(err, e, "the new key");
    keys_unref(f->keys);
    f->keys = all;
    return key_file_write(f, err);
}

static enum err create_key(struct invocation *in, const char *path, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf hubs = {0}, text = {0};
    CLEANUP(key_file_close) struct key_file f = {.folder_fd = -1};
    const char *roles = invocation_value(in, "roles"), *hub_list = invocation_value(in, "hubs");
    struct key wanted = {.roles = ROLE_CLIENT | ROLE_WORKER,
                         .name = bytes_str(invocation_value(in, "name"))};
    char key[KEY_TEXT_LEN + 1];
    enum err e;

    if (roles && (e = roles_parse(bytes_str(roles), &wanted.roles, err)))
        return error_wrap(err, e, "--roles");
    if ((e = key_hubs_parse(bytes_str(hub_list ? hub_list : "*"), &hubs, err)))
        return error_wrap(err, e, "--hubs");
    wanted.hubs = strbuf_bytes(&hubs);
    if ((e = check_name(wanted.name, err)) || (e = key_file_open(&f, path, true, err)) ||
        (e = add_key(&f, &wanted, key, err)))
        return e;
    if (in->json) {
        json_t *j = key_json(keys_at(f.keys, keys_count(f.keys) - 1));
        json_object_set_new(j, "key", json_string(key));
        return output_json(j, err);
    }
    strbuf_appendf(&text, "%s\n", key);
    return output_text(&text, err);
}

/* ---- list, revoke -------------------------------------------------------------------------------- */

static enum err list_keys(struct invocation *in, const char *path, struct error *err)
{
    static const char *const HEADS[] = {"ID", "ROLES", "HUBS", "CREATED", "NAME"};
    CLEANUP(strbuf_deinit) struct strbuf text = {0};
    struct keys *keys;
    struct table t;
    enum err e = keys_read(path, &keys, err);

    if (e)
        return e;
    json_t *array = json_array();
    table_init(&t, ARRAY_LEN(HEADS));
    for (size_t i = 0; i < ARRAY_LEN(HEADS); i++)
        table_cell(&t, bytes_str(HEADS[i]));
    for (size_t i = 0; i < keys_count(keys); i++) {
        put_row(&t, keys_at(keys, i));
        json_array_append_new(array, key_json(keys_at(keys, i)));
    }
    table_put(&t, &text);
    keys_unref(keys);
    json_t *document = json_pack("{s:o}", "keys", array);
    if (in->json)
        return output_json(document, err);
    json_decref(document);
    return output_text(&text, err);
}

/* Leaves the line of that id out; the rest stays as it is. */
static void drop_line(struct strbuf *text, struct bytes id)
{
    struct strbuf kept = {0};

    for (size_t at = 0; at < text->len;) {
        const uint8_t *end = memchr(text->ptr + at, '\n', text->len - at);
        size_t n = end ? (size_t)(end - text->ptr) + 1 - at : text->len - at;
        struct bytes line = bytes_of(text->ptr + at, n);
        if (!(line.len > id.len && bytes_eq_nocase(bytes_of(line.ptr, id.len), id)))
            strbuf_append_bytes(&kept, line);
        at += n;
    }
    strbuf_deinit(text);
    *text = kept;
}

static enum err revoke_key(struct invocation *in, const char *path, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf text = {0};
    CLEANUP(key_file_close) struct key_file f = {.folder_fd = -1};
    enum err e = key_file_open(&f, path, false, err);

    if (e)
        return e;
    const struct key *k = keys_of_id(f.keys, bytes_str(in->args[1]));
    if (!k)
        return error_set(err, ERR_NOT_FOUND,
                         "no key \"%s\" in \"%s\"; perdure key list shows the ids", in->args[1],
                         path);
    drop_line(&f.text, bytes_str(k->id));
    if ((e = key_file_write(&f, err)))
        return e;
    if (in->json)
        return output_json(json_pack("{s:s, s:s}", "id", k->id, "result", "revoked"), err);
    strbuf_appendf(&text, "revoked %s\n", k->id);
    return output_text(&text, err);
}

/* ---- the command --------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    size_t args;
    bool makes; /* takes --roles, --hubs and --name */
    enum err (*run)(struct invocation *in, const char *path, struct error *err);
} ACTIONS[] = {{"create", 1, true, create_key},
               {"list", 1, false, list_keys},
               {"revoke", 2, false, revoke_key}};

enum err run_key(struct invocation *in, struct error *err)
{
    const char *given = invocation_value(in, "api-keys"),
               *path = given ? given : getenv("PERDURE_API_KEYS");

    for (size_t i = 0; i < ARRAY_LEN(ACTIONS); i++) {
        if (strcmp(in->args[0], ACTIONS[i].word))
            continue;
        if (in->arg_count < ACTIONS[i].args)
            return error_set(err, ERR_INVALID,
                             "revoke takes the ID of a key; perdure key list shows them");
        if (in->arg_count > ACTIONS[i].args)
            return error_set(err, ERR_INVALID, "\"%s\" is one argument too many: %s takes none",
                             in->args[1], ACTIONS[i].word);
        if (!ACTIONS[i].makes && (invocation_has(in, "roles") || invocation_has(in, "hubs") ||
                                  invocation_has(in, "name")))
            return error_set(err, ERR_INVALID, "--roles, --hubs and --name are for key create");
        if (!path || !*path)
            return error_set(
                err, ERR_INVALID,
                "which file? Give --api-keys FILE, the one that perdure serve is given "
                "(PERDURE_API_KEYS)");
        return ACTIONS[i].run(in, path, err);
    }
    return error_set(err, ERR_INVALID, "\"%s\" is none of create, list and revoke", in->args[0]);
}
