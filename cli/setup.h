/*
 * From options to something that runs: model names resolved, engines opened, peers and sessions made.
 *
 *      -m TARGET                         verifier here
 *      -m TARGET -d DRAFT                verifier here, drafter here
 *      -m TARGET --draft-worker ADDR     verifier here, drafter there
 *      --verifier ADDR -d DRAFT          verifier there, drafter here
 */
#ifndef PF_CLI_SETUP_H
#define PF_CLI_SETUP_H

#include "cli/options.h"
#include "engine/pilotfish.h"

enum { PF_MAX_PATH = 4096 };

/* Where a model's directory is: the name itself when it is one, else org/name in the local Hugging Face cache
 * (HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub).
 * PF_UNAVAILABLE: nowhere; the sentence gives the command that downloads it.  PF_INVALID: it is a file. */
PF_MUST_USE pf_status pf_setup_find_model(const char *name, char out[PF_MAX_PATH], pf_error *error);

/* As many tokens as are wanted, or as a sequence of this model may have. Errors as pf_setup_find_model and
 * pf_config_load. */
PF_MUST_USE pf_status pf_setup_longest_context(const char *name, int32_t wanted, int32_t *out, pf_error *error);

/* A team by --threads and --cores; without them of as many threads as there are cores. Errors as pf_topology_read and
 * pf_team_create. */
PF_MUST_USE pf_status pf_setup_create_team(const pf_options *options, pf_team **out, pf_error *error);

/* Open one engine by the shared options, with a progress bar. `is_draft`: by the draft's, and with a context no
 * longer than its own model allows. threads_of: an engine whose threads it runs on, or NULL.
 * PF_CANCELLED: interrupted meanwhile. Otherwise as pf_engine_open. */
PF_MUST_USE pf_status pf_setup_open_engine(const pf_options *options, const char *name, bool is_draft,
                                           int32_t max_sequences, pf_engine *threads_of, pf_engine **out,
                                           pf_error *error);

typedef struct {
    pf_engine *target, *draft;   /* NULL: there, or none */
    pf_peer *verifier, *drafter; /* drafter NULL: plain decoding */
    pf_session *session;
    pf_session *plain;             /* the same verifier without the drafter; NULL unless asked for */
    const pf_tokenizer *tokenizer; /* NULL: none */
    const pf_config *config;       /* of the target, or of the draft when the target is there */
    pf_model_info verifier_info;
} pf_setup;

/* Make all that the options ask for. Warnings go to stderr. The caller ends it with pf_setup_close. */
PF_MUST_USE pf_status pf_setup_open(const pf_options *options, bool want_plain, pf_setup *out, pf_error *error);
void pf_setup_close(pf_setup *setup); /* zeroed is fine */

/* The prompt's ids from -p, -f or --tokens, appended to *out.
 * PF_INVALID: a text, but the model has no tokenizer.  PF_UNAVAILABLE: the file cannot be read. */
PF_MUST_USE pf_status pf_setup_read_prompt(const pf_options *options, const pf_tokenizer *tokenizer, pf_tokens *out,
                                           pf_error *error);

/* Append a text's ids to *out. The sentence of what pf_tokenizer_encode refuses. */
PF_MUST_USE pf_status pf_setup_encode(const pf_tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
                                      pf_tokens *out, pf_error *error);

/* All of a stream, to its end; the caller frees. PF_UNAVAILABLE, PF_LIMIT, PF_NOMEM, PF_CANCELLED (interrupted). */
PF_MUST_USE pf_status pf_setup_read_stream(int descriptor, const char *name, char **out, size_t *n_bytes,
                                           pf_error *error);

/* The ids that end a text: none under --ignore-eos. */
void pf_setup_stop_tokens(const pf_setup *setup, const pf_options *options, const int32_t **ids, int32_t *n_ids);

#endif
