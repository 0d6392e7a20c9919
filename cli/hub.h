/* Resolves the name of a model: a directory, a GGUF file, or a repository of the Hugging Face Hub in its local cache. */
#ifndef PF_CLI_HUB_H
#define PF_CLI_HUB_H

#include "base/status.h"

enum { PF_MAX_PATH = 4096 };

/* Finds a model: the name itself if it is a directory or a GGUF file, else org/name in the local Hugging Face cache (HF_HUB_CACHE,
 * HUGGINGFACE_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub; a leading ~ or ~user and
 * $VARIABLES are expanded): the cached commit of the main branch, or, where only a commit or a tag was downloaded, the only one.
 * org/name:TAG is one of the repository's GGUF files (hub_gguf.h), and so is org/name where it has nothing but GGUF files.
 * PF_UNAVAILABLE: it is not there, or the download is incomplete; the sentence gives the command that downloads it.
 * PF_INVALID: it is another file, or the cache cannot be read. */
PF_MUST_USE pf_status pf_hub_find_model(const char *name, char out[PF_MAX_PATH], pf_error *error);

/* The same for the tokenizer only: the weights need not be in the cache. */
PF_MUST_USE pf_status pf_hub_find_tokenizer(const char *name, char out[PF_MAX_PATH], pf_error *error);

#endif
