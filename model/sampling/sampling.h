/*
 * From logits to the distribution of the next token, and from there to a token.
 *
 * Pure functions, no allocation: scratch is passed in. The draw itself, plain sampling's and that of `coupled` speculation,
 * is the Gumbel-max trick (Maddison et al., arXiv:1411.0030, section 2): pf_exp_race_fn of kernels/sample/noise.h with the
 * noise of (seed, domain, position), distributed exactly as the probabilities.
 */
#ifndef PF_MODEL_SAMPLING_H
#define PF_MODEL_SAMPLING_H

#include <stddef.h>
#include <stdint.h>

#include "base/sampling_parameters.h"
#include "base/status.h"
#include "kernels/kernels.h"

/* Bytes of scratch that the functions below need for a vocabulary; aligned as a float. */
size_t pf_sampling_scratch_bytes(int32_t n_vocab);

/* probabilities[n_vocab] = the distribution of the next token: logits / temperature, then top-k, top-p, min-p and typical-p
 * each on what the one before left, in transformers' order, then softmax over what is kept: others are exactly 0, the rest
 * sums to 1 within float rounding.
 *   top-k   keeps a token when its logit is at least the k-th largest
 *   top-p   keeps the smallest set whose mass reaches top_p, at least one token; of equal weights at its boundary
 *           the largest logits, of equal logits the lowest ids, where transformers leaves the choice to an unstable sort
 *   min-p   keeps a token when its probability is at least min_p times the best one's
 *   typical-p  keeps the smallest set, of the tokens whose -log p is nearest to the entropy H, whose mass reaches typical_p,
 *              and all that are as near as the last of them (Meister et al., arXiv:2202.00666, section 4). Near is
 *              min(p e^H, 1 / (p e^H)) as a float: e to the power of the negative distance
 * Temperature 0: one-hot at the argmax, ties to the lowest id. A NaN logit is never kept; plus infinities share equally;
 * where no logit is above minus infinity, PF_INTERNAL. */
PF_MUST_USE pf_status pf_sampling_distribution(const pf_sampling *sampling, const pf_kernels *kernels,
                                               const float *logits, int32_t n_vocab, float *probabilities,
                                               void *scratch);

/* That distribution truncated to its `max_entries` most probable tokens (of equals the lowest ids) and made to sum to 1
 * again. What lies below needs no weight unless top-p or typical-p asks for the mass of all, so the vocabulary is searched once and the
 * softmax is over the few. top-k counts entries here: at its boundary, too, the lowest ids.
 *   ids, values    [max_entries]  out, in order of id, each value above 0
 *   probabilities  [n_vocab]      room for the whole, used with top-p and typical-p
 *   *n_entries     at least 1
 * What a drafter declares is exactly this, and it draws its token from exactly this.
 * PF_INTERNAL: no logit is above minus infinity. */
PF_MUST_USE pf_status pf_sampling_shortlist(const pf_sampling *sampling, const pf_kernels *kernels, const float *logits,
                                            int32_t n_vocab, int32_t max_entries, int32_t *ids, float *values,
                                            int32_t *n_entries, float *probabilities, void *scratch);

/* Draw an entry index from values [n] (summing to 1) with one uniform: inverse transform, sums in double. */
int32_t pf_sampling_draw_entry(const float *values, int32_t n, float uniform);

#endif
