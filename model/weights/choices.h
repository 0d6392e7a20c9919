/*
 * Resolves the options that are AUTO: the types of the weights, the kind of LM head, the place of the embedding. The choice
 * depends on the files, the available kernels and the machine: whether the weights of a step fit in the cache, and how much
 * memory is left. Internal to model/.
 */
#ifndef PF_MODEL_CHOICES_H
#define PF_MODEL_CHOICES_H

#include "model/weights/packing.h"

/* Sets dtype, has_matrices, format, row_type, act, head and has_rows. The config, kernels and machine of the model must be
 * set. PF_UNSUPPORTED: an explicit option is not supported for this model. Called again if twelve bits do not hold the
 * weights. */
PF_MUST_USE pf_status pf_model_choose(pf_model *model, const pf_model_source *source, pf_error *error);

/* Sets the groups of every matrix of a model in PF_FORMAT_EXACT: of stacked parts those that hold all. The layers must have memory. */
void pf_model_choose_groups(pf_model *model, const pf_model_source *source);

/* Replaces a bounded head that AUTO chose by a full one if all weights, `bytes` with the bounded head, leave too little memory.
 * True: it was replaced, and the weights must be laid out again. */
bool pf_model_choose_less(pf_model *model, const pf_model_source *source, size_t bytes);

/* Whether a step that reads so many bytes reads them from memory; false if the cache size is not known. */
bool pf_model_is_beyond_cache(const pf_model *model, size_t step_bytes);

#endif
