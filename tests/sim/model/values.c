/* values.c - messages as values: one encoding for each, events, times. */
#include <stdlib.h>

#include "base/utf8.h"
#include "internal.h"

void vec_grow(void *vec, size_t size)
{
    struct {
        void *at;
        size_t n, cap;
    } v;
    memcpy(&v, vec, sizeof(v));
    if (v.n < v.cap)
        return;
    v.cap = v.cap ? v.cap * 2 : 8;
    v.at = realloc(v.at, v.cap * size);
    ASSERT(v.at);
    memcpy(vec, &v, sizeof(v));
}

struct bytes boxed(const Google__Protobuf__StringValue *v)
{
    return v ? view(v->value) : BYTES_NONE;
}

Google__Protobuf__StringValue *box(struct arena *a, struct bytes b)
{
    if (bytes_is_none(b))
        return NULL;
    Google__Protobuf__StringValue *v = arena_new(a, Google__Protobuf__StringValue);
    google__protobuf__string_value__init(v);
    v->value = data_of(b);
    return v;
}

Google__Protobuf__Timestamp *stamp(struct arena *a, usec_t t)
{
    Google__Protobuf__Timestamp *ts = arena_new(a, Google__Protobuf__Timestamp);
    google__protobuf__timestamp__init(ts);
    ts->seconds = t / USEC_PER_SEC;
    ts->nanos = (int32_t)(t % USEC_PER_SEC) * 1000;
    if (ts->nanos < 0) {
        ts->nanos += 1000000000;
        ts->seconds--;
    }
    return ts;
}

#define YEAR_1 (-62135596800LL)
#define YEAR_10000 253402300800LL

bool stamp_read(const Google__Protobuf__Timestamp *ts, usec_t *out)
{
    if (ts->seconds < YEAR_1 || ts->seconds >= YEAR_10000 || ts->nanos < 0 || ts->nanos > 999999999)
        return false;
    *out = ts->seconds * USEC_PER_SEC + (ts->nanos + 999) / 1000;
    return true;
}

bool is_hex32(struct bytes b)
{
    if (b.len != 32)
        return false;
    for (size_t i = 0; i < 32; i++)
        if (!((b.ptr[i] >= '0' && b.ptr[i] <= '9') || (b.ptr[i] >= 'a' && b.ptr[i] <= 'f')))
            return false;
    return true;
}

bool is_terminal_status(int status)
{
    return status == ST_COMPLETED || status == ST_FAILED || status == ST_TERMINATED ||
           status == ST_CANCELED;
}

const char *status_name(int status)
{
    static const char *const NAMES[] = {"RUNNING",  "COMPLETED",  "CONTINUED_AS_NEW", "FAILED",
                                        "CANCELED", "TERMINATED", "PENDING",          "SUSPENDED"};
    return status >= 0 && status < 8 ? NAMES[status] : "none";
}

/* ---- encoding --------------------------------------------------------------------------------------- */

static void *arena_for_protobuf(void *arena, size_t size)
{
    return arena_alloc(arena, size ? size : 1);
}

static void nothing_to_free(void *arena, void *p)
{
    (void)arena;
    (void)p;
}

void *unpack(struct arena *a, const ProtobufCMessageDescriptor *d, struct bytes b)
{
    ProtobufCAllocator allocator = {arena_for_protobuf, nothing_to_free, a};
    return protobuf_c_message_unpack(d, &allocator, b.len, b.ptr ? b.ptr : (const uint8_t *)"");
}

/* All map entries have key (1) and value (2). */
static bool is_map_entry(const ProtobufCMessageDescriptor *d)
{
    size_t len = strlen(d->name);
    return len > 5 && strcmp(d->name + len - 5, "Entry") == 0;
}

static int by_key(const void *a, const void *b)
{
    const ExecutionStartedEvent__TagsEntry *const *x = a, *const *y = b;
    return bytes_cmp(view((*x)->key), view((*y)->key));
}

static void tidy(ProtobufCMessage *msg);

