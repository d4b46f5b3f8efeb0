/* world_check.h - what the tests on a world assert again and again. Include it last. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/world.h"
#include "wire/value.h"

#define COMPLETED ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED
#define FAILED ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_FAILED
#define CANCELED ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_CANCELED
#define AS_NEW ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_CONTINUED_AS_NEW
#define TERMINATED ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_TERMINATED
#define RUNNING ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_RUNNING
#define PENDING ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_PENDING
#define SUSPENDED ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_SUSPENDED

#define SECOND USEC_PER_SEC

#define assert_ok(answer) assert_status((answer), OK, __FILE__, __LINE__)
#define assert_refused(answer, code) assert_status((answer), (code), __FILE__, __LINE__)

static inline void assert_status(const struct world_answer *a, enum err code, const char *file,
                                 int line)
{
    if (a->is_done && a->status == code)
        return;
    print_error("%s:%d: %s %d '%s', expected %d\n", file, line, a->is_done ? "status" : "waiting",
                (int)a->status, a->msg, (int)code);
    fail();
}

/* `expected` NULL: absent. */
static inline void assert_text(const Google__Protobuf__StringValue *v, const char *expected)
{
    if (!expected) {
        assert_null(v);
        return;
    }
    assert_non_null(v);
    assert_int_equal(v->value.len, strlen(expected));
    assert_memory_equal(v->value.data, expected, strlen(expected));
}

#define assert_state(w, id, expected)                                                              \
    assert_int_equal(world_get((w), (id))->orchestrationstatus, (expected))

static inline void assert_failure(struct world *w, const char *id, const char *type)
{
    OrchestrationState *s = world_get(w, id);
    assert_non_null(s);
    assert_int_equal(s->orchestrationstatus, FAILED);
    assert_non_null(s->failuredetails);
    assert_int_equal(s->failuredetails->errortype.len, strlen(type));
    assert_memory_equal(s->failuredetails->errortype.data, type, strlen(type));
}

/* The instance that a turn is of. */
static inline const char *turn_id(struct world *w, const struct world_item *turn)
{
    return arena_cstr(w->arena, wire_view(turn->item->orchestratorrequest->instanceid));
}

static inline bool is_turn(const struct world_item *it)
{
    return it->item->request_case == WORK_ITEM__REQUEST_ORCHESTRATOR_REQUEST;
}
