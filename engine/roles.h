/* The roles of an engine, with the secrets that a served one needs. Internal to engine/. */
#ifndef PF_ENGINE_ROLES_H
#define PF_ENGINE_ROLES_H

#include "draft/drafter_kind.h"
#include "include/pilotfish.h"

typedef struct {
    uint64_t seed;     /* what the role draws from where a request brings no seed of its own, as on the wire; from the
                          system's entropy when remote clients are served, 0 in this process, where requests bring theirs */
    uint64_t grace_ns; /* how long it continues after a stop request */
} pf_served_role;

/* Otherwise as the public ones; options may be NULL. */
PF_MUST_USE pf_status pf_engine_make_verifier(pf_engine *engine, const pf_role_options *options,
                                              const pf_served_role *served, pf_peer **out, pf_error *error);
PF_MUST_USE pf_status pf_engine_make_drafter(pf_engine *engine, const pf_role_options *options,
                                             const pf_served_role *served, pf_peer **out, pf_error *error);

/* What pf_drafter_options.drafter names: distinct kinds, the first of them the default. */
typedef struct {
    pf_drafts_by by[PF_N_DRAFTS_BY];
    int32_t n;
} pf_drafter_list;

/* Words with commas between. NULL, or none: model.  PF_INVALID: another word, or one twice. */
PF_MUST_USE pf_status pf_drafter_list_parse(const char *words, pf_drafter_list *out, pf_error *error);

/* Whether one of them has a model, and whether one looks suffixes up. */
bool pf_drafter_list_has_model(const pf_drafter_list *list);
bool pf_drafter_list_has_suffixes(const pf_drafter_list *list);

/* The drafters of a list as one peer. */
typedef struct {
    const pf_drafter_list *list;
    pf_peer *model;             /* of a list that has one: the engine's drafter; taken, also on failure. Else NULL */
    const pf_model_info *texts; /* of lookups alone: whose texts they look up; with a model they are its own */
    int32_t max_sequences, max_draft; /* likewise */
    uint64_t corpus_bytes;
} pf_drafters_plan;

/* PF_INVALID: max_sequences is out of range, or corpus_bytes is.  PF_NOMEM. */
PF_MUST_USE pf_status pf_drafters_make(const pf_drafters_plan *plan, pf_peer **out, pf_error *error);

/* Tokens of the latest prompt that a verifier of a hub had in its cache, once it has answered; -1: it is another peer, or not known. */
int32_t pf_hub_cached_tokens(const pf_peer *peer);

/* The two are of one session: where it goes on at one it has come back from the other, and no pass waits for it. Of other peers than those of
 * one hub: nothing. */
void pf_hub_pair(pf_peer *verifier, pf_peer *drafter);

/* Whether a drafter of a hub proposes nothing at the moment, because nothing pays while so many sequences are open. Another one is asked. */
bool pf_hub_rests(const pf_peer *peer);

/* Waits until a peer of a hub has taken what was submitted, such as the close of a sequence whose callbacks are to be called no more; for
 * another peer there is nothing to wait for. */
void pf_hub_settle(pf_peer *peer);

/* Once the role's peer is destroyed: the engine may play another. */
void pf_engine_give_role_back(pf_engine *engine);

/* What is left of the machine's memory or the container's beside the engine and its role; 0: unknown. */
size_t pf_engine_memory_left(const pf_engine *engine);

/* Whether its drafter speaks the vocabulary of another tokenizer, and how many tokens of it the model has too. */
bool pf_engine_is_mapped(const pf_engine *engine, int32_t *n_shared, int32_t *n_target);

#endif
