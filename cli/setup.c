/* From options to something that runs. */
#include "cli/setup.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/topology.h"
#include "bench/crossover.h"
#include "cli/hub.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/progress.h"
#include "gguf/gguf.h"

/* ---- engines ---------------------------------------------------------------------------------------------------- */

pf_status pf_setup_longest_context(const char *name, int32_t wanted, int32_t *out, pf_error *error)
{
    char directory[PF_MAX_PATH];
    pf_config config;
    PF_TRY(pf_hub_find_model(name, directory, error));
    PF_TRY(pf_config_load(directory, NULL, &config, error));
    *out = wanted < config.max_context ? wanted : config.max_context;
    return PF_OK;
}

pf_status pf_setup_create_team(const pf_options *options, pf_team **out, pf_error *error)
{
    pf_topology machine;
    PF_TRY(pf_topology_read(&machine, error));
    int32_t n_threads = pf_topology_threads(&machine, options->n_threads, options->n_cores);
    if (options->n_threads == 0) PF_TRY(pf_threading_limit(options->threading, n_threads, &n_threads, error));
    return pf_team_create_on(options->threading, n_threads, options->cores, options->n_cores, out, error);
}

/* Sampling needs all logits: a second head would be in vain. */
static const char *target_head(const pf_options *options)
{
    const bool is_auto = !options->head || strcmp(options->head, "auto") == 0;
    return is_auto && options->sampling.temperature > 0.0f ? "full" : options->head;
}

void pf_setup_warn(void *user, const char *sentence)
{
    (void)user;
    pf_out_say("pilotfish: warning: %s", sentence);
}

/* An engine that verifies in this process leaves no time for it. */
static bool drafts_ahead(const pf_options *options, bool is_draft)
{
    if (options->draft_ahead != PF_DRAFT_AHEAD_ON) return false;
    return is_draft ? options->verifier != NULL : options->is_worker;
}

/* Tokens, siblings included. */
static int32_t longest_proposal(const pf_options *options)
{
    const int32_t beside = options->siblings > 0 && options->siblings <= PF_MAX_SIBLINGS ? options->siblings : 0;
    const int32_t n = options->draft_len > 0 ? pf_min(options->draft_len * (1 + beside), PF_MAX_DRAFT_TOKENS) : 0;
    return n > PF_DEFAULT_MAX_DRAFT ? n : PF_DEFAULT_MAX_DRAFT;
}

/* By the shared options, or the draft's, whose context is then no longer than its own model allows. threads_of: an engine
 * whose threads it runs on, or NULL. */
static pf_status open_engine(const pf_options *options, const char *name, bool is_draft, int32_t max_sequences,
                             pf_engine *threads_of, pf_engine **out, pf_error *error)
{
    char directory[PF_MAX_PATH];
    PF_TRY(pf_hub_find_model(name, directory, error));
    pf_progress progress;
    pf_progress_begin(&progress, is_draft ? "loading the draft" : "loading");
    pf_engine_options open = {
        .size = sizeof open,
        .dtype = is_draft ? options->draft_dtype : options->dtype,
        .activations = is_draft ? options->draft_activations : options->activations,
        .gemm = options->gemm,
        .head = is_draft ? options->draft_head : target_head(options),
        .kv_dtype = options->kv_dtype,
        .isa = options->isa_word,
        .n_threads = options->n_threads,
        .threading = pf_threading_name(options->threading),
        .threads_of = threads_of,
        .cores = options->cores,
        .n_cores = options->n_cores,
        .serves = options->listen != NULL,
        .max_context = options->context,
        .max_sequences = max_sequences,
        .kv_sequences = options->kv_sequences,
        .max_draft = longest_proposal(options),
        .progress = pf_progress_update,
        .user = &progress,
        .cancel = pf_interrupt_flag(),
        .strict = options->strict,
        .warn = pf_setup_warn,
        .draft_ahead = drafts_ahead(options, is_draft),
        .draft_branches = options->draft_branches,
        .backend = !is_draft && options->verifies_on == PF_VERIFIES_ON_CUDA ? "cuda" : "cpu",
    };
    if (is_draft && options->context > 0) /* full, it stops proposing: better than not to start */
        PF_TRY(pf_setup_longest_context(name, options->context, &open.max_context, error));
    pf_engine *engine;
    const pf_status status = pf_engine_open(directory, &open, &engine, error);
    pf_progress_end(&progress);
    if (status != PF_OK) return status;
    if (*pf_interrupt_flag()) {
        pf_engine_close(engine);
        return PF_CANCELLED;
    }
    *out = engine;
    return PF_OK;
}

