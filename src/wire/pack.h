/* pack.h - encodes protobuf-c's generated structs.
 *
 * As protobuf_c_message_pack() does, byte for byte, but written from the end to the beginning, so
 * that lengths are known when they are written and a payload is copied once however deep it is.
 * The structs are our own or decoded ones: bounded in depth.
 * Tests: tests/unit/test_wire_unpack.c
 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/strbuf.h"

size_t wire_packed_size(const ProtobufCMessage *msg);
/* Writes exactly `size` bytes, which wire_packed_size() gave for the same, unchanged message. */
void wire_pack(const ProtobufCMessage *msg, uint8_t *out, size_t size);
/* Appends the encoded message. */
void wire_pack_into(const ProtobufCMessage *msg, struct strbuf *out);
/* Appends it as field `number`, with tag and length. */
void wire_pack_field(uint32_t number, const ProtobufCMessage *msg, struct strbuf *out);
