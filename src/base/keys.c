#include "base/keys.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/hashmap.h"
#include "base/openssl.h"
#include "base/utf8.h"

#define HUB_MAX 64
#define HASH_TEXT_LEN (7 + 32 + 1 + 64) /* "sha256:", salt, ":", hash */
#define RANDOM_BYTES (KEY_ID_LEN / 2 + KEY_SECRET_BYTES + 16)

struct entry {
    struct hash_node node; /* by id */
    struct key key;
};

struct keys {
    atomic_uint refs;
    struct arena *arena;
    struct hashmap by_id;
    struct entry **list;
    size_t count, cap;
};

/* ---- hashing ------------------------------------------------------------------------------------- */

static void hash_secret(const uint8_t salt[16], struct bytes secret, uint8_t out[32])
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();

    ASSERT(ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1);
    ASSERT(EVP_DigestUpdate(ctx, salt, 16) == 1);
    ASSERT(EVP_DigestUpdate(ctx, secret.ptr, secret.len) == 1);
    ASSERT(EVP_DigestFinal_ex(ctx, out, NULL) == 1);
    EVP_MD_CTX_free(ctx);
}

void key_make(const uint8_t random[RANDOM_BYTES], uint32_t roles, struct bytes hubs, usec_t created,
              struct bytes name, char key[KEY_TEXT_LEN + 1], struct strbuf *line)
{
    const uint8_t *secret = random + KEY_ID_LEN / 2, *salt = secret + KEY_SECRET_BYTES;
    char salt_text[33] = {0}, hash_text[65] = {0}, when[USEC_TEXT_LEN];
    uint8_t hash[32];

    memcpy(key, "pdk_", 4);
    hex_encode(random, KEY_ID_LEN / 2, key + 4);
    key[4 + KEY_ID_LEN] = '_';
    hex_encode(secret, KEY_SECRET_BYTES, key + 5 + KEY_ID_LEN);
    key[KEY_TEXT_LEN] = 0;
    hash_secret(salt, bytes_of(secret, KEY_SECRET_BYTES), hash);
    hex_encode(salt, 16, salt_text);
    hex_encode(hash, sizeof(hash), hash_text);
    usec_format(created, when);
    strbuf_appendf(line, "%.*s sha256:%s:%s ", KEY_ID_LEN, key + 4, salt_text, hash_text);
    roles_format(roles, line);
    strbuf_appendf(line, " %.*s %s", BYTES_FMT(hubs), when);
    if (name.len > 0)
        strbuf_appendf(line, " %.*s", BYTES_FMT(name));
    strbuf_append_char(line, '\n');
}

/* ---- hubs ---------------------------------------------------------------------------------------- */

static bool is_hub(struct bytes b)
{
    for (size_t i = 0; i < b.len; i++) {
        uint8_t c = b.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-'))
            return false;
    }
    return b.len > 0 && b.len <= HUB_MAX;
}

static struct bytes until(struct bytes b, char end)
{
    const uint8_t *p = b.len ? memchr(b.ptr, end, b.len) : NULL;

    return p ? bytes_of(b.ptr, (size_t)(p - b.ptr)) : b;
}

enum err key_hubs_parse(struct bytes text, struct strbuf *out, struct error *err)
{
    if (bytes_eq(text, BYTES_LIT("*"))) {
        strbuf_append_char(out, '*');
        return OK;
    }
    for (bool more = true; more;) {
        struct bytes one = until(text, ',');
        if (!is_hub(one))
            return error_set(
                err, ERR_INVALID,
                "\"%.*s\" is no task hub: letters, digits, '_' and '-' are allowed, 1 to "
                "%d; or * for all",
                BYTES_FMT(one), HUB_MAX);
        for (size_t i = 0; i < one.len; i++)
            strbuf_append_char(
                out, (char)(one.ptr[i] | (one.ptr[i] >= 'A' && one.ptr[i] <= 'Z' ? 0x20 : 0)));
        more = one.len < text.len;
        if (more) {
            strbuf_append_char(out, ',');
            text = bytes_of(text.ptr + one.len + 1, text.len - one.len - 1);
        }
    }
    return OK;
}

