/* Percent-encoded messages, time-outs, gzip and the budget: the small parts of rpc/. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rpc/budget.h"
#include "rpc/gzip.h"
#include "rpc/text.h"

static void check_percent(struct bytes plain, const char *encoded)
{
    struct strbuf out = {0}, back = {0};

    rpc_percent_encode(plain, &out);
    assert_string_equal(strbuf_cstr(&out), encoded);
    rpc_percent_decode(strbuf_bytes(&out), &back);
    assert_true(bytes_eq(strbuf_bytes(&back), plain));
    strbuf_deinit(&out);
    strbuf_deinit(&back);
}

static void test_percent(void **state UNUSED)
{
    check_percent(BYTES_LIT("plain text, ~ too"), "plain text, ~ too");
    check_percent(BYTES_LIT("100%"), "100%25");
    check_percent(BYTES_LIT("\t\r\n\x7f"), "%09%0D%0A%7F");
    check_percent(BYTES_LIT("\xe2\x98\xba"), "%E2%98%BA");
    check_percent(BYTES_LIT("\0x"), "%00x");
}

static void test_percent_keeps_broken_escapes(void **state UNUSED)
{
    struct strbuf out = {0};

    rpc_percent_decode(BYTES_LIT("%zz%4%41%"), &out);
    assert_string_equal(strbuf_cstr(&out), "%zz%4A%");
    strbuf_deinit(&out);
}

static void test_timeout_parse(void **state UNUSED)
{
    static const struct {
        const char *text;
        usec_t us; /* -1: malformed */
    } ROWS[] = {{"1S", 1000000},   {"0S", 0},          {"250m", 250000},
                {"3u", 3},         {"1n", 1},          {"1001n", 2},
                {"2M", 120000000}, {"1H", 3600000000}, {"99999999H", 99999999LL * 3600000000},
                {"", -1},          {"S", -1},          {"1", -1},
                {"1s", -1},        {"-1S", -1},        {"+1S", -1},
                {" 1S", -1},       {"1.5S", -1},       {"123456789S", -1}};

    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        usec_t us = -1;
        assert_int_equal(rpc_timeout_parse(bytes_str(ROWS[i].text), &us), ROWS[i].us >= 0);
        assert_int_equal(us, ROWS[i].us);
    }
}

static void test_timeout_format_is_never_short(void **state UNUSED)
{
    static const usec_t TIMES[] = {
        1, 999, 99999999, 100000000, 100000001, 12345678901234, 99999999LL * 3600000000};

    for (size_t i = 0; i < ARRAY_LEN(TIMES); i++) {
        char text[RPC_TIMEOUT_LEN];
        size_t n = rpc_timeout_format(TIMES[i], text);
        usec_t back;
        assert_true(n <= 9);
        assert_true(rpc_timeout_parse(bytes_of(text, n), &back));
        assert_true(back >= TIMES[i]);
        assert_true(back - TIMES[i] <= TIMES[i] / 1000 + 1000);
    }
}

/* ---- gzip ------------------------------------------------------------------------------------- */

static bool append(void *arg, struct bytes out)
{
    strbuf_append_bytes(arg, out);
    return true;
}

static bool refuse(void *arg, struct bytes out UNUSED)
{
    ++*(int *)arg;
    return false;
}

static void test_gzip_round_trip_in_pieces(void **state UNUSED)
{
    struct strbuf plain = {0}, packed = {0};

    for (int i = 0; i < 50000; i++)
        strbuf_appendf(&plain, "%d,", i * 31);
    gzip_compress(strbuf_bytes(&plain), &packed);
    assert_true(packed.len < plain.len);
    for (size_t piece = 1; piece <= packed.len; piece = piece * 7 + 1) {
        struct gunzip *g = gunzip_new();
        struct strbuf out = {0};
        enum gunzip_result r = GUNZIP_MORE;
        for (size_t i = 0; i < packed.len; i += piece) {
            assert_int_equal(r, GUNZIP_MORE);
            r = gunzip_feed(g, bytes_of(packed.ptr + i, MIN(piece, packed.len - i)), append, &out);
        }
        assert_int_equal(r, GUNZIP_END);
        assert_true(bytes_eq(strbuf_bytes(&out), strbuf_bytes(&plain)));
        assert_int_equal(gunzip_feed(g, BYTES_LIT("x"), append, &out), GUNZIP_BAD);
        strbuf_deinit(&out);
        gunzip_free(g);
    }
    strbuf_deinit(&plain);
    strbuf_deinit(&packed);
}

