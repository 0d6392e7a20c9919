/* A loaded model with its tokenizer, its threads and its context, and the roles that it can play. */
#include "engine/engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/topology.h"
#include "base/utf8.h"
#include "draft/model_drafter.h"
#include "engine/option_words.h"
#include "engine/roles.h"
#include "engine/threads.h"
#include "engine/token_map.h"
#include "engine/versioned.h"
#include "host/answer.h"
#include "host/sequence_host.h"
#include "model/backend/cpu_backend.h"
#include "model/forward/context.h"
#include "proto/vocabulary.h"
#include "verify/model_verifier.h"

enum {
    MAX_PINNED = 1024,
    OTHER_BYTES = 8 << 20, /* what a process holds besides: written pages of libraries, a tokenizer, peers, gRPC */
};

struct pf_engine {
    pf_model *model; /* NULL: it runs on a device */
    pf_cuda_backend *device;
    pf_forward_backend forward; /* of the one or the other */
    pf_tokenizer *tokenizer;    /* NULL: the directory has none, or it is not supported */
    pf_error unsupported;       /* why the tokenizer is not; else PF_OK */
    pf_team *team;
    bool owns_team;      /* false: another engine's */
    pf_topology machine; /* as its threads may use it; of the memory, what model and context leave */
    pf_context *context;
    pf_model_info info;
    pf_vocab_texts texts;
    pf_option_words words;  /* as asked for */
    int32_t draft_branches; /* of a sequence */
    int32_t kv_sequences;   /* of full length that the cache has room for */

    /* Of a role as a drafter for another vocabulary: the target's, and the model in it. */
    pf_tokenizer *target_tokenizer;
    pf_token_map map;
    pf_mapped_backend *mapped;
    pf_vocab_texts target_texts;
    pf_model_info mapped_info;

    bool has_role;
    size_t role_bytes; /* that it reserves, of the machine's memory */
};

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static pf_status open_tokenizer(pf_engine *engine, const char *directory, pf_error *error)
{
    pf_error why = { 0 };
    const pf_status status = pf_tokenizer_open(directory, &engine->tokenizer, &why);
    if (status == PF_OK || status == PF_UNAVAILABLE) return PF_OK; /* token ids alone will do */
    if (status != PF_UNSUPPORTED) return pf_fail(error, status, "%s", why.text);
    engine->unsupported = why;
    return PF_OK;
}

/* Sequences share the pages, and few are long at once. */
enum { KV_SEQUENCES = 8, MOST_BRANCHES = 64 };

/* Outcomes that are drafted for at once: of a sequence no more than are likely, and of all no more than rows that share a read. */
static int32_t count_branches(const pf_engine_options *options)
{
    enum { OF_SEQUENCE = 16 };
    return options->draft_branches > 0 ? options->draft_branches : OF_SEQUENCE;
}

static int32_t count_forks(const pf_engine_options *options, int32_t max_sequences)
{
    return options->draft_ahead ? pf_min(count_branches(options) * max_sequences, MOST_BRANCHES) : 0;
}

/* By memory on the CPU alone, where the context knows it. */
static int32_t count_kv_sequences(const pf_engine_options *options, int32_t max_sequences, bool by_memory)
{
    if (options->kv_sequences < 0 && by_memory) return options->kv_sequences;
    return pf_min(options->kv_sequences > 0 ? options->kv_sequences : KV_SEQUENCES, max_sequences);
}

static pf_status make_context(pf_engine *engine, const pf_engine_options *options, const pf_threads *threads,
                              pf_error *error)
{
    const int32_t max_sequences = options->max_sequences > 0 ? options->max_sequences : 1;
    const int32_t rows_per_sequence = 1 + (options->max_draft > 0 ? options->max_draft : PF_DEFAULT_MAX_DRAFT);
    const int32_t max_forks = count_forks(options, max_sequences);
    engine->draft_branches = count_branches(options);
    const int32_t wanted_logits = max_sequences * rows_per_sequence + max_forks,
                  max_rows = pf_context_default_rows(engine->model);
    const pf_context_config config = {
        .max_tokens = options->max_context,
        .max_sequences = max_sequences,
        .kv_sequences = count_kv_sequences(options, max_sequences, true),
        .max_rows = max_rows,
        .max_logit_rows = wanted_logits < max_rows ? wanted_logits : max_rows,
        .kv_type =
            engine->words.kv_type == PF_N_TYPES ? pf_context_default_kv_type(engine->model) : engine->words.kv_type,
        .max_forks = max_forks,
        .fewest_members = threads->fewest_members,
        .may_back_off = threads->may_back_off,
        .cancel = options->cancel,
    };
    PF_TRY(pf_context_create(engine->model, engine->team, &config, &engine->context, error));
    engine->kv_sequences = pf_context_get_config(engine->context)->kv_sequences;
    return PF_OK;
}

