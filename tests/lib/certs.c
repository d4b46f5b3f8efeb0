#include "lib/certs.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/macros.h"
#include "base/openssl.h"

#define DAY 86400L

struct pair {
    X509 *cert;
    EVP_PKEY *key;
};

static void add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ASSERT(e && X509_add_ext(x, e, -1) == 1);
    X509_EXTENSION_free(e);
}

/* `issuer` NULL: by itself. `key` NULL: a new one. */
static struct pair make(const char *name, const struct pair *issuer, EVP_PKEY *key, bool is_ca,
                        long from, long to)
{
    static long serial = 1;
    struct pair p = {X509_new(), key ? key : EVP_EC_gen("P-256")};

    ASSERT(p.cert && p.key);
    if (key)
        EVP_PKEY_up_ref(key);
    X509_set_version(p.cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(p.cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(p.cert), from);
    X509_gmtime_adj(X509_getm_notAfter(p.cert), to);
    X509_set_pubkey(p.cert, p.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(p.cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509 *by = issuer ? issuer->cert : p.cert;
    X509_set_issuer_name(p.cert, X509_get_subject_name(by));
    add_extension(p.cert, by, NID_basic_constraints, is_ca ? "critical,CA:TRUE" : "CA:FALSE");
    if (!is_ca)
        add_extension(p.cert, by, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1,IP:::1");
    ASSERT(X509_sign(p.cert, issuer ? issuer->key : p.key, EVP_sha256()) > 0);
    return p;
}

static void pair_free(struct pair *p)
{
    X509_free(p->cert);
    EVP_PKEY_free(p->key);
}

const char *certs_file(struct certs *c, const char *name)
{
    (void)snprintf(c->path, sizeof(c->path), "%s/%s", c->dir, name);
    return c->path;
}

char *certs_name(const struct certs *c, const char *name)
{
    size_t size = strlen(c->dir) + strlen(name) + 2;
    char *out = malloc(size);

    ASSERT(out);
    (void)snprintf(out, size, "%s/%s", c->dir, name);
    return out;
}

static FILE *create(struct certs *c, const char *name)
{
    FILE *f = fopen(certs_file(c, name), "we");

    ASSERT(f);
    return f;
}

void certs_write(struct certs *c, const char *name, const char *text)
{
    FILE *f = create(c, name);

    ASSERT(fputs(text, f) >= 0);
    fclose(f);
}

static void put(struct certs *c, const char *name, X509 *first, X509 *second)
{
    FILE *f = create(c, name);

    ASSERT(PEM_write_X509(f, first) == 1);
    if (second)
        ASSERT(PEM_write_X509(f, second) == 1);
    fclose(f);
}

static void put_key(struct certs *c, const char *name, EVP_PKEY *key)
{
    FILE *f = create(c, name);

    ASSERT(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1);
    fclose(f);
}

static struct pair load(struct certs *c, const char *cert, const char *key)
{
    FILE *f = fopen(certs_file(c, cert), "re");
    ASSERT(f);
    struct pair p = {.cert = PEM_read_X509(f, NULL, NULL, NULL)};
    fclose(f);
    f = fopen(certs_file(c, key), "re");
    ASSERT(f);
    p.key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    fclose(f);
    ASSERT(p.cert && p.key);
    return p;
}

void certs_renew(struct certs *c, int days)
{
    struct pair middle = load(c, "middle.pem", "middle.key");
    struct pair server = make("server", &middle, NULL, false, -DAY, days * DAY);

    put(c, "server.pem", server.cert, middle.cert);
    put_key(c, "server.key", server.key);
    pair_free(&server);
    pair_free(&middle);
}

void certs_make(struct certs *c)
{
    (void)snprintf(c->dir, sizeof(c->dir), "/tmp/test-certs-XXXXXX");
    ASSERT(mkdtemp(c->dir));
    struct pair ca = make("a CA", NULL, NULL, true, -DAY, 400 * DAY);
    struct pair other = make("another CA", NULL, NULL, true, -DAY, 400 * DAY);
    struct pair middle = make("between", &ca, NULL, true, -DAY, 300 * DAY);
    struct pair client = make("client", &ca, NULL, false, -DAY, 100 * DAY);
    struct pair stranger = make("stranger", &other, NULL, false, -DAY, 100 * DAY);

    put(c, "ca.pem", ca.cert, NULL);
    put(c, "other-ca.pem", other.cert, NULL);
    put(c, "middle.pem", middle.cert, NULL);
    put_key(c, "middle.key", middle.key);
    put(c, "client.pem", client.cert, NULL);
    put_key(c, "client.key", client.key);
    put(c, "stranger.pem", stranger.cert, NULL);
    put_key(c, "stranger.key", stranger.key);
    certs_renew(c, 100);
    struct pair server = load(c, "server.pem", "server.key");
    struct pair expired = make("server", &middle, server.key, false, -10 * DAY, -DAY);
    put(c, "expired.pem", expired.cert, middle.cert);
    put(c, "disorder.pem", server.cert, ca.cert);
    FILE *f = create(c, "encrypted.key");
    char pass[] = "secret";
    ASSERT(PEM_write_PKCS8PrivateKey(f, server.key, EVP_aes_128_cbc(), pass, 6, NULL, NULL) == 1);
    fclose(f);
    struct pair *all[] = {&ca, &other, &middle, &client, &stranger, &server, &expired};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        pair_free(all[i]);
}

void certs_remove(struct certs *c)
{
    static const char *const NAMES[] = {
        "ca.pem",      "other-ca.pem", "middle.pem",   "middle.key",   "client.pem",
        "client.key",  "stranger.pem", "stranger.key", "server.pem",   "server.key",
        "expired.pem", "disorder.pem", "text.pem",     "encrypted.key"};

    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        (void)unlink(certs_file(c, NAMES[i]));
    (void)rmdir(c->dir);
}
