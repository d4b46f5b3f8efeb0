#include "base/roles.h"

static const struct {
    const char *name;
    enum role role;
} ROLES[] = {
    {"read", ROLE_READ}, {"client", ROLE_CLIENT}, {"worker", ROLE_WORKER}, {"admin", ROLE_ADMIN}};

static uint32_t role_of(struct bytes name)
{
    for (size_t i = 0; i < ARRAY_LEN(ROLES); i++)
        if (bytes_eq(name, bytes_str(ROLES[i].name)))
            return ROLES[i].role;
    return 0;
}

enum err roles_parse(struct bytes text, uint32_t *out, struct error *err)
{
    uint32_t roles = 0;

    for (bool more = true; more;) {
        const uint8_t *comma = text.len ? memchr(text.ptr, ',', text.len) : NULL;
        struct bytes one = bytes_of(text.ptr, comma ? (size_t)(comma - text.ptr) : text.len);
        uint32_t role = role_of(one);
        if (!role)
            return error_set(
                err, ERR_INVALID,
                "\"%.*s\" is no role; use read, client, worker, admin, or several with "
                "commas",
                BYTES_FMT(one));
        roles |= role;
        more = comma != NULL;
        if (more)
            text = bytes_of(comma + 1, text.len - one.len - 1);
    }
    *out = roles;
    return OK;
}

void roles_format(uint32_t roles, struct strbuf *out)
{
    const char *between = "";

    for (size_t i = 0; i < ARRAY_LEN(ROLES); i++)
        if (roles & ROLES[i].role) {
            strbuf_appendf(out, "%s%s", between, ROLES[i].name);
            between = ",";
        }
}
