#include "server/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loop/loop.h"

struct reader {
    struct config *c;
    bool fresh_listen,
        fresh_http; /* this source has not named addresses yet: its first one replaces those before */
};

typedef enum err option_fn(struct reader *r, struct bytes value, const char *where,
                           struct error *err);

struct option {
    const char *name;
    const char *variable; /* NULL: none */
    bool takes_value;
    option_fn *set;
};

/* ---- one option each -------------------------------------------------------------------------------------- */

static enum err set_store(struct reader *r, struct bytes value, const char *where,
                          struct error *err)
{
    bool known = bytes_eq(value, BYTES_LIT("memory")) ||
                 (bytes_starts_with(value, BYTES_LIT("sqlite:")) && value.len > 7);
    if (bytes_starts_with(value, BYTES_LIT("postgres"))) /* its value may hold a password */
        return error_set(err, ERR_INVALID,
                         "%s: PostgreSQL cannot be used: it comes with a later version; use "
                         "sqlite:PATH or memory",
                         where);
    if (!known)
        return error_set(err, ERR_INVALID, "%s: \"%.*s\" is no store; use sqlite:PATH or memory",
                         where, BYTES_FMT(value));
    r->c->store = arena_dup(r->c->arena, value);
    return OK;
}

static enum err add_address(struct config *c, struct config_addresses *list, bool *fresh,
                            struct bytes value, const char *where, struct error *err)
{
    if (*fresh)
        list->count = 0;
    *fresh = false;
    do { /* a comma list in the environment and the file */
        const uint8_t *comma = memchr(value.ptr, ',', value.len);
        struct bytes one = bytes_of(value.ptr, comma ? (size_t)(comma - value.ptr) : value.len);
        value = comma ? bytes_of(comma + 1, value.len - one.len - 1) : BYTES_LIT("");
        while (one.len && one.ptr[0] == ' ')
            one = bytes_of(one.ptr + 1, one.len - 1);
        if (one.len == 0)
            return error_set(err, ERR_INVALID,
                             "%s: an address is empty; give HOST:PORT, [v6]:PORT or unix:PATH",
                             where);
        enum err rc = loop_address_check(one, err);
        if (rc)
            return error_wrap(err, rc, "%s", where);
        if (list->count == CONFIG_ADDRESSES_MAX)
            return error_set(err, ERR_INVALID, "%s: more than %d addresses", where,
                             CONFIG_ADDRESSES_MAX);
        list->items[list->count++] = arena_dup(c->arena, one);
    } while (value.len > 0);
    return OK;
}

static enum err set_listen(struct reader *r, struct bytes value, const char *where,
                           struct error *err)
{
    return add_address(r->c, &r->c->listen, &r->fresh_listen, value, where, err);
}

static enum err set_http(struct reader *r, struct bytes value, const char *where, struct error *err)
{
    r->c->http_off = bytes_eq(value, BYTES_LIT("off"));
    return r->c->http_off ? OK : add_address(r->c, &r->c->http, &r->fresh_http, value, where, err);
}

static enum err set_config(struct reader *r, struct bytes value, const char *where,
                           struct error *err)
{
    (void)where;
    (void)err;
    r->c->config_file = arena_dup(r->c->arena, value);
    return OK;
}

static enum err set_setting(struct config *c, struct bytes key, struct bytes value,
                            const char *where, struct error *err)
{
    enum err rc = settings_set(&c->settings, key, value, err);
    return rc ? error_wrap(err, rc, "%s", where) : OK;
}

static enum err set_set(struct reader *r, struct bytes value, const char *where, struct error *err)
{
    const uint8_t *eq = memchr(value.ptr, '=', value.len);
    if (!eq)
        return error_set(err, ERR_INVALID, "%s: \"%.*s\" is not KEY=VALUE", where,
                         BYTES_FMT(value));
    size_t len = (size_t)(eq - value.ptr);
    return set_setting(r->c, bytes_of(value.ptr, len), bytes_of(eq + 1, value.len - len - 1), where,
                       err);
}

static enum err set_insecure(struct reader *r, struct bytes value, const char *where,
                             struct error *err)
{
    bool both = value.len == 0 || bytes_eq(value, BYTES_LIT("true"));
    bool plaintext = bytes_eq(value, BYTES_LIT("plaintext")),
         anonymous = bytes_eq(value, BYTES_LIT("anonymous"));
    if (!both && !plaintext && !anonymous)
        return error_set(err, ERR_INVALID, "%s: \"%.*s\" is neither plaintext nor anonymous", where,
                         BYTES_FMT(value));
    r->c->insecure_plaintext = r->c->insecure_plaintext || both || plaintext;
    r->c->insecure_anonymous = r->c->insecure_anonymous || both || anonymous;
    return OK;
}

static enum err set_log_level(struct reader *r, struct bytes value, const char *where,
                              struct error *err)
{
    if (log_level_parse(value, &r->c->log_level))
        return OK;
    return error_set(err, ERR_INVALID,
                     "%s: \"%.*s\" is no log level; use debug, info, warn or error", where,
                     BYTES_FMT(value));
}

