#include "base/limits.h"

#include <inttypes.h>

/* clang-format off */
#define SETTING_ROW(field, key, kind, def, min, max, text)                                          \
    {key, SETTING_##kind, def, min, max, text, offsetof(struct settings, field)},
const struct setting_info SETTING_INFO[] = {SETTINGS_TABLE(SETTING_ROW)};
/* clang-format on */
const size_t SETTING_INFO_COUNT = ARRAY_LEN(SETTING_INFO);

static_assert((ROLE_CLIENT | ROLE_WORKER) == 6 && ROLES_ALL == 15, "auth.cert_roles");

static uint64_t *field_of(struct settings *s, const struct setting_info *info)
{
    return (uint64_t *)(void *)((char *)s + info->offset);
}

void settings_defaults(struct settings *s)
{
    for (size_t i = 0; i < SETTING_INFO_COUNT; i++)
        *field_of(s, &SETTING_INFO[i]) = SETTING_INFO[i].def;
}

static const struct setting_info *find_key(struct bytes key)
{
    for (size_t i = 0; i < SETTING_INFO_COUNT; i++) {
        if (bytes_eq(key, bytes_str(SETTING_INFO[i].key)))
            return &SETTING_INFO[i];
    }
    return NULL;
}

/* ---- unknown keys ------------------------------------------------------------------------------ */

#define KEY_CHARS_MAX 40 /* of what is compared; no key is longer */
#define NEAR_EDITS_MAX 3

/* Levenshtein's distance of two texts of at most KEY_CHARS_MAX bytes. */
static size_t edit_distance(struct bytes a, struct bytes b)
{
    size_t row[KEY_CHARS_MAX + 1];

    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t above = row[j];
            size_t change = diagonal + (a.ptr[i - 1] != b.ptr[j - 1]);
            row[j] = MIN(change, MIN(above, row[j - 1]) + 1);
            diagonal = above;
        }
    }
    return row[b.len];
}

/* Few edits away, or the same word behind or before the dot. */
static bool is_near(struct bytes key, struct bytes known)
{
    const uint8_t *dot = memchr(known.ptr, '.', known.len);
    struct bytes group = bytes_of(known.ptr, dot ? (size_t)(dot - known.ptr) + 1 : known.len);
    struct bytes name = dot ? bytes_of(dot + 1, known.len - group.len) : known;

    return edit_distance(key, known) <= NEAR_EDITS_MAX || bytes_starts_with(key, group) ||
           bytes_eq(key, name);
}

static enum err unknown_key(struct bytes key, struct error *err)
{
    struct strbuf near = {0};

    for (size_t i = 0; key.len <= KEY_CHARS_MAX && i < SETTING_INFO_COUNT; i++) {
        struct bytes known = bytes_str(SETTING_INFO[i].key);
        if (is_near(key, known))
            strbuf_appendf(&near, "%s%.*s", near.len > 0 ? ", " : "", BYTES_FMT(known));
    }
    if (near.len > 0)
        error_set(err, ERR_INVALID, "unknown setting \"%.*s\": near ones are %s", BYTES_FMT(key),
                  strbuf_cstr(&near));
    else
        error_set(err, ERR_INVALID, "unknown setting \"%.*s\"", BYTES_FMT(key));
    strbuf_deinit(&near);
    return ERR_INVALID;
}

/* ---- values ------------------------------------------------------------------------------------ */

static enum err parse_bool(struct bytes value, uint64_t *out, struct error *err)
{
    if (!bytes_eq(value, BYTES_LIT("true")) && !bytes_eq(value, BYTES_LIT("false")))
        return error_set(err, ERR_INVALID, "\"%.*s\" is neither true nor false", BYTES_FMT(value));
    *out = value.len == 4;
    return OK;
}

static enum err parse_value(enum setting_kind kind, struct bytes value, uint64_t *out,
                            struct error *err)
{
    usec_t time = 0;
    uint32_t roles = 0;
    enum err e = OK;

    switch (kind) {
    case SETTING_COUNT:
        if (!bytes_parse_u64(value, out))
            e = error_set(err, ERR_INVALID, "\"%.*s\" is not a whole number", BYTES_FMT(value));
        break;
    case SETTING_BYTES:
        e = size_parse(value, out, err);
        break;
    case SETTING_TIME:
        e = usec_parse_duration(value, &time, err);
        *out = (uint64_t)time;
        break;
    case SETTING_BOOL:
        e = parse_bool(value, out, err);
        break;
    case SETTING_ROLES:
        e = roles_parse(value, &roles, err);
        *out = roles;
        break;
    }
    return e;
}

static enum err out_of_range(const struct setting_info *info, struct bytes value, struct error *err)
{
    struct strbuf range = {0};

    setting_format(info, info->min, &range);
    strbuf_append_str(&range, " to ");
    setting_format(info, info->max, &range);
    error_set(err, ERR_INVALID, "setting \"%s\" cannot be \"%.*s\": the range is %s", info->key,
              BYTES_FMT(value), strbuf_cstr(&range));
    strbuf_deinit(&range);
    return ERR_INVALID;
}

enum err settings_set(struct settings *s, struct bytes key, struct bytes value, struct error *err)
{
    const struct setting_info *info = find_key(key);
    uint64_t parsed = 0;
    enum err e;

    if (!info)
        return unknown_key(key, err);
    if ((e = parse_value(info->kind, value, &parsed, err)))
        return error_wrap(err, e, "cannot set \"%s\"", info->key);
    if (parsed < info->min || parsed > info->max)
        return out_of_range(info, value, err);
    *field_of(s, info) = parsed;
    return OK;
}

/* In the largest unit that divides the value, the way size_parse() and usec_parse_duration() read
 * it; 0 is "off". */
static void format_amount(uint64_t value, const uint64_t *factors, const char *const *names,
                          size_t count, struct strbuf *out)
{
    size_t i = count - 1;

    if (value == 0) {
        strbuf_append_str(out, "off");
        return;
    }
    while (i > 0 && value % factors[i] != 0)
        i--;
    strbuf_appendf(out, "%" PRIu64 "%s", value / factors[i], names[i]);
}

void setting_format(const struct setting_info *info, uint64_t value, struct strbuf *out)
{
    static const uint64_t SIZES[] = {1, KIB(1), MIB(1), MIB(1024)};
    static const char *const SIZE_NAMES[] = {"", "KiB", "MiB", "GiB"};
    static const uint64_t TIMES[] = {1, 1000, 1000000, 60000000, 3600000000, 86400000000};
    static const char *const TIME_NAMES[] = {"us", "ms", "s", "m", "h", "d"};

    switch (info->kind) {
    case SETTING_COUNT:
        strbuf_appendf(out, "%" PRIu64, value);
        break;
    case SETTING_BYTES:
        format_amount(value, SIZES, SIZE_NAMES, ARRAY_LEN(SIZES), out);
        break;
    case SETTING_TIME:
        format_amount(value, TIMES, TIME_NAMES, ARRAY_LEN(TIMES), out);
        break;
    case SETTING_BOOL:
        strbuf_append_str(out, value ? "true" : "false");
        break;
    case SETTING_ROLES:
        roles_format((uint32_t)value, out);
        break;
    }
}
