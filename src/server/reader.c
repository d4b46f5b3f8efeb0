#include "server/reader.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/assert.h"
#include "engine/kind.h"

struct reader {
    struct store_reader *store;
    const struct settings *settings;
    struct arena *arena;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct command *head, **tail;
    bool is_stopping;
};

static void run_one(struct reader *r, struct command *cmd)
{
    struct step s = {.reader = r->store, .settings = r->settings, .arena = r->arena};
    arena_reset(r->arena);
    cmd->status = cmd->kind->command(&s, cmd, command_error(cmd));
    cmd->done(cmd);
}

static void *run(void *arg)
{
    struct reader *r = arg;
    pthread_mutex_lock(&r->lock);
    while (!r->is_stopping) {
        struct command *cmd = r->head;
        if (!cmd) {
            pthread_cond_wait(&r->wake, &r->lock);
            continue;
        }
        r->head = cmd->next;
        if (!r->head)
            r->tail = &r->head;
        pthread_mutex_unlock(&r->lock);
        run_one(r, cmd);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

enum err reader_new(struct store *store, const struct settings *settings, struct reader **out,
                    struct error *err)
{
    struct store_reader *connection;
    enum err rc = store_reader_open(store, &connection, err);
    *out = NULL;
    if (rc)
        return rc == ERR_UNIMPLEMENTED ? OK : rc;
    struct reader *r = calloc(1, sizeof(*r));
    ASSERT(r);
    r->store = connection;
    r->settings = settings;
    r->arena = arena_create();
    r->tail = &r->head;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, NULL);
    ASSERT(pthread_create(&r->thread, NULL, run, r) == 0);
    *out = r;
    return OK;
}

void reader_free(struct reader *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->is_stopping = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    for (struct command *cmd = r->head, *next; cmd; cmd = next) {
        next = cmd->next;
        cmd->status = error_set(command_error(cmd), ERR_UNAVAILABLE, "the server is stopping");
        cmd->done(cmd);
    }
    store_reader_close(r->store);
    arena_free(r->arena);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->wake);
    free(r);
}

void reader_post(struct reader *r, struct command *cmd)
{
    cmd->next = NULL;
    pthread_mutex_lock(&r->lock);
    *r->tail = cmd;
    r->tail = &cmd->next;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
}
