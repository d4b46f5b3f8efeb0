/* proto_json.h - a decoded protobuf message as proto3 JSON.
 *
 * camelCase names, enum names, 64-bit numbers as text, bytes in base64, wrappers, Timestamp, Duration and Struct as JSON has them.
 * Fields without presence are always there, with their default; absent messages and oneofs are not.
 * Tests: tests/unit/test_proto_json.c
 */
#pragma once

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

/* A new reference. */
json_t *proto_json(const ProtobufCMessage *msg);
