/* object.c - the cache of decoded objects: bounded, least recently used out; the store is the truth.
 *
 * Changed objects are written once, at the end of the batch (cache_flush). When a batch is undone the whole cache is
 * dropped: what is in memory may be ahead of the store.
 */
#include "engine/internal.h"

#include <stdlib.h>

#include "base/assert.h"

void object_set(struct object *o, struct bytes *field, struct bytes value)
{
    uint8_t *copy = NULL;
    if (!bytes_is_none(value)) {
        copy = malloc(value.len ? value.len : 1);
        ASSERT(copy);
        if (value.len)
            memcpy(copy, value.ptr, value.len);
    }
    o->bytes += value.len - field->len;
    free((void *)(uintptr_t)field->ptr);
    *field = bytes_of(copy, value.len);
}

void object_account(struct object *o, size_t state_bytes)
{
    const struct store_object *r = &o->row;
    o->bytes = sizeof(*o) + state_bytes + r->id.len + r->name.len + r->version.len +
               r->execution_id.len + r->custom_status.len + r->tags.len + r->trace.len +
               r->parent_id.len + r->parent.len;
}

uint64_t object_id_hash(uint32_t hub, uint8_t kind, struct bytes id)
{
    return bytes_hash(id) ^ hash_u64(((uint64_t)hub << 8) | kind);
}

static bool same_key(const struct hash_node *n, const void *key)
{
    return CONTAINER_OF(n, struct object, by_key)->row.key == *(const uint64_t *)key;
}

struct id_key {
    uint32_t hub;
    uint8_t kind;
    struct bytes id;
};

static bool same_id(const struct hash_node *n, const void *key)
{
    const struct id_key *k = key;
    const struct object *o = CONTAINER_OF(n, struct object, by_id);
    return o->row.hub == k->hub && o->row.kind == k->kind && bytes_eq(o->row.id, k->id);
}

/* Objects grow while they are used: their size is taken anew each time they are. */
static void cache_count(struct engine *e, struct object *o)
{
    e->cache_bytes += o->bytes - o->counted_bytes;
    o->counted_bytes = o->bytes;
}

static void cache_link(struct engine *e, struct object *o)
{
    hashmap_insert(&e->by_key, &o->by_key, hash_u64(o->row.key));
    hashmap_insert(&e->by_id, &o->by_id, object_id_hash(o->row.hub, o->row.kind, o->row.id));
    list_push_back(&e->lru, &o->lru);
    cache_count(e, o);
}

static void cache_unlink(struct engine *e, struct object *o)
{
    hashmap_remove(&e->by_key, &o->by_key);
    hashmap_remove(&e->by_id, &o->by_id);
    list_remove(&o->lru);
    e->cache_bytes -= o->counted_bytes;
}

static void object_free(struct object *o)
{
    if (!o)
        return;
    if (o->kind->unload)
        o->kind->unload(o);
    struct bytes *owned[] = {&o->row.id,           &o->row.name,      &o->row.version,
                             &o->row.execution_id, &o->row.tags,      &o->row.custom_status,
                             &o->row.trace,        &o->row.parent_id, &o->row.parent};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++)
        free((void *)(uintptr_t)owned[i]->ptr);
    free(o);
}

static const struct object_kind *kind_of(const struct engine *e, uint8_t id)
{
    for (size_t i = 0; e->kinds[i]; i++)
        if (e->kinds[i]->id == id)
            return e->kinds[i];
    return NULL;
}

static struct object *object_new(const struct object_kind *kind)
{
    struct object *o = calloc(1, sizeof(*o));
    ASSERT(o);
    o->kind = kind;
    o->counted_status = -1;
    return o;
}

static bool is_sane(const struct store_object *row)
{
    const int64_t numbers[] = {
        row->created,     row->updated,    row->completed, row->scheduled, row->last_started,
        row->inbox_first, row->inbox_next, row->cut_seq,   row->cut_time,
    };
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (!stored_is_sane(numbers[i]))
            return false;
    return row->history_rows < STORED_MAX && row->history_events < STORED_MAX &&
           row->history_bytes < STORED_MAX;
}

