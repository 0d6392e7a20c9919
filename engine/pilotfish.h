/*
 * libpilotfish: load models, open a session, generate, with any drafter and any verifier, near or far.
 *
 *      pf_engine    a loaded model with its tokenizer and threads              (made once)
 *      pf_session   what disposes (verifier) and what proposes (drafter)       (made once, used for many requests)
 *      pf_generate  one request: prompt in, tokens out as they are committed, figures at the end
 *
 * The text does not depend on the drafter: with greedy and coupled methods it is bit for bit what plain decoding
 * gives, with rejection it has the same distribution. A drafter that is slow, gone or lying costs speed alone.
 *
 * Libraries never print and never exit: warnings go to the callback of the session.
 *
 * Threads: an engine, the peer made of it and the session that uses it are one thread's at a time, and so are two engines of
 * which one runs on the other's threads. Others are independent. A callback calls none of them again. A flag that is set from
 * outside (`cancel`, `stop`) another thread sets with __atomic_store_n(&flag, true, __ATOMIC_RELAXED), a signal's handler as it
 * likes.
 *
 * The thread that opens an engine or generates is a member of the engine's team (base/team.h). Where the team has a thread for each
 * CPU there is (the default where a core is one CPU) or a list of cores, that thread stays on one CPU until it closes an engine that
 * has threads of its own, and so does a thread that it starts meanwhile.
 *
 * Weights are read from a map of their file: where that shrinks during pf_engine_open, the process gets a SIGBUS.
 */
#ifndef PF_ENGINE_PILOTFISH_H
#define PF_ENGINE_PILOTFISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/team.h"
#include "model/weights/model.h"
#include "proto/messages.h"
#include "proto/peer.h"
#include "tokenizer/decode/detokenize.h"
#include "tokenizer/tokenizer.h"

/* ---- engine: a model ready to run ---------------------------------------------------------------------------- */

typedef struct pf_engine pf_engine;

enum { PF_DEFAULT_MAX_DRAFT = 16 };

typedef struct {
    pf_dtype dtype;
    pf_activations activations;
    pf_backend backend;
    pf_head head;           /* a target's: not SCREENED, which makes no verifier; a draft's: FULL or SCREENED */
    pf_type kv_type;        /* PF_N_TYPES: what suits the dtype */
    pf_isa isa;             /* pf_cpu_best_isa(), or a lesser one: 0 is the scalar definitions */
    int32_t n_threads;      /* 0: one for each of `cores`, else the cores there are; on fewer of these, where the
                                  model is small or others compute there, while that is measured faster. With OpenMP no more
                                  than the runtime's own default */
    pf_threading threading; /* 0: threads of its own; or those of the OpenMP runtime of this process (base/team.h) */
    pf_engine *threads_of;  /* to run on its threads, in turn, whatever n_threads and cores are; it outlives this one.
                                  NULL: on threads of its own */
    const int32_t *cores;   /* [n_cores] to pin to, or NULL; not with OpenMP, which pins its threads itself */
    int32_t n_cores;
    bool serves; /* another process of this machine may wait for it: its caller takes the last core, not the first */
    int32_t max_context;   /* tokens; 0: the model's, at most PF_DEFAULT_CONTEXT */
    int32_t max_sequences; /* alive at once; 0: 1 */
    int32_t max_draft;     /* rows of verification less one; 0: PF_DEFAULT_MAX_DRAFT */
    void (*progress)(void *user, size_t done_bytes, size_t total_bytes); /* or NULL; on the caller's thread */
    void *progress_user;
    const volatile bool *cancel; /* set from outside, opening ends with PF_CANCELLED; or NULL */
    bool strict; /* refuse keys of config.json and tensors that are not read; else they are reported to `warn` */
    void (*warn)(void *user, const char *sentence); /* or NULL; on the caller's thread */
    void *warn_user;
} pf_engine_options;

