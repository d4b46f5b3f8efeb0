/* One event a line, that no value can forge: log.h; and what a failed ASSERT does: assert.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/utf8.h"

static char captured[16384];

/* Runs `fn` with stderr in a file, and keeps what it wrote. */
static void capture(void (*fn)(void))
{
    FILE *f = tmpfile();
    assert_non_null(f);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_true(dup2(fileno(f), STDERR_FILENO) >= 0);
    fn();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    rewind(f);
    size_t len = fread(captured, 1, sizeof(captured) - 1, f);
    captured[len] = '\0';
    fclose(f);
}

/* Captures one line, and gives what comes behind the time. */
static const char *line_of(void (*fn)(void))
{
    capture(fn);
    size_t len = strlen(captured);
    assert_true(len > 40 && captured[len - 1] == '\n');
    assert_ptr_equal(strchr(captured, '\n'), captured + len - 1);
    assert_memory_equal(captured, "time=20", 7);
    return captured + strlen("time=2026-12-01T01:02:03.000004Z ");
}

static void log_plain(void)
{
    LOG(LOG_INFO, "store: open", LOG_STR("path", "/a/b.db"), LOG_INT("n", -5),
        LOG_UINT("u", UINT64_MAX), LOG_BYTES("id", BYTES_LIT("order-1")), LOG_STR("none", NULL));
}

static void writes_keys_and_values(void **state)
{
    (void)state;
    log_setup(LOG_INFO, LOG_TEXT);
    assert_string_equal(line_of(log_plain), "level=info event=\"store: open\" path=/a/b.db n=-5 "
                                            "u=18446744073709551615 id=order-1 none=\"\"\n");
}

static void log_hostile(void)
{
    LOG(LOG_WARN, "x", LOG_BYTES("id", BYTES_LIT("a\nlevel=error \"\\\x01\xff\xc3\xa4\x7f")));
}

static void values_cannot_forge_a_line(void **state)
{
    (void)state;
    log_setup(LOG_INFO, LOG_TEXT);
    assert_string_equal(line_of(log_hostile), "level=warn event=x id=\"a\\nlevel=error "
                                              "\\\"\\\\\\u0001\\xff\xc3\xa4\\u007f\"\n");
}

static void json_lines_are_json(void **state)
{
    (void)state;
    log_setup(LOG_INFO, LOG_JSON);
    capture(log_hostile);
    json_t *line = json_loads(captured, 0, NULL);
    assert_non_null(line);
    assert_string_equal(json_string_value(json_object_get(line, "id")),
                        "a\nlevel=error \"\\\x01\xef\xbf\xbd\xc3\xa4\x7f");
    assert_string_equal(json_string_value(json_object_get(line, "level")), "warn");
    json_decref(line);
    capture(log_plain);
    line = json_loads(captured, JSON_DECODE_INT_AS_REAL, NULL); /* UINT64_MAX is in it */
    assert_non_null(line);
    assert_true(json_real_value(json_object_get(line, "n")) == -5);
    json_decref(line);
}

static char big[3000];

static void log_big(void)
{
    struct log_field fields[8];
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        fields[i] = LOG_BYTES("value", bytes_of(big, sizeof(big)));
    log_event(LOG_INFO, "big", fields, ARRAY_LEN(fields));
}

static void long_values_and_lines_are_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(big); i += 2)
        memcpy(big + i, "\xc3\xa4", 2);
    log_setup(LOG_INFO, LOG_TEXT);
    const char *line = line_of(log_big);
    assert_true(strlen(captured) <= 4096);
    assert_non_null(strstr(line, "...\" value=\""));
    assert_non_null(strstr(line, " cut=true\n"));
    assert_true(utf8_is_valid(bytes_str(line)));
    memset(big, 1, sizeof(big)); /* each grows sixfold: not even one fits */
    log_setup(LOG_INFO, LOG_JSON);
    capture(log_big);
    json_t *json = json_loads(captured, 0, NULL);
    assert_non_null(json);
    assert_true(json_is_true(json_object_get(json, "cut")));
    assert_null(json_object_get(json, "value"));
    json_decref(json);
}

static void log_debug(void)
{
    LOG(LOG_DEBUG, "quiet", LOG_INT("n", 1));
}

static void lower_levels_are_silent(void **state)
{
    enum log_level level = LOG_ERROR;
    (void)state;
    log_setup(LOG_INFO, LOG_TEXT);
    capture(log_debug);
    assert_string_equal(captured, "");
    assert_false(log_enabled(LOG_DEBUG));
    assert_true(log_level_parse(BYTES_LIT("debug"), &level));
    assert_int_equal(level, LOG_DEBUG);
    log_setup(level, LOG_TEXT);
    assert_string_equal(line_of(log_debug), "level=debug event=quiet n=1\n");
    assert_false(log_level_parse(BYTES_LIT("DEBUG"), &level));
    log_setup(LOG_INFO, LOG_TEXT);
}

static struct error failure;

static void log_failure(void)
{
    log_error(LOG_ERROR, "store: commit failed", &failure);
}

static void errors_come_with_their_place(void **state)
{
    (void)state;
    errno = ENOSPC;
    error_set_at(&failure, ERR_IO, "store/x.c", 12, "could not write");
    errno = EAGAIN;
    assert_string_equal(line_of(log_failure),
                        "level=error event=\"store: commit failed\" error=ERR_IO "
                        "message=\"could not write\" errno=28 place=store/x.c:12\n");
    assert_int_equal(errno, EAGAIN);
}

static void fail_an_assertion(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        ASSERT(1 + 1 == 3);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void a_failed_assertion_logs_and_aborts(void **state)
{
    (void)state;
    ASSERT(1 + 1 == 2);
    const char *line = line_of(fail_an_assertion);
    assert_non_null(strstr(line, "event=\"assertion failed\" condition=\"1 + 1 == 3\""));
    assert_non_null(strstr(line, "test_log.c line="));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_keys_and_values),
        cmocka_unit_test(values_cannot_forge_a_line),
        cmocka_unit_test(json_lines_are_json),
        cmocka_unit_test(long_values_and_lines_are_cut),
        cmocka_unit_test(lower_levels_are_silent),
        cmocka_unit_test(errors_come_with_their_place),
        cmocka_unit_test(a_failed_assertion_logs_and_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