/* The last component of a path, without the slashes behind it; as UTF-8, whatever the path is. */
static void model_name(const char *path, char *out, size_t capacity)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    bool all_valid;
    out[pf_utf8_repair(path + begin, end - begin, out, capacity - 1, &all_valid)] = '\0';
}

static const char *token_text(const void *user, int32_t id, size_t *n_bytes)
{
    return pf_tokenizer_token_bytes(user, id, n_bytes);
}

/* texts: filled in, and kept for as long as the info. */
static pf_status describe_vocabulary(const pf_tokenizer *tokenizer, pf_vocab_texts *texts, pf_model_info *info,
                                     pf_error *error)
{
    if (!tokenizer) return PF_OK;
    const int32_t n_tokens = pf_tokenizer_vocab_size(tokenizer);
    if (n_tokens < info->vocab_size) info->vocab_size = n_tokens;
    *texts = (pf_vocab_texts){ .token = token_text, .user = (void *)(uintptr_t)tokenizer };
    info->texts = texts;
    pf_vocab_hash(info);
    return pf_tokenizer_fingerprint(tokenizer, info->vocab_size, info->vocab_fingerprint, error);
}

static pf_status describe(pf_engine *engine, const char *path, const pf_engine_options *options, pf_error *error)
{
    const pf_forward_limits *limits = &engine->forward.limits;
    pf_model_info *info = &engine->info;
    *info = (pf_model_info){
        .protocol_version = PF_PROTOCOL_VERSION,
        .vocab_size = limits->n_vocab,
        .n_ids = limits->n_vocab,
        .max_context = limits->max_tokens,
        .max_sequences = limits->max_sequences,
        .max_draft = options->max_draft > 0 ? options->max_draft : PF_DEFAULT_MAX_DRAFT,
        .max_declared = PF_MAX_DECLARED,
        .judges_trees = true,
        .applies_rules = true,
        .applies_typical_p = true,
        .gives_logprobs = true,
        .draws_siblings = true,
        .methods = PF_ANSWER_METHODS,
    };
    model_name(path, info->model_id, sizeof info->model_id);
    PF_TRY(describe_vocabulary(engine->tokenizer, &engine->texts, info, error));
    const pf_config *config = pf_engine_config(engine);
    info->names_ends = true;
    for (int32_t i = 0; i < config->n_eos; i++) info->ends[info->n_ends++] = config->eos_ids[i];
    return PF_OK;
}

static void end_team(pf_engine *engine)
{
    if (engine->owns_team) pf_team_destroy(engine->team);
    engine->team = NULL;
}

static pf_status start_team(pf_engine *engine, const pf_engine_options *options, int32_t n_threads, pf_error *error)
{
    end_team(engine);
    engine->owns_team = true;
    if (options->n_cores > 0 || engine->words.threading == PF_THREADING_OPENMP)
        return pf_team_create_on(engine->words.threading, n_threads, options->cores, options->n_cores, &engine->team,
                                 error);
    int32_t cpus[MAX_PINNED], n_cpus = 0;
    if (pf_topology_list_cpus(cpus, MAX_PINNED, &n_cpus, NULL) != PF_OK) n_cpus = 0;
    PF_TRY(pf_team_create(n_threads, cpus, pf_threads_pinning(n_threads, options->serves, cpus, n_cpus), &engine->team,
                          error));
    pf_team_pin(engine->team, false); /* passes pin them */
    return PF_OK;
}

