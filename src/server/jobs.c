#include "server/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "durabletask/verify.h"
#include "perdure_admin.pb-c.h"
#include "wire/value.h"
#include "wire/wire.h"
#include "wire/writer.h"

#define CHUNK KIB(256)
#define UNSENT_MAX MIB(1)

enum job_kind { JOB_CHECK, JOB_BACKUP, JOB_KINDS };

static const char *const NAMES[JOB_KINDS] = {"check", "backup"};

struct jobs {
    struct dt_host host;
    struct store *store;
    char *copy_path; /* where a backup is made before it is sent; NULL: the store has no file */
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t ended;
    struct job *running[JOB_KINDS];
    unsigned threads; /* that run */
};

struct job {
    struct loop_task task;
    struct jobs *jobs;
    enum job_kind kind;
    struct rpc_call *call;
    void *thread; /* the call's; NULL: the job's own thread has ended */
    _Atomic bool stop;
    enum err rc;
    struct error err;
    usec_t begun; /* monotonic */
    /* JOB_CHECK */
    struct arena *arena;
    Perdure__V1__CheckResponse check;
    size_t findings_cap;
    /* JOB_BACKUP */
    int fd; /* of the copy, which has no name any more; -1: none */
    uint64_t total, log_bytes;
    bool has_sent; /* the first chunk */
};

static void job_free(struct job *job)
{
    struct jobs *j = job->jobs;
    pthread_mutex_lock(&j->lock);
    j->running[job->kind] = NULL;
    pthread_mutex_unlock(&j->lock);
    free(job->check.findings);
    if (job->fd >= 0)
        close(job->fd);
    rpc_call_unref(job->call);
    arena_free(job->arena);
    free(job);
}

/* ---- on the job's thread ------------------------------------------------------------------------------ */

static void one_finding(void *arg, const char *name, const char *text)
{
    struct job *job = arg;
    Perdure__V1__CheckResponse *c = &job->check;
    if (c->n_findings == job->findings_cap) {
        job->findings_cap = job->findings_cap ? job->findings_cap * 2 : 16;
        c->findings = realloc(c->findings, job->findings_cap * sizeof(*c->findings));
        ASSERT(c->findings);
    }
    Perdure__V1__Finding *f = arena_new(job->arena, Perdure__V1__Finding);
    perdure__v1__finding__init(f);
    f->name = wire_data(bytes_str(name));
    f->text = wire_data(arena_dup(job->arena, bytes_str(text)));
    c->findings[c->n_findings++] = f;
}

static enum err check(struct job *job, struct store_reader *r)
{
    struct dt_verify_result result;
    enum err rc = dt_verify_store(r, one_finding, job, &result, &job->err);
    job->check.instances = result.instances;
    job->check.events = result.events;
    return rc;
}

/* The copy is a file beside the store, which loses its name at once: whatever happens, nothing stays behind. */
static enum err copy(struct job *job, struct store_reader *r)
{
    const char *path = job->jobs->copy_path;
    struct stat sb;
    (void)unlink(path); /* of a process that was killed meanwhile */
    enum err rc = store_copy(r, path, &job->err);
    if (rc)
        return rc;
    job->fd = open(path, O_RDONLY | O_CLOEXEC);
    int sys = errno;
    (void)unlink(path);
    if (job->fd < 0 || fstat(job->fd, &sb) != 0)
        return error_set(&job->err, ERR_UNAVAILABLE, "cannot read \"%s\": %s", path,
                         strerror(job->fd < 0 ? sys : errno));
    job->total = (uint64_t)sb.st_size;
    job->log_bytes = store_log_bytes(job->jobs->store);
    return OK;
}

static void done(struct loop_task *task);

