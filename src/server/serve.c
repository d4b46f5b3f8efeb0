#include "server/serve.h"

#include <dirent.h>
#ifdef PERDURE_MIMALLOC
#include <mimalloc.h>
#endif
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "http/http.h"
#include "rpc/health.h"
#include "server/admin.h"
#include "server/config.h"
#include "server/grpc_listener.h"
#include "server/host.h"
#include "server/observe.h"

#define LOOPS_MAX 64
#define LOOPS_AUTO_MAX 8
#define FILES_RESERVED                                                                             \
    24 /* for the gRPC listeners, HTTP clients, and the store when it is opened again */
#define FILES_UNKNOWN 32 /* open at the start, where /proc does not tell */
#define DISK_LOOK_EVERY USEC_PER_SEC
#define DRAIN_LOOK_EVERY (20 * USEC_PER_MSEC)
#define DRAIN_GRACE                                                                                \
    (5 * USEC_PER_SEC) /* for the last answers to be read, after streams have ended */

const char SERVE_HELP[] =
    "usage: perdure serve [FLAG]...\n"
    "\n"
    "  --store URL           sqlite:PATH (default sqlite:perdure.db) or memory\n"
    "  --listen ADDR         gRPC; repeatable; HOST:PORT, [v6]:PORT, unix:PATH (default "
    "localhost:4001, localhost:34186)\n"
    "  --http ADDR|off       /healthz /readyz /metrics (default localhost:4002, localhost:34181)\n"
    "  --tls-cert FILE       TLS on all listeners: the certificate and its chain (PEM)\n"
    "  --tls-key FILE        its key\n"
    "  --tls-client-ca FILE  clients must show a certificate of these\n"
    "  --api-keys FILE       calls need a key of this file (perdure key create)\n"
    "  --config FILE         `key = value` lines; flags win over environment, environment over "
    "file\n"
    "  --set KEY=VALUE       a setting (docs/settings.md)\n"
    "  --insecure[=plaintext|=anonymous]  listen beyond loopback without encryption and "
    "authentication\n"
    "  --log-level L         debug, info, warn, error (default info)\n"
    "  --log-format F        text, json (default text)\n"
    "\n"
    "Environment: PERDURE_STORE, PERDURE_LISTEN, PERDURE_HTTP, PERDURE_TLS_CERT, PERDURE_TLS_KEY,\n"
    "PERDURE_TLS_CLIENT_CA, PERDURE_API_KEYS, PERDURE_CONFIG.\n";

struct server {
    struct config config;
    struct prng prng;
    struct store *store;
    struct engine *engine;
    struct executor *executor;
    struct host host;
    struct dt_service *service;
    struct admin *admin;
    struct observe *observe;
    struct metrics *metrics;
    struct tls *tls; /* NULL: plaintext */
    struct auth *auth;
    struct rpc_server *rpc;
    struct health *health;
    struct loop *loops[LOOPS_MAX];
    pthread_t threads[LOOPS_MAX];
    size_t loop_count, running;
    struct grpc_front *front;
    struct http *http;
    char *disk_path;      /* of the store's file; NULL: memory */
    struct stat files[2]; /* the store's file and its lock, as they were opened */
};

static const struct object_kind *const KINDS[] = {&ORCHESTRATION, NULL};

static int fail(const struct error *err)
{
    fprintf(stderr, "perdure: %s\n", err->msg);
    return err_exit_status(err->code);
}

static const char *environment(const char *name)
{
    return getenv(name);
}

/* ---- systemd ------------------------------------------------------------------------------------------- */

/* sd_notify(3): one datagram to NOTIFY_SOCKET; '@' is an abstract socket. */
static void notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(sa.sun_path))
        return;
    memcpy(sa.sun_path, path, strlen(path));
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (path[0] == '@')
        sa.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&sa,
                 len); /* nobody there is fine */
    close(fd);
}

/* ---- pieces ---------------------------------------------------------------------------------------------- */

static void raise_file_limit(void)
{
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < lim.rlim_max) {
        lim.rlim_cur = lim.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE,
                        &lim); /* the soft limit then stays: connections are refused earlier */
    }
}

static uint64_t count_open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t n = 0;
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n ? n : FILES_UNKNOWN;
}

