/* TLS without a socket: what files must hold, handshakes that succeed and fail, and bytes through both ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/openssl.h"
#include "lib/certs.h"
#include "loop/tls.h"

static struct certs certs;

static int set_up(void **state)
{
    (void)state;
    certs_make(&certs);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    certs_remove(&certs);
    return 0;
}

/* Any of the names NULL: none. */
static enum err load(enum tls_side side, const char *cert, const char *key, const char *ca,
                     struct tls **out, struct error *err)
{
    struct tls_files f = {cert ? certs_name(&certs, cert) : NULL,
                          key ? certs_name(&certs, key) : NULL, ca ? certs_name(&certs, ca) : NULL};
    enum err e = tls_new(side, &f, out, err);

    free((void *)(uintptr_t)f.cert);
    free((void *)(uintptr_t)f.key);
    free((void *)(uintptr_t)f.ca);
    return e;
}

static struct tls *loaded(enum tls_side side, const char *cert, const char *key, const char *ca)
{
    struct tls *t;
    struct error err;

    if (load(side, cert, key, ca, &t, &err))
        fail_msg("%s", err.msg);
    return t;
}

/* ---- files ------------------------------------------------------------------------------------- */

static void refused(const char *cert, const char *key, const char *ca, const char *message)
{
    struct tls *t;
    struct error err;
    char expected[600];

    assert_int_equal(load(TLS_SERVER, cert, key, ca, &t, &err), ERR_INVALID);
    /* `%` in the message stands for the folder. */
    size_t n = 0;
    for (const char *p = message; *p && n + 80 < sizeof(expected); p++)
        n +=
            (size_t)snprintf(expected + n, sizeof(expected) - n, "%.*s",
                             *p == '%' ? (int)sizeof(certs.dir) - 1 : 1, *p == '%' ? certs.dir : p);
    if (!strstr(err.msg, expected))
        fail_msg("\"%s\" is not in \"%s\"", expected, err.msg);
}

