/* check.c - `perdure check`: what a store holds that cannot be; of a running server, or with --store of a stopped one. */
#include <inttypes.h>

#include "cli/proto_json.h"
#include "cli/session.h"
#include "cli/text.h"
#include "durabletask/verify.h"
#include "perdure_admin.pb-c.h"
#include "wire/wire.h"

typedef Perdure__V1__CheckResponse CheckResponse;
typedef Perdure__V1__Finding Finding;

const struct option CHECK_OPTIONS[] = {
    {"store", "URL", "look at this store (sqlite:PATH), which no server has open", NULL, false},
    {NULL, NULL, NULL, NULL, false},
};

struct found {
    struct invocation *in;
    CheckResponse resp;
    size_t cap;
};

static void one_finding(void *arg, const char *name, const char *text)
{
    struct found *f = arg;
    CheckResponse *c = &f->resp;

    if (c->n_findings == f->cap) {
        size_t cap = f->cap ? f->cap * 2 : 16;
        Finding **bigger = arena_array(f->in->arena, Finding *, cap);
        if (f->cap)
            memcpy(bigger, c->findings, f->cap * sizeof(*bigger));
        c->findings = bigger;
        f->cap = cap;
    }
    Finding *one = arena_new(f->in->arena, Finding);
    perdure__v1__finding__init(one);
    one->name = wire_data(bytes_str(name));
    one->text = wire_data(arena_dup(f->in->arena, bytes_str(text)));
    c->findings[c->n_findings++] = one;
}

static enum err look_at_file(struct found *f, const char *url, struct error *err)
{
    struct settings settings;
    struct dt_verify_result result;
    struct store *st;

    settings_defaults(&settings);
    struct store_options so = {
        .url = bytes_str(url), .settings = &settings, .clock = clock_system(), .read_only = true};
    if (!bytes_starts_with(so.url, BYTES_LIT("sqlite:")))
        return error_set(err, ERR_INVALID, "--store %s: give sqlite:PATH", url);
    enum err e = store_open(&so, &st, err);
    if (e)
        return e;
    e = dt_verify_store(store_reader(st), one_finding, f, &result, err);
    store_close(st);
    f->resp.instances = result.instances;
    f->resp.events = result.events;
    return e;
}

static enum err print(struct invocation *in, const CheckResponse *resp, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf text = {0};

    in->has_failed = resp->n_findings > 0;
    if (in->json)
        return output_json(proto_json(&resp->base), err);
    for (size_t i = 0; i < resp->n_findings; i++) {
        strbuf_appendf(&text, "%.*s: ", BYTES_FMT(wire_view(resp->findings[i]->name)));
        put_clean(&text, wire_view(resp->findings[i]->text), 0);
        strbuf_append_str(&text, "\n");
    }
    strbuf_appendf(&text, "%s: %" PRIu64 " instances with %" PRIu64 " events, %zu findings\n",
                   resp->n_findings ? "not sound" : "sound", resp->instances, resp->events,
                   resp->n_findings);
    return output_text(&text, err);
}

enum err run_check(struct invocation *in, struct error *err)
{
    Perdure__V1__CheckRequest req = PERDURE__V1__CHECK_REQUEST__INIT;
    struct found f = {.in = in, .resp = PERDURE__V1__CHECK_RESPONSE__INIT};
    CheckResponse *resp = &f.resp;
    enum err e = invocation_has(in, "store")
                     ? look_at_file(&f, invocation_value(in, "store"), err)
                     : session_call(in, ADMIN("CheckStore"), &req.base, SESSION_FOREVER,
                                    &perdure__v1__check_response__descriptor, &resp, err);

    return e ? e : print(in, resp, err);
}