/* gRPC connections that the limit of open files has room for: the store and HTTP must never lack one because of them.
 * After everything but the gRPC listeners has been opened. */
static enum err room_for_connections(struct server *s, uint64_t *out, struct error *err)
{
    struct rlimit lim;
    *out = 0;
    if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur == RLIM_INFINITY)
        return OK;
    uint64_t taken = count_open_files() + FILES_RESERVED;
    if (lim.rlim_cur <= taken)
        return error_set(
            err, ERR_IO,
            "the limit of open files, %ju, leaves none for connections: %ju are needed for "
            "the rest; raise it (ulimit -n, LimitNOFILE=)",
            (uintmax_t)lim.rlim_cur, (uintmax_t)taken);
    *out = lim.rlim_cur - taken;
    if (*out < s->config.settings.connections_max / 2)
        LOG(LOG_WARN, "serve: open files allow far fewer connections than connections.max",
            LOG_UINT("open_files", lim.rlim_cur), LOG_UINT("connections", *out));
    return OK;
}

static enum err read_certificates(struct server *s, struct error *err)
{
    const struct config *c = &s->config;
    const struct tls_files files = {.cert = c->tls_cert, .key = c->tls_key, .ca = c->tls_client_ca};
    return c->tls_cert ? tls_new(TLS_SERVER, &files, &s->tls, err) : OK;
}

static enum err read_keys(struct server *s, struct error *err)
{
    const struct auth_options opts = {
        .keys_file = s->config.api_keys,
        .has_certs = s->config.tls_client_ca != NULL,
        .cert_roles = (uint32_t)s->config.settings.auth_cert_roles,
    };
    return auth_new(&opts, &s->auth, err);
}

static enum err open_store(struct server *s, struct error *err)
{
    /* The secret of a new store is not of the stream whose numbers are in every token: who knows some of those knows those before. */
    struct prng secret;
    prng_seed_system(&secret);
    struct store_options so = {
        .url = s->config.store,
        .settings = &s->config.settings,
        .clock = clock_system(),
        .prng = &secret,
    };
    if (bytes_starts_with(s->config.store, BYTES_LIT("sqlite:")))
        s->disk_path = strndup((const char *)s->config.store.ptr + 7, s->config.store.len - 7);
    return store_open(&so, &s->store, err);
}

static enum err make_executor(struct server *s, struct error *err)
{
    struct engine_options eo = {
        .store = s->store,
        .settings = &s->config.settings,
        .clock = clock_system(),
        .prng = &s->prng,
        .kinds = KINDS,
        .front = &ORCHESTRATION,
    };
    s->engine = engine_new(&eo);
    struct executor_options xo = {s->engine, s->store, &s->config.settings, clock_system()};
    return executor_new(&xo, &s->executor, err);
}

static enum err is_ready(void *arg, struct error *err)
{
    struct server *s = arg;
    if (atomic_load(&s->host.is_draining))
        return error_set(err, ERR_UNAVAILABLE, "draining: the server is stopping");
    if (!executor_is_healthy(s->executor))
        return error_set(err, ERR_UNAVAILABLE, "the store cannot commit; the log says why");
    return OK;
}

static void call_finished(void *arg, const struct rpc_method *method, int grpc_status, usec_t took)
{
    observe_call(((struct server *)arg)->observe, method, grpc_status, took);
}

static enum err admit_call(void *arg, struct rpc_call *call, const struct rpc_method *method,
                           struct error *err)
{
    return host_admit(&((struct server *)arg)->host, call, method, err);
}

static enum err admit_page(void *arg, const char *path, struct bytes authorization,
                           struct error *err)
{
    struct auth_request req = {.path = path, .authorization = authorization};
    return auth_check(((struct server *)arg)->auth, NULL, &req, err);
}

