#include "base/utf8.h"

#define HIGH_BITS UINT64_C(0x8080808080808080)

/* Bytes of the character that starts at `p`, of `left` > 0 bytes; 0 if it is none. */
static size_t char_len(const uint8_t *p, size_t left)
{
    uint8_t c = p[0];
    uint8_t low = 0x80, high = 0xBF; /* of the second byte */
    size_t len;

    if (c < 0x80)
        return 1;
    if (c < 0xC2 || c > 0xF4) /* a continuation, an overlong form, or past U+10FFFF */
        return 0;
    if (c < 0xE0) {
        len = 2;
    } else if (c < 0xF0) {
        len = 3;
        if (c == 0xE0)
            low = 0xA0; /* overlong below */
        if (c == 0xED)
            high = 0x9F; /* surrogates above */
    } else {
        len = 4;
        if (c == 0xF0)
            low = 0x90;
        if (c == 0xF4)
            high = 0x8F;
    }
    if (left < len || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    }
    return len;
}

bool utf8_is_valid(struct bytes b)
{
    size_t i = 0;
    while (i < b.len) {
        if (b.len - i >= 8) { /* most text is ASCII: eight at a time */
            uint64_t word;
            memcpy(&word, b.ptr + i, sizeof(word));
            if (!(word & HIGH_BITS)) {
                i += 8;
                continue;
            }
        }
        size_t n = char_len(b.ptr + i, b.len - i);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

size_t utf8_length(struct bytes b)
{
    size_t count = 0;
    for (size_t i = 0; i < b.len; i++)
        count += (b.ptr[i] & 0xC0) != 0x80;
    return count;
}

bool utf8_has_control(struct bytes b)
{
    for (size_t i = 0; i < b.len; i++) {
        if (b.ptr[i] < 0x20 || b.ptr[i] == 0x7F)
            return true;
    }
    return false;
}

size_t utf8_cut(struct bytes b, size_t len_max)
{
    if (b.len <= len_max)
        return b.len;
    size_t len = len_max;
    while (len > 0 && (b.ptr[len] & 0xC0) == 0x80)
        len--;
    return len;
}
