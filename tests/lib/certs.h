/* certs.h - certificates and keys made for a test, as PEM files in a folder of their own.
 *
 * Files: ca.pem; other-ca.pem; server.pem (leaf and intermediate) and server.key, for localhost, 127.0.0.1 and ::1; client.pem
 * and client.key; stranger.pem and stranger.key, of the other CA; expired.pem, for the key of server.key.
 */
#pragma once

struct certs {
    char dir[64];
    char path[512]; /* of certs_file() */
};

void certs_make(struct certs *c);
void certs_remove(struct certs *c);
/* The whole name, until the next call. */
const char *certs_file(struct certs *c, const char *name);
char *certs_name(const struct certs *c, const char *name); /* free() it */
/* A new server.pem and server.key in their places, valid for so many days. */
void certs_renew(struct certs *c, int days);
void certs_write(struct certs *c, const char *name, const char *text);