static enum err set_log_format(struct reader *r, struct bytes value, const char *where,
                               struct error *err)
{
    bool json = bytes_eq(value, BYTES_LIT("json"));
    if (!json && !bytes_eq(value, BYTES_LIT("text")))
        return error_set(err, ERR_INVALID, "%s: \"%.*s\" is no log format; use text or json", where,
                         BYTES_FMT(value));
    r->c->log_format = json ? LOG_JSON : LOG_TEXT;
    return OK;
}

static enum err set_path(const struct reader *r, const char **path, struct bytes value,
                         const char *where, struct error *err)
{
    if (value.len == 0)
        return error_set(err, ERR_INVALID, "%s: the name of the file is empty", where);
    *path = arena_cstr(r->c->arena, value);
    return OK;
}

static enum err set_tls_cert(struct reader *r, struct bytes value, const char *where,
                             struct error *err)
{
    return set_path(r, &r->c->tls_cert, value, where, err);
}

static enum err set_tls_key(struct reader *r, struct bytes value, const char *where,
                            struct error *err)
{
    return set_path(r, &r->c->tls_key, value, where, err);
}

static enum err set_tls_client_ca(struct reader *r, struct bytes value, const char *where,
                                  struct error *err)
{
    return set_path(r, &r->c->tls_client_ca, value, where, err);
}

static enum err set_api_keys(struct reader *r, struct bytes value, const char *where,
                             struct error *err)
{
    return set_path(r, &r->c->api_keys, value, where, err);
}

static const struct option OPTIONS[] = {
    {"store", "PERDURE_STORE", true, set_store},
    {"listen", "PERDURE_LISTEN", true, set_listen},
    {"http", "PERDURE_HTTP", true, set_http},
    {"tls-cert", "PERDURE_TLS_CERT", true, set_tls_cert},
    {"tls-key", "PERDURE_TLS_KEY", true, set_tls_key},
    {"tls-client-ca", "PERDURE_TLS_CLIENT_CA", true, set_tls_client_ca},
    {"api-keys", "PERDURE_API_KEYS", true, set_api_keys},
    {"config", "PERDURE_CONFIG", true, set_config},
    {"set", NULL, true, set_set},
    {"insecure", NULL, false, set_insecure},
    {"log-level", NULL, true, set_log_level},
    {"log-format", NULL, true, set_log_format},
};

static const struct option *option_find(struct bytes name)
{
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++)
        if (bytes_eq(bytes_str(OPTIONS[i].name), name))
            return &OPTIONS[i];
    return NULL;
}

/* ---- sources --------------------------------------------------------------------------------------------------- */

static enum err read_flags(struct reader *r, int argc, char *const *args, bool only_config,
                           struct error *err)
{
    for (int i = 0; i < argc; i++) {
        struct bytes arg = bytes_str(args[i]);
        if (!bytes_starts_with(arg, BYTES_LIT("--")))
            return error_set(err, ERR_INVALID,
                             "serve takes no argument \"%s\"; see perdure help serve", args[i]);
        arg = bytes_of(arg.ptr + 2, arg.len - 2);
        const uint8_t *eq = memchr(arg.ptr, '=', arg.len);
        struct bytes name = bytes_of(arg.ptr, eq ? (size_t)(eq - arg.ptr) : arg.len);
        struct bytes value = eq ? bytes_of(eq + 1, arg.len - name.len - 1) : BYTES_NONE;
        const struct option *o = option_find(name);
        char where[64];
        if (!o)
            return error_set(err, ERR_INVALID, "unknown flag \"--%.*s\"; see perdure help serve",
                             BYTES_FMT(name));
        snprintf(where, sizeof(where), "--%s", o->name);
        if (bytes_is_none(value) && o->takes_value) {
            if (i + 1 == argc)
                return error_set(err, ERR_INVALID, "%s needs a value", where);
            value = bytes_str(args[++i]);
        }
        if (only_config && o->set != set_config)
            continue;
        enum err rc = o->set(r, value, where, err);
        if (rc)
            return rc;
    }
    return OK;
}

static enum err read_environment(struct reader *r, const char *(*env)(const char *name),
                                 bool only_config, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++) {
        const struct option *o = &OPTIONS[i];
        const char *value = o->variable ? env(o->variable) : NULL;
        if (!value || !*value || (only_config && o->set != set_config))
            continue;
        enum err rc = o->set(r, bytes_str(value), o->variable, err);
        if (rc)
            return rc;
    }
    return OK;
}

static struct bytes trim(struct bytes b)
{
    while (b.len && strchr(" \t\r\n", b.ptr[0]))
        b = bytes_of(b.ptr + 1, b.len - 1);
    while (b.len && strchr(" \t\r\n", b.ptr[b.len - 1]))
        b.len--;
    return b;
}

