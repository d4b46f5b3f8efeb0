/* The words behind a command: cli/command.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include "cli/command.h"

static const struct option OPTIONS[] = {
    {"name", "NAME", "a value", NULL, false}, {"all", NULL, "a flag", NULL, false},
    {"tag", "K=V", "many", NULL, true},       {"wait", "D", "a duration", NULL, false},
    {"soon", "X", NULL, "not yet", false},    {NULL, NULL, NULL, NULL, false},
};

static const struct command COMMAND = {
    "do", "A [B]", 1, 2, "does", OPTIONS, NULL, NULL,
};

static const char *variable(const char *name)
{
    return !strcmp(name, "PERDURE_SERVER") ? "unix:/s" : !strcmp(name, "PERDURE_HUB") ? "" : NULL;
}

static const char *no_variable(const char *name)
{
    (void)name;
    return NULL;
}

#define WORDS(...)                                                                                 \
    (int)ARRAY_LEN(((const char *const[]){__VA_ARGS__})), (const char *const[])                    \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static enum err read_words(struct invocation *in, int argc, const char *const *argv,
                           struct error *err)
{
    char *words[16];

    assert_true(argc <= 16);
    memcpy(words, argv, (size_t)argc * sizeof(words[0])); /* it changes none of them */
    *in = (struct invocation){0};
    *err = (struct error){0};
    return invocation_read(in, &COMMAND, argc, words, no_variable, err);
}

static void refused(const char *message, int argc, const char *const *argv)
{
    struct invocation in;
    struct error err;

    assert_int_equal(read_words(&in, argc, argv, &err), ERR_INVALID);
    assert_string_equal(err.msg, message);
}

static void options_and_arguments_in_any_order(void **state)
{
    struct invocation in;
    struct error err;
    usec_t wait = 5;

    (void)state;
    assert_int_equal(read_words(&in,
                                WORDS("--all", "a", "--name", "n", "b", "--tag=x=1", "--tag", "y=2",
                                      "--json", "--wait=2s"),
                                &err),
                     OK);
    assert_int_equal(in.arg_count, 2);
    assert_string_equal(in.args[0], "a");
    assert_string_equal(in.args[1], "b");
    assert_true(invocation_has(&in, "all") && in.json);
    assert_string_equal(invocation_value(&in, "name"), "n");
    assert_string_equal(in.given[2].value, "x=1");
    assert_string_equal(in.given[3].value, "y=2");
    assert_int_equal(invocation_duration(&in, "wait", &wait, &err), OK);
    assert_int_equal(wait, 2 * USEC_PER_SEC);
    assert_null(invocation_value(&in, "hub"));
}

static void what_looks_like_an_option_can_be_an_argument(void **state)
{
    struct invocation in;
    struct error err;

    (void)state;
    assert_int_equal(read_words(&in, WORDS("-", "--", "--all"), &err), OK);
    assert_string_equal(in.args[0], "-");
    assert_string_equal(in.args[1], "--all");
    assert_false(invocation_has(&in, "all"));
    assert_int_equal(read_words(&in, WORDS("a", "-5"), &err), OK);
    assert_string_equal(in.args[1], "-5");
    assert_int_equal(read_words(&in, WORDS("a", "--name", "--all"), &err), OK);
    assert_string_equal(invocation_value(&in, "name"), "--all");
    assert_int_equal(read_words(&in, WORDS("a", "--name="), &err), OK);
    assert_string_equal(invocation_value(&in, "name"), "");
}

static void wrong_words_are_named(void **state)
{
    (void)state;
    refused("unknown option \"--nope\"; see perdure help do", WORDS("a", "--nope=1"));
    refused("unknown option \"-n\": options begin with two dashes; what is an argument comes "
            "behind --",
            WORDS("-n", "a"));
    refused("--name needs a value: NAME", WORDS("a", "--name"));
    refused("--all takes no value", WORDS("a", "--all=yes"));
    refused("--name is given twice", WORDS("a", "--name", "x", "--name", "x"));
    refused("--soon cannot be used: not yet", WORDS("a", "--soon", "x"));
    refused("an argument is missing: perdure do A [B]", WORDS("--all"));
    refused("\"c\" is one argument too many: perdure do A [B]", WORDS("a", "b", "c"));
}

