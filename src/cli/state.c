#include "cli/state.h"

#include <stdio.h>

#include "cli/proto_json.h"
#include "cli/text.h"
#include "wire/wire.h"

#define FAILURE_LEVELS_SHOWN 16

const char *status_name(OrchestrationStatus status)
{
    static char unknown[32];
    const char *prefix = "ORCHESTRATION_STATUS_";
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value(&orchestration_status__descriptor, (int)status);

    if (v && bytes_starts_with(bytes_str(v->name), bytes_str(prefix)))
        return v->name + strlen(prefix);
    snprintf(unknown, sizeof(unknown), "STATUS_%d", (int)status);
    return unknown;
}

bool status_is_terminal(OrchestrationStatus status)
{
    return status == ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED ||
           status == ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_FAILED ||
           status == ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_CANCELED ||
           status == ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_TERMINATED;
}

enum err statuses_read(const struct invocation *in, OrchestrationStatus **out, size_t *count,
                       struct error *err)
{
    const ProtobufCEnumDescriptor *d = &orchestration_status__descriptor;

    *out = arena_array(in->arena, OrchestrationStatus, in->given_count + 1);
    *count = 0;
    for (size_t i = 0; i < in->given_count; i++) {
        struct bytes name = bytes_str(in->given[i].value);
        size_t before = *count;
        if (!bytes_eq(bytes_str(in->given[i].option->name), BYTES_LIT("status")))
            continue;
        for (unsigned k = 0; k < d->n_values; k++)
            if (bytes_eq_nocase(name,
                                bytes_str(status_name((OrchestrationStatus)d->values[k].value))))
                (*out)[(*count)++] = (OrchestrationStatus)d->values[k].value;
        if (*count == before)
            return error_set(err, ERR_INVALID,
                             "--status: there is no status \"%s\"; RUNNING, COMPLETED, FAILED, "
                             "CANCELED, TERMINATED, PENDING and SUSPENDED are",
                             in->given[i].value);
    }
    return OK;
}

enum err option_time(const struct invocation *in, const char *option,
                     Google__Protobuf__Timestamp **out, struct error *err)
{
    const char *text = invocation_value(in, option);
    usec_t at;

    *out = NULL;
    if (!text)
        return OK;
    enum err e = usec_parse_time(bytes_str(text), clock_wall(clock_system()), &at, err);
    if (e)
        return error_wrap(err, e, "--%s", option);
    *out = arena_new(in->arena, Google__Protobuf__Timestamp);
    **out = wire_time(at);
    return OK;
}

/* ---- JSON -------------------------------------------------------------------------------------- */

/* The proto3 JSON of the state, with a short `status` in place of `orchestrationStatus`. */
json_t *state_json(const OrchestrationState *s)
{
    json_t *all = proto_json(&s->base), *out = json_object(), *value;
    const char *key;

    json_object_foreach(all, key, value)
    {
        if (bytes_eq(bytes_str(key), BYTES_LIT("orchestrationStatus")))
            json_object_set_new(out, "status", json_string(status_name(s->orchestrationstatus)));
        else
            json_object_set(out, key, value);
    }
    json_decref(all);
    return out;
}

/* ---- columns ----------------------------------------------------------------------------------- */

static void row(struct table *t, const char *name, struct bytes value)
{
    if (value.len == 0)
        return;
    table_cell(t, bytes_str(name));
    table_cell(t, value);
}

/* A payload that is there is shown, even an empty one. */
static void row_payload(struct table *t, const char *name, const Google__Protobuf__StringValue *v)
{
    if (!v)
        return;
    table_cell(t, bytes_str(name));
    table_cell(t, wire_string(v));
}

static void row_time(struct table *t, const char *name, const Google__Protobuf__Timestamp *at)
{
    char text[USEC_TEXT_LEN];
    usec_t when;

    if (!at || !wire_time_read(at, &when))
        return;
    usec_format(when, text);
    row(t, name, bytes_str(text));
}

static void row_tags(struct table *t, const OrchestrationState *s)
{
    CLEANUP(strbuf_deinit) struct strbuf text = {0};

    for (size_t i = 0; i < s->n_tags; i++)
        strbuf_appendf(&text, "%s%.*s=%.*s", i ? ", " : "", BYTES_FMT(wire_view(s->tags[i]->key)),
                       BYTES_FMT(wire_view(s->tags[i]->value)));
    row(t, "tags", strbuf_bytes(&text));
}

static void rows_failure(struct table *t, const TaskFailureDetails *f)
{
    for (size_t level = 0; f && level < FAILURE_LEVELS_SHOWN; level++, f = f->innerfailure) {
        CLEANUP(strbuf_deinit) struct strbuf text = {0};
        strbuf_appendf(&text, "%.*s: %.*s", BYTES_FMT(wire_view(f->errortype)),
                       BYTES_FMT(wire_view(f->errormessage)));
        row(t, level ? "caused by" : "failure", strbuf_bytes(&text));
    }
}

static void put_state(const OrchestrationState *s, struct strbuf *out)
{
    struct table t;

    table_init(&t, 2);
    row(&t, "instance", wire_view(s->instanceid));
    row(&t, "execution", wire_string(s->executionid));
    row(&t, "name", wire_view(s->name));
    row(&t, "version", wire_string(s->version));
    row(&t, "status", bytes_str(status_name(s->orchestrationstatus)));
    row_time(&t, "created", s->createdtimestamp);
    row_time(&t, "scheduled", s->scheduledstarttimestamp);
    row_time(&t, "updated", s->lastupdatedtimestamp);
    row_time(&t, "completed", s->completedtimestamp);
    row(&t, "parent", wire_string(s->parentinstanceid));
    row_tags(&t, s);
    row_payload(&t, "custom", s->customstatus);
    row_payload(&t, "input", s->input);
    row_payload(&t, "output", s->output);
    rows_failure(&t, s->failuredetails);
    table_put(&t, out);
}

enum err state_print(const struct invocation *in, const OrchestrationState *s, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf text = {0};

    if (in->json)
        return output_json(state_json(s), err);
    put_state(s, &text);
    return output_text(&text, err);
}

enum err state_conclude(struct invocation *in, const OrchestrationState *s, struct error *err)
{
    in->has_failed = status_is_terminal(s->orchestrationstatus) &&
                     s->orchestrationstatus != ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED;
    return state_print(in, s, err);
}