bool key_is_for_hub(const struct key *key, struct bytes hub)
{
    struct bytes left = key->hubs;

    if (bytes_eq(left, BYTES_LIT("*")))
        return true;
    while (left.len > 0) {
        struct bytes one = until(left, ',');
        if (bytes_eq_nocase(one, hub))
            return true;
        size_t skip = MIN(one.len + 1, left.len);
        left = bytes_of(left.ptr + skip, left.len - skip);
    }
    return false;
}

/* ---- a line -------------------------------------------------------------------------------------- */

static struct bytes take_word(struct bytes *line)
{
    struct bytes word = until(*line, ' ');
    size_t skip = MIN(word.len + 1, line->len);

    *line = bytes_of(line->ptr + skip, line->len - skip);
    return word;
}

static bool read_hash(struct bytes text, struct key *key)
{
    if (text.len != HASH_TEXT_LEN || !bytes_starts_with(text, BYTES_LIT("sha256:")) ||
        text.ptr[7 + 32] != ':')
        return false;
    return hex_decode(bytes_of(text.ptr + 7, 32), key->salt, sizeof(key->salt)) &&
           hex_decode(bytes_of(text.ptr + 7 + 33, 64), key->hash, sizeof(key->hash));
}

static bool read_id(struct bytes text, char id[KEY_ID_LEN + 1])
{
    uint8_t bytes[KEY_ID_LEN / 2];

    if (!hex_decode(text, bytes, sizeof(bytes)))
        return false;
    hex_encode(bytes, sizeof(bytes), id); /* in lower case */
    id[KEY_ID_LEN] = 0;
    return true;
}

static enum err read_line(struct keys *k, struct bytes line, struct key *key, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf hubs = {0};
    struct bytes id = take_word(&line), hash = take_word(&line), roles = take_word(&line),
                 hub = take_word(&line), when = take_word(&line);
    enum err e;

    if (!read_id(id, key->id))
        return error_set(err, ERR_INVALID, "the id must be %d hexadecimal digits", KEY_ID_LEN);
    if (!read_hash(hash, key))
        return error_set(err, ERR_INVALID,
                         "the second word must be sha256:SALT:HASH, in "
                         "hexadecimal digits of 16 and 32 bytes");
    if ((e = roles_parse(roles, &key->roles, err)) || (e = key_hubs_parse(hub, &hubs, err)))
        return e;
    if (when.len == 0 || when.ptr[0] < '0' || when.ptr[0] > '9' ||
        usec_parse_time(when, 0, &key->created, err))
        return error_set(err, ERR_INVALID, "\"%.*s\" is no time; it must be RFC 3339",
                         BYTES_FMT(when));
    if (line.len > KEY_NAME_MAX || !utf8_is_valid(line) || utf8_has_control(line))
        return error_set(err, ERR_INVALID,
                         "the name must be text of at most %d bytes without control characters",
                         KEY_NAME_MAX);
    key->hubs = arena_dup(k->arena, strbuf_bytes(&hubs));
    key->name = arena_dup(k->arena, line.len ? line : BYTES_LIT(""));
    return OK;
}

static bool same_id(const struct hash_node *n, const void *id)
{
    return bytes_eq(bytes_str(CONTAINER_OF(n, struct entry, node)->key.id),
                    *(const struct bytes *)id);
}

static enum err add(struct keys *k, const struct key *key, struct error *err)
{
    struct bytes id = bytes_str(key->id);

    if (keys_of_id(k, id))
        return error_set(err, ERR_INVALID, "the id %s is there twice", key->id);
    struct entry *entry = arena_new(k->arena, struct entry);
    entry->key = *key;
    if (k->count == k->cap) {
        k->cap = k->cap ? k->cap * 2 : 16;
        k->list = realloc(k->list, k->cap * sizeof(struct entry *));
        ASSERT(k->list);
    }
    k->list[k->count++] = entry;
    hashmap_insert(&k->by_id, &entry->node, bytes_hash(bytes_str(entry->key.id)));
    return OK;
}

