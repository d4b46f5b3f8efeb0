/* Ids and token out of a completion that is not kept: pick.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/wire.h"

#define S(text) BYTES_LIT(text)

static void feed_in_pieces(struct wire_pick *p, enum wire_pick_kind kind, struct bytes in,
                           size_t piece)
{
    wire_pick_init(p, kind);
    for (size_t at = 0; at < in.len; at += piece)
        wire_pick_feed(p, bytes_of(in.ptr + at, MIN(piece, in.len - at)));
}

/* An answer with decoys: inner messages and groups have fields of the same numbers. */
static struct bytes orchestrator_answer(struct strbuf *b)
{
    wire_put_bytes(b, 1, S("the-instance"));
    for (unsigned i = 0; i < 50; i++) {
        size_t action = wire_put_begin(b, 2);
        wire_put_bytes(b, 1, S("decoy"));
        wire_put_bytes(b, 4, S("decoy token, long enough to be cut anywhere"));
        wire_put_end(b, action);
    }
    strbuf_append_bytes(b, S("\x7b\x22\x05"
                             "decoy\x83\x01\x0a\x01x\x84\x01\x7c"));
    strbuf_append_bytes(b, S("\x3d\x22\x01\x61\x00\x41\x22\x01\x61\x00\x00\x00\x00\x00"));
    wire_put_bytes(b, 4, S("the-token"));
    wire_put_uint(b, 7, 1);
    return strbuf_bytes(b);
}

static void it_is_found_however_the_pieces_are_cut(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    static struct wire_pick p;
    struct bytes in = orchestrator_answer(&b);
    (void)state;

    for (size_t piece = 1; piece <= in.len; piece = piece < 40 ? piece + 1 : piece + 101) {
        feed_in_pieces(&p, WIRE_PICK_ORCHESTRATOR, in, piece);
        assert_false(p.is_bad);
        assert_true(bytes_eq(wire_pick_instance(&p), S("the-instance")));
        assert_true(bytes_eq(wire_pick_token(&p), S("the-token")));
        assert_false(p.has_task);
    }
}

static void a_token_not_reached_is_none(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    static struct wire_pick p;
    struct bytes in = orchestrator_answer(&b);
    (void)state;

    for (size_t len = 0; len < in.len; len++) {
        wire_pick_init(&p, WIRE_PICK_ORCHESTRATOR);
        wire_pick_feed(&p, bytes_of(in.ptr, len));
        assert_false(p.is_bad);
        assert_int_equal(bytes_is_none(wire_pick_instance(&p)), len < 14);
        assert_int_equal(bytes_is_none(wire_pick_token(&p)), len < in.len - 2);
    }
}

static void an_activity_gives_its_task_too(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    static struct wire_pick p;
    (void)state;

    wire_put_bytes(&b, 1, S("i"));
    wire_put_int(&b, 2, -7);
    wire_put_head(&b, 3, 70000); /* a result that nobody keeps */
    memset(strbuf_reserve(&b, 70000), 0x2a, 70000);
    b.len += 70000;
    wire_put_bytes(&b, 5, S("t"));
    for (size_t piece = 1; piece < 5000; piece *= 3) {
        feed_in_pieces(&p, WIRE_PICK_ACTIVITY, strbuf_bytes(&b), piece);
        assert_true(p.has_task && p.task == -7);
        assert_true(bytes_eq(wire_pick_instance(&p), S("i")));
        assert_true(bytes_eq(wire_pick_token(&p), S("t")));
    }
    feed_in_pieces(&p, WIRE_PICK_ENTITY, strbuf_bytes(&b), 11);
    assert_true(bytes_is_none(wire_pick_instance(&p)) && !p.has_task);
    assert_true(bytes_eq(wire_pick_token(&p), S("t")));
}

static void what_is_too_long_is_none_and_the_later_one_wins(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    static struct wire_pick p;
    static uint8_t much[WIRE_PICK_INSTANCE_MAX + 1];
    (void)state;

    memset(much, 'x', sizeof(much));
    wire_put_bytes(&b, 4, bytes_of(much, WIRE_PICK_TOKEN_MAX));
    wire_put_bytes(&b, 1, bytes_of(much, WIRE_PICK_INSTANCE_MAX));
    feed_in_pieces(&p, WIRE_PICK_ORCHESTRATOR, strbuf_bytes(&b), 100);
    assert_int_equal(wire_pick_token(&p).len, WIRE_PICK_TOKEN_MAX);
    assert_int_equal(wire_pick_instance(&p).len, WIRE_PICK_INSTANCE_MAX);

    wire_put_bytes(&b, 4, bytes_of(much, WIRE_PICK_TOKEN_MAX + 1));
    wire_put_bytes(&b, 1, bytes_of(much, WIRE_PICK_INSTANCE_MAX + 1));
    feed_in_pieces(&p, WIRE_PICK_ORCHESTRATOR, strbuf_bytes(&b), 100);
    assert_true(bytes_is_none(wire_pick_token(&p)));
    assert_true(bytes_is_none(wire_pick_instance(&p)));

    wire_put_bytes(&b, 4, S("later"));
    wire_put_bytes(&b, 1, S(""));
    feed_in_pieces(&p, WIRE_PICK_ORCHESTRATOR, strbuf_bytes(&b), 100);
    assert_true(bytes_eq(wire_pick_token(&p), S("later")));
    assert_true(wire_pick_instance(&p).len == 0 && !bytes_is_none(wire_pick_instance(&p)));
}

static void a_malformed_message_gives_what_came_before(void **state)
{
    static const struct bytes BAD[] = {
        {(const uint8_t *)"\x00", 1},                 /* field number 0 */
        {(const uint8_t *)"\x0e", 1},                 /* wire type 6 */
        {(const uint8_t *)"\x0c", 1},                 /* the end of no group */
        {(const uint8_t *)"\xff\xff\xff\xff\x7f", 5}, /* past 32 bits */
        {(const uint8_t *)"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11},
    };
    static struct wire_pick p;
    (void)state;

    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        wire_pick_init(&p, WIRE_PICK_ORCHESTRATOR);
        wire_pick_feed(&p, S("\x0a\x01i"));
        wire_pick_feed(&p, BAD[i]);
        assert_true(p.is_bad);
        wire_pick_feed(&p, S("\x22\x01t"));
        assert_true(bytes_eq(wire_pick_instance(&p), S("i")));
        assert_true(bytes_is_none(wire_pick_token(&p)));
    }
}

/* Lengths of up to 2^64 - 1 are only counted down. */
static void absurd_lengths_are_skipped_for_ever(void **state)
{
    static struct wire_pick p;
    (void)state;
    wire_pick_init(&p, WIRE_PICK_ORCHESTRATOR);
    wire_pick_feed(&p, S("\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    for (unsigned i = 0; i < 10000; i++)
        wire_pick_feed(&p, S("\x22\x01t\x0a\x01i"));
    assert_false(p.is_bad);
    assert_true(bytes_is_none(wire_pick_token(&p)));
    assert_true(bytes_is_none(wire_pick_instance(&p)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_found_however_the_pieces_are_cut),
        cmocka_unit_test(a_token_not_reached_is_none),
        cmocka_unit_test(an_activity_gives_its_task_too),
        cmocka_unit_test(what_is_too_long_is_none_and_the_later_one_wins),
        cmocka_unit_test(a_malformed_message_gives_what_came_before),
        cmocka_unit_test(absurd_lengths_are_skipped_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