static void bad_files_are_named(void **state)
{
    (void)state;
    certs_write(&certs, "text.pem", "hello\n");
    refused("none.pem", "server.key", NULL,
            "could not read the certificate file \"%/none.pem\": No such file or directory");
    refused("server.pem", "none.key", NULL, "could not read the key file \"%/none.key\": No such");
    refused("text.pem", "server.key", NULL,
            "the certificate file \"%/text.pem\" holds no certificate: it must be PEM");
    refused("server.pem", "text.pem", NULL, "the key file \"%/text.pem\" holds no private key");
    refused("server.pem", "encrypted.key", NULL,
            "the key file \"%/encrypted.key\" is encrypted; give one without a passphrase");
    refused("server.pem", "client.key", NULL,
            "the key of \"%/client.key\" is not that of the certificate of \"%/server.pem\"");
    refused("expired.pem", "server.key", NULL,
            "the certificate \"/CN=server\" of \"%/expired.pem\" expired at 20");
    refused("disorder.pem", "server.key", NULL,
            "certificate 2 of \"%/disorder.pem\", \"/CN=a CA\", has not issued the one before it");
    refused("server.pem", "server.key", "text.pem",
            "the CA file \"%/text.pem\" holds no certificate");
    refused("server.pem", "server.key", "none.pem", "could not read the CA file \"%/none.pem\"");
    certs_write(&certs, "text.pem",
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    refused("text.pem", "server.key", NULL,
            "cannot read certificate 1 of the certificate file \"%/text.pem\": ");
}

/* ---- two ends ------------------------------------------------------------------------------------ */

struct ends {
    struct tls_session *client, *server;
    bool client_ok, server_ok;
};

static void move(struct tls_session *from, struct tls_session *to)
{
    CLEANUP(strbuf_deinit) struct strbuf buf = {0};

    tls_session_take(from, &buf);
    if (buf.len > 0)
        tls_session_feed(to, strbuf_bytes(&buf));
}

static struct ends shake_hands(struct tls *client, struct tls *server, enum tls_protocol spoken,
                               const char *name)
{
    struct ends e = {tls_session_new(client, spoken, name), tls_session_new(server, TLS_H2, NULL),
                     true, true};

    for (int i = 0; i < 6; i++) {
        e.client_ok = tls_session_step(e.client);
        move(e.client, e.server);
        e.server_ok = tls_session_step(e.server);
        move(e.server, e.client);
    }
    return e;
}

static void part(struct ends *e)
{
    tls_session_free(e->client);
    tls_session_free(e->server);
}

/* The whole handshake is good, and both ends say so. */
static bool agree(struct tls *client, struct tls *server, const char *name)
{
    struct ends e = shake_hands(client, server, TLS_H2, name);
    uint8_t buf[8];

    /* With TLS 1.3 a client is through before its certificate has been looked at: what it reads tells. */
    bool ok = tls_session_is_secured(e.client) && tls_session_is_secured(e.server) &&
              tls_session_read(e.client, buf, sizeof(buf)) == 0;
    part(&e);
    return ok;
}

static void bytes_go_through_both_ways(void **state)
{
    struct tls *server = loaded(TLS_SERVER, "server.pem", "server.key", NULL);
    struct tls *client = loaded(TLS_CLIENT, NULL, NULL, "ca.pem");
    struct ends e = shake_hands(client, server, TLS_H2, "localhost");
    static uint8_t big[100000], got[100000];
    size_t n = 0;

    (void)state;
    assert_true(tls_session_is_secured(e.client) && tls_session_is_secured(e.server));
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (uint8_t)(i * 7);
    assert_true(tls_session_write(e.server, bytes_of(big, sizeof(big))));
    assert_true(tls_session_pending(e.server) > sizeof(big));
    move(e.server, e.client);
    for (ssize_t k; (k = tls_session_read(e.client, got + n, sizeof(got) - n)) > 0; n += (size_t)k)
        ;
    assert_int_equal(n, sizeof(big));
    assert_memory_equal(big, got, sizeof(big));
    assert_true(tls_session_write(e.client, BYTES_LIT("hello")));
    move(e.client, e.server);
    assert_int_equal(tls_session_read(e.server, got, sizeof(got)), 5);
    assert_int_equal(tls_session_read(e.server, got, sizeof(got)), 0);
    tls_session_end(e.client);
    move(e.client, e.server);
    assert_int_equal(tls_session_read(e.server, got, sizeof(got)), -1);
    part(&e);
    tls_free(server);
    tls_free(client);
}

/* Names and addresses of the certificate are good, others are not; nor is a CA that did not sign it. */
static void a_client_looks_at_the_server(void **state)
{
    struct tls *server = loaded(TLS_SERVER, "server.pem", "server.key", NULL);
    struct tls *client = loaded(TLS_CLIENT, NULL, NULL, "ca.pem");
    struct tls *other = loaded(TLS_CLIENT, NULL, NULL, "other-ca.pem");

    (void)state;
    assert_true(agree(client, server, "localhost"));
    assert_true(agree(client, server, "127.0.0.1"));
    assert_true(agree(client, server, "::1"));
    assert_false(agree(client, server, "127.0.0.2"));
    assert_false(agree(other, server, "localhost"));
    struct ends e = shake_hands(client, server, TLS_H2, "elsewhere");
    assert_false(e.client_ok);
    assert_string_equal(tls_session_error(e.client)->msg,
                        "the TLS handshake failed: hostname mismatch");
    assert_false(e.server_ok);
    assert_non_null(tls_session_error(e.server));
    part(&e);
    tls_free(server);
    tls_free(client);
    tls_free(other);
}

static void a_server_looks_at_clients(void **state)
{
    struct tls *server = loaded(TLS_SERVER, "server.pem", "server.key", "ca.pem");
    struct tls *client = loaded(TLS_CLIENT, "client.pem", "client.key", "ca.pem");
    struct tls *nobody = loaded(TLS_CLIENT, NULL, NULL, "ca.pem");
    struct tls *stranger = loaded(TLS_CLIENT, "stranger.pem", "stranger.key", "ca.pem");

    (void)state;
    assert_true(agree(client, server, "localhost"));
    assert_false(agree(nobody, server, "localhost"));
    assert_false(agree(stranger, server, "localhost"));
    tls_free(server);
    tls_free(client);
    tls_free(nobody);
    tls_free(stranger);
}

/* ALPN: who offers nothing that is spoken here is told so. */
static void protocols_must_match(void **state)
{
    struct tls *server = loaded(TLS_SERVER, "server.pem", "server.key", NULL);
    struct tls *client = loaded(TLS_CLIENT, NULL, NULL, "ca.pem");
    struct ends e = shake_hands(client, server, TLS_HTTP1, "localhost");

    (void)state;
    assert_false(e.server_ok);
    assert_string_equal(tls_session_error(e.client)->msg,
                        "the TLS handshake failed: tlsv1 alert no application protocol");
    part(&e);
    tls_free(server);
    tls_free(client);
}

/* TLS 1.1 is refused, 1.2 and 1.3 are not; 1.2 only with ciphers that HTTP/2 allows. */
static bool agrees_with(struct tls *server, int version, const char *ciphers)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *a = SSL_new(ctx), *b = tls_accept(server, TLS_H2);
    BIO *to_a = BIO_new(BIO_s_mem()), *to_b = BIO_new(BIO_s_mem());

    SSL_set_security_level(a, 0);
    assert_int_equal(SSL_set_min_proto_version(a, version), 1);
    assert_int_equal(SSL_set_max_proto_version(a, version), 1);
    if (ciphers)
        assert_int_equal(SSL_set_cipher_list(a, ciphers), 1);
    BIO_up_ref(to_a);
    BIO_up_ref(to_b);
    SSL_set_bio(a, to_a, to_b);
    SSL_set_bio(b, to_b, to_a);
    SSL_set_connect_state(a);
    for (int i = 0; i < 6; i++) {
        SSL_do_handshake(a);
        SSL_do_handshake(b);
    }
    bool ok = SSL_is_init_finished(a) && SSL_is_init_finished(b);
    SSL_free(a);
    SSL_free(b);
    SSL_CTX_free(ctx);
    ERR_clear_error();
    return ok;
}

