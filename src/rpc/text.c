#include "rpc/text.h"

#include <stdio.h>

static bool is_plain(uint8_t c)
{
    return c >= 0x20 && c <= 0x7e && c != '%';
}

void rpc_percent_encode(struct bytes in, struct strbuf *out)
{
    static const char HEX[] = "0123456789ABCDEF";

    for (size_t i = 0; i < in.len; i++) {
        uint8_t c = in.ptr[i];
        if (is_plain(c)) {
            strbuf_append_char(out, (char)c);
        } else {
            const char esc[3] = {'%', HEX[c >> 4], HEX[c & 15]};
            strbuf_append(out, esc, sizeof(esc));
        }
    }
}

void rpc_percent_decode(struct bytes in, struct strbuf *out)
{
    for (size_t i = 0; i < in.len; i++) {
        uint8_t byte;
        if (in.ptr[i] == '%' && in.len - i >= 3 &&
            hex_decode(bytes_of(in.ptr + i + 1, 2), &byte, 1)) {
            strbuf_append(out, &byte, 1);
            i += 2;
        } else {
            strbuf_append(out, in.ptr + i, 1);
        }
    }
}

static usec_t timeout_unit(uint8_t c)
{
    switch (c) {
    case 'H':
        return 3600 * USEC_PER_SEC;
    case 'M':
        return 60 * USEC_PER_SEC;
    case 'S':
        return USEC_PER_SEC;
    case 'm':
        return USEC_PER_MSEC;
    case 'u':
        return 1;
    default:
        return 0;
    }
}

bool rpc_timeout_parse(struct bytes text, usec_t *out)
{
    uint64_t n;

    if (text.len < 2 || text.len > 9 || !bytes_parse_u64(bytes_of(text.ptr, text.len - 1), &n))
        return false;
    uint8_t unit = text.ptr[text.len - 1];
    if (unit == 'n') {
        *out = (usec_t)((n + 999) / 1000);
        return true;
    }
    if (timeout_unit(unit) == 0)
        return false;
    *out = (usec_t)n * timeout_unit(unit); /* 8 digits of hours: 3.6e17, fits */
    return true;
}

size_t rpc_timeout_format(usec_t timeout, char out[RPC_TIMEOUT_LEN])
{
    static const char UNITS[] = "umSMH";
    size_t i = 0;

    for (; i < 4 &&
           (timeout + timeout_unit((uint8_t)UNITS[i]) - 1) / timeout_unit((uint8_t)UNITS[i]) >
               99999999;)
        i++;
    usec_t unit = timeout_unit((uint8_t)UNITS[i]);
    usec_t n = timeout / unit + (timeout % unit != 0);
    if (n > 99999999)
        n = 99999999;
    int len = snprintf(out, RPC_TIMEOUT_LEN, "%lld%c", (long long)n, UNITS[i]);
    return (size_t)len;
}
