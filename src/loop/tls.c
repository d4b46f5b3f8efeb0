/* tls.c - what connections share: protocol versions, ciphers, certificates. */
#include "loop/tls.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/assert.h"
#include "base/openssl.h"
#include "loop/tls_internal.h"

/* RFC 9113, appendix A, forbids most others with HTTP/2. */
#define TLS12_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"
#define NAME_MAX_CHARS 200 /* of a certificate's subject in a message */

struct tls {
    enum tls_side side;
    char *cert, *key, *ca;
    pthread_mutex_t lock;
    SSL_CTX *ctx;   /* under the lock */
    usec_t expires; /* the same */
};

void tls_reason(char *out, size_t size)
{
    unsigned long e = ERR_peek_last_error();
    const char *reason = e ? ERR_reason_error_string(e) : NULL;

    (void)snprintf(out, size, "%s", reason ? reason : "no reason given");
    ERR_clear_error();
}

/* ---- files --------------------------------------------------------------------------------------- */

static enum err open_file(const char *path, const char *what, BIO **out, struct error *err)
{
    errno = 0;
    *out = BIO_new_file(path, "r");
    ERR_clear_error();
    if (*out)
        return OK;
    return error_set(err, ERR_INVALID, "could not read the %s file \"%s\": %s", what, path,
                     errno ? strerror(errno) : "cannot open it");
}

static void free_chain(STACK_OF(X509) * *chain)
{
    sk_X509_pop_free(*chain, X509_free);
}

static void free_bio(BIO **b)
{
    BIO_free(*b);
}

/* All certificates of a file, in order. */
static enum err read_certificates(const char *path, const char *what, STACK_OF(X509) * *out,
                                  struct error *err)
{
    CLEANUP(free_bio) BIO *b = NULL;
    CLEANUP(free_chain) STACK_OF(X509) *list = sk_X509_new_null();
    enum err e = open_file(path, what, &b, err);

    ASSERT(list);
    if (e)
        return e;
    for (X509 *x; (x = PEM_read_bio_X509(b, NULL, NULL, NULL));)
        ASSERT(sk_X509_push(list, x) > 0);
    unsigned long why = ERR_peek_last_error();
    bool is_end = ERR_GET_LIB(why) == ERR_LIB_PEM && ERR_GET_REASON(why) == PEM_R_NO_START_LINE;
    char reason[128];
    tls_reason(reason, sizeof(reason));
    if (!is_end)
        return error_set(err, ERR_INVALID, "cannot read certificate %d of the %s file \"%s\": %s",
                         sk_X509_num(list) + 1, what, path, reason);
    if (sk_X509_num(list) == 0)
        return error_set(err, ERR_INVALID,
                         "the %s file \"%s\" holds no certificate: it must be PEM, with BEGIN "
                         "CERTIFICATE",
                         what, path);
    *out = list;
    list = NULL;
    return OK;
}

static int no_passphrase(char *buf UNUSED, int size UNUSED, int writing UNUSED, void *asked)
{
    *(bool *)asked = true;
    return -1;
}

static enum err read_key(const char *path, EVP_PKEY **out, struct error *err)
{
    CLEANUP(free_bio) BIO *b = NULL;
    bool is_encrypted = false;
    enum err e = open_file(path, "key", &b, err);

    if (e)
        return e;
    *out = PEM_read_bio_PrivateKey(b, NULL, no_passphrase, &is_encrypted);
    ERR_clear_error();
    if (*out)
        return OK;
    if (is_encrypted)
        return error_set(
            err, ERR_INVALID,
            "the key file \"%s\" is encrypted; give one without a passphrase, readable "
            "by the server's user only",
            path);
    return error_set(err, ERR_INVALID,
                     "the key file \"%s\" holds no private key: it must be PEM, with BEGIN PRIVATE "
                     "KEY",
                     path);
}

/* ---- what a chain must be ------------------------------------------------------------------------ */

static void subject_of(const X509 *x, char *out, int size)
{
    X509_NAME_oneline(X509_get_subject_name(x), out, size);
}

static usec_t time_of(const ASN1_TIME *t)
{
    struct tm tm;

    if (ASN1_TIME_to_tm(t, &tm) != 1)
        return 0;
    return (usec_t)timegm(&tm) * USEC_PER_SEC;
}