static void tidy_field(ProtobufCMessage *msg, const ProtobufCFieldDescriptor *f)
{
    uint8_t *base = (uint8_t *)msg;
    if (f->type != PROTOBUF_C_TYPE_MESSAGE)
        return;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t n;
        ProtobufCMessage **all;
        memcpy(&n, base + f->quantifier_offset, sizeof(n));
        memcpy(&all, base + f->offset, sizeof(all));
        for (size_t i = 0; i < n; i++)
            tidy(all[i]);
        if (n > 1 && is_map_entry(f->descriptor))
            qsort(all, n, sizeof(*all), by_key);
        return;
    }
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t which;
        memcpy(&which, base + f->quantifier_offset, sizeof(which));
        if (which != f->id)
            return;
    }
    ProtobufCMessage *one;
    memcpy(&one, base + f->offset, sizeof(one));
    if (one)
        tidy(one);
}

static void tidy(ProtobufCMessage *msg)
{
    msg->n_unknown_fields = 0;
    for (unsigned i = 0; i < msg->descriptor->n_fields; i++)
        tidy_field(msg, &msg->descriptor->fields[i]);
}

struct bytes canonical(struct arena *a, void *msg)
{
    if (!msg)
        return BYTES_LIT("");
    tidy(msg);
    uint8_t *out = arena_alloc(a, protobuf_c_message_get_packed_size(msg) + 1);
    return bytes_of(out, protobuf_c_message_pack(msg, out));
}

/* ---- events --------------------------------------------------------------------------------------------- */

bool is_resolution(int type)
{
    return resolved_kind(type) != 0;
}

int resolved_kind(int type)
{
    switch (type) {
    case EV_TASK_OK:
    case EV_TASK_BAD:
        return EV_TASK;
    case EV_CHILD_OK:
    case EV_CHILD_BAD:
        return EV_CHILD;
    case EV_FIRED:
        return EV_TIMER;
    default:
        return 0;
    }
}

const char *event_name(int type)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(&history_event__descriptor, (unsigned)type);
    return f ? f->name : "nothing";
}

static int32_t ref_of(const HistoryEvent *msg)
{
    switch ((int)msg->event_type_case) {
    case EV_TASK_OK:
        return msg->taskcompleted->taskscheduledid;
    case EV_TASK_BAD:
        return msg->taskfailed->taskscheduledid;
    case EV_CHILD_OK:
        return msg->suborchestrationinstancecompleted->taskscheduledid;
    case EV_CHILD_BAD:
        return msg->suborchestrationinstancefailed->taskscheduledid;
    case EV_FIRED:
        return msg->timerfired->timerid;
    default:
        return 0;
    }
}

TaskFailureDetails *failure_in(const HistoryEvent *msg)
{
    switch ((int)msg->event_type_case) {
    case EV_TASK_BAD:
        return msg->taskfailed->failuredetails;
    case EV_CHILD_BAD:
        return msg->suborchestrationinstancefailed->failuredetails;
    case EV_COMPLETED:
        return msg->executioncompleted->failuredetails;
    default:
        return NULL;
    }
}

struct event *event_of(struct arena *a, HistoryEvent *msg)
{
    struct event *e = arena_new(a, struct event);
    HistoryEvent bare = *msg;
    bare.eventid = 0;
    bare.timestamp = NULL;
    e->type = (int)msg->event_type_case;
    e->id = msg->eventid;
    e->ref = ref_of(msg);
    e->time =
        msg->timestamp ? msg->timestamp->seconds * USEC_PER_SEC + msg->timestamp->nanos / 1000 : 0;
    e->msg = msg;
    e->body = canonical(a, &bare);
    e->size = (uint32_t)protobuf_c_message_get_packed_size(&msg->base);
    return e;
}

HistoryEvent *event_msg(struct arena *a, int type, int32_t id, usec_t time)
{
    HistoryEvent *msg = arena_new(a, HistoryEvent);
    history_event__init(msg);
    msg->eventid = id;
    msg->timestamp = stamp(a, time);
    msg->event_type_case = (HistoryEvent__EventTypeCase)type;
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(&history_event__descriptor, (unsigned)type);
    ASSERT(f);
    const ProtobufCMessageDescriptor *d = f->descriptor;
    ProtobufCMessage *body = arena_zalloc(a, d->sizeof_message);
    d->message_init(body);
    msg->orchestratorstarted = (OrchestratorStartedEvent *)body; /* the union: any member */
    return msg;
}

