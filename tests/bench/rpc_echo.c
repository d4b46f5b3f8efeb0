/* rpc_echo.c - what one unary call costs: a closed loop of EmptyCall on tests/interop/interop_server.
 *
 * `rpc_echo ADDRESS PID [CONNECTIONS [CALLS_EACH [SECONDS]]]` prints calls a second and the CPU time of
 * process PID a call, from /proc.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/channel.h"

struct lane { /* one call at a time, again and again */
    struct channel *ch;
    struct rpc_client_events ev;
    struct rpc_call *call;
};

static struct loop *loop;
static uint64_t calls, errors;
static bool over;

static void start(struct lane *l);

static void on_finished(struct rpc_call *call, void *arg, int status, struct bytes message UNUSED)
{
    struct lane *l = arg;

    calls++;
    errors += status != GRPC_OK;
    rpc_call_unref(call);
    if (!over)
        start(l);
}

static void start(struct lane *l)
{
    struct rpc_conn *conn = channel_conn(l->ch);

    l->call = conn ? rpc_conn_call(conn, "/grpc.testing.TestService/EmptyCall", NULL, 0, 0, false,
                                   &l->ev, loop_now(loop))
                   : NULL;
    if (!l->call) {
        fprintf(stderr, "the connection is lost\n");
        exit(1);
    }
    rpc_call_send(l->call, rpc_msg_new(0));
    rpc_call_close_send(l->call);
}

static void on_ready(void *arg, struct rpc_conn *conn, const struct error *err)
{
    struct lane *l = arg;

    if (!conn) {
        fprintf(stderr, "%s\n", err->msg);
        exit(1);
    }
    start(l);
}

static void on_time(void *arg UNUSED)
{
    over = true;
    loop_stop(loop);
}

/* User and system time of a process in ticks. */
static unsigned long cpu_ticks(const char *pid)
{
    char path[64], text[1024];
    unsigned long user = 0, sys = 0;

    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    const char *p = strrchr(text, ')');
    if (!p || sscanf(p, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys) != 2)
        return 0;
    return user + sys;
}

static size_t number(int argc, char **argv, int i, size_t otherwise)
{
    uint64_t n;

    return i < argc && bytes_parse_u64(bytes_str(argv[i]), &n) && n > 0 ? (size_t)n : otherwise;
}

int main(int argc, char **argv)
{
    size_t conns = number(argc, argv, 3, 8), each = number(argc, argv, 4, 8);
    size_t seconds = number(argc, argv, 5, 5);
    struct error err = {0};

    if (argc < 3 || loop_new(&loop, &err)) {
        fprintf(stderr, "usage: rpc_echo ADDRESS PID [CONNECTIONS [CALLS_EACH [SECONDS]]] %s\n",
                err.msg);
        return 2;
    }
    struct channel **chs = calloc(conns, sizeof(struct channel *));
    struct lane *lanes = calloc(conns * each, sizeof(*lanes));
    for (size_t i = 0; i < conns; i++) {
        if (channel_new(loop, &(struct channel_options){.address = bytes_str(argv[1])}, &chs[i],
                        &err)) {
            fprintf(stderr, "%s\n", err.msg);
            return 2;
        }
        for (size_t k = 0; k < each; k++) {
            struct lane *l = &lanes[i * each + k];
            l->ch = chs[i];
            l->ev = (struct rpc_client_events){.finished = on_finished, .arg = l};
            channel_when_ready(chs[i], on_ready, l);
        }
    }
    struct loop_timer *t = loop_timer_new(loop, on_time, NULL);
    usec_t begun = loop_now(loop);
    loop_timer_set(t, begun + (usec_t)seconds * USEC_PER_SEC);
    unsigned long ticks = cpu_ticks(argv[2]);
    loop_run(loop);
    double took = (double)(loop_now(loop) - begun) / 1e6;
    double cpu = (double)(cpu_ticks(argv[2]) - ticks) / (double)sysconf(_SC_CLK_TCK);
    printf("calls=%llu errors=%llu rate=%.0f/s server_cpu=%.2fus/call\n", (unsigned long long)calls,
           (unsigned long long)errors, (double)calls / took, cpu * 1e6 / (double)calls);
    for (size_t i = 0; i < conns; i++)
        channel_free(chs[i]);
    loop_timer_free(t);
    loop_free(loop);
    free(chs);
    free(lanes);
    return errors > 0;
}
