/* A near peer over a tiny model, with messages that the test makes up: what the tests of a drafter and of a verifier share. */
#ifndef PF_TESTS_SUPPORT_NEAR_BENCH_H
#define PF_TESTS_SUPPORT_NEAR_BENCH_H

#include "model/backend/cpu_backend.h"
#include "tests/support/near_peer.h"
#include "tests/support/test.h"
#include "tests/support/tiny_side.h"

enum { N_TEXT = 40 };

typedef struct {
    pf_tiny_side side;
    pf_peer *peer;
    int32_t text[N_TEXT]; /* of a verifier: what plain greedy decoding gives behind PROMPT */
} bench;

static inline bench open_near_bench(const pf_tiny_model *model, pf_context_config context, near_peer_create_fn *create,
                                    const void *config)
{
    bench b = { .side = pf_tiny_side_open(model, 1, &context) };
    pf_error error = { 0 };
    assert_ok(create(pf_cpu_backend(b.side.context), config, &b.peer, &error), error);
    return b;
}

static inline void close_bench(bench *b)
{
    pf_peer_destroy(b->peer);
    pf_tiny_side_close(&b->side);
}

/* Of the cache of a bench, which is closed. */
static inline pf_kv_config kv_config_of(bench b)
{
    const pf_kv_config config = *pf_kv_get_config(pf_context_kv(b.side.context));
    close_bench(&b);
    return config;
}

static inline const pf_batch *ask(bench *b, pf_batch batch)
{
    return near_peer_ask(b->peer, batch);
}

typedef struct {
    const void *config;
    const char *says; /* part of the sentence that refuses it */
} invalid_config;

static inline void assert_configs_refused(const pf_tiny_model *model, pf_context_config context,
                                          near_peer_create_fn *create, const invalid_config *cases, size_t n)
{
    pf_tiny_side side = pf_tiny_side_open(model, 1, &context);
    for (size_t i = 0; i < n; i++) {
        pf_error error = { 0 };
        pf_peer *peer = NULL;
        assert_status(create(pf_cpu_backend(side.context), cases[i].config, &peer, &error), PF_INVALID);
        assert_says(error, cases[i].says);
        assert_null(peer);
    }
    pf_tiny_side_close(&side);
}

/* config: its model_id is "tiny". */
static inline void assert_survives_refused_allocations(const pf_tiny_model *model, near_peer_create_fn *create,
                                                       const void *config)
{
    pf_tiny_side side = pf_tiny_side_open(model, 1, &(pf_context_config){ .max_sequences = 2 });
    near_peer_check_refused_allocations(create, pf_cpu_backend(side.context), config);
    pf_tiny_side_close(&side);
}

#endif
