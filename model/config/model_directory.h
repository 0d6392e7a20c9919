/*
 * Explains why a directory is not a model that can be loaded: what is there instead, and the way out. Internal to model/.
 */
#ifndef PF_MODEL_MODEL_DIRECTORY_H
#define PF_MODEL_MODEL_DIRECTORY_H

#include "base/status.h"

/* Fills in the sentence for a directory that lacks `what` ("config.json", or the weights' names). PF_UNSUPPORTED: a model is
 * there in a form that is not read (PyTorch, GGUF, an adapter, ...), and downloading again does not help.  PF_UNAVAILABLE:
 * otherwise. */
PF_MUST_USE pf_status pf_model_directory_explain(const char *directory, const char *what, pf_error *error);

#endif
