/* recent.c - the tasks that the last transaction inserted, for those who want them at once. */
#include "base/assert.h"
#include "store/internal.h"

#include <stdlib.h>

static void grow(struct recent *r)
{
    r->cap = r->cap ? r->cap * 2 : 64;
    r->tasks = realloc(r->tasks, r->cap * sizeof(*r->tasks));
    if (!r->tasks)
        abort(); /* out of memory */
}

void store_recent_add(struct store *st, const struct store_task *t)
{
    struct recent *r = &st->recent;

    if (r->count == RECENT_ROWS || r->bytes.len + t->payload.len > RECENT_BYTES ||
        (r->count > 0 && r->tasks[r->count - 1].task.key >= t->key))
        return;
    if (r->count == r->cap)
        grow(r);
    struct recent_task *row = &r->tasks[r->count++];
    *row = (struct recent_task){.task = *t, .at = r->bytes.len, .len = SIZE_MAX};
    row->task.payload = BYTES_NONE;
    if (bytes_is_none(t->payload))
        return;
    strbuf_append_bytes(&r->bytes, t->payload);
    row->len = t->payload.len;
}

static struct recent_task *find(const struct recent *r, uint64_t key)
{
    size_t lo = 0, hi = r->count;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (r->tasks[mid].task.key < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < r->count && r->tasks[lo].task.key == key ? &r->tasks[lo] : NULL;
}

void store_recent_delete(struct store *st, uint64_t key)
{
    struct recent_task *row = find(&st->recent, key);

    if (row)
        row->is_deleted = true;
}

bool store_recent_find(const struct store *st, uint32_t group, uint64_t key, struct store_task *out)
{
    const struct recent_task *row = find(&st->recent, key);

    if (!row || row->is_deleted || row->task.group != group)
        return false;
    *out = row->task;
    out->payload = row->len == SIZE_MAX ? BYTES_NONE
                   : row->len == 0      ? BYTES_LIT("")
                                        : bytes_of(st->recent.bytes.ptr + row->at, row->len);
    return true;
}

void store_recent_clear(struct store *st)
{
    st->recent.count = 0;
    strbuf_reset(&st->recent.bytes);
}

void store_recent_deinit(struct store *st)
{
    free(st->recent.tasks);
    strbuf_deinit(&st->recent.bytes);
    st->recent = (struct recent){0};
}
