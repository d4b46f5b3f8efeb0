/* What `perdure serve` was told: server/config.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/config.h"

#define ARGS_MAX 16
#define VARIABLES_MAX 4

/* The environment of the test: NAME=VALUE. */
static const char *variables[VARIABLES_MAX + 1];

static const char *env(const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; variables[i]; i++)
        if (!strncmp(variables[i], name, len) && variables[i][len] == '=')
            return variables[i] + len + 1;
    return NULL;
}

static void set_env(const char *a, const char *b)
{
    variables[0] = a;
    variables[1] = a ? b : NULL;
    variables[2] = NULL;
}

/* The words of `line`, cut at single spaces: argv points into `words`. */
static int split(const char *line, char words[512], char *argv[ARGS_MAX])
{
    int argc = 0;

    snprintf(words, 512, "%s", line);
    for (char *p = words, *next; *p; p = next) {
        next = p + strcspn(p, " ");
        if (*next)
            *next++ = 0;
        assert_true(argc < ARGS_MAX);
        argv[argc++] = p;
    }
    return argc;
}

static enum err read_line(struct config *c, const char *line, struct error *err)
{
    char words[512], *argv[ARGS_MAX];
    int argc = split(line, words, argv);

    *err = (struct error){0};
    return config_read(c, argc, argv, env, err); /* keeps copies, not our words */
}

static void good(struct config *c, const char *line)
{
    struct error err;

    if (read_line(c, line, &err))
        fail_msg("%s: %s", line, err.msg);
}

static void refused(const char *line, const char *message)
{
    struct config c;
    struct error err;

    assert_int_equal(read_line(&c, line, &err), ERR_INVALID);
    assert_string_equal(err.msg, message);
    assert_int_equal(err_exit_status(err.code), 2);
    config_deinit(&c);
}

static void assert_bytes(struct bytes b, const char *text)
{
    assert_int_equal(b.len, strlen(text));
    assert_memory_equal(b.ptr, text, b.len);
}

/* A file of the given text; its path, until the next one. */
static const char *file(const char *text)
{
    static char path[] = "/tmp/config-test-XXXXXX";

    memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    return path;
}

static const char *line_with(const char *fmt, const char *path)
{
    static char line[512];
    const char *mark = strstr(fmt, "FILE");

    assert_non_null(mark);
    snprintf(line, sizeof(line), "%.*s%s%s", (int)(mark - fmt), fmt, path, mark + 4);
    return line;
}

/* ---- tests ------------------------------------------------------------------------------------- */

static void says_nothing_gets_the_defaults(void **state)
{
    struct config c;
    struct settings s;

    (void)state;
    set_env(NULL, NULL);
    good(&c, "");
    assert_bytes(c.store, "sqlite:perdure.db");
    assert_int_equal(c.listen.count, 2);
    assert_bytes(c.listen.items[0], "localhost:4001");
    assert_bytes(c.listen.items[1], "localhost:34186");
    assert_int_equal(c.http.count, 2);
    assert_bytes(c.http.items[0], "localhost:4002");
    assert_bytes(c.http.items[1], "localhost:34181");
    assert_false(c.http_off || c.insecure_plaintext || c.insecure_anonymous);
    assert_int_equal(c.log_level, LOG_INFO);
    assert_int_equal(c.log_format, LOG_TEXT);
    settings_defaults(&s);
    assert_memory_equal(&c.settings, &s, sizeof(s));
    config_deinit(&c);
}

static void takes_every_flag(void **state)
{
    struct config c;

    (void)state;
    good(&c, "--store memory --listen localhost:0 --listen=unix:/tmp/x --http [::1]:1 --set "
             "turn.events=7 --set=turn.timeout=2m --log-level debug --log-format json --insecure");
    assert_bytes(c.store, "memory");
    assert_int_equal(c.listen.count, 2);
    assert_bytes(c.listen.items[0], "localhost:0");
    assert_bytes(c.listen.items[1], "unix:/tmp/x");
    assert_int_equal(c.http.count, 1);
    assert_bytes(c.http.items[0], "[::1]:1");
    assert_int_equal(c.settings.turn_events, 7);
    assert_int_equal(c.settings.turn_timeout, 120 * USEC_PER_SEC);
    assert_int_equal(c.log_level, LOG_DEBUG);
    assert_int_equal(c.log_format, LOG_JSON);
    assert_true(c.insecure_plaintext && c.insecure_anonymous);
    config_deinit(&c);
}

