#include "drive.h"

#include <event2/event.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"

struct drive_role {
    const char *name;
    void (*begin)(struct drive *d); /* all connections are there */
    void (*report)(struct drive *d);
};

static const struct drive_role ROLES[] = {
    {"worker", role_worker, worker_report}, {"start", role_start, start_report},
    {"wait", role_wait, wait_report},       {"raise", role_raise, raise_report},
    {"idle", role_idle, idle_report},       {"big", role_big, big_report},
    {"flood", role_flood, flood_report},    {"check", role_check, start_report},
    {"read", role_read, start_report},
};

struct option {
    const char *key;
    size_t offset;
    bool is_text;
};

#define TEXT(k, f)                                                                                 \
    {                                                                                              \
        k, offsetof(struct options, f), true                                                       \
    }
#define NUMBER(k, f)                                                                               \
    {                                                                                              \
        k, offsetof(struct options, f), false                                                      \
    }
static const struct option OPTIONS[] = {
    TEXT("--server", server),
    TEXT("--hub", hub),
    TEXT("--name", name),     /* of the orchestration, program.c */
    TEXT("--input", input),   /* its input */
    TEXT("--expect", expect), /* its output */
    TEXT("--prefix", prefix), /* of ids */
    TEXT("--allow", allow),   /* gRPC statuses that may come, "8,14" */
    NUMBER("--connections", connections),
    NUMBER("--concurrency", concurrency),
    NUMBER("--count", count),
    NUMBER("--from", from), /* the first number of an id */
    NUMBER("--rate", rate), /* a second; 0: as fast as it goes */
    NUMBER("--orchestrations", orchestrations),
    NUMBER("--activities", activities),
    NUMBER("--bytes", bytes),
    NUMBER("--duration-ms", duration_ms),
    NUMBER("--delay-ms", delay_ms),
    NUMBER("--names", names), /* 1: a name for each instance */
    NUMBER("--verify", verify),
    NUMBER("--wait", wait),
};

static void usage(const char *what)
{
    fprintf(stderr, "drive: %s\n", what);
    exit(2);
}

static void set_option(struct options *o, const char *key, const char *value)
{
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++) {
        const struct option *opt = &OPTIONS[i];
        uint64_t number;
        if (strcmp(opt->key, key) != 0)
            continue;
        if (opt->is_text)
            memcpy((char *)o + opt->offset, &value, sizeof(value));
        else if (bytes_parse_u64(bytes_str(value), &number))
            memcpy((char *)o + opt->offset, &number, sizeof(number));
        else
            usage("a number is wrong");
        return;
    }
    usage(key);
}

static void on_input(evutil_socket_t fd, short what UNUSED, void *arg)
{
    struct drive *d = arg;
    char line[64];
    ssize_t n = read((int)fd, line, sizeof(line));

    if (n > 0 && d->go)
        d->go(d);
    else if (n <= 0 && d->ended)
        d->ended(d);
    else if (n <= 0)
        drive_end(d);
}

static const struct drive_role *find_role(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(ROLES); i++)
        if (strcmp(ROLES[i].name, name) == 0)
            return &ROLES[i];
    usage("no such role");
    return NULL;
}

static void raise_file_limit(void)
{
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
        lim.rlim_cur = lim.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &lim); /* connecting will tell */
    }
}

int main(int argc, char **argv)
{
    struct drive d = {.opts = {.hub = "default",
                               .name = "rounds",
                               .input = "1 1",
                               .expect = "1",
                               .prefix = "i-",
                               .allow = "",
                               .connections = 1,
                               .concurrency = 64,
                               .count = 1}};
    struct error err = {0};

    const struct drive_role *role = argc > 1 ? find_role(argv[1]) : NULL;
    if (!role)
        usage("which role?");
    for (int i = 2; i < argc; i += 2)
        set_option(&d.opts, argv[i], i + 1 < argc ? argv[i + 1] : "");
    if (!d.opts.server)
        usage("--server is missing");
    raise_file_limit();
    log_setup(LOG_ERROR, LOG_TEXT);
    setvbuf(stdout, NULL, _IOLBF, 0);
    d.clock = clock_system();
    if (loop_new(&d.loop, &err)) {
        fprintf(stderr, "drive: %s\n", err.msg);
        return 1;
    }
    struct event *input =
        event_new(loop_event_base(d.loop), STDIN_FILENO, EV_READ | EV_PERSIST, on_input, &d);
    event_add(input, NULL);
    links_open(&d, role->begin);
    loop_run(d.loop);
    printf("{");
    role->report(&d);
    codes_print(&d);
    printf("\"lost\":%" PRIu64 ",\"wrong\":%" PRIu64 "}\n", d.lost, d.wrong);
    event_free(input);
    fflush(stdout);
    _exit(d.wrong ? 1 : 0); /* a hundred thousand calls are not taken apart one by one */
}
