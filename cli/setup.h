/*
 * From options to something that runs: engines opened, peers and sessions made.
 *
 *      -m TARGET                         verifier here
 *      -m TARGET -d DRAFT                verifier here, drafter here
 *      -m TARGET --draft-worker ADDR     verifier here, drafter there
 *      -m TARGET --drafter ngram         verifier here, drafter here, without a model; likewise suffix
 *      --verifier ADDR -d DRAFT          verifier there, drafter here
 */
#ifndef PF_CLI_SETUP_H
#define PF_CLI_SETUP_H

#include "cli/options.h"

/* Prints a library's warning on stderr; the callback of engines, sessions and quantisation. `user` is ignored. */
void pf_setup_warn(void *user, const char *sentence);

/* As many tokens as are wanted, or as a sequence of this model may have. Errors as pf_hub_find_model and
 * pf_config_load. */
PF_MUST_USE pf_status pf_setup_longest_context(const char *name, int32_t wanted, int32_t *out, pf_error *error);

/* A team by --threads and --cores; the second alone: a thread on each; neither: one a core. Errors as pf_topology_read and
 * pf_team_create. */
PF_MUST_USE pf_status pf_setup_create_team(const pf_options *options, pf_team **out, pf_error *error);

/* Open the engine of -m MODEL alone, on threads of its own, with a progress bar. max_sequences: alive at once. A tokenizer
 * that is not supported is a warning on stderr. The caller ends it with pf_engine_close.
 * PF_CANCELLED: interrupted meanwhile. Otherwise as pf_hub_find_model and pf_engine_open. */
PF_MUST_USE pf_status pf_setup_open_engine(const pf_options *options, int32_t max_sequences, pf_engine **out,
                                           pf_error *error);

/* Whether the model that --simulate-step-ms or --simulate-token-ms slows down is one of this process: PF_EXIT_DONE, or as
 * pf_options_misuse. */
int pf_setup_check_trial(const pf_command *command, const pf_options *options);

/* Of options for a model, or a drafter, that is not here. Scripts share options between ways to run, so it is no misuse. */
void pf_setup_warn_of_idle_options(const pf_options *options);

/* The options of an engine's role: the time that is simulated, for a drafter with the rows that a pass has for free on this
 * machine (bench/crossover.h), and that an interrupt ends it. Errors as pf_crossover_measure. */
PF_MUST_USE pf_status pf_setup_plan_role(const pf_options *options, pf_engine *engine, pf_role role,
                                         pf_role_options *out, pf_error *error);

/* Whether the drafters of this process have no model: --drafter ngram, suffix. */
bool pf_setup_looks_up(const pf_options *options);

/* A word of --drafter; whether it has a model. */
const char *pf_setup_drafter_word(pf_drafter_kind kind);
bool pf_setup_drafts_by_model(pf_drafter_kind kind);

/* The words of --drafter, as pf_drafter_options has them; "" where it was not given. Returns out. */
enum { PF_SETUP_WORDS_BYTES = 160 };
const char *pf_setup_drafter_words(const pf_options *options, char out[PF_SETUP_WORDS_BYTES]);

/* What a worker elsewhere is asked for, as pf_request.drafter; NULL: its default, or the drafter is here. */
const char *pf_setup_asked_drafter(const pf_options *options);

/* --suffix-corpus, where the drafter has one; else 0. */
uint64_t pf_setup_corpus_bytes(const pf_options *options);

/* Whether something proposes: -d, --draft-worker, or a drafter without a model. */
bool pf_setup_has_drafter(const pf_options *options);

/* Whether the options that name a drafter go together: PF_EXIT_DONE, or as pf_options_misuse. */
int pf_setup_check_drafter(const pf_command *command, const pf_options *options);

typedef struct {
    pf_engine *target, *draft;   /* NULL: there, or none */
    pf_peer *verifier, *drafter; /* drafter NULL: plain decoding */
    pf_session *session;
    pf_session *plain;             /* the same verifier without the drafter; NULL but where they are compared */
    const pf_tokenizer *tokenizer; /* NULL: none */
    const pf_config *config;       /* of the target, or of the draft when the target is there */
    pf_model_info verifier_info;
    int32_t max_context; /* of the sessions, tokens */
} pf_setup;

/* A drafter with a session, beside the setup's own. */
typedef struct {
    pf_engine *draft;
    pf_peer *drafter;
    pf_session *session;
} pf_setup_drafter;

/* How a server wants it: no session is made, for it makes its own, and a far drafter is left to them. */
typedef struct {
    int32_t max_sequences;     /* that the peers of this process have open at once */
    const volatile bool *stop; /* set: they give up. An interrupt alone lets them finish */
} pf_setup_service;

/* As pf_setup_open without a session, for many texts: a kept prefix is used by the next text that begins with it. */
PF_MUST_USE pf_status pf_setup_open_service(const pf_options *options, const pf_setup_service *service, pf_setup *out,
                                            pf_error *error);

/* A session of the peers, which warns on stderr. Errors as pf_session_create. */
PF_MUST_USE pf_status pf_setup_make_session(const pf_setup *setup, bool with_drafter, pf_session **out,
                                            pf_error *error);

/* Make all that the options ask for; `compares`: plain decoding too. Warnings go to stderr: of options without effect, and
 * of a worker that is not there yet, which is a failure where there is nothing to compare without it, and of a tokenizer that
 * is not supported, which is a failure (PF_UNSUPPORTED) where text comes in. The caller ends it with pf_setup_close. */
PF_MUST_USE pf_status pf_setup_open(const pf_options *options, bool compares, pf_setup *out, pf_error *error);
void pf_setup_close(pf_setup *setup); /* zeroed is fine */

/* Of the options those that name the drafter of this kind: of a lookup in this process no model. */
pf_options pf_setup_options_of(const pf_options *options, pf_drafter_kind kind);

/* Another drafter for the setup's verifier, whose one text at a time it shares. Errors as pf_setup_open. The caller ends it with
 * pf_setup_close_drafter, before the setup. */
PF_MUST_USE pf_status pf_setup_open_drafter(const pf_options *options, const pf_setup *setup, pf_setup_drafter *out,
                                            pf_error *error);
void pf_setup_close_drafter(pf_setup_drafter *drafter); /* zeroed is fine */

/* Whether the model that the options name has a tokenizer, where nothing was opened. */
bool pf_setup_finds_tokenizer(const pf_options *options);

/* The ids that end a text: none under --ignore-eos. */
void pf_setup_stop_tokens(const pf_setup *setup, const pf_options *options, const int32_t **ids, int32_t *n_ids);

#endif