static void http_can_be_off_and_on_again(void **state)
{
    struct config c;

    (void)state;
    good(&c, "--http off");
    assert_true(c.http_off);
    config_deinit(&c);
    set_env("PERDURE_HTTP=off", NULL);
    good(&c, "--http localhost:5");
    assert_false(c.http_off);
    assert_int_equal(c.http.count, 1);
    config_deinit(&c);
    set_env(NULL, NULL);
}

/* Addresses of a stronger source replace those of a weaker one, they are not added to them. */
static void flags_win_over_environment_over_file(void **state)
{
    struct config c;
    const char *path = file("# a comment\n\nstore = memory   # and another\nlisten = localhost:1, "
                            "localhost:2\nlog-level=warn\nturn.events = 5\nturn.bytes = 64KiB\n");

    (void)state;
    good(&c, line_with("--config FILE", path));
    assert_bytes(c.store, "memory");
    assert_int_equal(c.listen.count, 2);
    assert_bytes(c.listen.items[1], "localhost:2");
    assert_int_equal(c.log_level, LOG_WARN);
    assert_int_equal(c.settings.turn_events, 5);
    assert_int_equal(c.settings.turn_bytes, KIB(64));
    config_deinit(&c);

    set_env("PERDURE_LISTEN=localhost:3", "PERDURE_STORE=sqlite:e.db");
    good(&c, line_with("--config FILE", path));
    assert_int_equal(c.listen.count, 1);
    assert_bytes(c.listen.items[0], "localhost:3");
    assert_bytes(c.store, "sqlite:e.db");
    config_deinit(&c);

    good(&c, line_with("--listen localhost:4 --config=FILE --store sqlite:f.db --set turn.events=6",
                       path));
    assert_int_equal(c.listen.count, 1);
    assert_bytes(c.listen.items[0], "localhost:4");
    assert_bytes(c.store, "sqlite:f.db");
    assert_int_equal(c.settings.turn_events, 6);
    config_deinit(&c);
    set_env(NULL, NULL);
    unlink(path);
}

static void the_file_comes_from_the_environment_too(void **state)
{
    struct config c;
    static char variable[128];
    const char *path = file("insecure = plaintext\n");

    (void)state;
    snprintf(variable, sizeof(variable), "PERDURE_CONFIG=%s", path);
    set_env(variable, NULL);
    good(&c, "");
    assert_bytes(c.config_file, path);
    assert_true(c.insecure_plaintext && !c.insecure_anonymous);
    config_deinit(&c);
    set_env(NULL, NULL);
    unlink(path);
}

static void bad_flags_are_named(void **state)
{
    (void)state;
    refused("--nope", "unknown flag \"--nope\"; see perdure help serve");
    refused("here", "serve takes no argument \"here\"; see perdure help serve");
    refused("--store", "--store needs a value");
    refused("--store tcp:x", "--store: \"tcp:x\" is no store; use sqlite:PATH or memory");
    refused("--store sqlite:", "--store: \"sqlite:\" is no store; use sqlite:PATH or memory");
    refused("--log-level loud", "--log-level: \"loud\" is no log level; use debug, info, warn or "
                                "error");
    refused("--log-format xml", "--log-format: \"xml\" is no log format; use text or json");
    refused("--insecure=yes", "--insecure: \"yes\" is neither plaintext nor anonymous");
    refused("--set turn.events", "--set: \"turn.events\" is not KEY=VALUE");
    refused("--set turn.events=0",
            "--set: setting \"turn.events\" cannot be \"0\": the range is 1 to 100000");
    refused("--listen=", "--listen: an address is empty; give HOST:PORT, [v6]:PORT or unix:PATH");
    refused("--http=", "--http: an address is empty; give HOST:PORT, [v6]:PORT or unix:PATH");
    refused("--listen localhost:1,,localhost:2",
            "--listen: an address is empty; give HOST:PORT, [v6]:PORT or unix:PATH");
}

static void bad_addresses_are_refused_before_anything_is_opened(void **state)
{
    struct config c;
    struct error err;
    static const char *const BAD[] = {"--listen localhost", "--listen localhost:99999",
                                      "--http ::1:80", "--listen unix:"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        assert_int_equal(read_line(&c, BAD[i], &err), ERR_INVALID);
        assert_memory_equal(err.msg, BAD[i], strcspn(BAD[i], " ")); /* names the flag */
        config_deinit(&c);
    }
}

