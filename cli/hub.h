/* A model's name on the command line: a directory, or a repository of the Hugging Face Hub in its local cache. */
#ifndef PF_CLI_HUB_H
#define PF_CLI_HUB_H

#include "base/status.h"

enum { PF_MAX_PATH = 4096 };

/* Where a model's directory is: the name itself when it is one, else org/name in the local Hugging Face cache
 * (HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub; a leading ~ or
 * ~user and $VARIABLES expanded): of its main branch the commit that is there, or, of a repository that was downloaded by a commit or a
 * tag alone, the only one.
 * PF_UNAVAILABLE: nowhere, or the cache has a part of it alone, as a download leaves it that was cut; the sentence gives the
 * command that downloads it.  PF_INVALID: it is a file, or the cache cannot be looked at. */
PF_MUST_USE pf_status pf_hub_find_model(const char *name, char out[PF_MAX_PATH], pf_error *error);

/* Likewise, for the tokenizer alone: the cache need not have a model's weights. */
PF_MUST_USE pf_status pf_hub_find_tokenizer(const char *name, char out[PF_MAX_PATH], pf_error *error);

#endif
