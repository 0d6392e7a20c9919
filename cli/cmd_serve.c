/* pilotfish serve: HTTP for clients of OpenAI's API. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/request.h"
#include "cli/serve_sessions.h"
#include "cli/serving.h"
#include "cli/setup.h"
#include "engine/engine.h"
#include "serve/web.h"

enum { DEFAULT_SEQUENCES = 64, WAITING = 1024, DRAIN_S = 30 };

typedef struct {
    const pf_options *options;
    pf_setup setup;
    pf_chat_template *chat_template; /* NULL: there is none ... */
    pf_error no_chat_template;       /* ... and why */
    pf_chat_ends ends;
    pf_api_keys *keys;
    pf_metrics *metrics;
    pf_serve_sessions sessions;
    pf_model_info drafter_info; /* of a drafter here */
    const char *drafters[PF_MAX_DRAFTERS];
} service;

/* The last part of a path that is there; a name of a repository is whole. */
static const char *model_name(const pf_options *options, const pf_setup *setup)
{
    const char *given = options->model ? options->model : setup->verifier_info.model_id;
    const char *slash = strrchr(given, '/');
    return access(given, F_OK) == 0 && slash && slash[1] ? slash + 1 : given;
}

static pf_status open_service(service *s, pf_error *error)
{
    static const volatile bool never = false; /* requests are cancelled one by one */
    const pf_options *o = s->options;
    const pf_setup_service how = { .max_sequences = o->max_sequences > 0 ? o->max_sequences : DEFAULT_SEQUENCES,
                                   .stop = &never };
    if (pf_metrics_create(&s->metrics) != PF_OK) return pf_fail(error, PF_NOMEM, "no memory for metrics");
    if (o->api_key_file) PF_TRY(pf_api_keys_open(o->api_key_file, &s->keys, error));
    PF_TRY(pf_setup_open_service(o, &how, &s->setup, error));
    if (!s->setup.tokenizer) return pf_fail(error, PF_INVALID, "serving needs text, and the model has no tokenizer");
    const pf_status status = pf_chat_open_template(o, &s->chat_template, &s->no_chat_template);
    if (status != PF_OK && (o->chat_template || status != PF_UNAVAILABLE))
        return pf_fail(error, status, "%s", s->no_chat_template.text);
    if (s->setup.drafter) PF_TRY(pf_peer_info(s->setup.drafter, &s->drafter_info, error));
    for (int32_t i = 0; i < s->drafter_info.n_drafters; i++) s->drafters[i] = s->drafter_info.drafters[i];
    pf_chat_find_ends(o, &s->setup, s->chat_template, &s->ends);
    return pf_serve_sessions_open(o, &s->setup, how.max_sequences, s->metrics, &s->sessions, error);
}

static void close_service(service *s)
{
    pf_serve_sessions_close(&s->sessions);
    pf_chat_template_close(s->chat_template);
    pf_setup_close(&s->setup);
    pf_api_keys_close(s->keys);
    pf_metrics_destroy(s->metrics);
}

static pf_status serve(service *s, pf_out *out, pf_error *error)
{
    const pf_web_options web = {
        .api = { .model = model_name(s->options, &s->setup),
                 .tokenizer = s->setup.tokenizer,
                 .chat_template = s->chat_template,
                 .tool_format = pf_tool_format_of(s->chat_template),
                 .tool_names_before = s->chat_template && pf_chat_template_mentions(s->chat_template, "[ARGS]"),
                 .no_chat_template = s->no_chat_template.text,
                 .sessions = s->sessions.sessions,
                 .plain_sessions = s->sessions.plain,
                 .n_sessions = s->sessions.n,
                 .max_context = s->setup.max_context,
                 .kv_tokens = s->setup.target ? pf_engine_kv_tokens(s->setup.target) : 0, /* it is elsewhere */
                 .n_ids = pf_model_ids(&s->setup.verifier_info),
                 .chat_ends = s->ends.ids,
                 .n_chat_ends = s->ends.n,
                 .keeps_prompts = !s->options->verifier && !s->options->prefix_cache_off,
                 .max_waiting = WAITING,
                 .drafters = s->drafters,
                 .n_drafters = s->drafter_info.n_drafters,
                 .drafter = pf_setup_asked_drafter(s->options),
                 .draft_len = s->options->draft_len > 0 ? s->options->draft_len : 0,
                 .method = s->options->method,
                 .siblings = s->options->siblings,
                 .typical = s->options->typical,
                 .keys = s->keys,
                 .metrics = s->metrics },
        .address = s->options->listen,
        .certificate_file = s->options->tls_cert,
        .key_file = s->options->tls_key,
        .stop = pf_interrupt_flag(),
        .drain_ns = (uint64_t)DRAIN_S * 1000000000u,
        .ready = pf_serving_print_ready,
        .user = out,
    };
    return pf_web_serve(&web, error);
}

static int run(const pf_options *options, pf_out *out)
{
    const int usage = pf_request_check(&pf_command_serve, options);
    if (usage != PF_EXIT_DONE) return usage;
    if (!options->listen)
        return pf_options_misuse(&pf_command_serve, "an address is needed: --listen host:port or unix:/path");
    if (!options->tls_cert != !options->tls_key)
        return pf_options_misuse(&pf_command_serve, "--tls-cert and --tls-key go together");
    pf_options own = *options;
    if (own.kv_sequences == 0) own.kv_sequences = PF_KV_BY_MEMORY;
    service s = { .options = &own };
    pf_error error = { 0 };
    pf_status status = open_service(&s, &error);
    if (status == PF_OK) status = serve(&s, out, &error);
    close_service(&s);
    return pf_serving_exit(status, &error);
}

static const pf_option_group *const groups[] = { &pf_options_model,          &pf_options_service,
                                                 &pf_options_http,           &pf_options_speculation,
                                                 &pf_options_target_backend, &pf_options_running,
                                                 &pf_options_target_head,    &pf_options_context,
                                                 &pf_options_draft_running,  NULL };

const pf_command pf_command_serve = {
    .name = "serve",
    .summary = "serve a model over HTTP: OpenAI's API",
    .synopsis = "(-m MODEL | --verifier ADDR -d DRAFT) --listen ADDR [options]",
    .description =
        "Serves /v1/chat/completions, /v1/completions, /v1/models, /tokenize, /detokenize and /health over HTTP, with\n"
        "the text of a drafter's help or without. Prints `ready ADDR` on standard output once it accepts connections,\n"
        "with the port that it got. On SIGTERM (status 0) and Ctrl-C or SIGHUP (130) it refuses new requests and\n"
        "finishes those that run, for 30 s at most; a second signal of the same kind ends it at once.\n",
    .examples = "  pilotfish serve -m models/target -d models/draft --listen localhost:8080\n"
                "  pilotfish serve -m HuggingFaceTB/SmolLM2-135M-Instruct --listen unix:/tmp/serve.sock\n",
    .groups = groups,
    .run = run,
};
