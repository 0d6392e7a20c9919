/*
 * The weights of a checkpoint into the memory that model.c has laid out: vectors as F32, an embedding's rows, matrices
 * packed into panels. Internal to model/.
 *
 * Panels are packed by the members of the team that will read them, so each page is first touched where it is needed.
 * A member goes through its rows in stretches of a few megabytes and gives the file's pages back behind each, so that
 * the raw weights and the packed ones do not add up.
 */
#ifndef PF_MODEL_PACKING_H
#define PF_MODEL_PACKING_H

#include "model/files/checkpoint.h"
#include "model/files/walk.h"
#include "model/weights/weights.h"

/* What is being loaded, and how far it is. */
typedef struct {
    pf_checkpoint checkpoint;
    const pf_model_options *options;
    pf_gemm_pack_weights_fn *pack_weights;
    pf_walk walk;               /* of the checkpoint's bytes, and of a bounded head's as it is measured */
    bool met_not_representable; /* a matrix was met that bf16-12 cannot hold */
} pf_model_source;

/* All weights, or, where source->met_not_representable is then set, those up to a matrix that was not held. The model's config,
 * types and memory must be there. PF_FORMAT: a number that may not be; the sentence names its tensor. */
PF_MUST_USE pf_status pf_model_load_weights(const pf_model *model, pf_model_source *source, pf_error *error);

#endif