static void old_versions_are_refused(void **state)
{
    struct tls *server = loaded(TLS_SERVER, "server.pem", "server.key", NULL);

    (void)state;
    assert_true(agrees_with(server, TLS1_3_VERSION, NULL));
    assert_true(agrees_with(server, TLS1_2_VERSION, NULL));
    assert_true(agrees_with(server, TLS1_2_VERSION, "ECDHE-ECDSA-AES128-GCM-SHA256"));
    assert_false(agrees_with(server, TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA256"));
    assert_false(agrees_with(server, TLS1_1_VERSION, NULL));
    tls_free(server);
}

/* ---- reread -------------------------------------------------------------------------------------- */

/* New certificates are for new connections; those that are open go on; bad files change nothing. */
static void certificates_are_reread(void **state)
{
    struct tls *server = loaded(TLS_SERVER, "server.pem", "server.key", NULL);
    struct tls *client = loaded(TLS_CLIENT, NULL, NULL, "ca.pem");
    struct ends old = shake_hands(client, server, TLS_H2, "localhost");
    usec_t before = tls_expires(server);
    struct error err;
    uint8_t buf[8];

    (void)state;
    certs_renew(&certs, 50);
    assert_int_equal(tls_reload(server, &err), OK);
    assert_true(tls_expires(server) < before - 40 * 24 * 3600 * USEC_PER_SEC);
    assert_true(agree(client, server, "localhost"));
    assert_true(tls_session_write(old.client, BYTES_LIT("x")));
    move(old.client, old.server);
    assert_int_equal(tls_session_read(old.server, buf, sizeof(buf)), 1);
    part(&old);

    usec_t now = tls_expires(server);
    certs_write(&certs, "server.key", "rubbish");
    assert_int_equal(tls_reload(server, &err), ERR_INVALID);
    assert_true(strstr(err.msg, "holds no private key"));
    assert_true(tls_expires(server) == now);
    assert_true(agree(client, server, "localhost"));
    certs_renew(&certs, 100);
    tls_free(server);
    tls_free(client);
}

/* Whatever comes in place of a handshake ends it, with a reason. */
static void rubbish_ends_the_handshake(void **state)
{
    struct tls *server = loaded(TLS_SERVER, "server.pem", "server.key", NULL);
    struct tls_session *s = tls_session_new(server, TLS_H2, NULL);

    (void)state;
    tls_session_feed(s, BYTES_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    assert_false(tls_session_step(s));
    assert_string_equal(tls_session_error(s)->msg,
                        "the TLS handshake failed: wrong version number");
    assert_false(tls_session_step(s));
    tls_session_free(s);
    tls_free(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_files_are_named),
        cmocka_unit_test(bytes_go_through_both_ways),
        cmocka_unit_test(a_client_looks_at_the_server),
        cmocka_unit_test(a_server_looks_at_clients),
        cmocka_unit_test(protocols_must_match),
        cmocka_unit_test(old_versions_are_refused),
        cmocka_unit_test(certificates_are_reread),
        cmocka_unit_test(rubbish_ends_the_handshake),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
