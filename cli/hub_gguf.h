/* Finds one of the GGUF files of a repository in the Hugging Face cache. */
#ifndef PF_CLI_HUB_GGUF_H
#define PF_CLI_HUB_GGUF_H

#include <stdbool.h>

#include "base/status.h"
#include "cli/hub.h"

/* Whether a repository has GGUF files and no safetensors. */
bool pf_hub_is_gguf_only(const char *directory);

/* Finds the file whose name has the tag as a word, whatever its case ("Q4_K_M" in "model-q4_k_m.gguf"), or the only file where tag is
 * NULL. The first part stands for a split file; files of an image encoder (mmproj) and of importance matrices are passed over.
 * name: "org/name", for the sentence. PF_UNAVAILABLE: there is none.  PF_INVALID: there are several. Both sentences list the files. */
PF_MUST_USE pf_status pf_hub_find_gguf(const char *directory, const char *name, const char *tag, char out[PF_MAX_PATH],
                                       pf_error *error);

#endif
