/* security.c - how a command connects: plaintext or TLS, with which certificate and key. */
#include <errno.h>
#include <stdio.h>

#include "cli/command.h"

#define KEY_BYTES_MAX KIB(4)

static bool has_scheme(const char *server, const char *a, const char *b)
{
    struct bytes s = bytes_str(server);

    return bytes_starts_with(s, bytes_str(a)) || bytes_starts_with(s, bytes_str(b));
}

/* Certificates in the environment may be the server's own: by themselves they ask for nothing. */
static enum err wants_tls(const struct invocation *in, bool *out, struct error *err)
{
    bool by_flag = invocation_has(in, "tls-ca") || invocation_has(in, "tls-cert") ||
                   invocation_has(in, "tls-key");

    if (has_scheme(in->server, "http://", "grpc://")) {
        *out = false;
        return by_flag ? error_set(err, ERR_INVALID,
                                   "\"%s\" means plaintext, and options for TLS are given; write "
                                   "https:// or leave them out",
                                   in->server)
                       : OK;
    }
    *out = by_flag || in->tls_ca || has_scheme(in->server, "https://", "grpcs://");
    return OK;
}

static enum err check_pair(const struct invocation *in, struct error *err)
{
    if (!in->tls_cert == !in->tls_key)
        return OK;
    return error_set(err, ERR_INVALID, "--tls-%s is given without --tls-%s: both or none",
                     in->tls_cert ? "cert" : "key", in->tls_cert ? "key" : "cert");
}

static enum err read_key_file(struct invocation *in, const char *path, struct error *err)
{
    char text[KEY_BYTES_MAX];
    FILE *f = fopen(path, "re");

    if (!f)
        return error_set(err, ERR_INVALID, "--api-key: could not read \"%s\": %s", path,
                         strerror(errno));
    struct bytes b = bytes_of(text, fread(text, 1, sizeof(text), f));
    fclose(f);
    while (b.len > 0 && strchr(" \r\n", b.ptr[b.len - 1]))
        b.len--;
    in->api_key = arena_cstr(in->arena, b);
    return OK;
}

/* Whatever is no header's value is no key either. */
static enum err check_key(const char *key, struct error *err)
{
    struct bytes b = bytes_str(key);

    for (size_t i = 0; i < b.len; i++)
        if (b.ptr[i] <= ' ' || b.ptr[i] > '~')
            return error_set(
                err, ERR_INVALID,
                "--api-key: the key has a character that no key has; give it as perdure "
                "key create printed it");
    return b.len > 0 ? OK : error_set(err, ERR_INVALID, "--api-key: the key is empty");
}

enum err invocation_secure(struct invocation *in, struct error *err)
{
    bool secure;
    enum err e = wants_tls(in, &secure, err);

    if (e)
        return e;
    if (in->api_key && in->api_key[0] == '@' && (e = read_key_file(in, in->api_key + 1, err)))
        return e;
    if (in->api_key && (e = check_key(in->api_key, err)))
        return e;
    if (!secure || in->tls)
        return OK;
    if ((e = check_pair(in, err)))
        return e;
    const struct tls_files files = {in->tls_cert, in->tls_key, in->tls_ca};
    return tls_new(TLS_CLIENT, &files, &in->tls, err);
}