/* Take bytes from the memory that is left. */
static void hold(pf_topology *machine, size_t bytes)
{
    if (machine->memory_bytes > 0) /* 0: unknown */
        machine->memory_bytes = machine->memory_bytes > bytes ? machine->memory_bytes - bytes : 1;
}

/* The machine, less what the role has of it. */
static pf_topology machine_beside(const pf_engine *engine)
{
    pf_topology machine = engine->machine;
    hold(&machine, engine->role_bytes);
    return machine;
}

/* The team and the machine. */
static pf_status find_team(pf_engine *engine, const pf_engine_options *options, pf_error *error)
{
    if (options->threads_of) {
        engine->team = options->threads_of->team;
        engine->machine = machine_beside(options->threads_of);
        return PF_OK;
    }
    PF_TRY(pf_topology_read(&engine->machine, error));
    hold(&engine->machine, OTHER_BYTES);
    int32_t n_threads = pf_topology_threads(&engine->machine, options->n_threads, options->n_cores);
    if (options->n_threads == 0) PF_TRY(pf_threading_limit(engine->words.threading, n_threads, &n_threads, error));
    return start_team(engine, options, n_threads, error);
}

/* A token that was added, to pad with most often, may lie past the embedding: a text that has it is refused then. */
static pf_status check_tokenizer(const pf_engine *engine, const char *path, pf_error *error)
{
    const int32_t vocab_size = pf_engine_config(engine)->vocab_size;
    if (!engine->tokenizer || pf_tokenizer_base_size(engine->tokenizer) <= vocab_size) return PF_OK;
    return pf_fail(error, PF_FORMAT, "%s: the tokenizer has ids up to %d, but the model has a vocab_size of %d", path,
                   pf_tokenizer_base_size(engine->tokenizer) - 1, vocab_size);
}

/* Rows of a pass on a device: padding costs little where reading the weights takes longer than multiplying by them. */
static int32_t device_rows(const pf_engine_options *options)
{
    const int32_t of_draft = 1 + (options->max_draft > 0 ? options->max_draft : PF_DEFAULT_MAX_DRAFT);
    return of_draft > PF_CUDA_DEFAULT_ROWS ? (of_draft + 15) / 16 * 16 : PF_CUDA_DEFAULT_ROWS;
}

static pf_status open_on_device(pf_engine *engine, const char *path, const pf_engine_options *options, pf_error *error)
{
    const int32_t max_sequences = options->max_sequences > 0 ? options->max_sequences : 1;
    const pf_cuda_options open = {
        .max_tokens = options->max_context,
        .max_sequences = max_sequences,
        .kv_sequences = count_kv_sequences(options, max_sequences, false),
        .max_rows = device_rows(options),
        .isa = engine->words.isa,
        .cancel = options->cancel,
        .policy = { .strict = options->strict, .warn = options->warn, .warn_user = options->user },
        .progress = options->progress,
        .progress_user = options->user,
    };
    PF_TRY(pf_cuda_backend_open(path, &open, &engine->device, error));
    engine->kv_sequences = open.kv_sequences;
    engine->forward = pf_cuda_forward_backend(engine->device);
    PF_TRY(find_team(engine, options, error));
    PF_TRY(open_tokenizer(engine, path, error));
    PF_TRY(check_tokenizer(engine, path, error));
    return describe(engine, path, options, error);
}

static pf_status open_parts(pf_engine *engine, const char *path, const pf_engine_options *options, pf_error *error)
{
    if (engine->words.runs_on_cuda) return open_on_device(engine, path, options, error);
    PF_TRY(find_team(engine, options, error));

    const pf_model_options load = {
        .dtype = engine->words.dtype,
        .activations = engine->words.activations,
        .backend = engine->words.backend,
        .head = engine->words.head,
        .isa = engine->words.isa,
        .team = engine->team,
        .machine = &engine->machine,
        .progress = options->progress,
        .progress_user = options->user,
        .cancel = options->cancel,
        .policy = { .strict = options->strict, .warn = options->warn, .warn_user = options->user },
    };
    PF_TRY(pf_model_load(path, &load, &engine->model, error));
    PF_TRY(open_tokenizer(engine, path, error));
    PF_TRY(check_tokenizer(engine, path, error));

    const bool are_given = options->n_threads > 0 || options->n_cores > 0;
    const int32_t n_threads = pf_team_size(engine->team);
    const pf_threads threads = pf_threads_choose(are_given, n_threads, pf_model_step_bytes(engine->model));
    if (threads.n_threads < n_threads) PF_TRY(start_team(engine, options, threads.n_threads, error));
    PF_TRY(make_context(engine, options, &threads, error));
    engine->forward = pf_cpu_backend(engine->context);
    hold(&engine->machine, pf_model_packed_bytes(engine->model) + pf_context_reserved_bytes(engine->context));
    return describe(engine, path, options, error);
}