static enum err check_dates(const X509 *x, const char *path, struct error *err)
{
    char name[NAME_MAX_CHARS], when[USEC_TEXT_LEN];
    const ASN1_TIME *end = X509_get0_notAfter(x), *begin = X509_get0_notBefore(x);
    bool is_over = X509_cmp_current_time(end)<0, is_early = X509_cmp_current_time(begin)> 0;

    if (!is_over && !is_early)
        return OK;
    subject_of(x, name, sizeof(name));
    usec_format(time_of(is_over ? end : begin), when);
    return error_set(err, ERR_INVALID,
                     is_over ? "the certificate \"%s\" of \"%s\" expired at %s: renew it"
                             : "the certificate \"%s\" of \"%s\" is not valid before %s: look at "
                               "the clock, or use another",
                     name, path, when);
}

static enum err check_chain(STACK_OF(X509) * chain, const char *path, struct error *err)
{
    enum err e;

    for (int i = 0; i < sk_X509_num(chain); i++) {
        X509 *x = sk_X509_value(chain, i);
        if ((e = check_dates(x, path, err)))
            return e;
        if (i == 0 || X509_check_issued(x, sk_X509_value(chain, i - 1)) == X509_V_OK)
            continue;
        char name[NAME_MAX_CHARS];
        subject_of(x, name, sizeof(name));
        return error_set(err, ERR_INVALID,
                         "certificate %d of \"%s\", \"%s\", has not issued the one before it: put "
                         "the server's own first, then those that signed, in order",
                         i + 1, path, name);
    }
    return OK;
}

static enum err use_chain(SSL_CTX *ctx, STACK_OF(X509) * chain, const char *path, struct error *err)
{
    bool ok = SSL_CTX_use_certificate(ctx, sk_X509_value(chain, 0)) == 1;
    char reason[128];

    for (int i = 1; ok && i < sk_X509_num(chain); i++)
        ok = SSL_CTX_add1_chain_cert(ctx, sk_X509_value(chain, i)) == 1;
    if (ok)
        return OK;
    tls_reason(reason, sizeof(reason));
    return error_set(err, ERR_INVALID, "the certificate file \"%s\" cannot be used: %s", path,
                     reason);
}

static enum err use_key(SSL_CTX *ctx, const X509 *leaf, const struct tls *t, struct error *err)
{
    EVP_PKEY *key;
    char reason[128];
    enum err e = read_key(t->key, &key, err);

    if (e)
        return e;
    if (X509_check_private_key(leaf, key) != 1)
        e = error_set(
            err, ERR_INVALID,
            "the key of \"%s\" is not that of the certificate of \"%s\": give the two that "
            "were made together",
            t->key, t->cert);
    else if (SSL_CTX_use_PrivateKey(ctx, key) != 1)
        e = ERR_INVALID;
    tls_reason(reason, sizeof(reason));
    EVP_PKEY_free(key);
    if (e == ERR_INVALID && err && err->code != ERR_INVALID)
        return error_set(err, e, "the key file \"%s\" cannot be used: %s", t->key, reason);
    return e;
}

static enum err use_identity(const struct tls *t, SSL_CTX *ctx, usec_t *expires, struct error *err)
{
    CLEANUP(free_chain) STACK_OF(X509) *chain = NULL;
    enum err e;

    *expires = USEC_NEVER;
    if (!t->cert)
        return OK;
    if ((e = read_certificates(t->cert, "certificate", &chain, err)) ||
        (e = check_chain(chain, t->cert, err)) || (e = use_chain(ctx, chain, t->cert, err)) ||
        (e = use_key(ctx, sk_X509_value(chain, 0), t, err)))
        return e;
    for (int i = 0; i < sk_X509_num(chain); i++)
        *expires = MIN(*expires, time_of(X509_get0_notAfter(sk_X509_value(chain, i))));
    return OK;
}

/* Whom the other side must have its certificate from. */
static enum err use_authorities(const struct tls *t, SSL_CTX *ctx, struct error *err)
{
    CLEANUP(free_chain) STACK_OF(X509) *list = NULL;
    enum err e;

