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
    size_t n = 0, i = 0;

    for (; i + 3 <= in.len; i += 3, n += 4) {
        uint32_t group = (uint32_t)in.ptr[i] << 16 | (uint32_t)in.ptr[i + 1] << 8 | in.ptr[i + 2];
        out[n] = ALPHABET[group >> 18];
        out[n + 1] = ALPHABET[group >> 12 & 63];
        out[n + 2] = ALPHABET[group >> 6 & 63];
        out[n + 3] = ALPHABET[group & 63];
    }
    for (; i < in.len; i += 3) {
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

/* The value of a base64 digit plus 1; 0: it is none. */
static const uint8_t BASE64_DIGITS[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,
    ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16,
    ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
    ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32,
    ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
    ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
    ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63, ['/'] = 64,
};

/* Four digits, three bytes. */
static bool base64_group(const uint8_t *text, uint8_t *out)
{
    uint32_t a = BASE64_DIGITS[text[0]], b = BASE64_DIGITS[text[1]], c = BASE64_DIGITS[text[2]],
             d = BASE64_DIGITS[text[3]];

    if (a == 0 || b == 0 || c == 0 || d == 0)
        return false;
    uint32_t group = (a - 1) << 18 | (b - 1) << 12 | (c - 1) << 6 | (d - 1);
    out[0] = (uint8_t)(group >> 16);
    out[1] = (uint8_t)(group >> 8);
    out[2] = (uint8_t)group;
    return true;
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
    size_t i = 0;
    for (; i + 4 <= len; i += 4, n += 3) {
        if (!base64_group(text.ptr + i, out + n))
            return false;
    }
    for (uint32_t group = 0; i < len; i++) {
        uint32_t digit = BASE64_DIGITS[text.ptr[i]];
        if (digit == 0)
            return false;
        group = group << 6 | (digit - 1);
        /* The k-th digit of a group of four completes a byte, but for the first. */
        if (i % 4 != 0)
            out[n++] = (uint8_t)(group >> (6 - 2 * (i % 4)));
    }
    *out_len = n;
    return true;
}
