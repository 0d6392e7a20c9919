#include "verify/judge.h"

#include <stdbool.h>
#include <string.h>

#include "proto/tree.h"

/* The uses of PF_NOISE_ACCEPT at a position. */
enum { USE_KEEP = 0, USE_NEXT = 1 };

pf_judge pf_judge_create(pf_context *context, pf_arena *arena)
{
    const int32_t n_vocab = pf_context_n_vocab(context);
    return (pf_judge){
        .context = context,
        .n_vocab = n_vocab,
        .p = pf_arena_take(arena, (size_t)n_vocab, sizeof(float)),
        .q = pf_arena_take(arena, (size_t)n_vocab, sizeof(float)),
        .scratch = pf_arena_take(arena, pf_sampling_scratch_bytes(n_vocab), 1),
    };
}

static const pf_kernels *kernels(const pf_judge *judge)
{
    return pf_model_kernels(pf_context_model(judge->context));
}

static pf_status fill_p(pf_judge *judge, const pf_sampling *sampling, int32_t row)
{
    const pf_status status = pf_sampling_distribution(sampling, kernels(judge), pf_context_logits(judge->context, row),
                                                      judge->n_vocab, judge->p, judge->scratch);
    return status == PF_INTERNAL ? PF_UNSUPPORTED : status;
}

/* The target's own choice at a row: what plain decoding takes there. */
static pf_status choose(pf_judge *judge, const pf_sampling *sampling, int32_t row, int32_t position, int32_t *out)
{
    const int32_t n_vocab = judge->n_vocab;
    int32_t token;
    if (sampling->temperature == 0.0f) {
        token = pf_context_best(judge->context, row, n_vocab);
    } else {
        PF_TRY(fill_p(judge, sampling, row));
        token = kernels(judge)->race(judge->p, n_vocab, sampling->seed, PF_NOISE_TARGET, position);
    }
    if (token < 0) return PF_UNSUPPORTED;
    *out = token;
    return PF_OK;
}

/* pf_accept_exact, with rows made as they are needed. *out: what the rows have decided, also where the next one fails. */
static pf_status judge_exact(pf_judge *judge, const pf_sampling *sampling, const pf_drafted *drafted, int32_t first_row,
                             int32_t position, pf_acceptance *out, int32_t *path)
{
    for (int32_t n = 0, node = -1;; n++) {
        int32_t best;
        PF_TRY(choose(judge, sampling, first_row + 1 + node, position + n, &best));
        *out = (pf_acceptance){ .n_accepted = n, .next = best };
        node = pf_tree_child(drafted->tokens, drafted->parents, drafted->n, node, best);
        if (node < 0) return PF_OK;
        path[n] = node;
    }
}

/* q becomes the declared distribution, and zero again: no cost in the size of the vocabulary. */
static void spread(float *q, const pf_declared *declared)
{
    for (int32_t i = 0; i < declared->n; i++) q[declared->ids[i]] = declared->probabilities[i];
}

static void sweep(float *q, const pf_declared *declared)
{
    for (int32_t i = 0; i < declared->n; i++) q[declared->ids[i]] = 0.0f;
}

/* pf_accept_rejection and pf_accept_tokens likewise. */
static pf_status judge_rejection(pf_judge *judge, const pf_sampling *sampling, const pf_drafted *drafted,
                                 int32_t first_row, int32_t position, pf_acceptance *out, int32_t *path)
{
    const int32_t n_vocab = judge->n_vocab;
    for (int32_t i = 0;; i++) {
        PF_TRY(fill_p(judge, sampling, first_row + i));
        const float u_next = pf_noise_uniform(sampling->seed, PF_NOISE_ACCEPT, position + i, USE_NEXT);
        int32_t next;
        if (i == drafted->n) {
            next = pf_accept_draw(judge->p, n_vocab, u_next);
        } else {
            const float u_keep = pf_noise_uniform(sampling->seed, PF_NOISE_ACCEPT, position + i, USE_KEEP);
            const pf_declared *declared = drafted->declared ? &drafted->declared[i] : NULL;
            if (declared) spread(judge->q, declared);
            const bool kept = pf_accept_token(drafted->tokens[i], n_vocab, declared ? judge->q : NULL, judge->p, u_keep,
                                              u_next, &next);
            if (declared) sweep(judge->q, declared);
            if (kept) {
                path[i] = i;
                *out = (pf_acceptance){ .n_accepted = i, .next = drafted->tokens[i] };
                continue;
            }
        }
        if (next < 0) return PF_UNSUPPORTED;
        *out = (pf_acceptance){ .n_accepted = i, .next = next };
        return PF_OK;
    }
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
    const bool exact = pf_judge_is_exact(sampling, method) || drafted->n == 0;
    *out = (pf_acceptance){ .next = -1 };
    const pf_status status = exact ? judge_exact(judge, sampling, drafted, first_row, position, out, path)
                                   : judge_rejection(judge, sampling, drafted, first_row, position, out, path);
    return out->next >= 0 ? PF_OK : status; /* behind the last token that is decided plain decoding may end */
}
