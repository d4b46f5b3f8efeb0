/* config.h - what `perdure serve` was told: flags over environment over config file over defaults (design/cli.md).
 *
 * Config files hold `key = value` lines: the flags' names without the dashes, and the settings of base/limits.h. `#` begins a
 * comment. A flag whose feature is not built yet is refused, never ignored.
 * Tests: tests/unit/test_config.c
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"

#define CONFIG_ADDRESSES_MAX 16

struct config_addresses {
    struct bytes items[CONFIG_ADDRESSES_MAX];
    size_t count;
};

struct config {
    struct arena *arena; /* owns every view */
    struct bytes store;
    struct config_addresses listen, http;
    bool http_off;
    bool insecure_plaintext, insecure_anonymous;
    const char *tls_cert, *tls_key, *tls_client_ca; /* NULL: not given */
    const char *api_keys;                           /* the same */
    enum log_level log_level;
    enum log_format log_format;
    struct bytes config_file; /* none: no file */
    struct settings settings;
};

/* `args` are those behind `serve`; `env` looks a variable up (getenv). ERR_INVALID: the message names the flag, variable or line, the value
 * and what to do. Free with config_deinit() either way. */
MUST_CHECK enum err config_read(struct config *c, int argc, char *const *args,
                                const char *(*env)(const char *name), struct error *err);
void config_deinit(struct config *c);
/* The log level that the sources give now (SIGHUP: the file may have changed). */
MUST_CHECK enum err config_log_level(int argc, char *const *args,
                                     const char *(*env)(const char *name), enum log_level *level,
                                     struct error *err);
/* ERR_INVALID: half of a pair is given; or it listens beyond loopback without encryption (TLS) or authentication (API keys, or a
 * client CA), and --insecure does not say that this is meant. */
MUST_CHECK enum err config_check_exposure(const struct config *c, struct error *err);
/* What a listener beyond loopback goes without: "encryption and authentication", "encryption", "authentication"; NULL: nothing. */
const char *config_exposed_without(const struct config *c);