static void make_services(struct server *s, struct reader *reader)
{
    host_init(&s->host, s->executor, &s->config.settings, s->auth);
    s->host.reader = reader;
    struct dt_host dt = host_for_service(&s->host);
    s->service = dt_service_new(&dt, &s->config.settings);
    s->metrics = metrics_new();
    s->observe = observe_new(s->metrics, s->store);
    if (s->tls)
        observe_certificates(s->observe, tls_expires(s->tls));
    struct rpc_server_options ro = {
        .settings = &s->config.settings,
        .on_finish = call_finished,
        .admit = admit_call,
        .arg = s,
    };
    s->rpc = rpc_server_new(&ro);
    dt_service_register(s->service, s->rpc);
    s->health = health_new();
    health_add_service(s->health, "TaskHubSidecarService");
    health_register(s->health, s->rpc);
    health_set(s->health, true);
    s->admin = admin_new(&s->host, s->store, s->config.store);
    admin_register(s->admin, s->rpc);
    engine_on_commit(s->engine, observe_commit, s->observe);
    executor_on_publish(s->executor, observe_publish, s->observe);
}

/* The engine's thread needs a processor too, and fewer loops gather more into a batch and a system call. */
static size_t loops_wanted(const struct settings *s)
{
    cpu_set_t mine;
    if (s->loop_threads > 0)
        return (size_t)s->loop_threads;
    int processors = sched_getaffinity(0, sizeof(mine), &mine) == 0 ? CPU_COUNT(&mine) : 1;
    return (size_t)MAX(MIN(processors / 2, LOOPS_AUTO_MAX), 1);
}

static enum err make_loops(struct server *s, struct error *err)
{
    size_t n = loops_wanted(&s->config.settings);
    for (; s->loop_count < n; s->loop_count++) {
        enum err rc = loop_new(&s->loops[s->loop_count], err);
        if (rc)
            return rc;
        host_add_loop(&s->host, s->loops[s->loop_count]);
    }
    return OK;
}

static enum err listen_all(struct server *s, struct error *err)
{
    uint64_t files_max;
    enum err room = room_for_connections(s, &files_max, err);
    if (room)
        return room;
    struct grpc_front_options fo = {
        .loops = s->loops,
        .loop_count = s->loop_count,
        .server = s->rpc,
        .settings = &s->config.settings,
        .tls = s->tls,
        .files_max = files_max,
        .opened = host_connection_opened,
        .closed = host_connection_closed,
    };
    s->front = grpc_front_new(&fo);
    observe_front(s->observe, s->front);
    admin_front(s->admin, s->front);
    for (size_t i = 0; i < s->config.listen.count; i++) {
        enum err rc = grpc_front_listen(s->front, s->config.listen.items[i], err);
        if (rc)
            return rc;
    }
    if (s->config.http_off)
        return OK;
    struct http_options ho = {.loop = s->loops[0],
                              .metrics = s->metrics,
                              .ready = is_ready,
                              .admit = admit_page,
                              .arg = s,
                              .tls = s->tls};
    s->http = http_new(&ho);
    for (size_t i = 0; i < s->config.http.count; i++) {
        enum err rc = http_listen(s->http, s->config.http.items[i], err);
        if (rc)
            return rc;
    }
    return OK;
}

static void *loop_thread(void *arg)
{
    loop_run(arg);
    return NULL;
}

static enum err start_threads(struct server *s, struct error *err)
{
    enum err rc = executor_start(s->executor, err);
    if (rc)
        return rc;
    for (; s->running < s->loop_count; s->running++)
        if (pthread_create(&s->threads[s->running], NULL, loop_thread, s->loops[s->running]))
            return error_set(err, ERR_IO, "could not start an event-loop thread");
    return OK;
}

/* ---- while it serves ------------------------------------------------------------------------------------------ */

static void look_at_disk(struct server *s)
{
    struct statvfs v;
    char dir[4096];
    if (!s->disk_path || strlen(s->disk_path) >= sizeof(dir))
        return;
    memcpy(dir, s->disk_path, strlen(s->disk_path) + 1);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir ? 1 : 0] = 0;
    else
        memcpy(dir, ".", 2);
    if (statvfs(dir, &v) == 0)
        atomic_store(&s->host.disk_free, (uint64_t)v.f_bavail * v.f_frsize);
}

static const char *const STORE_FILES[2] = {"", ".lock"};

static bool stat_store_file(const struct server *s, size_t i, struct stat *st)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s%s", s->disk_path, STORE_FILES[i]);
    return n > 0 && (size_t)n < sizeof(path) && stat(path, st) == 0;
}

