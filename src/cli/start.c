/* start.c - `perdure start NAME`: makes an instance, and waits for it when asked to. */
#include "base/time.h"
#include "cli/payload.h"
#include "cli/session.h"
#include "cli/state.h"
#include "cli/text.h"
#include "wire/wire.h"

const struct option START_OPTIONS[] = {
    {"id", "ID", "the instance's id; without it the server makes one", NULL, false},
    {"input", "JSON|@FILE|-", "the input: JSON, a file with it, or standard input", NULL, false},
    {"at", "TIME", "not before this: RFC 3339, or relative as +30s", NULL, false},
    {"version", "V", "the orchestration's version", NULL, false},
    {"tag", "K=V", "a tag; repeatable", NULL, true},
    {"wait", NULL, "wait for the end; exit 1 when it is no success", NULL, false},
    {"timeout", "D", "with --wait: no longer than this (500ms, 2s, 5m, 1h)", NULL, false},
    {NULL, NULL, NULL, NULL, false},
};

static enum err read_tags(const struct invocation *in, CreateInstanceRequest *req,
                          struct error *err)
{
    req->tags = arena_array(in->arena, CreateInstanceRequest__TagsEntry *, in->given_count + 1);
    for (size_t i = 0; i < in->given_count; i++) {
        if (!bytes_eq(bytes_str(in->given[i].option->name), BYTES_LIT("tag")))
            continue;
        struct bytes text = bytes_str(in->given[i].value);
        const uint8_t *eq = memchr(text.ptr, '=', text.len);
        if (!eq || eq == text.ptr)
            return error_set(err, ERR_INVALID, "--tag: \"%s\" is not K=V", in->given[i].value);
        size_t len = (size_t)(eq - text.ptr);
        CreateInstanceRequest__TagsEntry *tag =
            arena_new(in->arena, CreateInstanceRequest__TagsEntry);
        create_instance_request__tags_entry__init(tag);
        tag->key = wire_data(bytes_of(text.ptr, len));
        tag->value = wire_data(bytes_of(eq + 1, text.len - len - 1));
        req->tags[req->n_tags++] = tag;
    }
    return OK;
}

static enum err read_request(const struct invocation *in, CreateInstanceRequest *req,
                             struct error *err)
{
    const char *id = invocation_value(in, "id"), *input = invocation_value(in, "input");
    struct bytes payload = BYTES_NONE;
    enum err e;

    if (input && (e = payload_read(in, "--input", input, &payload, err)))
        return e;
    req->instanceid = wire_data(id ? bytes_str(id) : BYTES_LIT(""));
    req->name = wire_data(bytes_str(in->args[0]));
    req->version = wire_string_value(in->arena, bytes_str(invocation_value(in, "version")));
    req->input = wire_string_value(in->arena, payload);
    if ((e = option_time(in, "at", &req->scheduledstarttimestamp, err)))
        return e;
    return read_tags(in, req, err);
}

static enum err print_id(const struct invocation *in, struct bytes id, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf line = {0};

    if (in->json)
        return output_json(json_pack("{s:s%}", "instanceId", id.ptr, id.len), err);
    put_clean(&line, id, 0);
    strbuf_append_char(&line, '\n');
    return output_text(&line, err);
}

static enum err wait_for_end(struct invocation *in, struct bytes id, usec_t timeout,
                             struct error *err)
{
    OrchestrationState *state;
    enum err e = session_wait(in, arena_cstr(in->arena, id), false, timeout, &state, err);

    if (e)
        return error_wrap(err, e, "instance \"%.*s\" was started, but not seen to end",
                          BYTES_FMT(id));
    return state_conclude(in, state, err);
}

enum err run_start(struct invocation *in, struct error *err)
{
    CreateInstanceRequest req = CREATE_INSTANCE_REQUEST__INIT;
    CreateInstanceResponse *resp;
    usec_t timeout = SESSION_FOREVER;
    enum err e;

    if (invocation_has(in, "timeout") && !invocation_has(in, "wait"))
        return error_set(err, ERR_INVALID, "--timeout goes with --wait");
    if ((e = invocation_duration(in, "timeout", &timeout, err)) ||
        (e = read_request(in, &req, err)) ||
        (e = session_call(in, DURABLE_TASK("StartInstance"), &req.base, SESSION_TIMEOUT,
                          &create_instance_response__descriptor, &resp, err)))
        return e;
    if (invocation_has(in, "wait"))
        return wait_for_end(in, wire_view(resp->instanceid), timeout, err);
    return print_id(in, wire_view(resp->instanceid), err);
}
