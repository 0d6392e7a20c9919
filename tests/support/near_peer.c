#include "tests/support/near_peer.h"

#include "tests/support/alloc_count.h"
#include "tests/support/test.h"

pf_open near_peer_open(uint64_t sequence)
{
    return (pf_open){ .sequence = sequence,
                      .incarnation = 1,
                      .tokens = PROMPT,
                      .n_tokens = N_PROMPT,
                      .sampling = GREEDY,
                      .method = PF_METHOD_GREEDY,
                      .max_draft = 4 };
}

pf_open near_peer_open_long(uint64_t sequence)
{
    static int32_t prompt[N_LONG_PROMPT];
    for (int32_t i = 0; i < N_LONG_PROMPT; i++) prompt[i] = (i * 37) % 128;
    pf_open open = near_peer_open(sequence);
    open.tokens = prompt;
    open.n_tokens = N_LONG_PROMPT;
    return open;
}

const pf_batch *near_peer_ask(pf_peer *peer, pf_batch batch)
{
    pf_error error = { 0 };
    const pf_batch *answer;
    assert_status(pf_peer_submit(peer, &batch), PF_OK);
    const pf_status status = pf_peer_collect(peer, UINT64_MAX, &answer, &error);
    if (status == PF_CANCELLED) return NULL;
    assert_ok(status, error);
    return answer;
}

void near_peer_check_refused_allocations(near_peer_create_fn *create, pf_forward_backend backend, const void *config)
{
    for (int64_t n = 0;; n++) {
        pf_error error = { 0 };
        pf_peer *peer = NULL;
        pf_alloc_refuse_after(n);
        const pf_status status = create(backend, config, &peer, &error);
        pf_alloc_refuse_after(-1);
        if (status == PF_OK) {
            pf_model_info info = { 0 };
            assert_true(n >= 2);
            assert_ok(pf_peer_info(peer, &info, &error), error);
            assert_string_equal(info.model_id, "tiny");
            pf_peer_destroy(peer);
            return;
        }
        assert_int_equal(status, PF_NOMEM);
        assert_null(peer);
    }
}
