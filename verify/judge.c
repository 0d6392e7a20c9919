#include "verify/judge.h"

#include <assert.h>
#include <stdbool.h>

#include "proto/tree.h"

/* The uses of PF_NOISE_ACCEPT at a position. */
enum { USE_KEEP = 0, USE_NEXT = 1 };

pf_judge pf_judge_create(pf_forward_backend backend, pf_arena *arena)
{
    const int32_t n_vocab = backend.limits.n_vocab;
    return (pf_judge){
        .backend = backend,
        .n_vocab = n_vocab,
        .p = pf_arena_take(arena, (size_t)n_vocab, sizeof(float)),
        .q = pf_arena_take(arena, (size_t)n_vocab, sizeof(float)),
        .scratch = pf_arena_take(arena, pf_sampling_scratch_bytes(n_vocab), 1),
    };
}

/* The rows of one sequence. */
typedef struct {
    const pf_judge *judge;
    const pf_sampling *sampling;
    int32_t first_row, position;
} judged_rows;

static const float *make_p(void *rows, int32_t row)
{
    const judged_rows *r = rows;
    const pf_judge *judge = r->judge;
    const float *logits = pf_forward_logits(&judge->backend, r->first_row + row);
    const pf_status status =
        pf_sampling_distribution(r->sampling, judge->backend.kernels, logits, judge->n_vocab, judge->p, judge->scratch);
    return status == PF_OK ? judge->p : NULL;
}

/* What plain decoding takes there. */
static int32_t choose(void *rows, int32_t row, int32_t n_kept)
{
    const judged_rows *r = rows;
    const pf_judge *judge = r->judge;
    if (r->sampling->temperature == 0.0f) return pf_forward_best(&judge->backend, r->first_row + row, judge->n_vocab);
    const float *p = make_p(rows, row);
    return p ? judge->backend.kernels->race(p, judge->n_vocab, r->sampling->seed, PF_NOISE_TARGET, r->position + n_kept)
             : -1;
}

static pf_acceptance judge_by_rejection(const pf_judge *judge, const pf_drafted *drafted, judged_rows *rows,
                                        int32_t *path)
{
    const uint64_t seed = rows->sampling->seed;
    pf_accept_uniforms uniforms[PF_MAX_DRAFT_TOKENS + 1];
    assert(drafted->n <= PF_MAX_DRAFT_TOKENS);
    for (int32_t i = 0; i <= drafted->n; i++) {
        uniforms[i].keep = pf_noise_uniform(seed, PF_NOISE_ACCEPT, rows->position + i, USE_KEEP);
        uniforms[i].next = pf_noise_uniform(seed, PF_NOISE_ACCEPT, rows->position + i, USE_NEXT);
    }
    return pf_accept_rejection(drafted, judge->n_vocab, make_p, rows, uniforms, judge->q, path);
}

int32_t pf_judge_best_of(const pf_judge *judge, const pf_sampling *sampling)
{
    return sampling->temperature == 0.0f ? judge->n_vocab : 0;
}

bool pf_judge_is_exact(const pf_sampling *sampling, pf_method method)
{
    return method != PF_METHOD_REJECTION || sampling->temperature == 0.0f;
}

pf_status pf_judge_proposal(pf_judge *judge, const pf_sampling *sampling, pf_method method, const pf_drafted *drafted,
                            int32_t first_row, int32_t position, pf_acceptance *out, int32_t *path)
{
    judged_rows rows = { .judge = judge, .sampling = sampling, .first_row = first_row, .position = position };
    const bool exact = pf_judge_is_exact(sampling, method) || drafted->n == 0;
    *out = exact ? pf_accept_exact(drafted, choose, &rows, path) : judge_by_rejection(judge, drafted, &rows, path);
    return out->next >= 0 ? PF_OK : PF_UNSUPPORTED;
}

/* ---- what comes in, and what goes out ------------------------------------------------------------------------- */

static bool declared_is_usable(const pf_judge *judge, const pf_declared *declared)
{
    return declared->n >= 1 && declared->n <= PF_MAX_DECLARED &&
           pf_count_known(declared->ids, declared->n, judge->n_vocab) == declared->n;
}

int32_t pf_judge_count_usable(const pf_judge *judge, const pf_sampling *sampling, pf_method method,
                              const pf_proposal *proposal, int32_t n_most)
{
    int32_t n = proposal->n_tokens < n_most ? proposal->n_tokens : n_most;
    if (n <= 0) return 0;
    if (!pf_judge_is_exact(sampling, method)) n = pf_tree_chain(proposal->parents, n);
    n = pf_count_known(proposal->tokens, n, judge->n_vocab);
    for (int32_t i = 0; i < n; i++) {
        if (proposal->parents && (proposal->parents[i] < -1 || proposal->parents[i] >= i)) return i;
        if (proposal->declared && !declared_is_usable(judge, &proposal->declared[i])) return i;
    }
    return n;
}

int32_t pf_judge_cut(const int32_t *tokens, int32_t n, int32_t room, const int32_t *stop, int32_t n_stop,
                     pf_finish *finish)
{
    if (n > room) n = room > 0 ? room : 0;
    *finish = n >= room ? PF_FINISH_LENGTH : PF_FINISH_NONE;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < n_stop; k++)
            if (tokens[i] == stop[k]) {
                *finish = PF_FINISH_EOS;
                return i + 1;
            }
    return n;
}
