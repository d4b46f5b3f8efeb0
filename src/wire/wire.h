/* wire.h - all of wire/: protobuf messages, decoded within limits and encoded without copies.
 *
 * reader, writer: single fields of encoded bytes, for the hot path; unpack, pack: whole messages
 * as protobuf-c's generated structs; then what several front ends need of certain messages.
 * No state, no threads, no allocation but in the arena or strbuf that is passed in.
 */
#pragma once

#include "wire/failure.h"
#include "wire/pack.h"
#include "wire/pick.h"
#include "wire/reader.h"
#include "wire/timestamp.h"
#include "wire/unpack.h"
#include "wire/value.h"
#include "wire/writer.h"
