/* keys.h - the file of API keys: who may do what, without the keys themselves.
 *
 * A key is `pdk_ID_SECRET`: 12 and 64 hexadecimal digits, the secret 256 random bits. The file has a line for each,
 *
 *     ID sha256:SALT:HASH ROLES HUBS CREATED NAME
 *
 * where HASH is SHA-256 of salt (16 bytes) and secret, HUBS is `*` or a list with commas, CREATED is RFC 3339, and NAME, which may
 * be missing, goes to the end of the line. `#` begins a comment line. A secret of 256 bits cannot be guessed, so that a hash that
 * is slow to compute would protect nothing more. A struct keys never changes; it is counted, and shared between threads.
 * Tests: tests/unit/test_keys.c, tests/fuzz/fuzz_keys.c
 */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "base/roles.h"
#include "base/strbuf.h"
#include "base/time.h"

#define KEY_ID_LEN 12
#define KEY_SECRET_BYTES 32
#define KEY_TEXT_LEN (4 + KEY_ID_LEN + 1 + 2 * KEY_SECRET_BYTES)
#define KEY_NAME_MAX 200
#define KEYS_BYTES_MAX MIB(16) /* of the file */

struct key {
    char id[KEY_ID_LEN + 1];
    uint8_t salt[16], hash[32];
    uint32_t roles;
    struct bytes hubs; /* lower case, with commas; `*`: all */
    usec_t created;
    struct bytes name;
};

struct keys;

/* ERR_INVALID: a line is wrong; the message names its number. */
MUST_CHECK enum err keys_parse(struct bytes text, struct keys **out, struct error *err);
/* Reads the file. ERR_INVALID: it cannot be read, or as keys_parse(). */
MUST_CHECK enum err keys_read(const char *path, struct keys **out, struct error *err);
struct keys *keys_ref(struct keys *k);
void keys_unref(struct keys *k); /* NULL is fine */
size_t keys_count(const struct keys *k);
const struct key *keys_at(const struct keys *k, size_t i);           /* in the order of the file */
const struct key *keys_of_id(const struct keys *k, struct bytes id); /* NULL: none */
/* The key's own; NULL: it is none of these. Takes the same time whatever part of the secret is right. */
const struct key *keys_find(const struct keys *k, struct bytes key);
bool key_is_for_hub(const struct key *key, struct bytes hub); /* in any case of letters */
/* `*`, or names of task hubs with commas, lower-cased into `out`. ERR_INVALID names the word. */
MUST_CHECK enum err key_hubs_parse(struct bytes text, struct strbuf *out, struct error *err);

/* A new key: its text goes to `key`, its line to `line`. `secret` and `salt` and `id` are random bytes. */
void key_make(const uint8_t random[KEY_ID_LEN / 2 + KEY_SECRET_BYTES + 16], uint32_t roles,
              struct bytes hubs, usec_t created, struct bytes name, char key[KEY_TEXT_LEN + 1],
              struct strbuf *line);
