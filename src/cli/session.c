#include "cli/session.h"

#include "wire/wire.h"

/* A server that stopped answering is noticed by pings, so that a wait without a time-out ends too. */
#define PING_IDLE (30 * USEC_PER_SEC)
#define PING_TIMEOUT (20 * USEC_PER_SEC)
/* A wait without a time-out gives up on a server that stays away; an attempt to reach it ends before the second, pauses included. */
#define AWAY_MAX (60 * USEC_PER_SEC)
#define ATTEMPT_MAX (20 * USEC_PER_SEC)
#define LOOK_TIMEOUT (5 * USEC_PER_SEC) /* for the word after a time-out */
#define AGAIN_AFTER (100 * USEC_PER_MSEC)

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
    if ((e = invocation_secure(in, err)))
        return e;
    opts.tls = in->tls;
    opts.api_key = in->api_key;
    if ((e = channel_new(NULL, &opts, &in->channel, err)))
        return error_wrap(err, e, "--server");
    return OK;
}

static enum err explain_absence(const struct invocation *in, struct error *err)
{
    if (channel_has_connected(in->channel))
        return error_wrap(err, ERR_UNAVAILABLE, "the server at \"%s\" is unavailable", in->server);
    if (channel_was_refused(in->channel))
        return error_wrap(err, ERR_UNAVAILABLE, "no TLS with the server at \"%s\"", in->server);
    return error_wrap(
        err, ERR_UNAVAILABLE,
        "no server at \"%s\" (start one with perdure serve, or name it with --server)", in->server);
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
    return e == ERR_UNAVAILABLE ? explain_absence(in, err) : e;
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
    tls_free(in->tls);
    in->tls = NULL;
}

enum err session_not_found(const struct invocation *in, const char *id, struct error *err)
{
    if (in->hub)
        return error_set(err, ERR_NOT_FOUND, "no instance \"%s\" in the hub \"%s\"", id, in->hub);
    return error_set(err, ERR_NOT_FOUND, "no instance \"%s\"", id);
}

static enum err look_up(struct invocation *in, const char *id, bool payloads, usec_t timeout,
                        OrchestrationState **out, struct error *err)
{
    GetInstanceRequest req = GET_INSTANCE_REQUEST__INIT;
    GetInstanceResponse *resp;

    req.instanceid = wire_data(bytes_str(id));
    req.getinputsandoutputs = payloads;
    enum err e = session_call(in, DURABLE_TASK("GetInstance"), &req.base, timeout,
                              &get_instance_response__descriptor, &resp, err);
    if (e)
        return e;
    if (!resp->exists || !resp->orchestrationstate)
        return session_not_found(in, id, err);
    *out = resp->orchestrationstate;
    return OK;
}

enum err session_look_up(struct invocation *in, const char *id, bool payloads,
                         OrchestrationState **out, struct error *err)
{
    return look_up(in, id, payloads, SESSION_TIMEOUT, out, err);
}

/* ---- waiting ----------------------------------------------------------------------------------- */

static void end_pause(void *arg)
{
    loop_stop(arg);
}

static void pause_for(struct invocation *in, usec_t time)
{
    struct loop *l = channel_loop(in->channel);
    struct loop_timer *t = loop_timer_new(l, end_pause, l);

    loop_timer_set(t, usec_add(clock_monotonic(clock_system()), time));
    loop_run(l);
    loop_timer_free(t);
}

static enum err wait_once(struct invocation *in, const char *id, bool is_start, usec_t timeout,
                          OrchestrationState **out, struct error *err)
{
    GetInstanceRequest req = GET_INSTANCE_REQUEST__INIT;
    GetInstanceResponse *resp;

    req.instanceid = wire_data(bytes_str(id));
    req.getinputsandoutputs = true;
    enum err e = session_call(in,
                              is_start ? DURABLE_TASK("WaitForInstanceStart")
                                       : DURABLE_TASK("WaitForInstanceCompletion"),
                              &req.base, timeout, &get_instance_response__descriptor, &resp, err);
    if (e)
        return e;
    if (!resp->exists || !resp->orchestrationstate)
        return session_not_found(in, id, err);
    *out = resp->orchestrationstate;
    return OK;
}

/* The time is over, by our clock or the server's. Whether there was anything to wait for is told apart. */
static enum err tell_time_out(struct invocation *in, const char *id, bool is_start, usec_t timeout,
                              struct error *err)
{
    OrchestrationState *state;

    if (look_up(in, id, false, LOOK_TIMEOUT, &state, err) == ERR_NOT_FOUND)
        return ERR_NOT_FOUND;
    return error_set(err, ERR_DEADLINE, "instance \"%s\" did not %s within %.6g s", id,
                     is_start ? "start" : "end", (double)timeout / (double)USEC_PER_SEC);
}

enum err session_wait(struct invocation *in, const char *id, bool is_start, usec_t timeout,
                      OrchestrationState **out, struct error *err)
{
    const struct clock *clock = clock_system();
    usec_t now = clock_monotonic(clock), away_since = 0;
    usec_t due = timeout == SESSION_FOREVER ? USEC_NEVER : usec_add(now, timeout);

    for (;;) {
        usec_t begun = now;
        usec_t left = due == USEC_NEVER ? SESSION_FOREVER : MAX(due - now, 1);
        enum err e = wait_once(in, id, is_start, left, out, err);
        now = clock_monotonic(clock);
        if (e == ERR_DEADLINE && due != USEC_NEVER)
            return tell_time_out(in, id, is_start, timeout, err);
        if (e != ERR_UNAVAILABLE || !channel_has_connected(in->channel) || now >= due)
            return e;
        if (away_since == 0 || now - begun > ATTEMPT_MAX) /* it was there until now */
            away_since = now;
        if (due == USEC_NEVER && now - away_since > AWAY_MAX)
            return e;
        pause_for(in, MIN(AGAIN_AFTER, due - now));
        now = clock_monotonic(clock);
    }
}