TaskFailureDetails *failure_make(struct arena *a, const char *type, bool non_retriable,
                                 const char *message)
{
    TaskFailureDetails *f = arena_new(a, TaskFailureDetails);
    task_failure_details__init(f);
    f->errortype = data_of(bytes_str(type));
    f->errormessage = data_of(bytes_str(message));
    f->isnonretriable = non_retriable;
    return f;
}

/* ---- what a completion may not have ------------------------------------------------------------------------------ */

static unsigned depth_of(const ProtobufCMessage *msg, bool *bad_text);

static unsigned depth_below(const void *at, bool *bad_text)
{
    const ProtobufCMessage *one;
    memcpy(&one, at, sizeof(one));
    return one ? depth_of(one, bad_text) : 0;
}

static unsigned field_depth(const ProtobufCMessage *msg, const ProtobufCFieldDescriptor *f,
                            bool *bad_text)
{
    const uint8_t *base = (const uint8_t *)msg;
    size_t n = 1;
    const uint8_t *at = base + f->offset;
    unsigned deepest = 0;
    if (f->type != PROTOBUF_C_TYPE_MESSAGE && f->type != PROTOBUF_C_TYPE_BYTES)
        return 0;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t which;
        memcpy(&which, base + f->quantifier_offset, sizeof(which));
        if (which != f->id)
            return 0;
    }
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        memcpy(&n, base + f->quantifier_offset, sizeof(n));
        memcpy(&at, base + f->offset, sizeof(at));
    }
    for (size_t i = 0; i < n; i++) {
        if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
            unsigned depth = depth_below(at + i * sizeof(void *), bad_text);
            deepest = MAX(deepest, depth);
        } else {
            ProtobufCBinaryData text;
            memcpy(&text, at + i * sizeof(text), sizeof(text));
            *bad_text = *bad_text || !utf8_is_valid(view(text));
        }
    }
    return deepest;
}

static unsigned depth_of(const ProtobufCMessage *msg, bool *bad_text)
{
    unsigned deepest = 0;
    for (unsigned i = 0; i < msg->descriptor->n_fields; i++) {
        unsigned depth = field_depth(msg, &msg->descriptor->fields[i], bad_text);
        deepest = MAX(deepest, depth);
    }
    return deepest + 1;
}

unsigned message_depth(const void *msg, bool *bad_text)
{
    *bad_text = false;
    return depth_of(msg, bad_text);
}

static void value_cut(Google__Protobuf__Value *v, unsigned left)
{
    bool list = v->kind_case == GOOGLE__PROTOBUF__VALUE__KIND_LIST_VALUE;
    if (!list && v->kind_case != GOOGLE__PROTOBUF__VALUE__KIND_STRUCT_VALUE)
        return;
    if (left < 3) { /* each nesting counts three */
        v->kind_case = GOOGLE__PROTOBUF__VALUE__KIND_NULL_VALUE;
        v->null_value = GOOGLE__PROTOBUF__NULL_VALUE__NULL_VALUE;
        return;
    }
    for (size_t i = 0; list && i < v->list_value->n_values; i++)
        value_cut(v->list_value->values[i], left - 3);
    for (size_t i = 0; !list && i < v->struct_value->n_fields; i++)
        if (v->struct_value->fields[i]->value)
            value_cut(v->struct_value->fields[i]->value, left - 3);
}

/* Spec 6.8: what is stored is cut below so many levels. */
void failure_cut(TaskFailureDetails *f, unsigned levels)
{
    for (unsigned level = 1; f; level++, f = f->innerfailure) {
        for (size_t i = 0; i < f->n_properties; i++)
            if (f->properties[i]->value)
                value_cut(f->properties[i]->value, levels - level);
        if (level == levels)
            f->innerfailure = NULL;
    }
}
