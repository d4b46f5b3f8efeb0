#include "server/auth.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/hashmap.h"
#include "base/log.h"
#include "base/openssl.h"

enum scope {
    OF_HUB,  /* the key must be for the hub that is named */
    OF_ALL,  /* it tells of every hub: the key must be for all */
    OF_NONE, /* it tells of no hub */
};

struct rule {
    const char *path;
    uint32_t roles; /* any of them will do; 0: nobody is asked */
    enum scope scope;
};

/* clang-format off */
#define TASKS(name) "/TaskHubSidecarService/" name
#define OPEN 0
#define READ (ROLE_READ | ROLE_CLIENT | ROLE_ADMIN)
#define CLIENT (ROLE_CLIENT | ROLE_ADMIN)
#define WORKER (ROLE_WORKER | ROLE_ADMIN)
/* What is not here is for the role admin. */
static const struct rule RULES[] = {
    {TASKS("Hello"),                           OPEN, OF_NONE},
    {"/grpc.health.v1.Health/Check",           OPEN, OF_NONE},
    {"/grpc.health.v1.Health/Watch",           OPEN, OF_NONE},
    {"/healthz",                               OPEN, OF_NONE},
    {"/readyz",                                OPEN, OF_NONE},
    {TASKS("GetInstance"),                     READ, OF_HUB},
    {TASKS("WaitForInstanceStart"),            READ, OF_HUB},
    {TASKS("WaitForInstanceCompletion"),       READ, OF_HUB},
    {TASKS("QueryInstances"),                  READ, OF_HUB},
    {TASKS("ListInstanceIds"),                 READ, OF_HUB},
    {TASKS("GetEntity"),                       READ, OF_HUB},
    {TASKS("QueryEntities"),                   READ, OF_HUB},
    {TASKS("StreamInstanceHistory"),           ROLES_ALL, OF_HUB},
    {"/perdure.v1.Admin/Workers",              READ, OF_ALL},
    {"/perdure.v1.Admin/Status",               READ, OF_ALL},
    {"/perdure.v1.Admin/CheckStore",           ROLE_ADMIN, OF_ALL},
    {"/perdure.v1.Admin/BackupStore",          ROLE_ADMIN, OF_ALL},
    {"/metrics",                               READ, OF_NONE},
    {TASKS("StartInstance"),                   CLIENT, OF_HUB},
    {TASKS("RaiseEvent"),                      CLIENT, OF_HUB},
    {TASKS("SuspendInstance"),                 CLIENT, OF_HUB},
    {TASKS("ResumeInstance"),                  CLIENT, OF_HUB},
    {TASKS("TerminateInstance"),               CLIENT, OF_HUB},
    {TASKS("RestartInstance"),                 CLIENT, OF_HUB},
    {TASKS("RewindInstance"),                  CLIENT, OF_HUB},
    {TASKS("SignalEntity"),                    CLIENT, OF_HUB},
    {TASKS("PurgeInstances"),                  CLIENT, OF_HUB}, /* by filter: admin, asked for by its handler */
    {TASKS("GetWorkItems"),                    WORKER, OF_HUB},
    {TASKS("CompleteActivityTask"),            WORKER, OF_HUB},
    {TASKS("CompleteOrchestratorTask"),        WORKER, OF_HUB},
    {TASKS("CompleteEntityTask"),              WORKER, OF_HUB},
    {TASKS("AbandonTaskActivityWorkItem"),     WORKER, OF_HUB},
    {TASKS("AbandonTaskOrchestratorWorkItem"), WORKER, OF_HUB},
    {TASKS("AbandonTaskEntityWorkItem"),       WORKER, OF_HUB},
};
/* clang-format on */

struct rule_node {
    struct hash_node node;
    const struct rule *rule;
};

/* Two looks at the file that are alike mean that it is the same. */
struct look {
    bool is_there;
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
};

struct auth {
    struct auth_options opts;
    struct rule_node rules[ARRAY_LEN(RULES)];
    struct hashmap by_path;
    struct look seen; /* main thread */
    pthread_mutex_t lock;
    struct keys *keys;           /* under the lock; NULL: none are used */
    _Atomic uint64_t generation; /* of `keys`; changed under the lock */
};

/* ---- the file ------------------------------------------------------------------------------------ */

