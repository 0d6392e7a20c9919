/* A drafter of a tiny model by itself, with verdicts that the test makes up. */
#ifndef PF_TESTS_DRAFTER_BENCH_H
#define PF_TESTS_DRAFTER_BENCH_H

#include "draft/model_drafter.h"
#include "tests/support/near_bench.h"

enum { V = 128, MAX_TOKENS = 128 };

static const pf_tiny_model MODEL = { .seed = 41 };

static inline pf_status create_drafter(pf_forward_backend backend, const void *config, pf_peer **out, pf_error *error)
{
    return pf_model_drafter_create(backend, config, out, error);
}

static inline bench open_bench(pf_context_config context, pf_model_drafter_config config)
{
    return open_near_bench(&MODEL, context, create_drafter, &config);
}

static inline bench open_plain_bench(void)
{
    return open_bench((pf_context_config){ .max_sequences = 5 },
                      (pf_model_drafter_config){ .max_sequences = 4, .max_draft = 8, .seed = 1 });
}

/* By whose clock every pass takes 0.1 ms, and a proposal is away for as long as the test moves it. */
static inline bench open_timed_bench(uint64_t *clock_ns)
{
    return open_bench((pf_context_config){ .max_sequences = 5 },
                      (pf_model_drafter_config){ .max_sequences = 4,
                                                 .max_draft = 8,
                                                 .seed = 1,
                                                 .simulate_token_ns = 100 * 1000,
                                                 .stop = { .clock_ns = clock_ns } });
}

static inline pf_verdict verdict_of(uint64_t sequence, uint64_t round, int32_t base, const int32_t *tokens, int32_t n)
{
    return (pf_verdict){
        .sequence = sequence, .incarnation = 1, .round = round, .base = base, .tokens = tokens, .n_tokens = n
    };
}

static inline const pf_proposal *ask_proposal(bench *b, pf_batch batch)
{
    const pf_batch *answer = ask(b, batch);
    assert_non_null(answer);
    assert_int_equal(answer->n_proposals, 1);
    assert_int_equal(answer->n_refusals, 0);
    assert_int_equal(answer->n_prefix_requests, 0);
    return &answer->proposals[0];
}

/* Open a sequence and give it the verdict of its first round. */
static inline const pf_proposal *begin_drafting(bench *b, pf_open open, int32_t token)
{
    pf_verdict verdict = verdict_of(open.sequence, open.next_round, open.n_tokens, &token, 1);
    verdict.incarnation = open.incarnation;
    return ask_proposal(b, (pf_batch){ .opens = &open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 });
}

static inline const pf_proposal *commit(bench *b, uint64_t round, int32_t base, const int32_t *tokens, int32_t n)
{
    pf_verdict verdict = verdict_of(1, round, base, tokens, n);
    return ask_proposal(b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
}

static inline void end_drafting(bench *b, uint64_t sequence)
{
    pf_close close = { sequence };
    assert_null(ask(b, (pf_batch){ .closes = &close, .n_closes = 1 }));
}

static inline void assert_drafted(const pf_proposal *p, uint64_t round, int32_t base, const int32_t *tokens, int32_t n)
{
    assert_int_equal(p->round, round);
    assert_int_equal(p->base, base);
    assert_int_equal(p->n_tokens, n);
    for (int32_t i = 0; i < n; i++) assert_int_equal(p->tokens[i], tokens[i]);
}

static inline pf_open sampled_open(uint64_t sequence, int32_t max_declared)
{
    pf_open open = near_peer_open(sequence);
    open.sampling = (pf_sampling){ .temperature = 2.0f, .top_p = 1.0f };
    open.method = PF_METHOD_REJECTION;
    open.max_declared = max_declared;
    return open;
}

#endif
