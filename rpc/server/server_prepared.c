/* Answers verdicts as they arrive, where the drafter has prepared the proposal. */
#include "rpc/server/server_internal.h"

/* Larger messages wait for the computing thread, and larger answers. A proposal of ten tokens with 256 ids each has 24 KiB. */
enum { MOST_BYTES = 64 << 10 };

pf_status pf_server_prepare(pf_server *server, pf_service service, int32_t n_ids)
{
    pf_prepared_answers *prepared = pf_dispatch_prepare(server->dispatch[service]);
    if (!prepared) return PF_OK;
    PF_TRY(pf_codec_create(MOST_BYTES, n_ids, &server->prepared_codec));
    server->prepared = prepared;
    return PF_OK;
}

/* A pf_prepared_send. */
static bool send_prepared(void *user, const pf_batch *answer)
{
    pf_call *c = user;
    grpc_byte_buffer *message = pf_grpc_encode(c->server->prepared_codec, answer);
    if (message) pf_call_send(c, message);
    return message != NULL;
}

void pf_call_answer_prepared(pf_call *c, grpc_byte_buffer *message, size_t n_bytes)
{
    const pf_server *server = c->server;
    if (c->service != PF_SERVICE_DRAFTER || !server->prepared || n_bytes > MOST_BYTES ||
        !pf_prepared_any(server->prepared))
        return;
    grpc_slice hold;
    pf_error error; /* what does not decode is refused by the computing thread */
    const pf_batch *batch;
    if (pf_grpc_bytes(message, &hold, &error) != PF_OK) return;
    if (pf_codec_decode_batch(server->prepared_codec, GRPC_SLICE_START_PTR(hold), GRPC_SLICE_LENGTH(hold), &batch,
                              &error) == PF_OK)
        (void)pf_prepared_answer(server->prepared, c, batch, send_prepared, c);
    grpc_slice_unref(hold);
}
