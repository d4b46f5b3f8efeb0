/* fuzz_tls.c - a TLS server's end that is fed foreign bytes, in pieces whose sizes the input chooses.
 *
 * Whatever comes: no crash, a handshake that fails has a reason that is text, and what waits for the socket stays small.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "lib/certs.h"
#include "loop/tls.h"

static struct certs certs;
static struct tls *server;

static void clean_up(void)
{
    tls_free(server);
    certs_remove(&certs);
}

int LLVMFuzzerInitialize(int *argc UNUSED, char ***argv UNUSED)
{
    struct tls_files files;

    certs_make(&certs);
    files = (struct tls_files){certs_name(&certs, "server.pem"), certs_name(&certs, "server.key"),
                               certs_name(&certs, "ca.pem")};
    ASSERT(tls_new(TLS_SERVER, &files, &server, NULL) == OK);
    free((void *)(uintptr_t)files.cert);
    free((void *)(uintptr_t)files.key);
    free((void *)(uintptr_t)files.ca);
    atexit(clean_up);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tls_session *s = tls_session_new(server, TLS_H2, NULL);
    CLEANUP(strbuf_deinit) struct strbuf out = {0};
    size_t piece = size > 0 ? (size_t)data[0] + 1 : 1;
    bool ok = true;

    for (size_t at = 1; at < size && ok; at += piece) {
        tls_session_feed(s, bytes_of(data + at, MIN(piece, size - at)));
        ok = tls_session_step(s);
        ASSERT(tls_session_pending(s) < KIB(64));
        tls_session_take(s, &out);
        ASSERT(!tls_session_is_secured(s)); /* without the client's key */
    }
    ASSERT(ok || tls_session_error(s)->msg[0] != 0);
    tls_session_free(s);
    return 0;
}
