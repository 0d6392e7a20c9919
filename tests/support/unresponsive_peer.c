#include "tests/support/unresponsive_peer.h"

static pf_status take(pf_peer *peer, const pf_batch *batch)
{
    (void)peer;
    (void)batch;
    return PF_OK;
}

static pf_status say_nothing(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    (void)peer;
    (void)deadline_ns;
    (void)out;
    (void)error;
    return PF_CANCELLED;
}

static pf_status tell_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    (void)peer;
    (void)error;
    *out = (pf_model_info){ .protocol_version = PF_PROTOCOL_VERSION,
                            .model_id = "mute",
                            .vocab_size = 10,
                            .max_context = 10,
                            .max_sequences = 8,
                            .max_draft = 1,
                            .methods = 1u << PF_METHOD_GREEDY };
    return PF_OK;
}

static void destroy(pf_peer *peer)
{
    (void)peer;
}

const pf_peer_ops unresponsive_peer_ops = {
    .submit = take, .collect = say_nothing, .info = tell_info, .destroy = destroy
};
