/* An engine as a server: its role, behind a listening socket, until told to stop. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/team.h"
#include "base/topology.h"
#include "draft/choice_drafter.h"
#include "draft/model_drafter.h"
#include "engine/engine.h"
#include "engine/roles.h"
#include "engine/versioned.h"
#include "host/answer.h"
#include "rpc/server/server.h"
#include "verify/model_verifier.h"

static pf_status draw_secret(uint64_t *out, pf_error *error)
{
    uint64_t secret = 0;
    while (secret == 0) /* 0 stands for none */
        if (getrandom(&secret, sizeof secret, 0) != (ssize_t)sizeof secret)
            return pf_fail(error, PF_INTERNAL, "the system gives no random bytes");
    *out = secret;
    return PF_OK;
}

/* They read ids, and know no text of them. */
static pf_status make_lookups(const pf_serve_options *options, const pf_drafter_list *list, pf_peer **out,
                              pf_error *error)
{
    enum { SEQUENCES = PF_MAX_BATCH_SEQUENCES, CONTEXT = 32768 };
    const pf_model_info texts = {
        .protocol_version = PF_PROTOCOL_VERSION,
        .vocab_size = INT32_MAX,
        .any_vocabulary = true,
        .max_context = options->max_context > 0 ? options->max_context : CONTEXT,
        .methods = PF_ANSWER_METHODS,
    };
    const pf_drafters_plan plan = { .list = list,
                                    .texts = &texts,
                                    .max_sequences = options->max_sequences > 0 ? options->max_sequences : SEQUENCES,
                                    .max_draft = PF_DEFAULT_MAX_DRAFT,
                                    .corpus_bytes = options->suffix_corpus_bytes };
    return pf_drafters_make(&plan, out, error);
}

static void log_map(const pf_serve_options *options, const pf_engine *engine)
{
    char line[128];
    int32_t n_shared, n_target;
    if (!options->log || !pf_engine_is_mapped(engine, &n_shared, &n_target)) return;
    snprintf(line, sizeof line, "drafts for another vocabulary: %d of its %d tokens are the draft's too", (int)n_shared,
             (int)n_target);
    options->log(options->user, line);
}

static pf_status make_drafters(pf_engine *engine, const pf_serve_options *options, const pf_role_options *playing,
                               const pf_drafter_list *list, pf_peer **out, pf_error *error)
{
    pf_served_role served = { .grace_ns = PF_SERVER_GRACE_NS };
    pf_drafters_plan plan = { .list = list, .corpus_bytes = options->suffix_corpus_bytes };
    PF_TRY(draw_secret(&served.seed, error));
    PF_TRY(pf_engine_make_drafter(engine, playing, &served, &plan.model, error));
    log_map(options, engine);
    const pf_status status = pf_drafters_make(&plan, out, error);
    if (status != PF_OK) pf_engine_give_role_back(engine);
    return status;
}

static pf_status make_role(pf_engine *engine, const pf_serve_options *options, pf_peer **out, pf_error *error)
{
    pf_served_role served = { .grace_ns = PF_SERVER_GRACE_NS };
    pf_drafter_list list;
    const bool drafts = options->role != PF_ROLE_VERIFIER;
    PF_TRY(pf_drafter_list_parse(options->role == PF_ROLE_NGRAM_DRAFTER ? "ngram" : options->drafter, &list, error));
    const bool looks_up = drafts && !pf_drafter_list_has_model(&list);
    if (looks_up && engine)
        return pf_fail(error, PF_INVALID, "there is an engine, expected none for a drafter without a model");
    if (looks_up) return make_lookups(options, &list, out, error);
    if (!engine) return pf_fail(error, PF_INVALID, "there is no engine, expected one for a model's role");
    const pf_role_options playing = { .size = sizeof playing,
                                      .simulate_ns = options->simulate_ns,
                                      .simulate_rows = options->simulate_rows,
                                      .draft_passes = options->draft_passes,
                                      .target_tokenizer = options->target_tokenizer,
                                      .no_prefix_cache = options->no_prefix_cache,
                                      .stop = options->stop };
    if (drafts) return make_drafters(engine, options, &playing, &list, out, error);
    PF_TRY(draw_secret(&served.seed, error));
    return pf_engine_make_verifier(engine, &playing, &served, out, error);
}

/* Once nothing is served any more: what of the prompts was in the cache. */
static void log_counts(const pf_serve_options *options, pf_peer *peer)
{
    char line[256];
    const pf_sequence_cache_counts c = options->role == PF_ROLE_DRAFTER ? pf_model_drafter_counts(pf_peer_model(peer))
                                                                        : pf_model_verifier_counts(peer);
    if (c.n_opened == 0) return;
    snprintf(line, sizeof line,
             "prefix cache: %" PRIu64 " of %" PRIu64 " sequences began with %" PRIu64 " of %" PRIu64
             " prompt tokens in it; passes computed %" PRIu64 " rows",
             c.n_reusing, c.n_opened, c.n_reused, c.n_tokens, c.n_rows);
    options->log(options->user, line);
}

/* 0: unknown. */
static size_t memory_beside(const pf_peer *peer)
{
    const size_t machine = pf_topology_memory_bytes(), held = pf_choice_drafter_reserved_bytes(peer);
    return machine > held ? machine - held : machine / 2;
}

typedef struct {
    const pf_server_config *config;
    pf_server **out;
    pf_error *error;
    pf_status status;
} listening;

static void listen_there(void *arg)
{
    listening *l = arg;
    l->status = pf_server_create(l->config, l->out, l->error);
}

pf_status pf_engine_serve(pf_engine *engine, const pf_serve_options *given, pf_error *error)
{
    pf_serve_options copy, *const options = &copy;
    PF_TRY(pf_versioned_copy("pf_serve_options", given, options, sizeof copy, error));
    if (!options->address) return pf_fail(error, PF_INVALID, "pf_serve_options.address is NULL, expected an address");
    pf_peer *peer;
    PF_TRY(make_role(engine, options, &peer, error));
    const pf_server_config config = {
        .address = options->address,
        .drafter = options->role != PF_ROLE_VERIFIER ? peer : NULL,
        .verifier = options->role == PF_ROLE_VERIFIER ? peer : NULL,
        .metrics = options->metrics,
        .memory_bytes = engine ? pf_engine_memory_left(engine) : memory_beside(peer),
        .log = options->log,
        .log_user = options->user,
    };
    pf_server *server = NULL;
    listening l = { &config, &server, error, PF_INTERNAL };
    pf_team_run_unpinned(listen_there, &l); /* gRPC's threads begin there, and this one may be a pinned member */
    pf_status status = l.status;
    if (status == PF_OK && (!options->ready || options->ready(options->user, pf_server_address(server))))
        status = pf_server_run(server, options->stop, error);
    pf_server_destroy(server);
    if (options->log && engine) log_counts(options, peer);
    pf_peer_destroy(peer);
    if (engine) pf_engine_give_role_back(engine);
    return status;
}
