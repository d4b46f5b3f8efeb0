#include "cli/session.h"

#include "wire/wire.h"

/* A server that stopped answering is noticed by pings, so that a wait without a time-out ends too. */
#define PING_IDLE (30 * USEC_PER_SEC)
#define PING_TIMEOUT (20 * USEC_PER_SEC)

static enum err refuse_tls(const char *server, struct error *err)
{
    struct bytes s = bytes_str(server);

    if (!bytes_starts_with(s, BYTES_LIT("https://")) &&
        !bytes_starts_with(s, BYTES_LIT("grpcs://")))
        return OK;
    return error_set(err, ERR_INVALID,
                     "\"%s\" cannot be used: TLS comes with a later version; give HOST:PORT",
                     server);
}

static enum err open_channel(struct invocation *in, struct error *err)
{
    struct channel_options opts = {
        .address = bytes_str(in->server),
        .user_agent = "perdure-cli/" PERDURE_VERSION,
        .keepalive_idle = PING_IDLE,
        .keepalive_timeout = PING_TIMEOUT,
    };
    enum err e;

    if (in->channel)
        return OK;
    if ((e = refuse_tls(in->server, err)))
        return e;
    if ((e = channel_new(NULL, &opts, &in->channel, err)))
        return error_wrap(err, e, "--server");
    return OK;
}

enum err session_stream(struct invocation *in, const char *path, const ProtobufCMessage *request,
                        usec_t timeout, bool (*fn)(void *arg, struct bytes message), void *arg,
                        struct error *err)
{
    struct rpc_metadata hub = {"taskhub", bytes_str(in->hub)};
    CLEANUP(strbuf_deinit) struct strbuf bytes = {0};
    enum err e = open_channel(in, err);

    if (e)
        return e;
    wire_pack_into(request, &bytes);
    e = channel_stream(in->channel, path, &hub, in->hub ? 1 : 0, strbuf_bytes(&bytes), timeout, fn,
                       arg, err);
    if (e == ERR_UNAVAILABLE)
        return error_wrap(err, e, "no answer from the server at \"%s\"", in->server);
    return e;
}

struct unary {
    struct arena *arena;
    struct bytes answer;
    unsigned count;
};

static bool take(void *arg, struct bytes message)
{
    struct unary *u = arg;

    u->answer = arena_dup(u->arena, message.len ? message : BYTES_LIT(""));
    u->count++;
    return true;
}

enum err session_call(struct invocation *in, const char *path, const ProtobufCMessage *request,
                      usec_t timeout, const ProtobufCMessageDescriptor *desc, void *answer,
                      struct error *err)
{
    struct unary u = {.arena = in->arena};
    enum err e = session_stream(in, path, request, timeout, take, &u, err);

    if (e)
        return e;
    if (u.count != 1)
        return error_set(err, ERR_INTERNAL, "the server gave %u answers to one call", u.count);
    if (!answer)
        return OK;
    e = wire_unpack(desc, in->arena, u.answer, &WIRE_LIMITS, answer, err);
    return e ? error_wrap(err, ERR_INTERNAL, "the answer of the server does not decode") : OK;
}

void session_close(struct invocation *in)
{
    channel_free(in->channel);
    in->channel = NULL;
}

enum err session_not_found(const struct invocation *in, const char *id, struct error *err)
{
    if (in->hub)
        return error_set(err, ERR_NOT_FOUND, "no instance \"%s\" in the hub \"%s\"", id, in->hub);
    return error_set(err, ERR_NOT_FOUND, "no instance \"%s\"", id);
}

enum err session_look_up(struct invocation *in, const char *id, bool payloads,
                         OrchestrationState **out, struct error *err)
{
    GetInstanceRequest req = GET_INSTANCE_REQUEST__INIT;
    GetInstanceResponse *resp;

    req.instanceid = wire_data(bytes_str(id));
    req.getinputsandoutputs = payloads;
    enum err e = session_call(in, DURABLE_TASK("GetInstance"), &req.base, SESSION_TIMEOUT,
                              &get_instance_response__descriptor, &resp, err);
    if (e)
        return e;
    if (!resp->exists || !resp->orchestrationstate)
        return session_not_found(in, id, err);
    *out = resp->orchestrationstate;
    return OK;
}