static void help_needs_no_arguments(void **state)
{
    struct invocation in;
    struct error err;

    (void)state;
    assert_int_equal(read_words(&in, WORDS("--help"), &err), OK);
    assert_true(invocation_has(&in, "help"));
}

static void server_and_hub_have_defaults(void **state)
{
    struct invocation in = {0};
    struct error err;
    char *words[] = {NULL, NULL, NULL};
    char a[] = "a", server[] = "--server=h:1", hub[] = "--hub=x";

    (void)state;
    words[0] = a;
    assert_int_equal(invocation_read(&in, &COMMAND, 1, words, no_variable, &err), OK);
    assert_string_equal(in.server, "localhost:4001");
    assert_null(in.hub);
    in = (struct invocation){0};
    assert_int_equal(invocation_read(&in, &COMMAND, 1, words, variable, &err), OK);
    assert_string_equal(in.server, "unix:/s");
    assert_null(in.hub); /* an empty variable is none */
    in = (struct invocation){0};
    words[1] = server;
    words[2] = hub;
    assert_int_equal(invocation_read(&in, &COMMAND, 3, words, variable, &err), OK);
    assert_string_equal(in.server, "h:1");
    assert_string_equal(in.hub, "x");
}

static void a_bad_duration_is_named(void **state)
{
    struct invocation in;
    struct error err;
    usec_t wait = 5;

    (void)state;
    assert_int_equal(read_words(&in, WORDS("a", "--wait", "soon"), &err), OK);
    assert_int_equal(invocation_duration(&in, "wait", &wait, &err), ERR_INVALID);
    assert_memory_equal(err.msg, "--wait: \"soon\"", 14);
    assert_int_equal(wait, 5);
}

static enum err secure(struct invocation *in, int argc, const char *const *argv, struct error *err)
{
    assert_int_equal(read_words(in, argc, argv, err), OK);
    in->arena = arena_create();
    enum err e = invocation_secure(in, err);
    arena_free(in->arena);
    tls_free(in->tls);
    return e;
}

static void insecure(const char *message, int argc, const char *const *argv)
{
    struct invocation in;
    struct error err;

    assert_int_equal(secure(&in, argc, argv, &err), ERR_INVALID);
    if (!strstr(err.msg, message))
        fail_msg("%s", err.msg);
}

/* TLS is meant by https:// and by any of its options, and by those of the environment not alone. */
static void plaintext_or_tls(void **state)
{
    struct invocation in;
    struct error err;

    (void)state;
    assert_int_equal(secure(&in, WORDS("a"), &err), OK);
    assert_null(in.tls);
    assert_int_equal(secure(&in, WORDS("a", "--server", "grpcs://h:1"), &err), OK);
    assert_non_null(in.tls);
    assert_int_equal(secure(&in, WORDS("a", "--server", "http://h:1", "--api-key", "k"), &err), OK);
    assert_null(in.tls);
    assert_string_equal(in.api_key, "k");
    insecure("means plaintext", WORDS("a", "--server", "grpc://h:1", "--tls-ca", "f"));
    insecure("--tls-cert is given without --tls-key", WORDS("a", "--tls-cert", "f"));
    insecure("could not read the CA file \"/none\"", WORDS("a", "--tls-ca", "/none"));
    insecure("has a character that no key has", WORDS("a", "--api-key", "a\nb"));
    insecure("the key is empty", WORDS("a", "--api-key", ""));
    insecure("could not read \"/none\"", WORDS("a", "--api-key", "@/none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_arguments_in_any_order),
        cmocka_unit_test(what_looks_like_an_option_can_be_an_argument),
        cmocka_unit_test(wrong_words_are_named),
        cmocka_unit_test(plaintext_or_tls),
        cmocka_unit_test(help_needs_no_arguments),
        cmocka_unit_test(server_and_hub_have_defaults),
        cmocka_unit_test(a_bad_duration_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
