/* Reports what `pilotfish info` says of a model besides its packed tensors: its files, its memory, and the vocabulary that it shares
 * with another model. Each function adds fields to the document of a model; each printer prints them as lines of text. */
#ifndef PF_CLI_MODEL_REPORT_H
#define PF_CLI_MODEL_REPORT_H

#include <jansson.h>

#include "cli/output.h"
#include "engine/engine.h"

/* "files": {"format", "tensors", "types": {NAME: number of tensors}} and "chat_template": a bool. path: a directory or a GGUF file.
 * Errors as pf_tensor_source_open. */
PF_MUST_USE pf_status pf_report_add_files(const char *path, json_t *model, pf_error *error);

/* "memory": {"context", "sequences", "weight_bytes", "kv_bytes", "buffer_bytes", "total_bytes"}, of an engine with this context
 * and so many sequences. PF_NOMEM. */
PF_MUST_USE pf_status pf_report_add_memory(pf_engine *engine, json_t *model, pf_error *error);

/* "vocabulary": {"with", "relation": "equal", "padding" or "partial", "tokens", "shared", "share"}: the ids that have one text in
 * both. padding: the same tokens, and embeddings with other numbers of rows. `other` is the name of the other model, at a path.
 * PF_UNAVAILABLE: one of the two has no tokenizer.  Else as pf_config_load and pf_tokenizer_open. */
PF_MUST_USE pf_status pf_report_add_vocabulary(const pf_engine *engine, const char *other, const char *path,
                                               json_t *model, pf_error *error);

void pf_report_print(pf_out *out, const json_t *model);

#endif
