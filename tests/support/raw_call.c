#include "tests/support/raw_call.h"

#include <stdio.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "base/checked.h"
#include "tests/support/test.h"

static void keep_reply(raw_result *result, grpc_byte_buffer *reply)
{
    grpc_byte_buffer_reader reader;
    assert_true(grpc_byte_buffer_reader_init(&reader, reply));
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    result->n_reply = GRPC_SLICE_LENGTH(all) < sizeof result->reply ? GRPC_SLICE_LENGTH(all) : sizeof result->reply;
    memcpy(result->reply, GRPC_SLICE_START_PTR(all), result->n_reply);
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&reader);
    grpc_byte_buffer_destroy(reply);
}

/* The call from its first message to its end. */
static raw_result run(grpc_call *call, grpc_completion_queue *cq, const void *bytes, size_t n_bytes,
                      raw_listener *listener, void *user)
{
    raw_result result = { .code = GRPC_STATUS_UNKNOWN };
    grpc_metadata_array initial, trailing;
    grpc_metadata_array_init(&initial);
    grpc_metadata_array_init(&trailing);
    grpc_slice slice = grpc_slice_from_copied_buffer(bytes, n_bytes), details = grpc_empty_slice();
    grpc_byte_buffer *request = grpc_raw_byte_buffer_create(&slice, 1), *reply = NULL;
    grpc_slice_unref(slice);
    const grpc_op ops[] = {
        { .op = GRPC_OP_SEND_INITIAL_METADATA },
        { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = request },
        { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
        { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &initial },
        { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &reply },
    };
    const grpc_op status = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                             .data.recv_status_on_client = {
                                 .trailing_metadata = &trailing, .status = &result.code, .status_details = &details } };
    grpc_call_start_batch(call, &status, 1, call, NULL);
    grpc_call_start_batch(call, ops, PF_COUNT(ops), &result, NULL);
    const grpc_op next = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &reply };
    for (int n = 2; n > 0;) { /* until there is no more to read, and the status is there */
        const grpc_event event = grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.tag == call || !reply) {
            n--;
            continue;
        }
        keep_reply(&result, reply);
        reply = NULL;
        if (listener) listener(user, &result);
        grpc_call_start_batch(call, &next, 1, &result, NULL);
    }

    snprintf(result.text, sizeof result.text, "%.*s", (int)GRPC_SLICE_LENGTH(details),
             (const char *)GRPC_SLICE_START_PTR(details));
    grpc_byte_buffer_destroy(request);
    grpc_metadata_array_destroy(&initial);
    grpc_metadata_array_destroy(&trailing);
    grpc_slice_unref(details);
    return result;
}

static void end_queue(grpc_completion_queue *cq)
{
    grpc_completion_queue_shutdown(cq);
    while (grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type != GRPC_QUEUE_SHUTDOWN) {}
    grpc_completion_queue_destroy(cq);
}

raw_result raw_call(const char *address, const char *method, const void *bytes, size_t n_bytes, int timeout_ms)
{
    return raw_call_heard(address, method, bytes, n_bytes, timeout_ms, NULL, NULL);
}

raw_result raw_call_heard(const char *address, const char *method, const void *bytes, size_t n_bytes, int timeout_ms,
                          raw_listener *listener, void *user)
{
    grpc_init();
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(address, credentials, NULL);
    grpc_channel_credentials_release(credentials);
    grpc_completion_queue *cq = grpc_completion_queue_create_for_next(NULL);
    const gpr_timespec deadline =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
    grpc_call *call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, cq,
                                               grpc_slice_from_static_string(method), NULL, deadline, NULL);
    const raw_result result = run(call, cq, bytes, n_bytes, listener, user);
    grpc_call_unref(call);
    end_queue(cq);
    grpc_channel_destroy(channel);
    grpc_shutdown_blocking();
    return result;
}
