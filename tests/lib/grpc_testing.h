/* grpc_testing.h - the messages of grpc.testing.TestService that the interop cases use, by hand.
 *
 * grpc.testing: SimpleRequest, StreamingOutputCallRequest, StreamingInputCallRequest and their answers
 * share their field numbers where they share fields, so one struct serves all requests.
 */
#pragma once

#include "base/bytes.h"
#include "base/strbuf.h"

#define GT_PARAMETERS_MAX 16

struct gt_request {
    uint32_t response_size; /* SimpleRequest.response_size */
    size_t payload_len;     /* of the payload's body */
    bool has_status;        /* response_status */
    uint32_t status;
    struct bytes status_message; /* a view of the message */
    size_t parameter_count;      /* StreamingOutputCallRequest.response_parameters */
    struct {
        uint32_t size, interval_us;
    } parameters[GT_PARAMETERS_MAX];
};

enum gt_kind { GT_SIMPLE, GT_STREAMING_OUTPUT, GT_STREAMING_INPUT };

bool gt_parse_request(enum gt_kind kind, struct bytes msg, struct gt_request *out);
/* SimpleResponse and StreamingOutputCallResponse: a payload of `size` zero bytes. */
void gt_write_answer(size_t size, struct strbuf *out);
void gt_write_aggregate(uint32_t size, struct strbuf *out); /* StreamingInputCallResponse */
void gt_write_request(enum gt_kind kind, const struct gt_request *r, struct strbuf *out);
bool gt_parse_answer(struct bytes msg, size_t *payload_len);
bool gt_parse_aggregate(struct bytes msg, uint32_t *size);