/* `model` is a directory. Errors as pf_model_load, pf_tokenizer_open, pf_context_create, pf_team_create and pf_topology_read;
 * PF_INVALID: an option is out of range. A model without a tokenizer.json, or with one that is PF_UNSUPPORTED, loads all the
 * same, and pf_engine_tokenizer is NULL. The caller ends it with pf_engine_close, after every peer made of it. */
PF_MUST_USE pf_status pf_engine_open(const char *model, const pf_engine_options *options, pf_engine **out,
                                     pf_error *error);
void pf_engine_close(pf_engine *engine); /* NULL is fine */

/* What it is made of, borrowed until pf_engine_close. Whoever runs passes in the context by himself takes no role. */
const pf_tokenizer *pf_engine_tokenizer(const pf_engine *engine);
const char *pf_engine_tokenizer_refusal(const pf_engine *engine); /* what is unsupported; NULL: nothing */
const pf_model *pf_engine_model(const pf_engine *engine);
struct pf_context *pf_engine_context(pf_engine *engine);
pf_team *pf_engine_team(pf_engine *engine);

/* What the engine says of itself on the wire. */
void pf_engine_info(const pf_engine *engine, pf_model_info *out);

/* ---- peers: roles that an engine can play, here or across the wire --------------------------------------------- */

typedef struct {
    uint64_t simulate_ns;  /* a drafter's pass, or a verification, takes at least so long, as a larger model's would */
    int32_t simulate_rows; /* of a drafter: a pass of n rows takes n / simulate_rows times as long, rounded down and at
                                  least once; 0: once. bench/crossover.h measures what a machine allows */
    /* Set from outside, what is drafted or waited for is given up: no proposal comes, and a request to a verifier in this
     * process ends with PF_CANCELLED. NULL: nobody does. */
    const volatile bool *stop;
} pf_role_options;

/* The engine's model as the one that disposes, or as the one that proposes; one role an engine, for good. End with
 * pf_peer_destroy, before the engine. options NULL: all zero.
 * PF_INVALID: it has or had a role; a verifier's head is screened, so its logits are approximate.  PF_NOMEM. */
PF_MUST_USE pf_status pf_engine_verifier(pf_engine *engine, const pf_role_options *options, pf_peer **out,
                                         pf_error *error);
PF_MUST_USE pf_status pf_engine_drafter(pf_engine *engine, const pf_role_options *options, pf_peer **out,
                                        pf_error *error);

/* A drafter without a model: it looks the latest tokens up in the text before them and proposes what followed
 * (draft/ngram_drafter.h). For texts of this verifier, near or far, one at a time; its proposals are no longer than the
 * verifier judges. End with pf_peer_destroy.
 * PF_NOMEM.  Otherwise as pf_peer_info of the verifier. */
PF_MUST_USE pf_status pf_ngram_drafter_for(pf_peer *verifier, pf_peer **out, pf_error *error);

/* ---- session and generation ------------------------------------------------------------------------------------ */

typedef struct pf_session pf_session;

typedef struct {
    pf_peer *verifier;                              /* borrowed */
    pf_peer *drafter;                               /* borrowed; NULL: plain decoding */
    bool drafter_is_far;                            /* it may be slow or gone: wait with draft_wait, go on without */
    bool verifier_is_far;                           /* its own uniforms judge; it gets the seed under `coupled` alone */
    int32_t max_context;                            /* tokens of a sequence */
    uint64_t verdict_limit_ns;                      /* a far verifier that says nothing for longer is gone; 0: 60 s */
    uint64_t return_limit_ns;                       /* how long one that vanished may take to come back; 0: 5 s */
    void (*warn)(void *user, const char *sentence); /* or NULL */
    void *warn_user;
    uint64_t *clock_ns; /* of waiting and measuring: a simulated one (base/clock.h); NULL: the machine's */
} pf_session_options;

/* Checks that the vocabularies fit, and makes the memory of one request at a time. Where they differ and fit, the drafter
 * proposes the ids that are equal, and a warning says what differs. A far drafter that cannot be reached or does not fit is a
 * warning.
 * PF_INVALID: there is no verifier, max_context is not 1 to PF_MAX_PROMPT_TOKENS, or fewer than 90 % of the ids of
 * the two vocabularies are equal.  PF_UNAVAILABLE: the verifier was never reached.  PF_NOMEM. */
