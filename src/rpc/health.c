#include "rpc/health.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/assert.h"
#include "rpc/internal.h"

#define SERVICES_MAX 16

enum { SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };

struct watcher {
    struct list_node node;
    struct rpc_call *call;
    bool known;
    int told; /* the last status that was sent */
};

struct health {
    pthread_mutex_t lock;
    bool serving;         /* under the lock */
    struct list watchers; /* the same; a watcher's call belongs to its connection's thread */
    const char *services[SERVICES_MAX];
    size_t service_count;
    struct rpc_method methods[2];
};

/* ---- messages: HealthCheckRequest{service 1}, HealthCheckResponse{status 1} -------------------- */

static bool take_varint(struct bytes *b, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && b->len > 0; shift += 7) {
        uint8_t c = *b->ptr;
        *b = bytes_of(b->ptr + 1, b->len - 1);
        *out |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80))
            return true;
    }
    return false;
}

static bool skip(struct bytes *b, size_t n)
{
    if (b->len < n)
        return false;
    *b = bytes_of(b->ptr + n, b->len - n);
    return true;
}

static bool parse_request(struct bytes b, struct bytes *service)
{
    uint64_t key, n;

    *service = bytes_of("", 0);
    while (b.len > 0) {
        if (!take_varint(&b, &key))
            return false;
        if ((key & 7) == 2) {
            if (!take_varint(&b, &n) || n > b.len)
                return false;
            if (key >> 3 == 1)
                *service = bytes_of(b.ptr, (size_t)n);
            (void)skip(&b, (size_t)n); /* it fits */
        } else if ((key & 7) == 0) {
            if (!take_varint(&b, &n))
                return false;
        } else if (!skip(&b, (key & 7) == 1 ? 8 : 4) || ((key & 7) != 1 && (key & 7) != 5)) {
            return false;
        }
    }
    return true;
}

static struct rpc_msg *make_answer(int status)
{
    struct rpc_msg *m = rpc_msg_new(2);

    rpc_msg_data(m)[0] = 0x08; /* field 1, varint */
    rpc_msg_data(m)[1] = (uint8_t)status;
    return m;
}

/* ---- the service ----------------------------------------------------------------------------- */

static bool is_known(const struct health *h, struct bytes service)
{
    if (service.len == 0)
        return true;
    for (size_t i = 0; i < h->service_count; i++)
        if (bytes_eq(service, bytes_str(h->services[i])))
            return true;
    return false;
}

static int status_now(struct health *h)
{
    pthread_mutex_lock(&h->lock);
    int status = h->serving ? SERVING : NOT_SERVING;
    pthread_mutex_unlock(&h->lock);
    return status;
}

static void check(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    struct health *h = service;
    struct bytes name;

    if (!parse_request(msg, &name))
        rpc_call_finish(call, GRPC_INVALID_ARGUMENT, BYTES_LIT("malformed HealthCheckRequest"));
    else if (!is_known(h, name))
        rpc_call_finish(call, GRPC_NOT_FOUND, BYTES_LIT("unknown service"));
    else
        rpc_call_reply(call, make_answer(status_now(h)));
    arena_free(arena);
}

static void tell(struct rpc_call *call, void *arg)
{
    struct watcher *w = arg;
    struct health *h = rpc_call_method(call)->service;
    int status = w->known ? status_now(h) : SERVICE_UNKNOWN;

    if (status == w->told)
        return;
    w->told = status;
    rpc_call_send(call, make_answer(status));
}

static void watch(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    struct health *h = service;
    struct bytes name;

    if (!parse_request(msg, &name)) {
        rpc_call_finish(call, GRPC_INVALID_ARGUMENT, BYTES_LIT("malformed HealthCheckRequest"));
        arena_free(arena);
        return;
    }
    struct watcher *w = calloc(1, sizeof(*w));
    ASSERT(w);
    w->call = call;
    w->known = is_known(h, name);
    rpc_call_set_context(call, w);
    call_on_wake(call, tell, w);
    pthread_mutex_lock(&h->lock);
    list_push_back(&h->watchers, &w->node);
    pthread_mutex_unlock(&h->lock);
    tell(call, w);
    arena_free(arena);
}

static void unwatch(struct rpc_call *call, void *service)
{
    struct health *h = service;
    struct watcher *w = rpc_call_context(call);

    pthread_mutex_lock(&h->lock);
    list_remove(&w->node);
    pthread_mutex_unlock(&h->lock);
    free(w);
}

void health_set(struct health *h, bool serving)
{
    pthread_mutex_lock(&h->lock);
    h->serving = serving;
    /* A connection cannot go while its watcher is listed: unwatch() waits for the lock. */
    LIST_FOR_EACH (&h->watchers, n)
        call_wake(LIST_ENTRY(n, struct watcher, node)->call);
    pthread_mutex_unlock(&h->lock);
}

struct health *health_new(void)
{
    struct health *h = calloc(1, sizeof(*h));

    ASSERT(h);
    pthread_mutex_init(&h->lock, NULL);
    list_init(&h->watchers);
    h->methods[0] = (struct rpc_method){.path = "/grpc.health.v1.Health/Check",
                                        .bytes_max = KIB(64),
                                        .message = check,
                                        .service = h};
    h->methods[1] = (struct rpc_method){.path = "/grpc.health.v1.Health/Watch",
                                        .kind = RPC_SERVER_STREAM,
                                        .bytes_max = KIB(64),
                                        .message = watch,
                                        .closed = unwatch,
                                        .service = h};
    return h;
}

void health_free(struct health *h)
{
    if (!h)
        return;
    ASSERT(list_is_empty(&h->watchers));
    pthread_mutex_destroy(&h->lock);
    free(h);
}

void health_add_service(struct health *h, const char *name)
{
    ASSERT(h->service_count < SERVICES_MAX);
    h->services[h->service_count++] = name;
}

void health_register(struct health *h, struct rpc_server *s)
{
    rpc_server_add(s, h->methods, ARRAY_LEN(h->methods));
}
