/* utf8.h - UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing past U+10FFFF.
 *
 * Tests: tests/unit/test_utf8.c
 */
#pragma once

#include "base/bytes.h"

bool utf8_is_valid(struct bytes b);
size_t utf8_length(struct bytes b);    /* characters of valid text */
bool utf8_has_control(struct bytes b); /* any U+0000-U+001F or U+007F */
size_t utf8_cut(struct bytes b,
                size_t len_max); /* longest prefix <= len_max at a character's end */