static void too_many_addresses(void **state)
{
    struct config c;
    struct error err;
    char line[512] = "--listen localhost:1";

    (void)state;
    for (int i = 0; i < CONFIG_ADDRESSES_MAX; i++)
        snprintf(line + strlen(line), sizeof(line) - strlen(line), ",localhost:1");
    assert_int_equal(read_line(&c, line, &err), ERR_INVALID);
    assert_string_equal(err.msg, "--listen: more than 16 addresses");
    config_deinit(&c);
}

static void what_is_not_built_yet_is_refused(void **state)
{
    (void)state;
    refused("--store postgres://u:secret@h/db",
            "--store: PostgreSQL cannot be used: it comes with a later version; use sqlite:PATH or "
            "memory");
}

static void refuses_file(const char *text, const char *message)
{
    struct config c;
    struct error err;
    char expected[512];
    const char *path = file(text);

    assert_int_equal(read_line(&c, line_with("--config FILE", path), &err), ERR_INVALID);
    snprintf(expected, sizeof(expected), "%s %s", path, message);
    assert_string_equal(err.msg, expected);
    config_deinit(&c);
    unlink(path);
}

static void bad_lines_are_named_with_their_number(void **state)
{
    struct config c;
    struct error err;

    (void)state;
    refuses_file("\nnonsense\n", "line 2: \"nonsense\" is not `key = value`");
    refuses_file("store = memory\n#\nstore=x\n",
                 "line 3: \"x\" is no store; use sqlite:PATH or memory");
    refuses_file("config = other\n", "line 1: config is a flag only");
    refuses_file("set = turn.events=1\n", "line 1: set is a flag only");
    refuses_file("tls-cert =\n", "line 1: the name of the file is empty");
    refuses_file("turn.eventss = 4\n", "line 1: unknown setting \"turn.eventss\": near ones are "
                                       "turn.events, turn.bytes, turn.timeout, "
                                       "turn.chunk_bytes");
    assert_int_equal(read_line(&c, "--config /nonexistent/file", &err), ERR_INVALID);
    assert_string_equal(err.msg, "could not read the config file \"/nonexistent/file\": No such "
                                 "file or directory");
    config_deinit(&c);
    assert_int_equal(read_line(&c, "--config /", &err), ERR_INVALID);
    assert_string_equal(err.msg, "could not read the config file \"/\": Is a directory");
    config_deinit(&c);
}

static void files_of_tls_and_keys(void **state)
{
    struct config c;

    (void)state;
    good(&c, "--tls-cert a.pem --tls-key a.key --tls-client-ca ca.pem --api-keys keys");
    assert_string_equal(c.tls_cert, "a.pem");
    assert_string_equal(c.tls_key, "a.key");
    assert_string_equal(c.tls_client_ca, "ca.pem");
    assert_string_equal(c.api_keys, "keys");
    config_deinit(&c);
    set_env("PERDURE_TLS_CERT=b.pem", "PERDURE_TLS_KEY=b.key");
    good(&c, "");
    assert_string_equal(c.tls_cert, "b.pem");
    assert_null(c.tls_client_ca);
    config_deinit(&c);
    set_env(NULL, NULL);
}

static void check_exposed(const char *line, const char *message)
{
    struct config c;
    struct error err = {0};

    good(&c, line);
    enum err e = config_check_exposure(&c, &err);
    assert_int_equal(e, message ? ERR_INVALID : OK);
    if (message && !strstr(err.msg, message))
        fail_msg("%s: %s", line, err.msg);
    config_deinit(&c);
}

static void halves_are_refused(void **state)
{
    (void)state;
    check_exposed("--tls-cert a", "--tls-cert is given without --tls-key: TLS needs both");
    check_exposed("--tls-key a", "--tls-key is given without --tls-cert: TLS needs both");
    check_exposed("--tls-client-ca a",
                  "--tls-client-ca is given without --tls-cert and --tls-key: clients can");
}

