/*
 * Loads the weights of a checkpoint into the memory that model.c laid out: vectors as F32, rows of the embedding, matrices packed
 * into panels. Internal to model/.
 *
 * Each thread of the team packs the panels that it will read, so that first touch places each page on its NUMA node. A thread
 * reads its rows in chunks of a few megabytes and releases the pages of the file after each, so that the raw weights and the
 * packed ones are not both resident.
 */
#ifndef PF_MODEL_PACKING_H
#define PF_MODEL_PACKING_H

#include "model/files/checkpoint.h"
#include "model/files/walk.h"
#include "model/weights/weights.h"

/* The state of a load. */
typedef struct {
    pf_checkpoint checkpoint;
    const pf_model_options *options;
    pf_gemm_pack_weights_fn *pack_weights;
    pf_walk walk; /* over the bytes of the checkpoint, and of a bounded head while its errors are measured */
    bool met_not_representable; /* bf16-12 cannot hold a matrix */
} pf_model_source;

/* Loads all weights; or, with source->met_not_representable set, those up to a matrix that the format cannot hold. The config,
 * types and memory of the model must be set. PF_FORMAT: a value is invalid; the sentence names its tensor. */
PF_MUST_USE pf_status pf_model_load_weights(const pf_model *model, pf_model_source *source, pf_error *error);

#endif