static pf_status check_option(const char *model, const char *option, int64_t value, int32_t most, pf_error *error)
{
    if (value >= 0 && value <= most) return PF_OK;
    return pf_fail(error, PF_INVALID, "%s: %s is %" PRId64 ", expected 0 to %d", model, option, value, most);
}

static pf_status check_options(const char *model, const pf_engine_options *options, pf_error *error)
{
    PF_TRY(check_option(model, "n_cores", options->n_cores, options->cores ? INT32_MAX : 0, error));
    PF_TRY(check_option(model, "n_threads", options->n_threads, INT32_MAX, error));
    PF_TRY(check_option(model, "max_context", options->max_context, INT32_MAX, error));
    PF_TRY(check_option(model, "max_sequences", options->max_sequences, PF_MAX_OPEN_SEQUENCES, error));
    PF_TRY(check_option(model, "draft_branches", options->draft_branches, MOST_BRANCHES, error));
    if (options->kv_sequences != PF_KV_BY_MEMORY)
        PF_TRY(check_option(model, "kv_sequences", options->kv_sequences, PF_MAX_OPEN_SEQUENCES, error));
    return check_option(model, "max_draft", options->max_draft, PF_MAX_DRAFT_TOKENS, error);
}

pf_status pf_engine_open(const char *model, const pf_engine_options *given, pf_engine **out, pf_error *error)
{
    pf_engine_options options;
    pf_option_words words;
    PF_TRY(pf_versioned_copy("pf_engine_options", given, &options, sizeof options, error));
    PF_TRY(check_options(model, &options, error));
    PF_TRY(pf_option_words_parse(&options, &words, error));
    pf_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return pf_fail(error, PF_NOMEM, "%s: no memory for the engine", model);
    engine->words = words;

    const pf_status status = open_parts(engine, model, &options, error);
    if (status != PF_OK) {
        pf_engine_close(engine);
        return status;
    }
    *out = engine;
    return PF_OK;
}

static void drop_map(pf_engine *engine)
{
    pf_mapped_backend_destroy(engine->mapped);
    pf_token_map_clear(&engine->map);
    pf_tokenizer_close(engine->target_tokenizer);
    engine->mapped = NULL;
    engine->target_tokenizer = NULL;
}

void pf_engine_close(pf_engine *engine)
{
    if (!engine) return;
    drop_map(engine);
    pf_cuda_backend_close(engine->device);
    pf_context_destroy(engine->context);
    pf_tokenizer_close(engine->tokenizer);
    pf_model_release(engine->model);
    end_team(engine);
    free(engine);
}

/* ---- what is inside --------------------------------------------------------------------------------------------- */

const pf_tokenizer *pf_engine_tokenizer(const pf_engine *engine)
{
    return engine->tokenizer;
}

const char *pf_engine_tokenizer_refusal(const pf_engine *engine)
{
    return engine->unsupported.status == PF_OK ? NULL : engine->unsupported.text;
}

const pf_config *pf_engine_config(const pf_engine *engine)
{
    return engine->device ? pf_cuda_backend_config(engine->device) : pf_model_config(engine->model);
}

const pf_model *pf_engine_model(const pf_engine *engine)
{
    return engine->model;
}

pf_context *pf_engine_context(pf_engine *engine)
{
    return engine->context;
}

pf_team *pf_engine_team(pf_engine *engine)
{
    return engine->team;
}

int64_t pf_engine_kv_tokens(const pf_engine *engine)
{
    return (int64_t)engine->kv_sequences * engine->info.max_context;
}

void pf_engine_info(const pf_engine *engine, pf_model_info *out)
{
    *out = engine->info;
}