static void *run(void *arg)
{
    struct job *job = arg;
    struct jobs *j = job->jobs;
    struct store_reader *r;
    job->rc = store_reader_open(j->store, &r, &job->err);
    if (!job->rc) {
        store_reader_stop_at(r, &job->stop);
        job->rc = job->kind == JOB_CHECK ? check(job, r) : copy(job, r);
        store_reader_close(r);
    }
    j->host.post(j->host.arg, job->thread, &job->task);
    pthread_mutex_lock(&j->lock);
    j->threads--;
    pthread_cond_signal(&j->ended);
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

/* ---- on the call's thread ------------------------------------------------------------------------------ */

static void log_end(const struct job *job)
{
    usec_t took = clock_monotonic(clock_system()) - job->begun;
    LOG(LOG_INFO, "admin: done", LOG_STR("what", NAMES[job->kind]),
        LOG_UINT("findings", job->check.n_findings), LOG_UINT("bytes", job->total),
        LOG_UINT("wal_bytes", job->log_bytes), LOG_UINT("ms", (uint64_t)(took / USEC_PER_MSEC)));
}

static void send_check(struct job *job)
{
    size_t len = wire_packed_size(&job->check.base);
    struct rpc_msg *msg = rpc_msg_new(len);
    wire_pack(&job->check.base, rpc_msg_data(msg), len);
    rpc_call_reply(job->call, msg);
}

/* The next chunk of the copy. False: that was the last one, or it failed; the call is over. */
static bool send_chunk(struct job *job)
{
    CLEANUP(strbuf_deinit) struct strbuf out = {0};
    uint8_t *data = malloc(CHUNK);
    ASSERT(data);
    ssize_t n = read(job->fd, data, CHUNK);
    if (n > 0) {
        wire_put_bytes(&out, 1, bytes_of(data, (size_t)n));
        if (!job->has_sent) {
            wire_put_uint(&out, 2, job->total);
            wire_put_uint(&out, 3, job->log_bytes);
        }
        job->has_sent = true;
        struct rpc_msg *msg = rpc_msg_new(out.len);
        memcpy(rpc_msg_data(msg), out.ptr, out.len);
        rpc_call_send(job->call, msg);
    }
    free(data);
    if (n > 0)
        return true;
    rpc_call_set_context(job->call, NULL);
    if (n == 0)
        rpc_call_finish(job->call, 0, BYTES_LIT(""));
    else
        rpc_call_finish(job->call, GRPC_UNAVAILABLE, BYTES_LIT("the copy could not be read"));
    return false;
}

static void send_chunks(struct job *job);

static void drained(struct rpc_call *call, void *arg)
{
    (void)call;
    send_chunks(arg);
}

static void send_chunks(struct job *job)
{
    while (rpc_call_unsent(job->call) < UNSENT_MAX)
        if (!send_chunk(job)) {
            job_free(job);
            return;
        }
    rpc_call_on_drained(job->call, UNSENT_MAX / 2, drained, job);
}

static void done(struct loop_task *task)
{
    struct job *job = CONTAINER_OF(task, struct job, task);
    job->thread = NULL; /* jobs_closed() frees it from now on */
    if (!rpc_call_is_open(job->call)) {
        job_free(job);
        return;
    }
    log_end(job);
    if (!job->rc && job->kind == JOB_BACKUP) {
        send_chunks(job);
        return;
    }
    rpc_call_set_context(job->call, NULL);
    if (job->rc)
        rpc_call_fail(job->call, &job->err);
    else
        send_check(job);
    job_free(job);
}

void jobs_closed(struct rpc_call *call, void *service)
{
    struct job *job = rpc_call_context(call);
    (void)service;
    rpc_call_set_context(call, NULL);
    if (!job)
        return;
    if (job->thread)
        atomic_store(&job->stop, true); /* done() frees it */
    else
        job_free(job);
}

static struct job *job_new(struct jobs *j, enum job_kind kind, struct rpc_call *call)
{
    struct job *job = calloc(1, sizeof(*job));
    ASSERT(job);
    *job = (struct job){
        .task = {.fn = done},
        .jobs = j,
        .kind = kind,
        .call = rpc_call_ref(call),
        .thread = j->host.thread(j->host.arg, call),
        .begun = clock_monotonic(clock_system()),
        .arena = arena_create(),
        .check = PERDURE__V1__CHECK_RESPONSE__INIT,
        .fd = -1,
    };
    return job;
}

/* NULL: one of the kind runs already. */
static struct job *job_begin(struct jobs *j, enum job_kind kind, struct rpc_call *call)
{
    pthread_mutex_lock(&j->lock);
    struct job *job = j->running[kind] ? NULL : job_new(j, kind, call);
    if (job) {
        j->running[kind] = job;
        j->threads++;
    }
    pthread_mutex_unlock(&j->lock);
    return job;
}

static void start(struct jobs *j, enum job_kind kind, struct rpc_call *call)
{
    struct error err;
    pthread_t thread;
    if (!j->copy_path) {
        (void)error_set(&err, ERR_UNIMPLEMENTED,
                        "this server keeps everything in memory: there is no store to %s",
                        kind == JOB_CHECK ? "check" : "back up");
        rpc_call_fail(call, &err);
        return;
    }
    struct job *job = job_begin(j, kind, call);
    if (!job) {
        (void)error_set(&err, ERR_STATE, "another %s runs: wait for its end", NAMES[kind]);
        rpc_call_fail(call, &err);
        return;
    }
    rpc_call_set_context(call, job);
    LOG(LOG_INFO, "admin: begins", LOG_STR("what", NAMES[kind]),
        LOG_BYTES("peer", rpc_conn_peer(rpc_call_conn(call))));
    ASSERT(pthread_create(&thread, NULL, run, job) == 0);
    pthread_detach(thread);
}

void jobs_check(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    (void)msg; /* CheckRequest has no fields */
    arena_free(arena);
    start(service, JOB_CHECK, call);
}

void jobs_backup(struct rpc_call *call, void *service, struct arena *arena, struct bytes msg)
{
    (void)msg; /* nor has BackupRequest */
    arena_free(arena);
    start(service, JOB_BACKUP, call);
}

/* ---- life ------------------------------------------------------------------------------------------------- */

struct jobs *jobs_new(struct host *host, struct store *store, struct bytes url)
{
    static const struct bytes FILE_SCHEME = BYTES_LIT("sqlite:");
    struct jobs *j = calloc(1, sizeof(*j));
    ASSERT(j);
    j->host = host_for_service(host);
    j->store = store;
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->ended, NULL);
    if (bytes_starts_with(url, FILE_SCHEME)) {
        struct strbuf path = {0};
        strbuf_append_bytes(&path, bytes_of(url.ptr + FILE_SCHEME.len, url.len - FILE_SCHEME.len));
        strbuf_append_str(&path, ".backup");
        j->copy_path = strdup(strbuf_cstr(&path));
        ASSERT(j->copy_path);
        strbuf_deinit(&path);
    }
    return j;
}

void jobs_stop(struct jobs *j)
{
    pthread_mutex_lock(&j->lock);
    for (size_t k = 0; k < JOB_KINDS; k++)
        if (j->running[k])
            atomic_store(&j->running[k]->stop, true);
    while (j->threads > 0)
        pthread_cond_wait(&j->ended, &j->lock);
    pthread_mutex_unlock(&j->lock);
}

void jobs_free(struct jobs *j)
{
    if (!j)
        return;
    pthread_cond_destroy(&j->ended);
    pthread_mutex_destroy(&j->lock);
    free(j->copy_path);
    free(j);
}
