/*
 * The parts of an engine, for code of this tree that measures or prints them. Programs use include/pilotfish.h.
 *
 * A caller that runs passes in the context itself must not give the engine a role.
 */
#ifndef PF_ENGINE_ENGINE_H
#define PF_ENGINE_ENGINE_H

#include "base/team.h"
#include "include/pilotfish.h"
#include "model/weights/model.h"
#include "proto/messages.h"
#include "tokenizer/decode/detokenize.h"
#include "tokenizer/tokenizer.h"
#include "verify/cuda/cuda_backend.h"

enum { PF_DEFAULT_MAX_DRAFT = 16 };

/* Borrowed until pf_engine_close. An engine on a device has no model and no context of the CPU: NULL. */
const pf_config *pf_engine_config(const pf_engine *engine);
const pf_model *pf_engine_model(const pf_engine *engine);
struct pf_context *pf_engine_context(pf_engine *engine);
pf_team *pf_engine_team(pf_engine *engine);

/* What its KV cache has room for, of all sequences. */
int64_t pf_engine_kv_tokens(const pf_engine *engine);

#endif