static pf_engine_details describe_device(const pf_engine *engine)
{
    const size_t weight_bytes = pf_cuda_backend_weight_bytes(engine->device);
    return (pf_engine_details){ .dtype = "bf16",
                                .activations = "bf16",
                                .kv_dtype = "bf16",
                                .isa = "cuda",
                                .n_threads = 1,
                                .n_parameters = pf_cuda_backend_parameter_count(engine->device),
                                .weight_bytes = weight_bytes,
                                .step_bytes = weight_bytes,
                                .kv_bytes = pf_cuda_backend_cache_bytes(engine->device) };
}

static pf_engine_details describe_cpu(const pf_engine *engine)
{
    return (pf_engine_details){
        .dtype = pf_dtype_name(pf_model_dtype(engine->model)),
        .activations = pf_act_name(pf_model_act(engine->model)),
        .kv_dtype = pf_type_name(pf_context_get_config(engine->context)->kv_type),
        .isa = pf_isa_name(pf_model_kernels(engine->model)->isa),
        .n_threads = pf_team_size(engine->team),
        .n_parameters = pf_model_parameter_count(engine->model),
        .weight_bytes = pf_model_packed_bytes(engine->model),
        .step_bytes = pf_model_step_bytes(engine->model),
        .kv_bytes = pf_context_reserved_bytes(engine->context),
    };
}

pf_status pf_engine_describe(pf_engine *engine, pf_engine_details *out, pf_error *error)
{
    pf_engine_details details = engine->device ? describe_device(engine) : describe_cpu(engine);
    details.size = out->size;
    if (out->size < sizeof out->size)
        return pf_fail(error, PF_INVALID, "pf_engine_details.size is %zu, expected %zu", out->size, sizeof details);
    memcpy(out, &details, out->size < sizeof details ? out->size : sizeof details);
    return PF_OK;
}

size_t pf_engine_memory_left(const pf_engine *engine)
{
    return machine_beside(engine).memory_bytes;
}

/* ---- roles ------------------------------------------------------------------------------------------------------ */

static pf_status check_role_is_free(const pf_engine *engine, pf_error *error)
{
    if (!engine->has_role) return PF_OK;
    return pf_fail(error, PF_INVALID, "%s: an engine plays one role, and this one has it already",
                   engine->info.model_id);
}

static void take_role(pf_engine *engine, size_t reserved_bytes)
{
    engine->has_role = true;
    engine->role_bytes = reserved_bytes;
}

void pf_engine_give_role_back(pf_engine *engine)
{
    engine->has_role = false;
    engine->role_bytes = 0;
}

static pf_stop stop_of(const pf_role_options *options, const pf_served_role *served)
{
    return (pf_stop){ .told = options->stop, .grace_ns = served->grace_ns };
}

static const pf_served_role not_served = { 0 };

pf_status pf_engine_make_verifier(pf_engine *engine, const pf_role_options *given, const pf_served_role *served,
                                  pf_peer **out, pf_error *error)
{
    if (engine->words.head == PF_HEAD_SCREENED) /* its logits are approximate, so the text would be wrong */
        return pf_fail(error, PF_INVALID,
                       "%s: its head is screened, as a draft's may be; a verifier's must be full or bounded",
                       engine->info.model_id);
    PF_TRY(check_role_is_free(engine, error));
    pf_role_options options;
    PF_TRY(pf_versioned_copy("pf_role_options", given, &options, sizeof options, error));
    const pf_model_verifier_config config = {
        .max_sequences = engine->info.max_sequences,
        .max_draft = engine->info.max_draft,
        .simulate_step_ns = options.simulate_ns,
        .synthetic = options.synthetic_acceptance,
        .no_prefix_cache = options.no_prefix_cache,
        .stop = stop_of(&options, served),
        .seed = served->seed,
        .info = &engine->info,
    };
    PF_TRY(pf_model_verifier_create(engine->forward, &config, out, error));
    take_role(engine, pf_host_reserved_bytes(*out));
    return PF_OK;
}

