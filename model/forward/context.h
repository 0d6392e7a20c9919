/*
 * Runs forward passes of a model, and owns their state: the KV cache, activations, logits. One pass serves prefill, decode,
 * verification and drafting alike.
 *
 *      rows of a pass:   | span 0: sequence a, 5 tokens | span 1: sequence b, 1 token | ...
 *      logits out:            last n_logits rows of span 0, then of span 1, ...     f32 [n_logit_rows, n_vocab]
 *
 * A row's logits are bit-identical whatever the other rows, the chunking of the prompt and the number of threads
 * (DESIGN, invariant 2).
 *
 * Memory is one arena made at creation, besides the KV cache; a pass allocates nothing.
 * Threads: one caller at a time; the pass itself runs on the team.
 */
#ifndef PF_MODEL_CONTEXT_H
#define PF_MODEL_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/stop.h"
#include "base/team.h"
#include "kvcache/kvcache.h"
#include "model/forward/span.h"
#include "model/weights/model.h"

typedef struct pf_context pf_context;

typedef struct {
    int32_t max_tokens;     /* longest sequence; 0: the model's context, at most PF_DEFAULT_CONTEXT */
    int32_t max_sequences;  /* alive at once in the KV cache */
    int32_t max_rows;       /* rows of one pass, all spans together; longer prompts are cut into such chunks */
    int32_t max_logit_rows; /* rows of one pass with wanted logits, at most max_rows */
    int32_t
        kv_sequences; /* of max_tokens that the KV cache has pages for, at most max_sequences; 0: all of them; below: by memory */
    size_t kv_budget_bytes; /* 0: what kv_sequences and max_forks take */
    int32_t max_forks; /* alive besides max_sequences: short forks of these, for which there are a few pages each */
    pf_type kv_type;   /* PF_TYPE_F32 or PF_TYPE_BF16 */
    int32_t
        fewest_members; /* to run a pass of few rows where that is measured faster (model/forward/thread_count.h); 0: all run it */
    bool may_back_off; /* fewer than those, where others compute on the members' cores (model/forward/thread_count.h) */
    const volatile bool *cancel; /* of the making, borrowed for as long; or NULL */
} pf_context_config;

/* kv_sequences below 0: as many as take a quarter of the memory that the weights leave, and at least these. */
enum { PF_CONTEXT_FEWEST_KV = 8, PF_CONTEXT_KV_SHARE = 4 };

enum { PF_DEFAULT_CONTEXT = 8192 };

/* Rows of a pass that suit a model's products: fewer fetch the weights too often, more do not fit the caches. */
int32_t pf_context_default_rows(const pf_model *model);

/* The KV type that suits a model's arithmetic: F32 for F32, BF16 for BF16 and for integers. */
pf_type pf_context_default_kv_type(const pf_model *model);

/* model and team are borrowed and must outlive the context.
 * PF_INVALID: a field is out of range (max_tokens above the model's positions included); PF_LIMIT: with the
 * model more than the machine's memory; PF_NOMEM; PF_CANCELLED; PF_INTERNAL: the buffers do not fit what was measured. The
 * caller ends it with pf_context_destroy. */
PF_MUST_USE pf_status pf_context_create(const pf_model *model, pf_team *team, const pf_context_config *config,
                                        pf_context **out, pf_error *error);
void pf_context_destroy(pf_context *context); /* NULL is fine */

/* Bytes of its buffers and its KV pool, resident or not. */
size_t pf_context_reserved_bytes(const pf_context *context);

/* From now on a pass ends between two layers when `stop` is due, and forward and prefill return PF_CANCELLED. The caller of a
 * pass looks at it; borrowed. NULL: never. */
void pf_context_set_stop(pf_context *context, pf_stop *stop);

/* Runs the spans: extends each sequence's KV by its tokens and computes the wanted logits, in pf_context_logits.
 * Sequences must be distinct. All or nothing: on failure every sequence is as before.
 * PF_INVALID: a token id outside the vocabulary or a best_of beyond it, a parent that is not before its token, a sequence
 * that is not alive, more rows or logit rows than the context was made for.  PF_LIMIT: the KV pool or a sequence's max_tokens.
 * PF_CANCELLED. */
PF_MUST_USE pf_status pf_context_forward(pf_context *context, const pf_span *spans, int32_t n_spans);

/* As forward for one span of any length, in chunks of max_rows: logits of the last row only, when wanted. */
PF_MUST_USE pf_status pf_context_prefill(pf_context *context, pf_kv_seq sequence, const int32_t *tokens,
                                         int32_t n_tokens, bool want_logits);

/* Row i of the last pass's logits, 0 <= i < the sum of n_logits: [n_vocab]. Borrowed until the next pass; the caller
 * may overwrite them. Not where all spans asked for the best of as many tokens: then pf_context_best has the answer. */
float *pf_context_logits(pf_context *context, int32_t i);

/* The first token below best_of with the largest logit; -1: all are NaN. Where all spans asked for the best of as
 * many tokens: of so many. */
int32_t pf_context_best(const pf_context *context, int32_t i, int32_t best_of);

/* The lowest token below n whose logit in row i is NaN or plus infinity; -1: none. Where all spans asked for the best of as
 * many tokens: of so many. */
int32_t pf_context_find_invalid(const pf_context *context, int32_t i, int32_t n);

/* Runs fn(member, arg) on the threads that ran the last pass: for work on its logits. */
void pf_context_run_members(const pf_context *context, pf_team_fn *fn, void *arg);

int32_t pf_context_n_threads(const pf_context *context); /* of the team */
int32_t pf_context_n_vocab(const pf_context *context);   /* rows of the embedding */
pf_kv *pf_context_kv(pf_context *context);               /* acquire, fork, truncate and release sequences here */
const pf_model *pf_context_model(const pf_context *context);
const pf_context_config *pf_context_get_config(const pf_context *context); /* resolved */

#endif