    if (!t->ca && t->side == TLS_SERVER)
        return OK;
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    if (!t->ca) {
        (void)SSL_CTX_set_default_verify_paths(ctx); /* none: nobody is trusted */
        ERR_clear_error();
        return OK;
    }
    if ((e = read_certificates(t->ca, "CA", &list, err)))
        return e;
    for (int i = 0; i < sk_X509_num(list); i++) {
        X509 *x = sk_X509_value(list, i);
        ASSERT(X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), x) == 1);
        if (t->side == TLS_SERVER)
            ASSERT(SSL_CTX_add_client_CA(ctx, x) == 1);
    }
    return OK;
}

/* ---- contexts ------------------------------------------------------------------------------------ */

static const unsigned char ALPN[][10] = {
    [TLS_H2] = "\x02h2",
    [TLS_HTTP1] = "\x08http/1.1",
};

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *arg UNUSED)
{
    const unsigned char *own = ALPN[(uintptr_t)SSL_get_app_data(ssl)];
    unsigned char *chosen;

    if (SSL_select_next_proto(&chosen, out_len, own, 1U + own[0], in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *bare_context(enum tls_side side)
{
    SSL_CTX *ctx = SSL_CTX_new(side == TLS_SERVER ? TLS_server_method() : TLS_client_method());

    ASSERT(ctx && SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1);
    ASSERT(SSL_CTX_set_cipher_list(ctx, TLS12_CIPHERS) == 1);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    ASSERT(SSL_CTX_set_num_tickets(ctx, 0) == 1);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ctx, SSL_MODE_NO_AUTO_CHAIN | SSL_MODE_RELEASE_BUFFERS |
                              SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (side == TLS_SERVER)
        SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    return ctx;
}

static enum err load(const struct tls *t, SSL_CTX **out, usec_t *expires, struct error *err)
{
    SSL_CTX *ctx = bare_context(t->side);
    enum err e;

    if ((e = use_identity(t, ctx, expires, err)) || (e = use_authorities(t, ctx, err))) {
        SSL_CTX_free(ctx);
        return e;
    }
    *out = ctx;
    return OK;
}

static char *copy(const char *text)
{
    char *c = text ? strdup(text) : NULL;

    ASSERT(c || !text);
    return c;
}

enum err tls_new(enum tls_side side, const struct tls_files *files, struct tls **out,
                 struct error *err)
{
    struct tls *t = calloc(1, sizeof(*t));

    ASSERT(t && (side == TLS_CLIENT || (files->cert && files->key)));
    t->side = side;
    t->cert = copy(files->cert);
    t->key = copy(files->key);
    t->ca = copy(files->ca);
    pthread_mutex_init(&t->lock, NULL);
    enum err e = load(t, &t->ctx, &t->expires, err);
    if (e) {
        tls_free(t);
        return e;
    }
    *out = t;
    return OK;
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ctx);
    pthread_mutex_destroy(&t->lock);
    free(t->cert);
    free(t->key);
    free(t->ca);
    free(t);
}

enum err tls_reload(struct tls *t, struct error *err)
{
    SSL_CTX *fresh, *old;
    usec_t expires;
    enum err e = load(t, &fresh, &expires, err);

    if (e)
        return e;
    pthread_mutex_lock(&t->lock);
    old = t->ctx;
    t->ctx = fresh;
    t->expires = expires;
    pthread_mutex_unlock(&t->lock);
    SSL_CTX_free(old); /* connections hold it as long as they need it */
    return OK;
}

usec_t tls_expires(struct tls *t)
{
    pthread_mutex_lock(&t->lock);
    usec_t expires = t->expires;
    pthread_mutex_unlock(&t->lock);
    return expires;
}

SSL *tls_ssl_new(struct tls *t, enum tls_protocol protocol)
{
    pthread_mutex_lock(&t->lock);
    SSL *ssl = SSL_new(t->ctx);
    pthread_mutex_unlock(&t->lock);
    ASSERT(ssl);
    SSL_set_app_data(ssl, (char *)(uintptr_t)protocol);
    if (t->side == TLS_SERVER)
        SSL_set_accept_state(ssl);
    else
        ASSERT(SSL_set_alpn_protos(ssl, ALPN[protocol], 1U + ALPN[protocol][0]) == 0);
    return ssl;
}

SSL *tls_accept(struct tls *t, enum tls_protocol protocol)
{
    ASSERT(t->side == TLS_SERVER);
    return tls_ssl_new(t, protocol);
}

enum tls_side tls_side_of(const struct tls *t)
{
    return t->side;
}
