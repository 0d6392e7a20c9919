/* A near peer over a tiny model, with messages that the test makes up: what the tests of a drafter and of a verifier share. */
#ifndef PF_TESTS_SUPPORT_NEAR_BENCH_H
#define PF_TESTS_SUPPORT_NEAR_BENCH_H

#include "model/backend/cpu_backend.h"
#include "tests/support/near_peer.h"
#include "tests/support/test.h"
#include "tests/support/tiny_side.h"

/* What the peer computes on: the CPU, or another backend where the test is compiled for it. */
#ifdef PF_TEST_DEVICE_SIDE
#include "tests/support/device_side.h"
#else
typedef pf_tiny_side near_side;

enum { NEAR_SIDE_SLOWNESS = 1 };

static inline near_side near_side_open(const pf_tiny_model *model, const pf_context_config *config)
{
    return pf_tiny_side_open(model, 1, config);
}

static inline void near_side_close(near_side *side)
{
    pf_tiny_side_close(side);
}

static inline pf_forward_backend near_side_backend(const near_side *side)
{
    return pf_cpu_backend(side->context);
}

static inline void near_side_decode(const near_side *side, const pf_sampling *sampling, const int32_t *prompt,
                                    int32_t n_prompt, int32_t n_new, int32_t *out)
{
    pf_tiny_side_decode(side, sampling, prompt, n_prompt, n_new, out);
}

static inline void near_side_distribution(const near_side *side, const pf_sampling *sampling, const int32_t *prefix,
                                          int32_t n, float *out)
{
    pf_tiny_side_distribution(side, sampling, prefix, n, out);
}

/* Of the cache, which pf_context_config.kv_budget_bytes may limit. */
static inline size_t near_side_page_bytes(const near_side *side)
{
    return pf_kv_page_bytes(pf_kv_get_config(pf_context_kv(side->context)));
}

static inline int32_t near_side_page_tokens(const near_side *side)
{
    return pf_kv_get_config(pf_context_kv(side->context))->page_tokens;
}
#endif

enum { N_TEXT = 40 };

typedef struct {
    near_side side;
    pf_peer *peer;
    int32_t text[N_TEXT]; /* of a verifier: what plain greedy decoding gives behind PROMPT */
} bench;

static inline bench open_near_bench(const pf_tiny_model *model, pf_context_config context, near_peer_create_fn *create,
                                    const void *config)
{
    bench b = { .side = near_side_open(model, &context) };
    pf_error error = { 0 };
    assert_ok(create(near_side_backend(&b.side), config, &b.peer, &error), error);
    return b;
}

static inline void close_bench(bench *b)
{
    pf_peer_destroy(b->peer);
    near_side_close(&b->side);
}

#ifndef PF_TEST_DEVICE_SIDE
/* Of the cache of a bench, which is closed. */
static inline pf_kv_config kv_config_of(bench b)
{
    const pf_kv_config config = *pf_kv_get_config(pf_context_kv(b.side.context));
    close_bench(&b);
    return config;
}
#endif

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
    near_side side = near_side_open(model, &context);
    for (size_t i = 0; i < n; i++) {
        pf_error error = { 0 };
        pf_peer *peer = NULL;
        assert_status(create(near_side_backend(&side), cases[i].config, &peer, &error), PF_INVALID);
        assert_says(error, cases[i].says);
        assert_null(peer);
    }
    near_side_close(&side);
}

/* config: its model_id is "tiny". */
static inline void assert_survives_refused_allocations(const pf_tiny_model *model, near_peer_create_fn *create,
                                                       const void *config)
{
    near_side side = near_side_open(model, &(pf_context_config){ .max_sequences = 2 });
    near_peer_check_refused_allocations(create, near_side_backend(&side), config);
    near_side_close(&side);
}

#endif
