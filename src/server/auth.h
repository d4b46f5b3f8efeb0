/* auth.h - who may call what: API keys, client certificates, and the role that each RPC and route takes.
 *
 * The keys are read from their file by the main thread, and again when it changes; calls are checked on the loops. Without keys
 * and client certificates everybody may do everything.
 * Tests: tests/unit/test_auth.c, tests/raw/test_secure.py
 */
#pragma once

#include "base/keys.h"

struct auth;

struct auth_options {
    const char *keys_file; /* NULL: no API keys */
    bool has_certs;        /* every connection has shown a certificate of the client CA */
    uint32_t cert_roles;   /* of a call that comes with no key over such a connection */
};

/* What a call or a request shows, and what it wants. Borrowed. */
struct auth_request {
    const char *path;           /* of the RPC, or of the HTTP route */
    struct bytes authorization; /* the header; none: there is no such */
    struct bytes hub;           /* none: the default one */
};

/* What is remembered of a connection, so that a key is looked up once. Zeroed is empty; its thread's. */
struct auth_seat {
    uint64_t generation;
    struct keys *keys;
    const struct key *key; /* of `keys` */
    size_t len;
    uint8_t shown[KEY_TEXT_LEN];
};

void auth_seat_deinit(struct auth_seat *seat);

/* ERR_INVALID: the keys cannot be read. */
MUST_CHECK enum err auth_new(const struct auth_options *opts, struct auth **out, struct error *err);
void auth_free(struct auth *a); /* NULL is fine */
/* Reads the keys again if their file has changed, or `always`. An error keeps those before; it is logged, once for each change of
 * the file. On one thread. */
enum auth_reread { AUTH_UNCHANGED, AUTH_REREAD, AUTH_REREAD_FAILED };
enum auth_reread auth_reread(struct auth *a, bool always);
/* From any thread. ERR_UNAUTHENTICATED: there is no key, or not one of ours. ERR_DENIED: its roles or hubs do not allow it. `seat`
 * may be NULL. */
MUST_CHECK enum err auth_check(struct auth *a, struct auth_seat *seat,
                               const struct auth_request *req, struct error *err);
/* The same for what only the role admin may do, whatever the path allows. */
MUST_CHECK enum err auth_check_admin(struct auth *a, struct auth_seat *seat,
                                     const struct auth_request *req, struct error *err);
