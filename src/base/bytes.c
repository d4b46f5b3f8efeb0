#include "base/bytes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + ('a' - 'A')) : c;
}

bool bytes_eq_nocase(struct bytes a, struct bytes b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        if (lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    }
    return true;
}

int bytes_cmp(struct bytes a, struct bytes b)
{
    size_t len = MIN(a.len, b.len);
    int order = len > 0 ? memcmp(a.ptr, b.ptr, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

bool bytes_starts_with(struct bytes b, struct bytes prefix)
{
    return b.len >= prefix.len && (prefix.len == 0 || memcmp(b.ptr, prefix.ptr, prefix.len) == 0);
}

bool bytes_contains(struct bytes b, struct bytes needle)
{
    if (needle.len == 0)
        return true;
    return b.len >= needle.len && memmem(b.ptr, b.len, needle.ptr, needle.len) != NULL;
}

uint64_t bytes_hash(struct bytes b)
{
    return XXH3_64bits(b.len > 0 ? b.ptr : (const uint8_t *)"", b.len);
}

bool bytes_parse_u64(struct bytes b, uint64_t *out)
{
    uint64_t value = 0;

    if (b.len == 0)
        return false;
    for (size_t i = 0; i < b.len; i++) {
        uint8_t c = b.ptr[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(c - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

bool bytes_parse_i64(struct bytes b, int64_t *out)
{
    bool negative = b.len > 0 && b.ptr[0] == '-';
    uint64_t limit = (uint64_t)INT64_MAX + negative;
    uint64_t value;

    if (negative)
        b = bytes_of(b.ptr + 1, b.len - 1);
    if (!bytes_parse_u64(b, &value) || value > limit)
        return false;
    *out = (int64_t)(negative ? 0 - value : value);
    return true;
}

void hex_encode(const uint8_t *in, size_t len, char *out)
{
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = DIGITS[in[i] >> 4];
        out[2 * i + 1] = DIGITS[in[i] & 15];
    }
}

/* The value of a hex digit of either case, or -1. */
static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_decode(struct bytes text, uint8_t *out, size_t out_len)
{
    if (text.len % 2 != 0 || text.len / 2 != out_len)
        return false;
    for (size_t i = 0; i < out_len; i++) {
        int high = hex_digit(text.ptr[2 * i]), low = hex_digit(text.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

size_t base64_encode(struct bytes in, bool pad, char *out)
{
    static const char ALPHABET[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;

    for (size_t i = 0; i < in.len; i += 3) {
        size_t left = MIN(in.len - i, (size_t)3);
        uint32_t group = (uint32_t)in.ptr[i] << 16;
        if (left > 1)
            group |= (uint32_t)in.ptr[i + 1] << 8;
        if (left > 2)
            group |= in.ptr[i + 2];
        for (size_t k = 0; k <= left; k++)
            out[n++] = ALPHABET[group >> (18 - 6 * k) & 63];
        for (size_t k = left; pad && k < 3; k++)
            out[n++] = '=';
    }
    return n;
}

/* The value of a base64 digit, or -1. */
static int base64_digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

bool base64_decode(struct bytes text, uint8_t *out, size_t *out_len)
{
    size_t len = text.len, n = 0;

    if (len > 0 && len % 4 == 0) { /* padding is only ever up to a multiple of 4 */
        for (int i = 0; i < 2 && text.ptr[len - 1] == '='; i++)
            len--;
    }
    if (len % 4 == 1)
        return false;
    uint32_t group = 0;
    for (size_t i = 0; i < len; i++) {
        int digit = base64_digit(text.ptr[i]);
        if (digit < 0)
            return false;
        group = group << 6 | (uint32_t)digit;
        /* The k-th digit of a group of four completes a byte, but for the first. */
        if (i % 4 != 0)
            out[n++] = (uint8_t)(group >> (6 - 2 * (i % 4)));
    }
    *out_len = n;
    return true;
}
