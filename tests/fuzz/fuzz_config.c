/* fuzz_config.c - what people write: config files, `--set`, the flags of `serve`, the words of every other command.
 *
 * The first byte chooses which; words are separated by line feeds. Commands run for real, with a server's address where nobody
 * listens: they end with status 2 for what is wrong with their words, or get as far as the connection.
 *
 * Whatever is written: no crash, no hang, an error has a message that is text, and what was accepted is within its limits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "server/config.h"

#define WORDS_MAX 32

static FILE *report; /* where errors go: our own stderr is for what must not happen */
static char file[64];

static const char *no_env(const char *name UNUSED)
{
    return NULL;
}

/* The words, NUL-terminated in `copy`; those that name devices, or a server that might exist, are left out. */
static int split(char *copy, char *words[WORDS_MAX], int first)
{
    int n = first;

    for (char *p = copy, *next; p && *p && n < WORDS_MAX; p = next) {
        next = strchr(p, '\n');
        if (next)
            *next++ = 0;
        if (strstr(p, "/dev/") || strstr(p, "/proc/") || strstr(p, "--server") ||
            strstr(p, "--api-keys")) /* which would be written */
            continue;
        words[n++] = p;
    }
    return n;
}

static void check(enum err e, const struct error *err)
{
    if (!e)
        return;
    ASSERT(err->code == e && err_exit_status(e) != 0);
    ASSERT(err->msg[0] != 0);
}

static void read_config(int argc, char *const *words)
{
    struct config c;
    struct error err = {0};
    enum err e = config_read(&c, argc, words, no_env, &err);

    check(e, &err);
    if (!e) {
        ASSERT(c.listen.count <= CONFIG_ADDRESSES_MAX && c.http.count <= CONFIG_ADDRESSES_MAX);
        ASSERT(c.settings.loop_threads <= 64);
        e = config_check_exposure(&c, &err);
        check(e, &err);
        ASSERT(e || !config_exposed_without(&c) || c.insecure_plaintext || c.insecure_anonymous);
    }
    config_deinit(&c);
}

static void as_file(struct bytes in)
{
    char flag[] = "--config";
    char *words[] = {flag, file};
    FILE *f = fopen(file, "we");

    ASSERT(f);
    size_t written = fwrite(in.ptr, 1, in.len, f);
    ASSERT(written == in.len);
    fclose(f);
    read_config(2, words);
}

static void as_flags(char *text)
{
    char *words[WORDS_MAX];
    int n = split(text, words, 0);

    read_config(n, words);
}

static void as_settings(char *text)
{
    char *words[WORDS_MAX];
    char set[] = "--set";

    for (char *p = text, *next; p && *p; p = next) {
        next = strchr(p, '\n');
        if (next)
            *next++ = 0;
        words[0] = set;
        words[1] = p;
        read_config(2, words);
    }
}

static void as_command(char *text)
{
    char *words[WORDS_MAX + 1];
    char name[] = "perdure";

    words[0] = name;
    int argc = split(text, words, 1);
    words[argc] = NULL;
    FILE *err = stderr, *out = stdout;
    stderr = stdout = report;
    int status = cli_main(argc, words);
    stderr = err;
    stdout = out;
    rewind(report);
    ASSERT(status == 0 || status == 1 || status == 2 || status == 6);
}

static void clean_up(void)
{
    unlink(file);
    fclose(report);
}

int LLVMFuzzerInitialize(int *argc UNUSED, char ***argv UNUSED)
{
    (void)snprintf(file, sizeof(file), "/tmp/fuzz-config-%ld", (long)getpid());
    report = fopen("/dev/null", "w+e");
    ASSERT(report);
    setenv("PERDURE_SERVER", "unix:/nonexistent/perdure", 1);
    unsetenv("PERDURE_HUB");
    if (!freopen("/dev/null", "re", stdin)) /* an input of "-" */
        abort();
    atexit(clean_up);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = strndup((const char *)data + 1, size - 1);
    ASSERT(text);
    switch (data[0] % 4) {
    case 0:
        as_file(bytes_of(data + 1, size - 1));
        break;
    case 1:
        as_flags(text);
        break;
    case 2:
        as_settings(text);
        break;
    default:
        as_command(text);
        break;
    }
    free(text);
    return 0;
}