static void warn_of_tokenizer(const pf_engine *engine)
{
    const char *refusal = pf_engine_tokenizer_refusal(engine);
    if (refusal) pf_setup_warn(NULL, refusal);
}

pf_status pf_setup_open_engine(const pf_options *options, int32_t max_sequences, pf_engine **out, pf_error *error)
{
    PF_TRY(open_engine(options, options->model, false, max_sequences, NULL, out, error));
    warn_of_tokenizer(*out);
    return PF_OK;
}

/* ---- peers and sessions ----------------------------------------------------------------------------------------- */

/* For one text after the other: a sequence is closed before the next one is opened. */
static const pf_setup_service one_text = { .max_sequences = 1 };

int pf_setup_check_trial(const pf_command *command, const pf_options *o)
{
    if (o->simulate_step_ns > 0 && !o->model) return pf_options_misuse(command, "--simulate-step-ms needs -m MODEL");
    if (o->simulate_token_ns > 0 && !o->draft) return pf_options_misuse(command, "--simulate-token-ms needs -d DRAFT");
    return PF_EXIT_DONE;
}

pf_status pf_setup_plan_role(const pf_options *options, pf_engine *engine, pf_role role, pf_role_options *out,
                             pf_error *error)
{
    const bool drafts = role == PF_ROLE_DRAFTER;
    *out =
        (pf_role_options){ .size = sizeof *out,
                           .simulate_ns = drafts ? options->simulate_token_ns : options->simulate_step_ns,
                           .stop = pf_interrupt_flag(),
                           .draft_passes = options->draft_passes,
                           .target_tokenizer = drafts ? options->target_tokenizer : NULL,
                           .synthetic_acceptance = drafts ? NULL : options->synthetic_rates,
                           .no_prefix_cache = true }; /* a request keeps its sequence for the next where it says so */
    if (!drafts || out->simulate_ns == 0) return PF_OK;
    return pf_crossover_measure(engine, pf_interrupt_flag(), &out->simulate_rows, error);
}

static bool has_kind(const pf_options *o, pf_drafter_kind kind)
{
    for (int32_t i = 0; i < o->n_drafters; i++)
        if (o->drafters[i] == kind) return true;
    return false;
}

bool pf_setup_drafts_by_model(pf_drafter_kind kind)
{
    return kind != PF_DRAFTER_NGRAM && kind != PF_DRAFTER_SUFFIX;
}

/* The first of those that are offered here that has a model, or PF_DRAFTER_UNSET. */
static pf_drafter_kind first_by_model(const pf_options *o)
{
    for (int32_t i = 0; i < o->n_drafters; i++)
        if (pf_setup_drafts_by_model(o->drafters[i])) return o->drafters[i];
    return PF_DRAFTER_UNSET;
}

bool pf_setup_looks_up(const pf_options *options)
{
    return !options->draft_worker && options->n_drafters > 0 && first_by_model(options) == PF_DRAFTER_UNSET;
}

const char *pf_setup_drafter_word(pf_drafter_kind kind)
{
    static const char *const words[] = { [PF_DRAFTER_MODEL] = "model",
                                         [PF_DRAFTER_NGRAM] = "ngram",
                                         [PF_DRAFTER_SUFFIX] = "suffix",
                                         [PF_DRAFTER_CASCADE] = "cascade" };
    return kind == PF_DRAFTER_UNSET ? words[PF_DRAFTER_MODEL] : words[kind];
}

const char *pf_setup_drafter_words(const pf_options *options, char out[PF_SETUP_WORDS_BYTES])
{
    out[0] = '\0';
    for (int32_t i = 0; i < options->n_drafters; i++)
        pf_list_word(out, PF_SETUP_WORDS_BYTES, ",", pf_setup_drafter_word(options->drafters[i]));
    return out;
}

