/*
 * Decides about tensors of a file that are no part of the model as config.json describes it. Internal to model/.
 *
 * A file may hold more than a model: layers past num_hidden_layers, a value head, buffers that follow from the configuration.
 * What belongs to a part that the model has is never left out: a bias that config.json denies, a norm of the heads, an
 * adapter's matrices.
 */
#ifndef PF_MODEL_UNUSED_TENSORS_H
#define PF_MODEL_UNUSED_TENSORS_H

#include <stdint.h>

#include "model/config/config.h"

typedef enum {
    PF_EXTRA_BUFFER,  /* follows from config.json and is in many old files: not worth a warning */
    PF_EXTRA_UNUSED,  /* of something that the model does not have */
    PF_EXTRA_REFUSED, /* would change the logits */
} pf_extra_tensor;

/* `name` is that of no tensor that the model reads. A name counts as below the prefix of its architecture, "model.", whether
 * it has it or not. */
pf_extra_tensor pf_judge_extra_tensor(const pf_config *config, const char *name, int32_t n_dimensions);

#endif
