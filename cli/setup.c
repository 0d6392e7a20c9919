/* From options to something that runs. */
#include "cli/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/topology.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "engine/connect.h"

enum { MAX_PROMPT_BYTES = 1 << 28 };

/* ---- model names ------------------------------------------------------------------------------------------------ */

/* org/name, neither of them empty, "." or "..", of the characters that Hugging Face allows. */
static bool is_repository_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const size_t organisation = strspn(name, allowed);
    if (organisation == 0 || name[organisation] != '/' || name[0] == '.') return false;
    const char *repository = name + organisation + 1;
    const size_t length = strspn(repository, allowed);
    return length > 0 && repository[length] == '\0' && repository[0] != '.';
}

static bool cache_directory(char *out, size_t capacity)
{
    const char *hub = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME"), *cache = getenv("XDG_CACHE_HOME");
    int n;
    if (hub && *hub)
        n = snprintf(out, capacity, "%s", hub);
    else if (home && *home)
        n = snprintf(out, capacity, "%s/hub", home);
    else if (cache && *cache)
        n = snprintf(out, capacity, "%s/huggingface/hub", cache);
    else
        n = snprintf(out, capacity, "%s/.cache/huggingface/hub", getenv("HOME") ? getenv("HOME") : "");
    return n > 0 && (size_t)n < capacity;
}

