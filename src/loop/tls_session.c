/* tls_session.c - one connection's filter: OpenSSL between two buffers in memory. */
#include "loop/tls_internal.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/openssl.h"

struct tls_session {
    SSL *ssl;
    BIO *in, *out; /* ssl's */
    bool is_secured, has_failed, has_read;
    struct error *why; /* when the handshake failed, or nothing came of it */
};

/* The server's certificate must be for this name or address. */
static void expect(SSL *ssl, const char *name)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, name, &v4) == 1 || inet_pton(AF_INET6, name, &v6) == 1) {
        ASSERT(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1);
        return;
    }
    ASSERT(SSL_set1_host(ssl, name) == 1);
    /* SSL_set_tlsext_host_name(), without its cast. */
    ASSERT(SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                    (void *)(uintptr_t)name) == 1);
}

struct tls_session *tls_session_new(struct tls *t, enum tls_protocol protocol,
                                    const char *peer_name)
{
    struct tls_session *s = calloc(1, sizeof(*s));

    ASSERT(s);
    s->ssl = tls_ssl_new(t, protocol);
    s->in = BIO_new(BIO_s_mem());
    s->out = BIO_new(BIO_s_mem());
    ASSERT(s->in && s->out);
    SSL_set_bio(s->ssl, s->in, s->out);
    if (tls_side_of(t) == TLS_CLIENT) {
        expect(s->ssl, peer_name);
        SSL_set_connect_state(s->ssl);
    }
    return s;
}

void tls_session_free(struct tls_session *s)
{
    if (!s)
        return;
    SSL_free(s->ssl);
    free(s->why);
    free(s);
}

void tls_session_feed(struct tls_session *s, struct bytes in)
{
    ASSERT(in.len <= INT32_MAX && BIO_write(s->in, in.ptr, (int)in.len) == (int)in.len);
}

static bool fail(struct tls_session *s)
{
    long verdict = SSL_get_verify_result(s->ssl);
    char reason[128];

    s->has_failed = true;
    free(s->why);
    s->why = calloc(1, sizeof(*s->why));
    ASSERT(s->why);
    tls_reason(reason, sizeof(reason));
    if (verdict != X509_V_OK)
        error_set(s->why, ERR_UNAVAILABLE, "the TLS handshake failed: %s",
                  X509_verify_cert_error_string(verdict));
    else
        error_set(s->why, ERR_UNAVAILABLE, "the TLS handshake failed: %s", reason);
    return false;
}

bool tls_session_step(struct tls_session *s)
{
    if (s->is_secured || s->has_failed)
        return s->is_secured;
    ERR_clear_error();
    int n = SSL_do_handshake(s->ssl);
    if (n == 1) {
        s->is_secured = true;
        return true;
    }
    return SSL_get_error(s->ssl, n) == SSL_ERROR_WANT_READ || fail(s);
}

bool tls_session_is_secured(const struct tls_session *s)
{
    return s->is_secured;
}

ssize_t tls_session_read(struct tls_session *s, uint8_t *buf, size_t max)
{
    size_t n;

    ERR_clear_error();
    if (SSL_read_ex(s->ssl, buf, max, &n) == 1) {
        s->has_read = true;
        return (ssize_t)n;
    }
    int e = SSL_get_error(s->ssl, 0);
    if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE)
        return 0;
    if (e == SSL_ERROR_SSL && !s->has_read)
        (void)fail(s); /* TLS 1.3: the server has refused our certificate */
    ERR_clear_error();
    return -1;
}

bool tls_session_write(struct tls_session *s, struct bytes in)
{
    ERR_clear_error();
    for (size_t n; in.len > 0; in = bytes_of(in.ptr + n, in.len - n))
        if (SSL_write_ex(s->ssl, in.ptr, in.len, &n) != 1) {
            ERR_clear_error();
            return false;
        }
    return true;
}

void tls_session_end(struct tls_session *s)
{
    if (s->is_secured && !s->has_failed)
        (void)SSL_shutdown(s->ssl); /* as far as it gets */
    ERR_clear_error();
}

size_t tls_session_pending(const struct tls_session *s)
{
    return BIO_ctrl_pending(s->out);
}

void tls_session_take(struct tls_session *s, struct strbuf *out)
{
    char *ptr;
    long len = BIO_get_mem_data(s->out, &ptr);

    if (len <= 0)
        return;
    strbuf_append(out, ptr, (size_t)len);
    (void)BIO_reset(s->out);
}

const struct error *tls_session_error(const struct tls_session *s)
{
    return s->why;
}
