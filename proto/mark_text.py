#!/usr/bin/env python3
"""Prepare a descriptor set for protobuf-c's compiler.

    protoc -I proto --include_imports --descriptor_set_out=all.pb ...
    python3 mark_text.py all.pb header.pb code.pb

protobuf-c keeps a string as a C string: it copies each one, and cuts it at U+0000, which is a
valid character. So every string field, those of map entries and of the well-known types too, gets
the compiler's option `string_as_bytes`. Then nothing is left that tells text from bytes, and text
must be checked for UTF-8. So in code.pb every string field also has the one flag that reaches the
field descriptors of the generated code: `deprecated`. src/wire calls it WIRE_FIELD_TEXT. Real
deprecations are dropped, and header.pb has none at all, so that no use of a field warns.
The pack and unpack functions of each message are not generated: src/wire has its own.

Needs nothing but the Python 3 standard library.
"""

import sys

VARINT, LEN = 0, 2
TYPE_STRING = 9
# Field numbers of descriptor.proto and of protobuf-c's extensions of its options.
SET_FILE = 1
FILE_MESSAGE, FILE_OPTIONS = 4, 8
MESSAGE_FIELD, MESSAGE_NESTED = 2, 3
FIELD_TYPE, FIELD_OPTIONS = 5, 8
OPTION_DEPRECATED, OPTION_PB_C = 3, 1019
PB_C_GEN_PACK_HELPERS, PB_C_STRING_AS_BYTES = 2, 1


def put_varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def get_varint(data, pos):
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7


def fields(data):
    """Yield (number, wire type, value) of one message; value is an int or bytes."""
    pos = 0
    while pos < len(data):
        tag, pos = get_varint(data, pos)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, pos = get_varint(data, pos)
        elif wire == LEN:
            size, pos = get_varint(data, pos)
            value, pos = data[pos:pos + size], pos + size
            if len(value) != size:
                raise ValueError("cut short")
        else:  # fixed64, fixed32: descriptors have them in no field that matters, keep the bytes
            size = {1: 8, 5: 4}[wire]
            value, pos = data[pos:pos + size], pos + size
        yield number, wire, value


def put(number, wire, value):
    head = put_varint(number << 3 | wire)
    if wire == VARINT:
        return head + put_varint(value)
    return head + (put_varint(len(value)) if wire == LEN else b"") + value


def rewrite(data, change):
    """The message with change[number](bytes) applied to those sub-messages."""
    return b"".join(put(n, w, change[n](v) if n in change and w == LEN else v)
                    for n, w, v in fields(data))


def marker(code):
    def options(data, text):
        kept = b"".join(put(n, w, v) for n, w, v in fields(data)
                        if n not in (OPTION_DEPRECATED, OPTION_PB_C))
        if text:
            if code:
                kept += put(OPTION_DEPRECATED, VARINT, 1)
            kept += put(OPTION_PB_C, LEN, put(PB_C_STRING_AS_BYTES, VARINT, 1))
        return kept

    def field(data):
        parsed = list(fields(data))
        text = any(n == FIELD_TYPE and v == TYPE_STRING for n, _, v in parsed)
        old = b"".join(v for n, _, v in parsed if n == FIELD_OPTIONS)
        new = options(old, text)
        rest = b"".join(put(n, w, v) for n, w, v in parsed if n != FIELD_OPTIONS)
        return rest + (put(FIELD_OPTIONS, LEN, new) if new else b"")

    def message(data):
        return rewrite(data, {MESSAGE_FIELD: field, MESSAGE_NESTED: message})

    def file(data):
        no_helpers = put(OPTION_PB_C, LEN, put(PB_C_GEN_PACK_HELPERS, VARINT, 0))
        return rewrite(data, {FILE_MESSAGE: message}) + put(FILE_OPTIONS, LEN, no_helpers)

    return lambda data: rewrite(data, {SET_FILE: file})


def main(argv):
    if len(argv) != 4:
        sys.exit("usage: mark_text.py all.pb header.pb code.pb")
    with open(argv[1], "rb") as file:
        data = file.read()
    for path, code in ((argv[2], False), (argv[3], True)):
        with open(path, "wb") as file:
            file.write(marker(code)(data))


if __name__ == "__main__":
    main(sys.argv)
