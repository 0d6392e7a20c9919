/*
 * What the options leave open: in which types a model is held, how its head is computed, where its embedding lies. Chosen
 * by its files, by the kernels there are, and by the machine: whether a step's weights come from memory or lie in the
 * cache, and how much memory is left. Internal to model/.
 */
#ifndef PF_MODEL_CHOICES_H
#define PF_MODEL_CHOICES_H

#include "model/weights/packing.h"

/* dtype, has_matrices, format, row_type, act, head_kind and has_rows, of a model whose config, kernels and machine are
 * there. What was asked for and cannot be is PF_UNSUPPORTED, with a sentence. Called again where twelve bits turn out not
 * to hold the weights. */
PF_MUST_USE pf_status pf_model_choose(pf_model *model, const pf_model_source *source, pf_error *error);

/* Make a bounded head that AUTO chose a full one where all weights, which take `bytes` with it, leave too little of the
 * machine's memory. True: it is full now, and the weights are to be laid out anew. */
bool pf_model_choose_less(pf_model *model, const pf_model_source *source, size_t bytes);

/* Whether a step that reads so many bytes has them from memory; false where the cache is not known. */
bool pf_model_is_beyond_cache(const pf_model *model, size_t step_bytes);

#endif