PF_MUST_USE pf_status pf_session_create(const pf_session_options *options, pf_session **out, pf_error *error);
void pf_session_destroy(pf_session *session); /* NULL is fine */

typedef struct {
    const int32_t *prompt; /* [n_prompt] at least one token */
    int32_t n_prompt;
    int32_t max_new_tokens; /* fewer where a context ends before, the session's or the verifier's: PF_FINISH_LENGTH */
    pf_sampling sampling;
    pf_method method;           /* 0: greedy at temperature 0, else rejection */
    int32_t draft_len;          /* tokens of a proposal, 1 .. PF_MAX_DRAFT_TOKENS; 0: the drafter chooses */
    const int32_t *stop_tokens; /* [n_stop_tokens] EOS ids; empty under --ignore-eos */
    int32_t n_stop_tokens;

    /* Called now and then while a near verifier reads the prompt, on the caller's thread. NULL: none. */
    void (*on_prompt)(void *user, int32_t n_read);

    /* Called for each committed token, in order, on the caller's thread. `drafted`: it was proposed and accepted.
     * Return false to stop (a stop text was met): the token is kept, nothing after it. NULL: none. */
    bool (*on_token)(void *user, int32_t token, bool drafted);
    void *user;
    const volatile bool *cancel; /* looked at every round, or NULL; then PF_CANCELLED with what was made so far */
} pf_request;

enum { PF_RPC_SAMPLES = 4096 };

/* The figures of one request, or, added up, of many. Shares and rates are the reader's to form: 0/0 is null. */
typedef struct {
    int64_t rounds;                           /* target passes that verified a proposal */
    int64_t fallback_rounds;                  /* passes after prefill without one */
    int64_t drafted, accepted;                /* drafted: of a tree, along its longest path; accepted: and kept */
    int64_t branches;                         /* tokens of trees besides */
    int64_t reached[PF_MAX_DRAFT_TOKENS];     /* proposals as long as to position i */
    int64_t accepted_to[PF_MAX_DRAFT_TOKENS]; /* of those, tokens 0 .. i all accepted */
    uint64_t draft_ns, verify_ns;             /* compute, as each side measured it */
    uint32_t rpc_us[PF_RPC_SAMPLES];          /* a ring: answer's arrival less submit less the peer's compute */
    int64_t n_rpc;                            /* samples ever taken */
    int64_t ahead_hits, ahead_misses;         /* of drafting ahead, which no drafter does yet: 0 */
} pf_speculation;

typedef struct {
    int32_t *tokens;  /* [capacity] the caller's buffer: new tokens, a closing EOS included */
    int32_t capacity; /* at least max_new_tokens */
    int32_t n_tokens;
    pf_finish finish; /* PF_FINISH_NONE when cancelled or failed */
    uint64_t prefill_ns, first_token_ns, decode_ns;
    pf_speculation speculation;
} pf_result;

/* Run one request. `result` is filled in also on failure, with what was committed before. No allocation by our code between
 * the first and the last token.
 * PF_INVALID: the prompt is empty, has an id that does not exist or leaves the context no room for another token; a parameter
 * is out of range.  PF_CANCELLED: by `cancel`; a verifier in this process was told to stop.  PF_UNAVAILABLE: a far verifier is
 * gone, silent, or has the sequence no sooner than it loses it.  PF_FORMAT: its verdict does not fit.  PF_UNSUPPORTED: it does
 * not judge by the method.  Besides as the verifier refuses the sequence, with its sentence: PF_INVALID, PF_LIMIT (no room for
 * it, or for the prompt), PF_UNSUPPORTED.  PF_LIMIT also where a message to it would be too large, or too many are unanswered.
 * What another peer's implementation fails with as a whole, a near drafter's included, is handed on. */
PF_MUST_USE pf_status pf_generate(pf_session *session, const pf_request *request, pf_result *result, pf_error *error);

#endif