static void goes_without(const char *line, const char *what)
{
    struct config c;

    good(&c, line);
    const char *got = config_exposed_without(&c);
    if (!what != !got || (what && strcmp(what, got)))
        fail_msg("%s: %s", line, got ? got : "nothing");
    config_deinit(&c);
}

/* What the warning at the start names. */
static void what_is_waived_is_known(void **state)
{
    (void)state;
    goes_without("--listen 0.0.0.0:1", "encryption and authentication");
    goes_without("--listen 0.0.0.0:1 --api-keys k", "encryption");
    goes_without("--listen 0.0.0.0:1 --tls-cert a --tls-key a", "authentication");
    goes_without("--listen 0.0.0.0:1 --tls-cert a --tls-key a --tls-client-ca a", NULL);
    goes_without("--http 0.0.0.0:1", "encryption and authentication");
    goes_without("--api-keys k", NULL);
}

/* Loopback needs nothing; beyond it there must be encryption and authentication, or both be waived. */
static void beyond_loopback_needs_both(void **state)
{
    struct config c;
    struct error err = {0};
    static const char *const LOOPBACK[] = {"", "--listen 127.0.0.1:1 --http [::1]:2",
                                           "--listen unix:/tmp/s --http off"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(LOOPBACK); i++) {
        good(&c, LOOPBACK[i]);
        assert_null(config_exposed_without(&c));
        assert_int_equal(config_check_exposure(&c, &err), OK);
        config_deinit(&c);
    }
    check_exposed("--listen 0.0.0.0:1 --tls-cert a --tls-key b", "without authentication: give");
    check_exposed("--listen 0.0.0.0:1 --api-keys k", "without encryption: give");
    check_exposed("--listen 0.0.0.0:1 --api-keys k --tls-cert a --tls-key b", NULL);
    check_exposed("--listen 0.0.0.0:1 --tls-client-ca c --tls-cert a --tls-key b", NULL);
    check_exposed("--listen 0.0.0.0:1 --api-keys k --insecure=plaintext", NULL);
    check_exposed("--listen 0.0.0.0:1 --tls-cert a --tls-key b --insecure=anonymous", NULL);
    check_exposed("--listen 0.0.0.0:1 --tls-cert a --tls-key b --insecure=plaintext",
                  "without authentication");
    check_exposed("--listen 0.0.0.0:1", "\"0.0.0.0:1\" listens beyond loopback without encryption "
                                        "and authentication");
    check_exposed("--http [::]:1", "\"[::]:1\" listens beyond loopback");
    check_exposed("--listen 10.0.0.1:1 --insecure=plaintext", "without authentication");
    check_exposed("--listen 10.0.0.1:1 --insecure=anonymous", "without encryption");
    check_exposed("--listen 10.0.0.1:1 --insecure", NULL);
    check_exposed("--listen 10.0.0.1:1 --insecure=anonymous --insecure=plaintext", NULL);
}

static void the_log_level_is_read_again(void **state)
{
    enum log_level level = LOG_INFO;
    struct error err = {0};
    char words[512], *argv[ARGS_MAX];
    const char *path = file("log-level = error\n");
    int argc = split(line_with("--config FILE --store memory", path), words, argv);

    (void)state;
    assert_int_equal(config_log_level(argc, argv, env, &level, &err), OK);
    assert_int_equal(level, LOG_ERROR);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("log-level = shrill\n", f);
    fclose(f);
    assert_int_equal(config_log_level(argc, argv, env, &level, &err), ERR_INVALID);
    assert_int_equal(level, LOG_ERROR);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_nothing_gets_the_defaults),
        cmocka_unit_test(takes_every_flag),
        cmocka_unit_test(http_can_be_off_and_on_again),
        cmocka_unit_test(flags_win_over_environment_over_file),
        cmocka_unit_test(the_file_comes_from_the_environment_too),
        cmocka_unit_test(bad_flags_are_named),
        cmocka_unit_test(bad_addresses_are_refused_before_anything_is_opened),
        cmocka_unit_test(too_many_addresses),
        cmocka_unit_test(what_is_not_built_yet_is_refused),
        cmocka_unit_test(bad_lines_are_named_with_their_number),
        cmocka_unit_test(files_of_tls_and_keys),
        cmocka_unit_test(halves_are_refused),
        cmocka_unit_test(what_is_waived_is_known),
        cmocka_unit_test(beyond_loopback_needs_both),
        cmocka_unit_test(the_log_level_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