static pf_status map_vocabulary(pf_engine *engine, const char *path, pf_error *error)
{
    const pf_config *config = pf_engine_config(engine);
    if (!engine->tokenizer)
        return pf_fail(error, PF_INVALID,
                       "%s has no tokenizer that is read, expected one where the target's is another",
                       engine->info.model_id);
    PF_TRY(pf_tokenizer_open(path, &engine->target_tokenizer, error));
    const pf_vocabulary target = { engine->target_tokenizer, pf_tokenizer_vocab_size(engine->target_tokenizer) },
                        draft = { engine->tokenizer, engine->info.vocab_size };
    PF_TRY(pf_token_map_build(target, draft, config->n_eos > 0 ? config->eos_ids[0] : 0, &engine->map, error));
    engine->map.has_mask = config->pard_token >= 0;
    engine->map.mask = config->pard_token;
    PF_TRY(pf_mapped_backend_create(&engine->forward, &engine->map, &engine->mapped, error));
    engine->mapped_info = engine->info;
    engine->mapped_info.vocab_size = engine->mapped_info.n_ids = target.n_ids;
    engine->mapped_info.names_ends = false;
    engine->mapped_info.n_ends = 0;
    return describe_vocabulary(engine->target_tokenizer, &engine->target_texts, &engine->mapped_info, error);
}

/* The model in the vocabulary that the drafter speaks. */
static pf_status choose_vocabulary(pf_engine *engine, const char *target_tokenizer, pf_forward_backend *backend,
                                   const pf_model_info **info, pf_error *error)
{
    drop_map(engine);
    *backend = engine->forward;
    *info = &engine->info;
    if (!target_tokenizer) return PF_OK;
    const pf_status status = map_vocabulary(engine, target_tokenizer, error);
    if (status != PF_OK) {
        drop_map(engine);
        return status;
    }
    *backend = pf_mapped_backend_as_backend(engine->mapped);
    *info = &engine->mapped_info;
    return PF_OK;
}

bool pf_engine_is_mapped(const pf_engine *engine, int32_t *n_shared, int32_t *n_target)
{
    if (!engine->mapped) return false;
    *n_shared = engine->map.n_shared;
    *n_target = engine->map.n_target;
    return true;
}

pf_status pf_engine_make_drafter(pf_engine *engine, const pf_role_options *given, const pf_served_role *served,
                                 pf_peer **out, pf_error *error)
{
    PF_TRY(check_role_is_free(engine, error));
    pf_role_options options;
    PF_TRY(pf_versioned_copy("pf_role_options", given, &options, sizeof options, error));
    pf_passes passes;
    PF_TRY(pf_draft_passes_parse(options.draft_passes, &passes, error));
    const int32_t pard_token = pf_engine_config(engine)->pard_token;
    if (pard_token < 0 && (passes == PF_PASSES_ONE || passes == PF_PASSES_TWO))
        return pf_fail(error, PF_INVALID, "draft_passes is \"%s\", expected \"auto\" or \"k\": %s has no pard_token",
                       options.draft_passes, engine->info.model_id);
    pf_forward_backend backend;
    const pf_model_info *info;
    PF_TRY(choose_vocabulary(engine, options.target_tokenizer, &backend, &info, error));
    const pf_model_drafter_config config = {
        .max_sequences = engine->info.max_sequences,
        .max_draft = engine->info.max_draft,
        .seed = served->seed,
        .simulate_token_ns = options.simulate_ns,
        .simulate_rows = options.simulate_rows,
        .pard = pard_token >= 0,
        .pard_token = engine->mapped ? engine->map.n_target : pard_token, /* a mask is no token of a target */
        .passes = passes,
        .no_prefix_cache = options.no_prefix_cache,
        .ahead_branches = engine->draft_branches,
        .ahead_if_it_pays = true,
        .stop = stop_of(&options, served),
        .info = info,
    };
    PF_TRY(pf_model_drafter_create(backend, &config, out, error));
    take_role(engine, pf_host_reserved_bytes(*out));
    return PF_OK;
}

pf_status pf_engine_verifier(pf_engine *engine, const pf_role_options *options, pf_peer **out, pf_error *error)
{
    return pf_engine_make_verifier(engine, options, &not_served, out, error);
}

pf_status pf_engine_drafter(pf_engine *engine, const pf_role_options *options, pf_peer **out, pf_error *error)
{
    return pf_engine_make_drafter(engine, options, &not_served, out, error);
}
