/* Codes and messages: error.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/utf8.h"

static void every_code_has_its_row(void **state)
{
    (void)state;
    for (int i = 0; i < ERR_COUNT; i++) {
        enum err e = (enum err)i;
        assert_true(strncmp(err_name(e), "ERR_", 4) == 0 || e == OK);
        assert_true(strlen(err_text(e)) > 0);
        assert_in_range(err_grpc_status(e), 0, 16);
        assert_in_range(err_http_status(e), 200, 599);
        assert_in_range(err_exit_status(e), 0, 6);
        assert_int_equal(err_grpc_status(e) == 0, e == OK);
        /* There and back is the same status, if not the same code. */
        assert_int_equal(err_grpc_status(err_from_grpc(err_grpc_status(e))), err_grpc_status(e));
    }
    assert_string_equal(err_name(ERR_NOT_FOUND), "ERR_NOT_FOUND");
    assert_int_equal(err_http_status(ERR_NOT_FOUND), 404);
    assert_int_equal(err_exit_status(ERR_STORE_OPEN), 3);
}

static void statuses_have_the_names_of_grpc(void **state)
{
    (void)state;
    assert_string_equal(grpc_status_name(0), "OK");
    assert_string_equal(grpc_status_name(5), "NOT_FOUND");
    assert_string_equal(grpc_status_name(15), "DATA_LOSS");
    assert_string_equal(grpc_status_name(16), "UNAUTHENTICATED");
    assert_string_equal(grpc_status_name(17), "UNKNOWN");
    assert_string_equal(grpc_status_name(-1), "UNKNOWN");
    assert_int_equal(err_from_grpc(13), ERR_INTERNAL);
    assert_int_equal(err_from_grpc(10), ERR_CONFLICT);
    assert_int_equal(err_from_grpc(99), ERR_UNKNOWN);
    assert_int_equal(err_from_grpc(-1), ERR_UNKNOWN);
}

static void set_and_wrap_build_one_message(void **state)
{
    struct error err = {0};
    (void)state;
    int line = __LINE__ + 1;
    assert_int_equal(error_set(&err, ERR_NOT_FOUND, "no row %d", 5), ERR_NOT_FOUND);
    assert_int_equal(error_wrap(&err, ERR_NOT_FOUND, "could not load \"%s\"", "a"), ERR_NOT_FOUND);
    assert_string_equal(err.msg, "could not load \"a\": no row 5");
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(err.line, line); /* of the first failure */
    assert_non_null(strstr(err.file, "test_error.c"));
    assert_int_equal(error_wrap(&err, ERR_UNAVAILABLE, "x"), ERR_UNAVAILABLE);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
}

static void errno_is_kept_for_io_only(void **state)
{
    struct error err = {0};
    (void)state;
    errno = ENOSPC;
    error_set(&err, ERR_IO, "could not write");
    assert_int_equal(err.sys, ENOSPC);
    errno = ENOSPC;
    error_set(&err, ERR_LIMIT, "too many");
    assert_int_equal(err.sys, 0);
}

static void no_error_struct_is_fine(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, ERR_LIMIT, "x"), ERR_LIMIT);
    assert_int_equal(error_wrap(NULL, ERR_LIMIT, "x"), ERR_LIMIT);
}

static void wrap_without_a_message_is_the_message(void **state)
{
    struct error err = {0};
    (void)state;
    error_wrap(&err, ERR_INTERNAL, "alone");
    assert_string_equal(err.msg, "alone");
}

static void a_message_may_quote_the_old_one(void **state)
{
    struct error err = {0};
    (void)state;
    error_set(&err, ERR_IO, "disk full");
    error_set(&err, ERR_UNAVAILABLE, "try again: %s", err.msg);
    assert_string_equal(err.msg, "try again: disk full");
}

/* For every length around the limit and characters of one to four bytes. */
static void long_messages_end_at_a_character(void **state)
{
    static const char *const CHARS[] = {"a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    (void)state;
    for (size_t c = 0; c < ARRAY_LEN(CHARS); c++) {
        size_t width = strlen(CHARS[c]);
        for (size_t lead = 0; lead < 4; lead++) {
            char text[2 * ERROR_MSG_MAX] = "xxxx";
            for (size_t i = lead; i + width < sizeof(text); i += width)
                memcpy(text + i, CHARS[c], width);
            struct error err = {0};
            error_set(&err, ERR_LIMIT, "%s", text);
            size_t len = strlen(err.msg);
            assert_in_range(len, ERROR_MSG_MAX - 1 - (width - 1), ERROR_MSG_MAX - 1);
            assert_true(utf8_is_valid(bytes_str(err.msg)));
            error_wrap(&err, ERR_LIMIT, "wrapped");
            assert_true(utf8_is_valid(bytes_str(err.msg)));
            assert_true(strlen(err.msg) > ERROR_MSG_MAX - 5);
            assert_memory_equal(err.msg, "wrapped: ", 9);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_row),
        cmocka_unit_test(statuses_have_the_names_of_grpc),
        cmocka_unit_test(set_and_wrap_build_one_message),
        cmocka_unit_test(errno_is_kept_for_io_only),
        cmocka_unit_test(no_error_struct_is_fine),
        cmocka_unit_test(wrap_without_a_message_is_the_message),
        cmocka_unit_test(a_message_may_quote_the_old_one),
        cmocka_unit_test(long_messages_end_at_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