static enum err read_line(struct reader *r, struct bytes line, const char *where, struct error *err)
{
    const uint8_t *hash = memchr(line.ptr, '#', line.len);
    line = trim(hash ? bytes_of(line.ptr, (size_t)(hash - line.ptr)) : line);
    if (line.len == 0)
        return OK;
    const uint8_t *eq = memchr(line.ptr, '=', line.len);
    if (!eq)
        return error_set(err, ERR_INVALID, "%s: \"%.*s\" is not `key = value`", where,
                         BYTES_FMT(line));
    struct bytes key = trim(bytes_of(line.ptr, (size_t)(eq - line.ptr)));
    struct bytes value = trim(bytes_of(eq + 1, (size_t)(line.ptr + line.len - eq - 1)));
    const struct option *o = option_find(key);
    if (o && (o->set == set_config || o->set == set_set))
        return error_set(err, ERR_INVALID, "%s: %s is a flag only", where, o->name);
    return o ? o->set(r, value, where, err) : set_setting(r->c, key, value, where, err);
}

static enum err read_file(struct reader *r, struct error *err)
{
    const char *path = arena_cstr(r->c->arena, r->c->config_file);
    FILE *f = fopen(path, "re");
    if (!f)
        return error_set(err, ERR_INVALID, "could not read the config file \"%s\": %s", path,
                         strerror(errno));
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    enum err rc = OK;
    for (unsigned number = 1; !rc && (n = getline(&line, &cap, f)) >= 0; number++) {
        char where[300];
        snprintf(where, sizeof(where), "%.200s line %u", path, number);
        rc = read_line(r, bytes_of(line, (size_t)n), where, err);
    }
    if (!rc && ferror(f)) /* a folder, say */
        rc = error_set(err, ERR_INVALID, "could not read the config file \"%s\": %s", path,
                       strerror(errno));
    free(line);
    fclose(f);
    return rc;
}

static void defaults(struct config *c)
{
    *c = (struct config){
        .arena = arena_create(),
        .store = BYTES_LIT("sqlite:perdure.db"),
        .listen = {{BYTES_LIT("localhost:4001"), BYTES_LIT("localhost:34186")}, 2},
        .http = {{BYTES_LIT("localhost:4002"), BYTES_LIT("localhost:34181")}, 2},
        .log_level = LOG_INFO,
        .log_format = LOG_TEXT,
    };
    settings_defaults(&c->settings);
}

enum err config_read(struct config *c, int argc, char *const *args,
                     const char *(*env)(const char *name), struct error *err)
{
    enum err rc;
    defaults(c);
    struct reader r = {.c = c};
    if ((rc = read_environment(&r, env, true, err)) || (rc = read_flags(&r, argc, args, true, err)))
        return rc;
    r.fresh_listen = r.fresh_http = true;
    if (!bytes_is_none(c->config_file) && (rc = read_file(&r, err)))
        return rc;
    r.fresh_listen = r.fresh_http = true;
    if ((rc = read_environment(&r, env, false, err)))
        return rc;
    r.fresh_listen = r.fresh_http = true;
    return read_flags(&r, argc, args, false, err);
}

void config_deinit(struct config *c)
{
    arena_free(c->arena);
    c->arena = NULL;
}

enum err config_log_level(int argc, char *const *args, const char *(*env)(const char *name),
                          enum log_level *level, struct error *err)
{
    struct config c;
    enum err rc = config_read(&c, argc, args, env, err);
    if (!rc)
        *level = c.log_level;
    config_deinit(&c);
    return rc;
}

/* ---- exposure ------------------------------------------------------------------------------------------------------ */

static const struct bytes *first_exposed(const struct config_addresses *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (!loop_address_is_loopback(list->items[i]))
            return &list->items[i];
    return NULL;
}

static const struct bytes *exposed(const struct config *c)
{
    const struct bytes *a = first_exposed(&c->listen);
    return a || c->http_off ? a : first_exposed(&c->http);
}

static const char *missing(bool no_encryption, bool no_authentication)
{
    return no_encryption && no_authentication ? "encryption and authentication"
           : no_encryption                    ? "encryption"
           : no_authentication                ? "authentication"
                                              : NULL;
}

static bool is_anonymous(const struct config *c)
{
    return !c->api_keys && !c->tls_client_ca;
}

const char *config_exposed_without(const struct config *c)
{
    return exposed(c) ? missing(!c->tls_cert, is_anonymous(c)) : NULL;
}

enum err config_check_exposure(const struct config *c, struct error *err)
{
    if (!c->tls_cert != !c->tls_key)
        return error_set(err, ERR_INVALID, "--tls-%s is given without --tls-%s: TLS needs both",
                         c->tls_cert ? "cert" : "key", c->tls_cert ? "key" : "cert");
    if (c->tls_client_ca && !c->tls_cert)
        return error_set(err, ERR_INVALID,
                         "--tls-client-ca is given without --tls-cert and --tls-key: clients can "
                         "show certificates over TLS only");
    const struct bytes *a = exposed(c);
    const char *without =
        missing(!c->tls_cert && !c->insecure_plaintext, is_anonymous(c) && !c->insecure_anonymous);
    if (!a || !without)
        return OK;
    return error_set(
        err, ERR_INVALID,
        "\"%.*s\" listens beyond loopback without %s: give --tls-cert and --tls-key, "
        "and --api-keys or --tls-client-ca; or listen on loopback or a unix: socket; or "
        "say --insecure to serve everybody who can connect",
        BYTES_FMT(*a), without);
}