/* The commit that refs/main names, or false. */
static bool read_revision(const char *reference_path, char out[80])
{
    char *text;
    size_t n;
    if (pf_file_read(reference_path, 64, &text, &n, NULL) != PF_OK) return false;
    const size_t length = strspn(text, "0123456789abcdefABCDEF");
    snprintf(out, 80, "%.*s", (int)(length < 79 ? length : 79), text);
    free(text);
    return length > 0;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool find_in_cache(const char *cache, const char *name, char out[PF_MAX_PATH])
{
    char folder[PF_MAX_PATH], reference[PF_MAX_PATH + 16], revision[80];
    const char *slash = strchr(name, '/');
    const int n = snprintf(folder, sizeof folder, "%s/models--%.*s--%s", cache, (int)(slash - name), name, slash + 1);
    if (n < 0 || (size_t)n >= sizeof folder) return false;
    snprintf(reference, sizeof reference, "%s/refs/main", folder);
    if (!read_revision(reference, revision)) return false;
    const int length = snprintf(out, PF_MAX_PATH, "%.*s/snapshots/%s", n, folder, revision);
    return length > 0 && length < PF_MAX_PATH && is_directory(out);
}

pf_status pf_setup_find_model(const char *name, char out[PF_MAX_PATH], pf_error *error)
{
    struct stat st;
    if (!*name) return pf_fail(error, PF_INVALID, "the model's name is empty, expected a directory or org/name");
    if (strlen(name) >= PF_MAX_PATH)
        return pf_fail(error, PF_INVALID, "the model's path has more than %d bytes", PF_MAX_PATH - 1);
    if (stat(name, &st) == 0) {
        if (!S_ISDIR(st.st_mode))
            return pf_fail(error, PF_INVALID, "%s is not a directory, expected one with config.json and safetensors",
                           name);
        snprintf(out, PF_MAX_PATH, "%s", name);
        return PF_OK;
    }
    if (errno != ENOENT && errno != ENOTDIR) return pf_fail(error, PF_UNAVAILABLE, "%s: %s", name, strerror(errno));
    if (!is_repository_name(name)) return pf_fail(error, PF_UNAVAILABLE, "%s: there is no such directory", name);

    char cache[PF_MAX_PATH], found[PF_MAX_PATH];
    if (!cache_directory(cache, sizeof cache))
        return pf_fail(error, PF_UNAVAILABLE, "%s: there is no such directory", name);
    if (!find_in_cache(cache, name, found))
        return pf_fail(error, PF_UNAVAILABLE,
                       "%s: there is no such directory, and no such repository in the Hugging Face cache (%.200s); to "
                       "download it: huggingface-cli download %s",
                       name, cache, name);
    memcpy(out, found, sizeof found);
    return PF_OK;
}

/* ---- engines ---------------------------------------------------------------------------------------------------- */

pf_status pf_setup_longest_context(const char *name, int32_t wanted, int32_t *out, pf_error *error)
{
    char directory[PF_MAX_PATH];
    pf_config config;
    PF_TRY(pf_setup_find_model(name, directory, error));
    PF_TRY(pf_config_load(directory, &config, error));
    *out = wanted < config.max_context ? wanted : config.max_context;
    return PF_OK;
}

pf_status pf_setup_create_team(const pf_options *options, pf_team **out, pf_error *error)
{
    pf_topology machine;
    PF_TRY(pf_topology_read(&machine, error));
    const int32_t n_threads = options->n_threads > 0 ? options->n_threads : machine.n_cores;
    return pf_team_create(n_threads, options->cores, options->n_cores, out, error);
}

pf_status pf_setup_open_engine(const pf_options *options, const char *name, bool is_draft, int32_t max_sequences,
                               pf_engine *threads_of, pf_engine **out, pf_error *error)
{
    char directory[PF_MAX_PATH];
    PF_TRY(pf_setup_find_model(name, directory, error));
    pf_progress progress;
    pf_progress_begin(&progress, is_draft ? "loading the draft" : "loading");
    pf_engine_options open = {
        .dtype = is_draft ? options->draft_dtype : options->dtype,
        .activations = is_draft ? options->draft_activations : options->activations,
        .backend = options->backend,
        .kv_type = options->kv_type,
        .isa = options->isa,
        .n_threads = options->n_threads,
        .threads_of = threads_of,
        .cores = options->cores,
        .n_cores = options->n_cores,
        .serves = options->listen != NULL,
        .max_context = options->context,
        .max_sequences = max_sequences,
        .max_draft = options->draft_len > PF_DEFAULT_MAX_DRAFT ? options->draft_len : PF_DEFAULT_MAX_DRAFT,
        .progress = pf_progress_update,
        .progress_user = &progress,
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

/* ---- peers and sessions ----------------------------------------------------------------------------------------- */

static void warn(void *user, const char *sentence)
{
    (void)user;
    pf_out_say("pilotfish: warning: %s", sentence);
}

static pf_status make_verifier(const pf_options *options, pf_setup *setup, pf_error *error)
{
    if (options->verifier) return pf_connect_verifier(options->verifier, &setup->verifier, error);
    PF_TRY(pf_setup_open_engine(options, options->model, false, 2, NULL, &setup->target, error));
    return pf_engine_verifier(setup->target, options->simulate_step_ns, &setup->verifier, error);
}

static pf_status make_drafter(const pf_options *options, pf_setup *setup, pf_error *error)
{
    if (options->draft) {
        PF_TRY(pf_setup_open_engine(options, options->draft, true, 2, setup->target, &setup->draft, error));
        return pf_engine_drafter(setup->draft, options->simulate_token_ns, &setup->drafter, error);
    }
    if (!options->draft_worker) return PF_OK;
    /* Not there yet is no reason to stop: the session warns, and takes the worker up when it comes. */
    const pf_status status = pf_connect_drafter(options->draft_worker, &setup->drafter, error);
    return status == PF_UNAVAILABLE && setup->drafter ? PF_OK : status;
}

static pf_status make_session(const pf_options *options, pf_setup *setup, bool with_drafter, pf_session **out,
                              pf_error *error)
{
    const pf_session_options make = {
        .verifier = setup->verifier,
        .drafter = with_drafter ? setup->drafter : NULL,
        .drafter_is_far = options->draft_worker != NULL,
        .verifier_is_far = options->verifier != NULL,
        .max_context = setup->verifier_info.max_context < PF_MAX_PROMPT_TOKENS ? setup->verifier_info.max_context
                                                                               : PF_MAX_PROMPT_TOKENS,
        .warn = warn,
    };
    return pf_session_create(&make, out, error);
}

static pf_status open_parts(const pf_options *options, bool want_plain, pf_setup *setup, pf_error *error)
{
    PF_TRY(make_verifier(options, setup, error));
    PF_TRY(make_drafter(options, setup, error));
    PF_TRY(pf_peer_info(setup->verifier, &setup->verifier_info, error));
    const pf_engine *known = setup->target ? setup->target : setup->draft;
    if (known) {
        setup->tokenizer = pf_engine_tokenizer(known);
        setup->config = pf_model_config(pf_engine_model(known));
    }
    PF_TRY(make_session(options, setup, true, &setup->session, error));
    return want_plain ? make_session(options, setup, false, &setup->plain, error) : PF_OK;
}

pf_status pf_setup_open(const pf_options *options, bool want_plain, pf_setup *out, pf_error *error)
{
    pf_setup setup = { 0 };
    const pf_status status = open_parts(options, want_plain, &setup, error);
    if (status != PF_OK)
        pf_setup_close(&setup);
    else
        *out = setup;
    return status;
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

/* ---- prompts ---------------------------------------------------------------------------------------------------- */

/* Until a read would not wait, or fail: a signal that came just before it would not end it. False: interrupted. */
static bool wait_readable(int descriptor)
{
    enum { LOOK_AGAIN_MS = 100 };
    struct pollfd wanted = { .fd = descriptor, .events = POLLIN };
    while (!*pf_interrupt_flag())
        if (poll(&wanted, 1, LOOK_AGAIN_MS) > 0) return true;
    return false;
}

pf_status pf_setup_read_stream(int descriptor, const char *name, char **out, size_t *n_bytes, pf_error *error)
{
    size_t n = 0, capacity = 1 << 16;
    char *text = malloc(capacity);
    while (text) {
        if (!wait_readable(descriptor)) {
            free(text);
            return pf_fail(error, PF_CANCELLED, "%s: interrupted", name);
        }
        const ssize_t got = read(descriptor, text + n, capacity - n);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) {
            const int why = errno;
            free(text);
            return pf_fail(error, PF_UNAVAILABLE, "%s: %s", name, strerror(why));
        }
        if (got == 0) {
            *out = text;
            *n_bytes = n;
            return PF_OK;
        }
        n += (size_t)got;
        if (n > MAX_PROMPT_BYTES) {
            free(text);
            return pf_fail(error, PF_LIMIT, "%s has more than %d bytes", name, MAX_PROMPT_BYTES);
        }
        if (n == capacity) {
            char *larger = realloc(text, capacity *= 2);
            if (!larger) free(text);
            text = larger;
        }
    }
    return pf_fail(error, PF_NOMEM, "%s: no memory to read it", name);
}

static pf_status read_prompt_file(const char *path, char **out, size_t *n_bytes, pf_error *error)
{
    if (strcmp(path, "-") == 0) return pf_setup_read_stream(STDIN_FILENO, "standard input", out, n_bytes, error);
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return pf_fail(error, PF_UNAVAILABLE, "%s: %s", path, strerror(errno));
    const pf_status status = pf_setup_read_stream(descriptor, path, out, n_bytes, error);
    close(descriptor);
    return status;
}

pf_status pf_setup_encode(const pf_tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
                          pf_tokens *out, pf_error *error)
{
    const pf_status status = pf_tokenizer_encode(tokenizer, text, n_bytes, add_special, out);
    if (status == PF_OK) return PF_OK;
    const char *why = status == PF_UNSUPPORTED ? "the tokenizer's vocabulary lacks a token for one of them"
                      : status == PF_LIMIT     ? "they are too many, or the tokenizer's pattern takes too long on them"
                                               : "no memory";
    return pf_fail(error, status, "a text of %zu bytes cannot be cut into tokens: %s", n_bytes, why);
}

pf_status pf_setup_read_prompt(const pf_options *options, const pf_tokenizer *tokenizer, pf_tokens *out,
                               pf_error *error)
{
    if (options->tokens_given) {
        for (int32_t i = 0; i < options->tokens.n; i++) PF_TRY(pf_tokens_push(out, options->tokens.ids[i]));
        return PF_OK;
    }
    if (!tokenizer)
        return pf_fail(error, PF_INVALID, "the model's directory has no tokenizer.json: give the prompt as --tokens");
    char *file = NULL;
    const char *text = options->prompt;
    size_t n_bytes = text ? strlen(text) : 0;
    if (options->prompt_file) {
        PF_TRY(read_prompt_file(options->prompt_file, &file, &n_bytes, error));
        text = file;
    }
    const pf_status status = pf_setup_encode(tokenizer, text, n_bytes, true, out, error);
    free(file);
    return status;
}

void pf_setup_stop_tokens(const pf_setup *setup, const pf_options *options, const int32_t **ids, int32_t *n_ids)
{
    const bool any = !options->ignore_eos && setup->config;
    *ids = any ? setup->config->eos_ids : NULL;
    *n_ids = any ? setup->config->n_eos : 0;
}
