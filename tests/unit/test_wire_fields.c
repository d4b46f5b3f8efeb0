/* Single fields: reader.h and writer.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/wire.h"

static struct bytes view(const struct strbuf *b)
{
    return strbuf_bytes(b);
}

static void varints_round_trip_and_have_the_size_told(void **state)
{
    static const uint64_t VALUES[] = {
        0,           1,          127,         128,       16383,      16384,      2097151,
        2097152,     0xffffffff, 0x100000000, INT64_MAX, UINT64_MAX, 1ULL << 56, (1ULL << 56) - 1,
        (1ULL << 63)};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(VALUES); i++) {
        CLEANUP(strbuf_deinit) struct strbuf b = {0};
        uint64_t got = 1;
        wire_put_varint(&b, VALUES[i]);
        assert_int_equal(b.len, wire_size_varint(VALUES[i]));
        const uint8_t *pos = b.ptr;
        assert_true(wire_varint(&pos, b.ptr + b.len, &got));
        assert_int_equal(got, VALUES[i]);
        assert_ptr_equal(pos, b.ptr + b.len);
        for (size_t cut = 0; cut < b.len; cut++) {
            pos = b.ptr;
            assert_false(wire_varint(&pos, b.ptr + cut, &got));
            assert_ptr_equal(pos, b.ptr);
        }
    }
}

static bool varint_is_good(const char *bytes, size_t len, uint64_t *out)
{
    const uint8_t *pos = (const uint8_t *)bytes;
    return wire_varint(&pos, pos + len, out);
}

static void varints_longer_than_needed_are_taken_but_not_past_64_bits(void **state)
{
    uint64_t got;
    (void)state;
    assert_true(varint_is_good("\x80\x00", 2, &got));
    assert_int_equal(got, 0);
    assert_true(varint_is_good("\x85\x80\x80\x80\x80\x80\x80\x80\x80\x00", 10, &got));
    assert_int_equal(got, 5);
    assert_true(varint_is_good("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, &got));
    assert_int_equal(got, UINT64_MAX);
    assert_false(varint_is_good("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, &got));
    assert_false(varint_is_good("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, &got));
    assert_false(varint_is_good("", 0, &got));
}

static bool tag_is_good(const char *bytes, size_t len)
{
    const uint8_t *pos = (const uint8_t *)bytes;
    uint32_t number;
    enum wire_type type;
    return wire_tag(&pos, pos + len, &number, &type);
}

static void bad_tags_are_refused(void **state)
{
    (void)state;
    assert_true(tag_is_good("\x08", 1));
    assert_true(tag_is_good("\xfd\xff\xff\xff\x0f", 5)); /* the highest number */
    assert_false(tag_is_good("\x00", 1));                /* number 0 */
    assert_false(tag_is_good("\x0e", 1));                /* wire type 6 */
    assert_false(tag_is_good("\x0f", 1));
    assert_false(tag_is_good("\x88\x80\x80\x80\x80\x00", 6)); /* six bytes */
    assert_false(tag_is_good("\xf8\xff\xff\xff\x1f", 5));     /* past 32 bits */
    assert_false(tag_is_good("\x88", 1));
}

static void every_kind_of_field_is_read_back(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    struct wire_field f;
    (void)state;

    wire_put_uint(&b, 1, 300);
    wire_put_int(&b, 2, -1);
    wire_put_bool(&b, 3, true);
    wire_put_bytes(&b, 4, BYTES_LIT("text"));
    strbuf_append(&b, "\x2d\x01\x02\x03\x04", 5);                 /* 5, fixed32 */
    strbuf_append(&b, "\x31\x01\x02\x03\x04\x05\x06\x07\x88", 9); /* 6, fixed64 */
    strbuf_append(&b, "\x3b\x08\x05\x3c", 4);                     /* 7, group with a 1: 5 */
    wire_put_bytes(&b, 536870911, BYTES_LIT(""));

    struct wire_reader r = wire_reader_of(view(&b));
    assert_true(wire_next(&r, &f) && f.number == 1 && f.type == WIRE_VARINT && f.value == 300);
    assert_true(bytes_eq(f.raw, BYTES_LIT("\x08\xac\x02")));
    assert_true(wire_next(&r, &f) && f.number == 2 && f.value == UINT64_MAX);
    assert_int_equal(f.raw.len, 11);
    assert_true(wire_next(&r, &f) && f.number == 3 && f.value == 1);
    assert_true(wire_next(&r, &f) && f.number == 4 && bytes_eq(f.bytes, BYTES_LIT("text")));
    assert_int_equal(f.raw.len, wire_size_bytes(4, 4));
    assert_true(wire_next(&r, &f) && f.type == WIRE_FIXED32 && f.value == 0x04030201);
    assert_true(wire_next(&r, &f) && f.type == WIRE_FIXED64 && f.value == 0x8807060504030201);
    assert_true(wire_next(&r, &f) && f.type == WIRE_GROUP && f.number == 7);
    assert_true(bytes_eq(f.bytes, BYTES_LIT("\x08\x05")));
    assert_true(wire_next(&r, &f) && f.number == WIRE_NUMBER_MAX && f.type == WIRE_BYTES);
    assert_false(bytes_is_none(f.bytes));
    assert_int_equal(f.raw.len, wire_size_bytes(WIRE_NUMBER_MAX, 0));
    assert_false(wire_next(&r, &f));
    assert_false(r.is_bad);
}

