#include "cli/payload.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"

static enum err read_all(FILE *f, const char *what, const char *name, struct strbuf *out,
                         struct error *err)
{
    size_t n;

    do {
        n = fread(strbuf_reserve(out, KIB(64)), 1, KIB(64), f);
        out->len += n;
    } while (n > 0 && out->len <= PAYLOAD_BYTES_MAX);
    if (ferror(f))
        return error_set(err, ERR_INVALID, "%s: could not read %s: %s", what, name,
                         strerror(errno));
    if (out->len > PAYLOAD_BYTES_MAX)
        return error_set(err, ERR_INVALID, "%s: %s has more than 1 GiB", what, name);
    return OK;
}

static enum err read_file(const char *what, const char *path, struct strbuf *out, struct error *err)
{
    FILE *f = fopen(path, "re");

    if (!f)
        return error_set(err, ERR_INVALID, "%s: could not open \"%s\": %s", what, path,
                         strerror(errno));
    enum err e = read_all(f, what, path, out, err);
    fclose(f);
    return e;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct bytes trim(struct bytes b)
{
    while (b.len > 0 && is_space(b.ptr[0]))
        b = bytes_of(b.ptr + 1, b.len - 1);
    while (b.len > 0 && is_space(b.ptr[b.len - 1]))
        b.len--;
    return b;
}

static enum err check_json(const char *what, struct bytes text, struct error *err)
{
    json_error_t why;
    json_t *j = json_loadb((const char *)text.ptr, text.len,
                           JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &why);

    if (j) {
        json_decref(j);
        return OK;
    }
    return error_set(err, ERR_INVALID,
                     "%s is not JSON: %s, line %d column %d; text goes in double quotes, which the "
                     "shell must pass on: '\"text\"'",
                     what, why.text, why.line, why.column);
}

enum err payload_read(const struct invocation *in, const char *what, const char *text,
                      struct bytes *out, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    enum err e = OK;

    if (bytes_eq(bytes_str(text), BYTES_LIT("-")))
        e = read_all(stdin, what, "standard input", &buf, err);
    else if (text[0] == '@')
        e = read_file(what, text + 1, &buf, err);
    else
        strbuf_append_str(&buf, text);
    if (e)
        return e;
    struct bytes given = buf.len > 0 ? trim(strbuf_bytes(&buf)) : BYTES_LIT("");
    if ((e = check_json(what, given, err)))
        return e;
    *out = arena_dup(in->arena, given);
    return OK;
}