/* Takes copies of the row's views. */
static enum err object_load(struct step *s, const struct store_object *row, struct object **out,
                            struct error *err)
{
    const struct object_kind *kind = kind_of(s->e, row->kind);
    if (!is_sane(row))
        return error_set(err, ERR_CORRUPT, "a number in the row of object %llu is out of range",
                         (unsigned long long)row->key);
    if (!kind)
        return error_set(err, ERR_CORRUPT, "object %llu has the unknown kind %u",
                         (unsigned long long)row->key, row->kind);
    struct object *o = object_new(kind);
    o->row = *row;
    struct bytes *owned[] = {&o->row.id,           &o->row.name,      &o->row.version,
                             &o->row.execution_id, &o->row.tags,      &o->row.custom_status,
                             &o->row.trace,        &o->row.parent_id, &o->row.parent};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++) {
        struct bytes value = *owned[i];
        *owned[i] = BYTES_NONE;
        object_set(o, owned[i], value);
    }
    o->counted_status = row->status;
    object_account(o, 0);
    enum err rc = kind->load(s, o, err);
    if (rc) {
        object_free(o);
        return rc;
    }
    cache_link(s->e, o);
    *out = o;
    return OK;
}

static void cache_touch(struct engine *e, struct object *o)
{
    list_remove(&o->lru);
    list_push_back(&e->lru, &o->lru);
    cache_count(e, o);
}

enum err object_by_key(struct step *s, uint64_t key, struct object **out, struct error *err)
{
    struct engine *e = s->e;
    struct hash_node *n = hashmap_find(&e->by_key, hash_u64(key), same_key, &key);
    if (n) {
        *out = CONTAINER_OF(n, struct object, by_key);
        cache_touch(e, *out);
        return OK;
    }
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    struct store_object row;
    enum err rc = store_object_get(s->reader, key, &row, &buf, err);
    return rc ? rc : object_load(s, &row, out, err);
}

/* Somebody deleted the object's row by hand: what belongs to it is dropped. */
static void pend_gone(struct engine *e, uint64_t key)
{
    engine_pend(e, &(struct unit){.type = UNIT_CHECK, .key = key});
}

enum err step_get(struct step *s, uint64_t key, struct object **out, struct error *err)
{
    enum err rc = object_by_key(s, key, out, err);
    if (rc == ERR_NOT_FOUND && work_find(s->e, WORK_TURN, key)) /* a purge would have settled it */
        pend_gone(s->e, key);
    return rc;
}

enum err step_find(struct step *s, uint32_t hub, const struct object_kind *kind, struct bytes id,
                   struct object **out, struct error *err)
{
    struct engine *e = s->e;
    struct id_key key = {hub, kind->id, id};
    struct hash_node *n = hashmap_find(&e->by_id, object_id_hash(hub, kind->id, id), same_id, &key);
    if (n) {
        *out = CONTAINER_OF(n, struct object, by_id);
        cache_touch(e, *out);
        return OK;
    }
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};
    struct store_object row;
    enum err rc = store_object_find(s->reader, hub, kind->id, id, &row, &buf, err);
    return rc ? rc : object_load(s, &row, out, err);
}

enum err step_create(struct step *s, uint32_t hub, const struct object_kind *kind, struct bytes id,
                     struct object **out, struct error *err)
{
    uint64_t key;
    enum err rc = step_next_key(s, 2, &key, err);
    if (rc)
        return rc;
    struct object *o = object_new(kind);
    o->row.key = key;
    o->row.execution = key + 1;
    o->row.hub = hub;
    o->row.kind = kind->id;
    o->row.partition =
        (uint32_t)(object_id_hash(hub, kind->id, id) % store_info(s->store)->partitions);
    o->row.created = o->row.updated = s->now;
    object_set(o, &o->row.id, id);
    object_account(o, 0);
    o->is_new = true;
    cache_link(s->e, o);
    *out = o;
    return OK;
}