/* Cut anywhere, the reader ends well only where a field ends. */
static void a_message_cut_short_is_bad_but_between_fields(void **state)
{
    static const char MESSAGE[] = "\x08\xac\x02\x12\x03"
                                  "abc\x2d\x01\x02\x03\x04\x3b\x08\x05\x3c";
    static const size_t ENDS[] = {0, 3, 8, 13, 17};
    (void)state;

    for (size_t len = 0; len <= sizeof(MESSAGE) - 1; len++) {
        struct wire_reader r = wire_reader_of(bytes_of(MESSAGE, len));
        struct wire_field f;
        bool is_end = false;
        while (wire_next(&r, &f)) {
        }
        for (size_t i = 0; i < ARRAY_LEN(ENDS); i++)
            is_end |= ENDS[i] == len;
        assert_int_equal(r.is_bad, !is_end);
    }
}

static void groups_must_match_and_not_nest_too_deep(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    struct wire_field f;
    (void)state;

    struct wire_reader r = wire_reader_of(BYTES_LIT("\x0b\x14")); /* 1 begins, 2 ends */
    assert_false(wire_next(&r, &f) || !r.is_bad);
    r = wire_reader_of(BYTES_LIT("\x0c")); /* an end alone */
    assert_false(wire_next(&r, &f) || !r.is_bad);

    for (unsigned depth = WIRE_GROUP_DEPTH_MAX; depth <= WIRE_GROUP_DEPTH_MAX + 1; depth++) {
        strbuf_reset(&b);
        for (unsigned i = 0; i < depth; i++)
            strbuf_append_char(&b, 0x0b);
        for (unsigned i = 0; i < depth; i++)
            strbuf_append_char(&b, 0x0c);
        r = wire_reader_of(view(&b));
        assert_int_equal(wire_next(&r, &f), depth <= WIRE_GROUP_DEPTH_MAX);
    }
}

static void find_gives_the_last_one_and_nothing_of_a_bad_message(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    (void)state;

    wire_put_bytes(&b, 1, BYTES_LIT("first"));
    wire_put_uint(&b, 2, 7);
    wire_put_bytes(&b, 1, BYTES_LIT("last"));
    wire_put_bytes(&b, 3, BYTES_LIT(""));
    assert_true(bytes_eq(wire_bytes_find(view(&b), 1), BYTES_LIT("last")));
    assert_int_equal(wire_varint_find(view(&b), 2), 7);
    assert_int_equal(wire_varint_find(view(&b), 9), 0);
    assert_true(bytes_is_none(wire_bytes_find(view(&b), 2))); /* other type */
    assert_false(bytes_is_none(wire_bytes_find(view(&b), 3)));
    strbuf_append_char(&b, 0x0a);
    assert_true(bytes_is_none(wire_bytes_find(view(&b), 1)));
}

static void string_values_keep_absent_and_empty_apart(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf b = {0};
    (void)state;

    wire_put_string_value(&b, 1, BYTES_NONE);
    wire_put_string_value(&b, 2, BYTES_LIT(""));
    wire_put_string_value(&b, 3, BYTES_LIT("a\0b"));
    assert_true(bytes_eq(view(&b), BYTES_LIT("\x12\x00\x1a\x05\x0a\x03"
                                             "a\0b")));
    assert_true(bytes_is_none(wire_string_value_find(view(&b), 1)));
    struct bytes empty = wire_string_value_find(view(&b), 2);
    assert_true(empty.len == 0 && !bytes_is_none(empty));
    assert_true(bytes_eq(wire_string_value_find(view(&b), 3), BYTES_LIT("a\0b")));
}

static void begin_and_end_write_lengths_of_any_size(void **state)
{
    static const size_t SIZES[] = {0, 1, 127, 128, 16383, 16384, 3000000};
    (void)state;

    for (size_t i = 0; i < ARRAY_LEN(SIZES); i++) {
        CLEANUP(strbuf_deinit) struct strbuf b = {0};
        size_t outer = wire_put_begin(&b, 1);
        size_t inner = wire_put_begin(&b, 2);
        for (size_t n = 0; n < SIZES[i]; n++)
            strbuf_append_char(&b, (char)('a' + n % 26));
        wire_put_end(&b, inner);
        wire_put_end(&b, outer);

        struct bytes content = wire_bytes_find(wire_bytes_find(view(&b), 1), 2);
        assert_int_equal(content.len, SIZES[i]);
        for (size_t n = 0; n < SIZES[i]; n += 997)
            assert_int_equal(content.ptr[n], 'a' + n % 26);
        assert_int_equal(b.len, wire_size_bytes(1, wire_size_bytes(2, SIZES[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(varints_round_trip_and_have_the_size_told),
        cmocka_unit_test(varints_longer_than_needed_are_taken_but_not_past_64_bits),
        cmocka_unit_test(bad_tags_are_refused),
        cmocka_unit_test(every_kind_of_field_is_read_back),
        cmocka_unit_test(a_message_cut_short_is_bad_but_between_fields),
        cmocka_unit_test(groups_must_match_and_not_nest_too_deep),
        cmocka_unit_test(find_gives_the_last_one_and_nothing_of_a_bad_message),
        cmocka_unit_test(string_values_keep_absent_and_empty_apart),
        cmocka_unit_test(begin_and_end_write_lengths_of_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