const char *pf_setup_asked_drafter(const pf_options *options)
{
    return options->draft_worker && options->n_drafters > 0 ? pf_setup_drafter_word(options->drafters[0]) : NULL;
}

static bool has_suffixes(const pf_options *o)
{
    return has_kind(o, PF_DRAFTER_SUFFIX) || has_kind(o, PF_DRAFTER_CASCADE);
}

uint64_t pf_setup_corpus_bytes(const pf_options *options)
{
    return has_suffixes(options) ? options->suffix_corpus_bytes : 0;
}

bool pf_setup_has_drafter(const pf_options *options)
{
    return options->draft || options->draft_worker || pf_setup_looks_up(options);
}

int pf_setup_check_drafter(const pf_command *command, const pf_options *o)
{
    char words[PF_SETUP_WORDS_BYTES];
    const pf_drafter_kind by_model = first_by_model(o);
    if (o->draft && o->draft_worker)
        return pf_options_misuse(command, "two drafters: give one of -d and --draft-worker");
    if (o->draft_worker && o->n_drafters > 1)
        return pf_options_misuse(command,
                                 "--drafter %s: a worker is asked for one drafter, and says itself what it offers",
                                 pf_setup_drafter_words(o, words));
    if (pf_setup_looks_up(o) && o->draft)
        return pf_options_misuse(command, "two drafters: --drafter %s takes no -d", pf_setup_drafter_words(o, words));
    if (by_model != PF_DRAFTER_UNSET && !o->draft && !o->draft_worker)
        return pf_options_misuse(command,
                                 "--drafter %s needs -d DRAFT, or --draft-worker ADDR of a worker that offers it",
                                 pf_setup_drafter_word(by_model));
    return PF_EXIT_DONE;
}

/* What would give such an option an effect; NULL: it has one. */
static const char *what_lacks(const pf_options *o, pf_option_of of)
{
    switch (of) {
    case PF_OPTION_OF_COMMAND: return NULL;
    case PF_OPTION_OF_MODEL: return o->model ? NULL : "-m MODEL";
    case PF_OPTION_OF_DRAFT: return o->draft ? NULL : "-d DRAFT";
    case PF_OPTION_OF_DRAFTER: return pf_setup_has_drafter(o) ? NULL : "a drafter";
    case PF_OPTION_OF_ENGINE: return o->model || o->draft ? NULL : "-m MODEL";
    case PF_OPTION_OF_CONTEXT: return o->model || o->draft || (o->listen && pf_setup_looks_up(o)) ? NULL : "-m MODEL";
    case PF_OPTION_OF_SUFFIX: return has_suffixes(o) && !o->draft_worker ? NULL : "--drafter suffix or cascade here";
    case PF_OPTION_OF_TEAM: return o->model || o->draft || !o->verifier ? NULL : "-m MODEL";
    }
    return NULL;
}

void pf_setup_warn_of_idle_options(const pf_options *options)
{
    for (int32_t i = 0; i < options->n_given; i++) {
        const struct pf_option_row *row = options->given[i];
        const char *lacks = what_lacks(options, row->of);
        if (lacks) pf_out_say("pilotfish: warning: --%s has no effect without %s", row->name, lacks);
    }
}

/* The role as a service wants it. */
static pf_status plan_role(const pf_options *options, const pf_setup_service *service, pf_engine *engine, pf_role role,
                           pf_role_options *out, pf_error *error)
{
    PF_TRY(pf_setup_plan_role(options, engine, role, out, error));
    if (service == &one_text) return PF_OK;
    out->stop = service->stop;
    out->no_prefix_cache = options->prefix_cache_off != 0;
    return PF_OK;
}

static pf_status make_verifier(const pf_options *options, const pf_setup_service *service, pf_setup *setup,
                               pf_error *error)
{
    const pf_connect_options connect = { .size = sizeof connect, .cancel = pf_interrupt_flag() };
    if (options->verifier) return pf_connect_verifier(options->verifier, &connect, &setup->verifier, error);
    PF_TRY(open_engine(options, options->model, false, service->max_sequences, NULL, &setup->target, error));
    pf_role_options role;
    PF_TRY(plan_role(options, service, setup->target, PF_ROLE_VERIFIER, &role, error));
    return pf_engine_verifier(setup->target, &role, &setup->verifier, error);
}

