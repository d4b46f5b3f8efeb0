/* tls.h - TLS 1.2 and 1.3 (OpenSSL): certificates read from files, and the filter between a socket and what is said on it.
 *
 * A struct tls is what the connections of one side share; tls_reload() replaces its certificates for those that come later, from
 * any thread. A struct tls_session is one connection's and its thread's: it eats and yields bytes and owns no socket. Sessions
 * are never resumed: who connects shows a certificate that is checked against what is in force now.
 * Tests: tests/unit/test_tls.c
 */
#pragma once

#include <sys/types.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/time.h"

struct ssl_st; /* OpenSSL's SSL, for evhttp */

struct tls;
struct tls_session;

enum tls_side { TLS_SERVER, TLS_CLIENT };
enum tls_protocol { TLS_H2, TLS_HTTP1 }; /* by ALPN */

struct tls_files {          /* PEM; copied */
    const char *cert, *key; /* the chain, leaf first. A client: NULL, or what it shows */
    const char *
        ca; /* a server: clients must show a certificate of these; NULL: need not. A client: NULL: the system's */
};

/* ERR_INVALID: a file cannot be read, does not hold what it must, is expired, or the key or chain does not fit: the message names
 * file and remedy. */
MUST_CHECK enum err tls_new(enum tls_side side, const struct tls_files *files, struct tls **out,
                            struct error *err);
void tls_free(struct tls *t); /* NULL is fine; sessions may go on */
/* Reads the files again. On an error what was in force stays. */
MUST_CHECK enum err tls_reload(struct tls *t, struct error *err);
usec_t tls_expires(
    struct tls *t); /* wall clock: the first of the chain to end; USEC_NEVER: no certificate */
/* A server's connection for a library that does its own I/O: the caller's to free (SSL_free). */
struct ssl_st *tls_accept(struct tls *t, enum tls_protocol protocol);

/* ---- one connection ----------------------------------------------------------------------------- */

/* `peer_name` of a client's: the host name or address that the server's certificate must be for. */
struct tls_session *tls_session_new(struct tls *t, enum tls_protocol protocol,
                                    const char *peer_name);
void tls_session_free(struct tls_session *s);                  /* NULL is fine */
void tls_session_feed(struct tls_session *s, struct bytes in); /* what the socket gave */
/* Goes on with the handshake. False: it has failed; tls_session_take() may still give an alert. */
bool tls_session_step(struct tls_session *s);
bool tls_session_is_secured(const struct tls_session *s); /* the handshake is over, and good */
/* After the handshake: what the peer said, at most `max` bytes. 0: nothing more has come. -1: it ended, or broke the rules. */
ssize_t tls_session_read(struct tls_session *s, uint8_t *buf, size_t max);
/* After the handshake: takes all of `in`. False: the session is broken. */
bool tls_session_write(struct tls_session *s, struct bytes in);
void tls_session_end(struct tls_session *s);                      /* says that nothing more comes */
size_t tls_session_pending(const struct tls_session *s);          /* bytes for the socket */
void tls_session_take(struct tls_session *s, struct strbuf *out); /* appends them */
/* Why the handshake failed; NULL: it did not. */
const struct error *tls_session_error(const struct tls_session *s);