static void test_gzip_bombs_and_rubbish(void **state UNUSED)
{
    struct strbuf packed = {0}, out = {0};
    uint8_t *zeros = calloc(1, MIB(8));
    struct gunzip *g = gunzip_new();
    int pieces = 0;

    gzip_compress(bytes_of(zeros, MIB(8)), &packed);
    assert_int_equal(gunzip_feed(g, strbuf_bytes(&packed), refuse, &pieces), GUNZIP_STOPPED);
    assert_int_equal(pieces, 1);
    gunzip_free(g);
    g = gunzip_new();
    assert_int_equal(gunzip_feed(g, BYTES_LIT("this is no gzip"), append, &out), GUNZIP_BAD);
    gunzip_free(g);
    g = gunzip_new();
    packed.ptr[packed.len - 3] ^= 1; /* the length in the trailer */
    assert_int_equal(gunzip_feed(g, strbuf_bytes(&packed), append, &out), GUNZIP_BAD);
    gunzip_free(g);
    strbuf_deinit(&packed);
    strbuf_deinit(&out);
    free(zeros);
}

/* ---- budget ----------------------------------------------------------------------------------- */

static void count_wake(void *arg)
{
    ++*(int *)arg;
}

static void test_budget_grants_in_order(void **state UNUSED)
{
    struct budget b;
    int wakes = 0;
    struct budget_claim c[4] = {0};

    for (size_t i = 0; i < 4; i++) {
        c[i].wake = count_wake;
        c[i].arg = &wakes;
    }
    budget_init(&b, 100);
    assert_int_equal(budget_claim(&b, &c[0], 60), CLAIM_GRANTED);
    assert_int_equal(budget_claim(&b, &c[1], 50), CLAIM_WAITING);
    assert_int_equal(budget_claim(&b, &c[2], 1), CLAIM_WAITING); /* it would fit, but came later */
    assert_int_equal(budget_claim(&b, &c[3], 500), CLAIM_WAITING);
    assert_int_equal(wakes, 0);
    budget_release(&c[0]);
    assert_int_equal(wakes, 2);
    assert_int_equal(budget_state(&c[1]), CLAIM_GRANTED);
    assert_int_equal(budget_state(&c[2]), CLAIM_GRANTED);
    assert_int_equal(budget_state(&c[3]), CLAIM_WAITING);
    budget_release(&c[1]);
    assert_int_equal(budget_state(&c[3]), CLAIM_WAITING);
    budget_release(&c[2]);
    assert_int_equal(budget_state(&c[3]), CLAIM_GRANTED); /* larger than all: alone */
    budget_release(&c[3]);
    budget_release(&c[3]); /* harmless */
    assert_int_equal(b.used, 0);
    budget_deinit(&b);
}

static void test_budget_leaving_the_queue_lets_others_pass(void **state UNUSED)
{
    struct budget b;
    struct budget_claim big = {0}, first = {0}, small = {0};

    budget_init(&b, 100);
    assert_int_equal(budget_claim(&b, &first, 10), CLAIM_GRANTED);
    assert_int_equal(budget_claim(&b, &big, 95), CLAIM_WAITING);
    assert_int_equal(budget_claim(&b, &small, 5), CLAIM_WAITING);
    budget_release(&big); /* cancelled */
    assert_int_equal(budget_state(&small), CLAIM_GRANTED);
    assert_true(budget_hold(&b, 100));
    assert_false(budget_hold(&b, 1));
    budget_unhold(&b, 100);
    budget_release(&small);
    budget_release(&first);
    budget_deinit(&b);
}

/* Bytes that are in memory already are counted without asking, and make the next ones wait. */
static void test_budget_counts_what_is_here_already(void **state UNUSED)
{
    struct budget b;
    struct budget_claim here = {0}, next = {0}, more = {0};

    budget_init(&b, 100);
    budget_force(&b, &here, 150);
    assert_int_equal(budget_claim(&b, &next, 10), CLAIM_WAITING);
    budget_release(&here);
    assert_int_equal(budget_state(&next), CLAIM_GRANTED);
    /* Twice the limit at the most, but for one that is alone. */
    assert_true(budget_take(&b, &here, 150));
    assert_false(budget_grow(&here, 41));
    assert_true(budget_grow(&here, 40));
    budget_force(&b, &more, 500);
    assert_true(
        budget_grow(&here, 0)); /* what does not grow has its room, however much others took */
    budget_release(&more);
    assert_false(budget_take(&b, &more, 1));
    assert_int_equal(budget_state(&more), CLAIM_NONE);
    assert_true(budget_grow(&more, 1000)); /* no claim: nothing */
    budget_release(&next);
    assert_true(budget_grow(&here, 1000));
    assert_int_equal(b.used, 1190);
    budget_release(&here);
    assert_int_equal(b.used, 0);
    budget_release(&next);
    budget_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percent),
        cmocka_unit_test(test_percent_keeps_broken_escapes),
        cmocka_unit_test(test_timeout_parse),
        cmocka_unit_test(test_timeout_format_is_never_short),
        cmocka_unit_test(test_gzip_round_trip_in_pieces),
        cmocka_unit_test(test_gzip_bombs_and_rubbish),
        cmocka_unit_test(test_budget_grants_in_order),
        cmocka_unit_test(test_budget_leaving_the_queue_lets_others_pass),
        cmocka_unit_test(test_budget_counts_what_is_here_already),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
