/* options.c - reads the words behind a command. */
#include <stdio.h>

#include "cli/command.h"

const struct option COMMON_OPTIONS[] = {
    {"server", "ADDR",
     "HOST:PORT, [v6]:PORT or unix:PATH, with https:// before it for TLS (PERDURE_SERVER, then "
     "localhost:4001)",
     NULL, false},
    {"hub", "HUB", "the task hub (PERDURE_HUB, then the server's default)", NULL, false},
    {"json", NULL, "one JSON document, or one a line for streams", NULL, false},
    {"help", NULL, "this text", NULL, false},
    {"tls-ca", "FILE", "TLS, with a certificate of these as the server's (PERDURE_TLS_CA)", NULL,
     false},
    {"tls-cert", "FILE", "the certificate to show (PERDURE_TLS_CERT)", NULL, false},
    {"tls-key", "FILE", "its key (PERDURE_TLS_KEY)", NULL, false},
    {"api-key", "KEY|@FILE", "the API key to send (PERDURE_API_KEY)", NULL, false},
    {NULL, NULL, NULL, NULL, false},
};

static const struct option *find_in(const struct option *list, struct bytes name)
{
    for (; list && list->name; list++)
        if (bytes_eq(bytes_str(list->name), name))
            return list;
    return NULL;
}

static const struct option *find(const struct command *c, struct bytes name)
{
    const struct option *o = find_in(c->options, name);

    return o ? o : find_in(COMMON_OPTIONS, name);
}

bool invocation_has(const struct invocation *in, const char *option)
{
    for (size_t i = 0; i < in->given_count; i++)
        if (bytes_eq(bytes_str(in->given[i].option->name), bytes_str(option)))
            return true;
    return false;
}

const char *invocation_value(const struct invocation *in, const char *option)
{
    for (size_t i = in->given_count; i-- > 0;)
        if (bytes_eq(bytes_str(in->given[i].option->name), bytes_str(option)))
            return in->given[i].value;
    return NULL;
}

enum err invocation_duration(const struct invocation *in, const char *option, usec_t *out,
                             struct error *err)
{
    const char *text = invocation_value(in, option);
    usec_t parsed;

    if (!text)
        return OK;
    enum err e = usec_parse_duration(bytes_str(text), &parsed, err);
    if (e)
        return error_wrap(err, e, "--%s", option);
    *out = parsed;
    return OK;
}

/* `word` begins with "--". *used: how many words it took. */
static enum err read_option(struct invocation *in, int left, char *const *words, int *used,
                            struct error *err)
{
    const char *name = in->command->name;
    struct bytes word = bytes_of(words[0] + 2, strlen(words[0]) - 2);
    const uint8_t *eq = memchr(word.ptr, '=', word.len);
    struct bytes key = bytes_of(word.ptr, eq ? (size_t)(eq - word.ptr) : word.len);
    const struct option *o = find(in->command, key);
    const char *value = eq ? (const char *)eq + 1 : NULL;

    *used = 1;
    if (!o)
        return error_set(err, ERR_INVALID, "unknown option \"--%.*s\"; see perdure help %s",
                         BYTES_FMT(key), name);
    if (o->later)
        return error_set(err, ERR_INVALID, "--%s cannot be used: %s", o->name, o->later);
    if (!o->value && value)
        return error_set(err, ERR_INVALID, "--%s takes no value", o->name);
    if (o->value && !value) {
        if (left < 2)
            return error_set(err, ERR_INVALID, "--%s needs a value: %s", o->name, o->value);
        value = words[1];
        *used = 2;
    }
    if (!o->repeats && invocation_has(in, o->name))
        return error_set(err, ERR_INVALID, "--%s is given twice", o->name);
    if (in->given_count == INVOCATION_OPTIONS_MAX)
        return error_set(err, ERR_INVALID, "more than %d options", INVOCATION_OPTIONS_MAX);
    in->given[in->given_count].option = o;
    in->given[in->given_count++].value = value;
    return OK;
}

static enum err check_count(const struct invocation *in, struct error *err)
{
    const struct command *c = in->command;

    if (in->arg_count >= c->args_min)
        return OK;
    return error_set(err, ERR_INVALID, "an argument is missing: perdure %s %s", c->name,
                     c->arguments);
}

static const char *first_of(const char *a, const char *b, const char *c)
{
    return a ? a : b && *b ? b : c;
}

/* Not "-" (standard input) and not a number, which is JSON. */
static bool is_short_option(struct bytes word)
{
    return word.len > 1 && word.ptr[0] == '-' && (word.ptr[1] < '0' || word.ptr[1] > '9');
}

enum err invocation_read(struct invocation *in, const struct command *command, int argc,
                         char *const *argv, const char *(*env)(const char *name), struct error *err)
{
    bool only_args = false;
    int used;
    enum err e;

    in->command = command;
    for (int i = 0; i < argc; i += used) {
        struct bytes word = bytes_str(argv[i]);
        used = 1;
        if (!only_args && bytes_eq(word, BYTES_LIT("--"))) {
            only_args = true;
            continue;
        }
        if (!only_args && bytes_starts_with(word, BYTES_LIT("--"))) {
            if ((e = read_option(in, argc - i, argv + i, &used, err)))
                return e;
            continue;
        }
        if (!only_args && is_short_option(word))
            return error_set(err, ERR_INVALID,
                             "unknown option \"%s\": options begin with two dashes; what is an "
                             "argument comes behind --",
                             argv[i]);
        if (in->arg_count == command->args_max)
            return error_set(err, ERR_INVALID, "\"%s\" is one argument too many: perdure %s %s",
                             argv[i], command->name, command->arguments);
        in->args[in->arg_count++] = argv[i];
    }
    in->json = invocation_has(in, "json");
    in->server = first_of(invocation_value(in, "server"), env("PERDURE_SERVER"), "localhost:4001");
    in->tls_ca = first_of(invocation_value(in, "tls-ca"), env("PERDURE_TLS_CA"), NULL);
    in->tls_cert = first_of(invocation_value(in, "tls-cert"), env("PERDURE_TLS_CERT"), NULL);
    in->tls_key = first_of(invocation_value(in, "tls-key"), env("PERDURE_TLS_KEY"), NULL);
    in->api_key = first_of(invocation_value(in, "api-key"), env("PERDURE_API_KEY"), NULL);
    in->hub = first_of(invocation_value(in, "hub"), env("PERDURE_HUB"), NULL);
    return invocation_has(in, "help") ? OK : check_count(in, err);
}