/* ---- the file ------------------------------------------------------------------------------------ */

static enum err parse_into(struct keys *k, struct bytes text, struct error *err)
{
    for (unsigned number = 1; text.len > 0; number++) {
        struct bytes line = until(text, '\n');
        size_t skip = MIN(line.len + 1, text.len);
        text = bytes_of(text.ptr + skip, text.len - skip);
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        struct key key = {0};
        enum err e = read_line(k, line, &key, err);
        if (!e)
            e = add(k, &key, err);
        if (e)
            return error_wrap(err, e, "line %u", number);
    }
    return OK;
}

enum err keys_parse(struct bytes text, struct keys **out, struct error *err)
{
    struct keys *k = calloc(1, sizeof(*k));

    ASSERT(k);
    atomic_store(&k->refs, 1);
    k->arena = arena_create();
    enum err e = parse_into(k, text, err);
    if (e) {
        keys_unref(k);
        return e;
    }
    *out = k;
    return OK;
}

static enum err unreadable(const char *path, const char *why, struct error *err)
{
    return error_set(err, ERR_INVALID, "could not read the API keys \"%s\": %s", path, why);
}

enum err keys_read(const char *path, struct keys **out, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf text = {0};
    FILE *f = fopen(path, "re");

    if (!f)
        return unreadable(path,
                          errno == ENOENT
                              ? "No such file or directory (perdure key create makes it)"
                              : strerror(errno),
                          err);
    size_t n = 1;
    while (n > 0 && text.len <= KEYS_BYTES_MAX) {
        n = fread(strbuf_reserve(&text, KIB(64)), 1, KIB(64), f);
        text.len += n;
    }
    int failed = ferror(f) ? errno : 0;
    fclose(f);
    if (failed || text.len > KEYS_BYTES_MAX)
        return unreadable(path, failed ? strerror(failed) : "it is too large", err);
    enum err e = keys_parse(strbuf_bytes(&text), out, err);
    return e ? error_wrap(err, e, "cannot use the API keys \"%s\"", path) : OK;
}

struct keys *keys_ref(struct keys *k)
{
    atomic_fetch_add(&k->refs, 1);
    return k;
}

void keys_unref(struct keys *k)
{
    if (!k || atomic_fetch_sub(&k->refs, 1) > 1)
        return;
    hashmap_deinit(&k->by_id);
    arena_free(k->arena);
    free(k->list);
    free(k);
}

size_t keys_count(const struct keys *k)
{
    return k->count;
}

const struct key *keys_at(const struct keys *k, size_t i)
{
    return &k->list[i]->key;
}

const struct key *keys_of_id(const struct keys *k, struct bytes id)
{
    struct hash_node *n = hashmap_find(&k->by_id, bytes_hash(id), same_id, &id);

    return n ? &CONTAINER_OF(n, struct entry, node)->key : NULL;
}

const struct key *keys_find(const struct keys *k, struct bytes text)
{
    uint8_t secret[KEY_SECRET_BYTES], hash[32];
    char id[KEY_ID_LEN + 1];

    if (text.len != KEY_TEXT_LEN || !bytes_starts_with(text, BYTES_LIT("pdk_")) ||
        text.ptr[4 + KEY_ID_LEN] != '_' || !read_id(bytes_of(text.ptr + 4, KEY_ID_LEN), id) ||
        !hex_decode(bytes_of(text.ptr + 5 + KEY_ID_LEN, sizeof(secret) * 2), secret,
                    sizeof(secret)))
        return NULL;
    const struct key *key = keys_of_id(k, bytes_str(id));
    if (!key)
        return NULL;
    hash_secret(key->salt, bytes_of(secret, sizeof(secret)), hash);
    OPENSSL_cleanse(secret, sizeof(secret));
    return CRYPTO_memcmp(hash, key->hash, sizeof(hash)) == 0 ? key : NULL;
}
