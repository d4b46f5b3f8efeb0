#include "sim/disk.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"

void disk_init(struct disk *d, struct prng *p, unsigned sector)
{
    *d = (struct disk){.p = p, .sector = sector};
    list_init(&d->files);
}

static void forget_waiting(struct disk_file *f)
{
    for (struct disk_write *w = f->waiting, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    f->waiting = NULL;
    f->end = &f->waiting;
}

static void file_free(struct disk_file *f)
{
    list_remove(&f->link);
    forget_waiting(f);
    free(f->seen.ptr);
    free(f->medium.ptr);
    free(f);
}

void disk_deinit(struct disk *d)
{
    LIST_FOR_EACH (&d->files, n)
        file_free(LIST_ENTRY(n, struct disk_file, link));
}

/* ---- the directory -------------------------------------------------------------------------------------- */

struct disk_file *disk_find(struct disk *d, const char *name)
{
    LIST_FOR_EACH (&d->files, n) {
        struct disk_file *f = LIST_ENTRY(n, struct disk_file, link);
        if (f->is_seen && strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

struct disk_file *disk_find_on_medium(struct disk *d, const char *name)
{
    LIST_FOR_EACH (&d->files, n) {
        struct disk_file *f = LIST_ENTRY(n, struct disk_file, link);
        if (f->is_on_medium && strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

struct disk_file *disk_create(struct disk *d, const char *name)
{
    struct disk_file *f = calloc(1, sizeof(*f));
    ASSERT(f && strlen(name) < sizeof(f->name));
    (void)snprintf(f->name, sizeof(f->name), "%s", name);
    f->end = &f->waiting;
    f->is_seen = true;
    list_push_back(&d->files, &f->link);
    return f;
}

void disk_delete(struct disk *d, struct disk_file *f)
{
    (void)d;
    ASSERT(f->opens == 0);
    f->is_seen = false;
    if (!f->is_on_medium)
        file_free(f);
}

void disk_sync_entries(struct disk *d)
{
    LIST_FOR_EACH (&d->files, n) {
        struct disk_file *f = LIST_ENTRY(n, struct disk_file, link);
        if (f->is_seen != f->is_on_medium)
            d->changes++;
        if (f->is_seen)
            f->is_on_medium = true;
        else
            file_free(f);
    }
}

/* ---- contents ----------------------------------------------------------------------------------------------- */

static void set_len(struct disk_content *c, size_t len)
{
    if (len > c->cap) {
        c->cap = MAX(len, c->cap * 2);
        c->ptr = realloc(c->ptr, c->cap);
        ASSERT(c->ptr);
    }
    if (len > c->len)
        memset(c->ptr + c->len, 0, len - c->len);
    c->len = len;
}

static void put(struct disk_content *c, const uint8_t *data, size_t len, uint64_t at)
{
    if (at + len > c->len)
        set_len(c, at + len);
    if (len)
        memcpy(c->ptr + at, data, len);
}

static struct disk_write *wait_for_sync(struct disk_file *f, size_t len, uint64_t at)
{
    struct disk_write *w = malloc(sizeof(*w) + len);
    ASSERT(w);
    *w = (struct disk_write){.at = at, .len = len};
    *f->end = w;
    f->end = &w->next;
    return w;
}

void disk_write(struct disk *d, struct disk_file *f, const void *data, size_t len, uint64_t at)
{
    (void)d;
    put(&f->seen, data, len, at);
    memcpy(wait_for_sync(f, len, at)->data, data, len);
}

void disk_truncate(struct disk *d, struct disk_file *f, uint64_t len)
{
    (void)d;
    set_len(&f->seen, len);
    wait_for_sync(f, 0, len)->is_truncate = true;
}

static void changed(struct disk *d, struct disk_file *f)
{
    d->changes++;
    f->changes++;
}

void disk_sync(struct disk *d, struct disk_file *f)
{
    if (f->waiting)
        changed(d, f);
    for (const struct disk_write *w = f->waiting; w; w = w->next) {
        if (w->is_truncate)
            set_len(&f->medium, w->at);
        else
            put(&f->medium, w->data, w->len, w->at);
    }
    forget_waiting(f);
}

/* One write, sector by sector. */
static void put_some(struct disk *d, struct disk_content *c, const struct disk_write *w)
{
    for (size_t done = 0; done < w->len;) {
        uint64_t at = w->at + done;
        size_t n = MIN(w->len - done, d->sector - at % d->sector);
        uint64_t luck = prng_below(d->p, 100);
        if (luck < 45) {
            put(c, w->data + done, n, at);
            d->kept++;
        } else if (luck < 60 && n > 1) { /* the front or the end of it */
            size_t part = 1 + prng_below(d->p, n - 1);
            bool is_front = luck < 54;
            size_t skip = is_front ? 0 : n - part;
            put(c, w->data + done + skip, part, at + skip);
            d->torn++;
        } else {
            d->lost++;
        }
        done += n;
    }
}

static void apply_some(struct disk *d, struct disk_file *f)
{
    size_t size = f->medium.len;
    if (!f->waiting)
        return;
    for (const struct disk_write *w = f->waiting; w; w = w->next) {
        if (!w->is_truncate)
            put_some(d, &f->medium, w);
        else if (prng_below(d->p, 2))
            set_len(&f->medium, w->at);
    }
    if (f->medium.len > size && prng_below(d->p, 4) == 0) {
        d->sizes_lost++;
        set_len(&f->medium, size);
    }
    changed(d, f);
    forget_waiting(f);
}

void disk_sync_lost(struct disk *d, struct disk_file *f)
{
    apply_some(d, f);
}

void disk_forget(struct disk_file *f)
{
    set_len(&f->seen, f->medium.len);
    if (f->medium.len)
        memcpy(f->seen.ptr, f->medium.ptr, f->medium.len);
}

size_t disk_bytes(const struct disk *d)
{
    size_t n = 0;
    for (struct list_node *l = d->files.head.next; l != &d->files.head; l = l->next) {
        const struct disk_file *f = LIST_ENTRY(l, struct disk_file, link);
        n += f->is_seen ? f->seen.len : 0;
    }
    return n;
}

bool disk_has_waiting(const struct disk *d)
{
    for (struct list_node *l = d->files.head.next; l != &d->files.head; l = l->next)
        if (LIST_ENTRY(l, struct disk_file, link)->waiting)
            return true;
    return false;
}

/* ---- crashes --------------------------------------------------------------------------------------------------- */

/* Whether a creation or deletion that was not flushed is on the medium all the same. */
static bool entry_survives(struct disk *d, struct disk_file *f, enum disk_cut how)
{
    if (f->is_seen == f->is_on_medium)
        return f->is_seen;
    bool kept = how == DISK_CUT_SOME && prng_below(d->p, 2);
    if (!kept)
        d->entries_lost++;
    return kept ? f->is_seen : f->is_on_medium;
}

static void cut_file(struct disk *d, struct disk_file *f, enum disk_cut how)
{
    bool stays = entry_survives(d, f, how);
    if (how == DISK_CUT_SOME)
        apply_some(d, f);
    forget_waiting(f);
    if (!stays) {
        file_free(f);
        return;
    }
    f->is_seen = f->is_on_medium = true;
    disk_forget(f);
}

void disk_crash(struct disk *d, enum disk_cut how)
{
    d->changes++;
    if (how == DISK_CUT_NONE)
        return;
    LIST_FOR_EACH (&d->files, n) {
        struct disk_file *f = LIST_ENTRY(n, struct disk_file, link);
        ASSERT(f->opens == 0);
        cut_file(d, f, how);
    }
    /* A deletion that did not survive and a new file of that name that did: the new one counts. */
    LIST_FOR_EACH (&d->files, n) {
        struct disk_file *f = LIST_ENTRY(n, struct disk_file, link);
        for (struct list_node *l = n->next; l != &d->files.head; l = l->next)
            if (strcmp(LIST_ENTRY(l, struct disk_file, link)->name, f->name) == 0) {
                file_free(f);
                break;
            }
    }
}
