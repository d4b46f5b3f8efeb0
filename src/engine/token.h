/* token.h - completion tokens: text that names one dispatch of one work item (spec 8.2).
 *
 * 72 characters of unpadded base64 over fixed fields and a SipHash of them under the store's secret, so a token says where its
 * item is (no search), cannot be made up, and is good after a restart. Thread-safe as long as each thread has its own struct token_keys.
 * Tests: tests/unit/test_token.c
 */
#pragma once

#include "base/bytes.h"

#define TOKEN_TEXT_MAX 80

struct token {
    uint8_t kind; /* enum work_kind */
    uint32_t hub;
    uint64_t object;
    uint64_t execution;
    uint64_t key;   /* turn: history row it will become; task: task key */
    uint32_t group; /* task */
    int32_t ref;    /* task: task id */
    uint64_t nonce; /* of the dispatch */
};

struct token_keys;
struct token_keys *token_keys_new(struct bytes secret); /* at least 16 bytes */
void token_keys_free(struct token_keys *k);
size_t token_encode(struct token_keys *k, const struct token *t,
                    char out[TOKEN_TEXT_MAX]); /* length */
bool token_decode(struct token_keys *k, struct bytes text,
                  struct token *out); /* false: not one of ours */
