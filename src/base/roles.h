/* roles.h - what a caller may do (design: the roles of API keys and of client certificates).
 *
 * A set of roles is a bit mask. What each allows is a table of the server's (src/server/auth.c).
 * Tests: tests/unit/test_keys.c
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"

enum role { ROLE_READ = 1, ROLE_CLIENT = 2, ROLE_WORKER = 4, ROLE_ADMIN = 8, ROLES_ALL = 15 };

/* `client,worker`: one or more, in any order. ERR_INVALID names the word. */
MUST_CHECK enum err roles_parse(struct bytes text, uint32_t *out, struct error *err);
void roles_format(uint32_t roles,
                  struct strbuf *out); /* "read,client", as roles_parse() takes it */
