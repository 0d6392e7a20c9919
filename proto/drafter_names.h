/*
 * Names of drafters, as opens and model infos have them: "model", "suffix".
 *
 *      pf_model_info.drafters    what a peer offers, the first of them by default
 *      pf_open.drafter           what a request asks for; empty: the default
 *
 * A name is 1 to 15 letters, digits, '-' and '_'. Which names there are is the peer's to say: others than this project's are fine.
 */
#ifndef PF_PROTO_DRAFTER_NAMES_H
#define PF_PROTO_DRAFTER_NAMES_H

#include "base/status.h"
#include "proto/messages.h"

/* Whether it may be a drafter's name. */
bool pf_drafter_name_is_valid(const char *name);

/* Adds a name to those that are offered.  PF_LIMIT: there are PF_MAX_DRAFTERS.  PF_INVALID: it is no name, or is there already. */
PF_MUST_USE pf_status pf_drafter_names_add(pf_model_info *info, const char *name);

/* Its place among those that are offered; -1: it is not. */
int32_t pf_drafter_names_find(const pf_model_info *info, const char *name);

/* Whether a sequence may ask for it: an empty name always.
 * PF_INVALID: it is no name.  PF_UNSUPPORTED: it is not offered; the sentence lists what is. */
PF_MUST_USE pf_status pf_drafter_names_check(const pf_model_info *info, const char *name, pf_error *error);

#endif