static struct look look_at(const char *path)
{
    struct stat st;
    struct look l;

    memset(&l, 0, sizeof(l));
    if (stat(path, &st) != 0)
        return l;
    l.is_there = true;
    l.dev = st.st_dev;
    l.ino = st.st_ino;
    l.size = st.st_size;
    l.changed = st.st_mtim;
    return l;
}

static bool is_same(const struct look *a, const struct look *b)
{
    return a->is_there == b->is_there && a->dev == b->dev && a->ino == b->ino &&
           a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

enum auth_reread auth_reread(struct auth *a, bool always)
{
    struct error err = {0};
    struct keys *fresh, *old;

    if (!a->opts.keys_file)
        return AUTH_UNCHANGED;
    struct look now = look_at(a->opts.keys_file);
    if (!always && is_same(&now, &a->seen))
        return AUTH_UNCHANGED;
    a->seen = now;
    if (keys_read(a->opts.keys_file, &fresh, &err)) {
        log_error(LOG_ERROR, "auth: the API keys were not reread, those before stay", &err);
        return AUTH_REREAD_FAILED;
    }
    pthread_mutex_lock(&a->lock);
    old = a->keys;
    a->keys = fresh;
    atomic_fetch_add(&a->generation, 1);
    pthread_mutex_unlock(&a->lock);
    keys_unref(old);
    LOG(LOG_INFO, "auth: API keys reread", LOG_UINT("keys", keys_count(fresh)));
    return AUTH_REREAD;
}

/* ---- making -------------------------------------------------------------------------------------- */

enum err auth_new(const struct auth_options *opts, struct auth **out, struct error *err)
{
    struct keys *keys = NULL;
    struct look seen = {0};

    if (opts->keys_file) {
        seen = look_at(opts->keys_file);
        enum err e = keys_read(opts->keys_file, &keys, err);
        if (e)
            return e;
    }
    struct auth *a = calloc(1, sizeof(*a));
    ASSERT(a);
    a->opts = *opts;
    a->keys = keys;
    a->seen = seen;
    atomic_store(&a->generation, 1);
    pthread_mutex_init(&a->lock, NULL);
    for (size_t i = 0; i < ARRAY_LEN(RULES); i++) {
        a->rules[i].rule = &RULES[i];
        hashmap_insert(&a->by_path, &a->rules[i].node, bytes_hash(bytes_str(RULES[i].path)));
    }
    *out = a;
    return OK;
}

void auth_free(struct auth *a)
{
    if (!a)
        return;
    keys_unref(a->keys);
    hashmap_deinit(&a->by_path);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

void auth_seat_deinit(struct auth_seat *seat)
{
    keys_unref(seat->keys);
    memset(seat, 0, sizeof(*seat));
}

/* ---- who it is ----------------------------------------------------------------------------------- */

static struct keys *current_keys(struct auth *a, uint64_t *generation)
{
    pthread_mutex_lock(&a->lock);
    struct keys *k = keys_ref(a->keys);
    *generation = atomic_load(&a->generation);
    pthread_mutex_unlock(&a->lock);
    return k;
}

/* The key that the text is; NULL: none. It is good until the seat changes. */
static const struct key *sit_down(struct auth *a, struct auth_seat *seat, struct bytes text)
{
    if (text.len != KEY_TEXT_LEN)
        return NULL;
    if (seat->key && seat->generation == atomic_load(&a->generation) && seat->len == text.len &&
        CRYPTO_memcmp(seat->shown, text.ptr, text.len) == 0)
        return seat->key;
    auth_seat_deinit(seat);
    seat->keys = current_keys(a, &seat->generation);
    seat->key = keys_find(seat->keys, text);
    if (seat->key)
        memcpy(seat->shown, text.ptr, text.len);
    seat->len = text.len;
    return seat->key;
}

/* What stands behind `Bearer `; BYTES_NONE: it is not of this scheme. */
static struct bytes bearer(struct bytes header)
{
    static const struct bytes SCHEME = BYTES_LIT("Bearer ");

    if (header.len <= SCHEME.len || !bytes_eq_nocase(bytes_of(header.ptr, SCHEME.len), SCHEME))
        return BYTES_NONE;
    return bytes_of(header.ptr + SCHEME.len, header.len - SCHEME.len);
}

/* ---- what it may --------------------------------------------------------------------------------- */

static bool same_path(const struct hash_node *n, const void *path)
{
    return bytes_eq(bytes_str(CONTAINER_OF(n, struct rule_node, node)->rule->path),
                    *(const struct bytes *)path);
}

static const struct rule *rule_of(const struct auth *a, const char *path)
{
    static const struct rule ADMIN_ONLY = {"", ROLE_ADMIN, OF_HUB};
    struct bytes p = bytes_str(path);
    struct hash_node *n = hashmap_find(&a->by_path, bytes_hash(p), same_path, &p);

    return n ? CONTAINER_OF(n, struct rule_node, node)->rule : &ADMIN_ONLY;
}

static const char *last_part(const char *path)
{
    return strrchr(path, '/') + 1;
}

static enum err lacks_role(const char *who, uint32_t has, const struct rule *rule, const char *path,
                           struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf own = {0}, needed = {0};

    roles_format(has, &own);
    roles_format(rule->roles, &needed);
    return error_set(err, ERR_DENIED, "%s has the roles %s; %s takes one of %s", who,
                     strbuf_cstr(&own), last_part(path), strbuf_cstr(&needed));
}

static enum err check_key(const struct key *key, const struct rule *rule,
                          const struct auth_request *req, struct error *err)
{
    struct bytes hub = bytes_is_none(req->hub) ? BYTES_LIT("default") : req->hub;
    char who[KEY_ID_LEN + 16];

    if (!(key->roles & rule->roles)) {
        (void)snprintf(who, sizeof(who), "the key %s", key->id);
        return lacks_role(who, key->roles, rule, req->path, err);
    }
    if (rule->scope == OF_ALL && !bytes_eq(key->hubs, BYTES_LIT("*")))
        return error_set(err, ERR_DENIED,
                         "%s tells of all task hubs, and the key %s is for some; use one made with "
                         "--hubs '*'",
                         last_part(req->path), key->id);
    if (rule->scope == OF_HUB && !key_is_for_hub(key, hub))
        return error_set(err, ERR_DENIED, "the key %s is not for the task hub '%.*s'", key->id,
                         (int)MIN(hub.len, 64), (const char *)hub.ptr);
    return OK;
}

static enum err check(struct auth *a, struct auth_seat *seat, const struct rule *rule,
                      const struct auth_request *req, struct error *err)
{
    struct bytes text = bearer(req->authorization);

    if (!a->opts.keys_file || (a->opts.has_certs && bytes_is_none(req->authorization))) {
        if (!a->opts.has_certs || (a->opts.cert_roles & rule->roles))
            return OK;
        return lacks_role("a client certificate without a key (auth.cert_roles)",
                          a->opts.cert_roles, rule, req->path, err);
    }
    if (bytes_is_none(req->authorization))
        return error_set(err, ERR_UNAUTHENTICATED,
                         "%s takes an API key: send the header authorization: Bearer KEY",
                         last_part(req->path));
    if (bytes_is_none(text))
        return error_set(err, ERR_UNAUTHENTICATED,
                         "the authorization header is not of the form: Bearer KEY");
    const struct key *key = sit_down(a, seat, text);
    if (!key)
        return error_set(err, ERR_UNAUTHENTICATED,
                         "the API key is not known here: it was mistyped or revoked");
    return check_key(key, rule, req, err);
}

static enum err check_seated(struct auth *a, struct auth_seat *seat, const struct rule *rule,
                             const struct auth_request *req, struct error *err)
{
    struct auth_seat own = {0};

    if (rule->roles == OPEN)
        return OK;
    enum err e = check(a, seat ? seat : &own, rule, req, err);
    auth_seat_deinit(&own);
    return e;
}

enum err auth_check(struct auth *a, struct auth_seat *seat, const struct auth_request *req,
                    struct error *err)
{
    return check_seated(a, seat, rule_of(a, req->path), req, err);
}

enum err auth_check_admin(struct auth *a, struct auth_seat *seat, const struct auth_request *req,
                          struct error *err)
{
    const struct rule rule = {req->path, ROLE_ADMIN, OF_HUB};

    return check_seated(a, seat, &rule, req, err);
}