static void remember_store_files(struct server *s)
{
    for (size_t i = 0; s->disk_path && i < ARRAY_LEN(s->files); i++)
        if (!stat_store_file(s, i, &s->files[i]))
            s->files[i].st_ino = 0;
}

/* A store whose file is gone would go on acknowledging what nobody finds after a restart; without the lock's file a second server
 * could open it. */
static void die_without_store_files(const struct server *s)
{
    for (size_t i = 0; s->disk_path && i < ARRAY_LEN(s->files); i++) {
        struct stat now;
        const struct stat *then = &s->files[i];
        if (then->st_ino == 0 || (stat_store_file(s, i, &now) && now.st_ino == then->st_ino &&
                                  now.st_dev == then->st_dev))
            continue;
        fprintf(stderr,
                "perdure: \"%s%s\" was removed or replaced while it was in use: stopping at once; "
                "put the file "
                "back, or restore a backup, and start again\n",
                s->disk_path, STORE_FILES[i]);
        _exit(1);
    }
}

static void print_ready(struct server *s)
{
    struct strbuf line = {0};
    strbuf_appendf(&line, "perdure ready pid=%ld grpc=", (long)getpid());
    grpc_front_addresses(s->front, &line);
    strbuf_append_str(&line, " http=");
    if (s->http)
        http_addresses(s->http, &line);
    else
        strbuf_append_str(&line, "off");
    strbuf_appendf(&line, " store=%.*s version=%s\n", BYTES_FMT(s->config.store), PERDURE_VERSION);
    fwrite(line.ptr, 1, line.len, stdout);
    fflush(stdout);
    strbuf_deinit(&line);
}

/* Waits for one of the blocked signals, at most `wait`; 0: none came. */
static int next_signal(const sigset_t *set, usec_t wait)
{
    struct timespec ts = {.tv_sec = wait / USEC_PER_SEC, .tv_nsec = wait % USEC_PER_SEC * 1000};
    int sig = sigtimedwait(set, NULL, &ts);
    return sig > 0 ? sig : 0;
}

static void reread_certificates(struct server *s)
{
    struct error err = {0};
    if (!s->tls)
        return;
    enum err rc = tls_reload(s->tls, &err);
    observe_certificates(s->observe, tls_expires(s->tls));
    observe_reread(s->observe, rc == OK);
    if (rc)
        log_error(LOG_ERROR, "serve: the certificates were not reread, those before stay", &err);
    else
        LOG(LOG_INFO, "serve: certificates reread");
}

/* Whoever lost a permission loses its streams and waits with it. */
static void reread_keys(struct server *s, bool always)
{
    enum auth_reread done = auth_reread(s->auth, always);
    if (done == AUTH_UNCHANGED)
        return;
    observe_keys_reread(s->observe, done == AUTH_REREAD);
    if (done == AUTH_REREAD)
        grpc_front_recheck(s->front);
}

static void reread_log_level(struct server *s, int argc, char *const *args)
{
    struct error err = {0};
    enum log_level level;
    if (config_log_level(argc, args, environment, &level, &err)) {
        log_error(LOG_ERROR, "serve: the configuration was not reread", &err);
        return;
    }
    log_setup(level, s->config.log_format);
    LOG(LOG_INFO, "serve: log level reread");
}

static void drain_begin(struct engine *e, void *arg)
{
    (void)arg;
    engine_drain(e);
}

static void drain_end(struct engine *e, void *arg)
{
    (void)arg;
    engine_drain_end(e);
}

static void exit_at_once(void)
{
    LOG(LOG_WARN, "serve: a second signal came, leaving at once; nothing acknowledged is lost");
    _exit(0);
}

/* A second SIGTERM or SIGINT; a SIGHUP means nothing any more. */
static bool is_hurried(const sigset_t *set)
{
    int sig = next_signal(set, DRAIN_LOOK_EVERY);
    return sig == SIGTERM || sig == SIGINT;
}