static pf_status make_drafter(const pf_options *options, const pf_setup_service *service, bool compares,
                              pf_setup *setup, pf_error *error)
{
    char words[PF_SETUP_WORDS_BYTES];
    pf_drafter_options make = { .size = sizeof make,
                                .drafter = pf_setup_drafter_words(options, words),
                                .suffix_corpus_bytes = pf_setup_corpus_bytes(options) };
    if (options->draft) {
        PF_TRY(open_engine(options, options->draft, true, service->max_sequences, setup->target, &setup->draft, error));
        pf_role_options role;
        PF_TRY(plan_role(options, service, setup->draft, PF_ROLE_DRAFTER, &role, error));
        make.draft = setup->draft;
        make.role = &role;
        return pf_drafter_create(&make, &setup->drafter, error);
    }
    if (pf_setup_looks_up(options)) {
        make.verifier = setup->verifier;
        make.max_sequences = service->max_sequences;
        return pf_drafter_create(&make, &setup->drafter, error);
    }
    if (!options->draft_worker || service != &one_text) return PF_OK;
    /* Not there yet is no reason to stop a text: the session warns, and takes the worker up when it comes. */
    const pf_connect_options connect = { .size = sizeof connect,
                                         .must_answer = compares,
                                         .cancel = pf_interrupt_flag() };
    return pf_connect_drafter(options->draft_worker, &connect, &setup->drafter, error);
}

/* A far verifier has room by its own options. */
static int32_t session_context(const pf_options *options, const pf_model_info *verifier)
{
    const int32_t most = verifier->max_context < PF_MAX_PROMPT_TOKENS ? verifier->max_context : PF_MAX_PROMPT_TOKENS;
    return options->context > 0 && options->context < most ? options->context : most;
}

pf_status pf_setup_make_session(const pf_setup *setup, bool with_drafter, pf_session **out, pf_error *error)
{
    const pf_session_options make = {
        .size = sizeof make,
        .verifier = setup->verifier,
        .drafter = with_drafter ? setup->drafter : NULL,
        .max_context = setup->max_context,
        .warn = pf_setup_warn,
    };
    return pf_session_create(&make, out, error);
}

/* A proposal longer than a peer takes is cut; a bench would then report a length that was not used. */
static pf_status check_length(const pf_options *options, bool compares, const char *takes, int32_t most,
                              pf_error *error)
{
    if (options->draft_len <= most) return PF_OK;
    if (compares)
        return pf_fail(error, PF_INVALID, "%s proposals of at most %d tokens, --draft-len is %d", takes, most,
                       options->draft_len);
    pf_out_say("pilotfish: warning: %s proposals of at most %d tokens: --draft-len %d is cut to that", takes, most,
               options->draft_len);
    return PF_OK;
}

/* `known` has the one that cuts a text, and shows it. */
static pf_status check_tokenizers(const pf_options *options, const pf_setup *setup, const pf_engine *known,
                                  pf_error *error)
{
    const char *refusal = pf_engine_tokenizer_refusal(known);
    const bool takes_text = !options->tokens_given || options->stops.n > 0;
    if (refusal && takes_text) return pf_fail(error, PF_UNSUPPORTED, "%s", refusal);
    warn_of_tokenizer(known);
    if (setup->draft && setup->draft != known) warn_of_tokenizer(setup->draft);
    return PF_OK;
}

static pf_status open_peers(const pf_options *options, const pf_setup_service *service, bool compares, pf_setup *setup,
                            pf_error *error)
{
    PF_TRY(make_verifier(options, service, setup, error));
    PF_TRY(make_drafter(options, service, compares, setup, error));
    PF_TRY(pf_peer_info(setup->verifier, &setup->verifier_info, error));
    setup->max_context = session_context(options, &setup->verifier_info);
    PF_TRY(check_length(options, compares, "the verifier takes", setup->verifier_info.max_draft, error));
    const pf_engine *known = setup->target ? setup->target : setup->draft;
    if (known) {
        PF_TRY(check_tokenizers(options, setup, known, error));
        setup->tokenizer = pf_engine_tokenizer(known);
        setup->config = pf_engine_config(known);
    }
    return PF_OK;
}

