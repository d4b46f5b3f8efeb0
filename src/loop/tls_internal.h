/* tls_internal.h - what tls.c and tls_session.c share. */
#pragma once

#include "loop/tls.h"

struct ssl_st *tls_ssl_new(struct tls *t, enum tls_protocol protocol);
enum tls_side tls_side_of(const struct tls *t);
void tls_reason(char *out,
                size_t size); /* OpenSSL's last error of this thread, which is forgotten */