/* Spec 8.7. */
static void drain(struct server *s, const sigset_t *set)
{
    const struct clock *clock = clock_system();
    LOG(LOG_INFO, "serve: draining", LOG_UINT("in_flight", executor_in_flight(s->executor)));
    notify("STOPPING=1");
    atomic_store(&s->host.is_draining, true);
    health_set(s->health, false);
    executor_call(s->executor, drain_begin, NULL);
    usec_t end = usec_add(clock_monotonic(clock), (usec_t)s->config.settings.drain_time);
    while (executor_in_flight(s->executor) > 0 && clock_monotonic(clock) < end) {
        if (is_hurried(set))
            exit_at_once();
        reread_keys(s, false);
    }
    grpc_front_stop_listening(s->front);
    grpc_front_shutdown(s->front);
    executor_call(s->executor, drain_end, NULL);
    end = usec_add(clock_monotonic(clock), DRAIN_GRACE);
    while (grpc_front_connections(s->front) > 0 && clock_monotonic(clock) < end)
        if (is_hurried(set))
            exit_at_once();
}

static void serve_until_signal(struct server *s, const sigset_t *set, int argc, char *const *args)
{
    for (;;) {
        look_at_disk(s);
        die_without_store_files(s);
        reread_keys(s, false);
        int sig = next_signal(set, DISK_LOOK_EVERY);
        if (sig == SIGHUP) {
            reread_log_level(s, argc, args);
            reread_certificates(s);
            reread_keys(s, true);
        } else if (sig > 0)
            return;
    }
}

/* ---- start and end ------------------------------------------------------------------------------------------------- */

static void stop(struct server *s)
{
    if (s->executor)
        executor_stop(s->executor);
    for (size_t i = 0; i < s->running; i++)
        loop_stop(s->loops[i]);
    for (size_t i = 0; i < s->running; i++)
        pthread_join(s->threads[i], NULL);
    reader_free(s->host.reader);
    admin_stop(s->admin);
    http_free(s->http);
    grpc_front_free(s->front);
    engine_free(s->engine);
    for (size_t i = 0; i < s->loop_count; i++)
        loop_free(s->loops[i]);
    executor_free(s->executor);
    rpc_server_free(s->rpc);
    health_free(s->health);
    admin_free(s->admin);
    dt_service_free(s->service);
    observe_free(s->observe);
    metrics_free(s->metrics);
    tls_free(s->tls);
    auth_free(s->auth);
    store_close(s->store);
    free(s->disk_path);
    config_deinit(&s->config);
}

static enum err start(struct server *s, struct error *err)
{
    enum err rc;
    raise_file_limit();
    if ((rc = read_certificates(s, err)) || (rc = read_keys(s, err)) || (rc = open_store(s, err)) ||
        (rc = make_executor(s, err)))
        return rc;
    struct reader *reader;
    if ((rc = reader_new(s->store, &s->config.settings, &reader, err)))
        return rc;
    make_services(s, reader);
    if ((rc = make_loops(s, err)) || (rc = listen_all(s, err)))
        return rc;
    return start_threads(s, err);
}

/* What is freed goes back to the system at once, not at the thread's next call of malloc: a server that is idle after a burst makes
 * none. A hundred activities of one orchestration cost a quarter more CPU for it, and no more than with the C library's malloc. */
static void give_memory_back(void)
{
#ifdef PERDURE_MIMALLOC
    mi_option_set_default(mi_option_decommit_delay, 0);
#endif
}

int serve(int argc, char *const *args)
{
    give_memory_back();
    struct server *s = calloc(1, sizeof(*s));
    ASSERT(s);
    struct error err = {0};
    sigset_t set;
    if (config_read(&s->config, argc, args, environment, &err) ||
        config_check_exposure(&s->config, &err)) {
        config_deinit(&s->config);
        free(s);
        return fail(&err);
    }
    log_setup(s->config.log_level, s->config.log_format);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* for every thread: this one waits for them */
    signal(SIGPIPE, SIG_IGN);
    prng_seed_system(&s->prng);
    int status = 0;
    if (start(s, &err)) {
        status = fail(&err);
    } else {
        const char *without = config_exposed_without(&s->config);
        if (without)
            LOG(LOG_WARN, "serve: listening beyond loopback (--insecure)",
                LOG_STR("without", without));
        remember_store_files(s);
        print_ready(s);
        notify("READY=1");
        serve_until_signal(s, &set, argc, args);
        drain(s, &set);
    }
    stop(s);
    free(s);
    return status;
}
