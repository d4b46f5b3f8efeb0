/* openssl.h - OpenSSL's headers, one name of which is taken here: its ERR_STATE is a type that nobody uses. */
#pragma once

#define ERR_STATE openssl_err_state
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#undef ERR_STATE