/* A session with the drafter. */
static pf_status open_session(const pf_options *options, bool compares, pf_setup *setup, pf_error *error)
{
    PF_TRY(pf_setup_make_session(setup, true, &setup->session, error));
    pf_model_info drafter;
    if (!options->draft_worker || pf_peer_info(setup->drafter, &drafter, NULL) != PF_OK) return PF_OK;
    return check_length(options, compares, "the worker makes", drafter.max_draft, error);
}

static pf_status open_parts(const pf_options *options, bool compares, pf_setup *setup, pf_error *error)
{
    PF_TRY(open_peers(options, &one_text, compares, setup, error));
    PF_TRY(open_session(options, compares, setup, error));
    return compares ? pf_setup_make_session(setup, false, &setup->plain, error) : PF_OK;
}

/* Hands out what was opened, or closes it. */
static pf_status take(const pf_options *options, pf_status status, pf_setup *setup, pf_setup *out)
{
    if (status == PF_OK) {
        pf_setup_warn_of_idle_options(options);
        *out = *setup;
    } else {
        pf_setup_close(setup);
    }
    return status;
}

pf_status pf_setup_open(const pf_options *options, bool compares, pf_setup *out, pf_error *error)
{
    pf_setup setup = { 0 };
    return take(options, open_parts(options, compares, &setup, error), &setup, out);
}

pf_status pf_setup_open_service(const pf_options *options, const pf_setup_service *service, pf_setup *out,
                                pf_error *error)
{
    pf_setup setup = { 0 };
    return take(options, open_peers(options, service, false, &setup, error), &setup, out);
}

void pf_setup_close(pf_setup *setup)
{
    pf_session_destroy(setup->plain);
    pf_session_destroy(setup->session);
    pf_peer_destroy(setup->drafter);
    pf_peer_destroy(setup->verifier);
    pf_engine_close(setup->draft);
    pf_engine_close(setup->target);
    *setup = (pf_setup){ 0 };
}

pf_options pf_setup_options_of(const pf_options *options, pf_drafter_kind kind)
{
    pf_options of = *options;
    of.n_drafters = kind != PF_DRAFTER_UNSET;
    of.drafters[0] = kind;
    if (pf_setup_looks_up(&of)) of.draft = NULL;
    of.n_given = 0;
    for (int32_t i = 0; i < options->n_given; i++) /* but for what is of another drafter of the list */
        if (options->given[i]->of != PF_OPTION_OF_SUFFIX || has_suffixes(&of) || !has_suffixes(options))
            of.given[of.n_given++] = options->given[i];
    return of;
}

pf_status pf_setup_open_drafter(const pf_options *options, const pf_setup *setup, pf_setup_drafter *out,
                                pf_error *error)
{
    pf_setup beside = { .target = setup->target, .verifier = setup->verifier, .max_context = setup->max_context };
    pf_status status = make_drafter(options, &one_text, true, &beside, error);
    if (status == PF_OK) status = open_session(options, true, &beside, error);
    *out = (pf_setup_drafter){ beside.draft, beside.drafter, beside.session };
    if (status != PF_OK) pf_setup_close_drafter(out);
    return status;
}

void pf_setup_close_drafter(pf_setup_drafter *drafter)
{
    pf_session_destroy(drafter->session);
    pf_peer_destroy(drafter->drafter);
    pf_engine_close(drafter->draft);
    *drafter = (pf_setup_drafter){ 0 };
}

bool pf_setup_finds_tokenizer(const pf_options *options)
{
    char directory[PF_MAX_PATH];
    const char *name = options->model ? options->model : options->draft;
    return pf_hub_find_tokenizer(name, directory, NULL) == PF_OK && pf_tokenizer_is_there(directory);
}

void pf_setup_stop_tokens(const pf_setup *setup, const pf_options *options, const int32_t **ids, int32_t *n_ids)
{
    const pf_model_info *target = &setup->verifier_info;
    const pf_config *draft = target->names_ends ? NULL : setup->config;
    *ids = draft ? draft->eos_ids : target->ends;
    *n_ids = options->ignore_eos ? 0 : draft ? draft->n_eos : target->n_ends;
}