void step_save(struct step *s, struct object *o)
{
    s->wrote = true;
    ASSERT(!o->is_deleted);
    if (o->is_dirty)
        return;
    o->is_dirty = true;
    list_push_back(&s->e->dirty, &o->dirty_link);
}

enum err step_delete(struct step *s, struct object *o, struct error *err)
{
    struct engine *e = s->e;
    enum err rc;
    s->wrote = true;
    step_turn_settle(s, o);
    if ((rc = step_trash(s, STORE_TRASH_EXECUTION, o->row.execution, err)) ||
        (rc = step_trash(s, STORE_TRASH_INBOX, o->row.key, err)))
        return rc;
    if (!o->is_new && (rc = store_object_delete(s->store, o->row.key, err)))
        return rc;
    if (o->counted_status >= 0 &&
        (rc = store_count_add(s->store, o->row.hub, o->row.kind, o->counted_status, -1, err)))
        return rc;
    cache_unlink(e, o);
    o->is_deleted = true;
    if (!o->is_dirty) {
        o->is_dirty = true;
        list_push_back(&e->dirty, &o->dirty_link); /* freed with the batch */
    }
    return OK;
}

static enum err object_write(struct step *s, struct object *o, struct error *err)
{
    enum err rc = o->is_new ? store_object_insert(s->store, &o->row, err)
                            : store_object_update(s->store, &o->row, err);
    if (rc == ERR_NOT_FOUND)
        pend_gone(s->e, o->row.key);
    if (rc)
        return rc;
    if (o->counted_status != o->row.status) {
        if (o->counted_status >= 0 &&
            (rc = store_count_add(s->store, o->row.hub, o->row.kind, o->counted_status, -1, err)))
            return rc;
        if ((rc = store_count_add(s->store, o->row.hub, o->row.kind, o->row.status, 1, err)))
            return rc;
        o->counted_status = o->row.status;
    }
    o->is_new = false;
    return OK;
}

static void touched_add(struct engine *e, uint64_t key)
{
    if (e->touched_count == e->touched_cap) {
        e->touched_cap = e->touched_cap ? e->touched_cap * 2 : 64;
        e->touched = realloc(e->touched, e->touched_cap * sizeof(*e->touched));
        ASSERT(e->touched);
    }
    e->touched[e->touched_count++] = key;
}

enum err cache_flush(struct step *s, struct error *err)
{
    struct engine *e = s->e;
    LIST_FOR_EACH (&e->dirty, n) {
        struct object *o = LIST_ENTRY(n, struct object, dirty_link);
        if (!o->is_deleted) {
            enum err rc = object_write(s, o, err);
            if (rc)
                return rc;
            touched_add(e, o->row.key);
            cache_count(e, o); /* it may not be used again for long */
        }
        list_remove(n);
        o->is_dirty = false;
        if (o->is_deleted)
            object_free(o);
    }
    return OK;
}

void cache_drop(struct engine *e)
{
    LIST_FOR_EACH (&e->dirty, n) {
        struct object *o = LIST_ENTRY(n, struct object, dirty_link);
        list_remove(n);
        o->is_dirty = false;
        if (o->is_deleted)
            object_free(o);
    }
    LIST_FOR_EACH (&e->lru, n) {
        struct object *o = LIST_ENTRY(n, struct object, lru);
        cache_unlink(e, o);
        object_free(o);
    }
    e->cache_bytes = 0;
}

void cache_trim(struct engine *e)
{
    LIST_FOR_EACH (&e->lru, n) {
        if (e->by_key.count <= e->settings->cache_objects &&
            e->cache_bytes <= e->settings->cache_bytes)
            return;
        struct object *o = LIST_ENTRY(n, struct object, lru);
        if (o->is_dirty)
            continue;
        cache_unlink(e, o);
        object_free(o);
    }
}
