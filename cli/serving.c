/* An engine that serves. */
#include "cli/serving.h"

#include <signal.h>

#include "cli/interrupt.h"
#include "cli/setup.h"
#include "serve/metrics_endpoint.h"

enum { DEFAULT_SEQUENCES = PF_MAX_BATCH_SEQUENCES };

/* Without the ready line a process that waits for it would wait for ever: pf_out_finish reports why this ends instead. */
bool pf_serving_print_ready(void *user, const char *address)
{
    pf_out *out = user;
    return pf_out_print(out, "ready %s\n", address) && pf_out_flush(out);
}

static void on_log(void *user, const char *line)
{
    (void)user;
    pf_out_say("pilotfish: %s", line);
}

/* What both kinds of service are told. */
static pf_serve_options plan_service(const pf_options *options, pf_role role, pf_metrics *metrics, pf_out *out)
{
    return (pf_serve_options){ .size = sizeof(pf_serve_options),
                               .role = role,
                               .address = options->listen,
                               .ready = pf_serving_print_ready,
                               .log = on_log,
                               .user = out,
                               .stop = pf_interrupt_flag(),
                               .metrics = metrics,
                               .no_prefix_cache = options->prefix_cache_off != 0 };
}

static pf_status serve_model(const pf_options *options, pf_role role, pf_metrics *metrics, pf_out *out, pf_error *error)
{
    pf_engine *engine = NULL;
    const int32_t n_sequences = options->max_sequences > 0 ? options->max_sequences : DEFAULT_SEQUENCES;
    pf_options opened = *options;
    opened.is_worker = role == PF_ROLE_DRAFTER;
    char words[PF_SETUP_WORDS_BYTES];
    pf_status status = pf_setup_open_engine(&opened, n_sequences, &engine, error);
    if (status == PF_OK) {
        pf_serve_options serve = plan_service(options, role, metrics, out);
        pf_role_options playing;
        status = pf_setup_plan_role(options, engine, role, &playing, error);
        if (status == PF_OK) {
            serve.drafter = pf_setup_drafter_words(options, words);
            serve.suffix_corpus_bytes = pf_setup_corpus_bytes(options);
            serve.simulate_ns = playing.simulate_ns;
            serve.simulate_rows = playing.simulate_rows;
            serve.draft_passes = playing.draft_passes;
            serve.target_tokenizer = playing.target_tokenizer;
            status = pf_engine_serve(engine, &serve, error);
        }
    }
    pf_engine_close(engine);
    return status;
}

static pf_status serve_lookup_drafter(const pf_options *options, pf_metrics *metrics, pf_out *out, pf_error *error)
{
    pf_serve_options serve = plan_service(options, PF_ROLE_DRAFTER, metrics, out);
    char words[PF_SETUP_WORDS_BYTES];
    serve.drafter = pf_setup_drafter_words(options, words);
    serve.suffix_corpus_bytes = pf_setup_corpus_bytes(options);
    serve.max_sequences = options->max_sequences;
    serve.max_context = options->context;
    pf_setup_warn_of_idle_options(options);
    return pf_engine_serve(NULL, &serve, error);
}

/* PF_EXIT_DONE, or as pf_options_misuse. */
static int check_options(const pf_command *command, const pf_options *options)
{
    const bool looks_up = pf_setup_looks_up(options);
    char words[PF_SETUP_WORDS_BYTES];
    if (looks_up && options->model)
        return pf_options_misuse(command, "two drafters: --drafter %s takes no -m",
                                 pf_setup_drafter_words(options, words));
    if (looks_up && options->simulate_token_ns > 0)
        return pf_options_misuse(command, "--simulate-token-ms needs -m DRAFT");
    if (!looks_up && !options->model) return pf_options_misuse(command, "a model is needed: -m MODEL");
    if (!options->listen) return pf_options_misuse(command, "an address is needed: --listen host:port or unix:/path");
    return PF_EXIT_DONE;
}

int pf_serving_exit(pf_status status, const pf_error *error)
{
    if (*pf_interrupt_flag()) return pf_interrupt_signal() == SIGTERM ? PF_EXIT_DONE : PF_EXIT_INTERRUPTED;
    return status == PF_OK ? PF_EXIT_DONE : pf_out_fail_error(status, error);
}

/* The service, with its metrics where they are asked for. */
static pf_status serve_counted(const pf_options *options, pf_role role, pf_out *out, pf_error *error)
{
    pf_metrics *metrics = NULL;
    pf_metrics_endpoint *endpoint = NULL;
    pf_status status = options->metrics ? pf_metrics_create(&metrics) : PF_OK;
    if (metrics) status = pf_metrics_endpoint_create(options->metrics, metrics, &endpoint, error);
    if (endpoint) pf_out_say("pilotfish: metrics at %s", pf_metrics_endpoint_address(endpoint));
    if (status == PF_OK)
        status = pf_setup_looks_up(options) ? serve_lookup_drafter(options, metrics, out, error)
                                            : serve_model(options, role, metrics, out, error);
    pf_metrics_endpoint_destroy(endpoint);
    pf_metrics_destroy(metrics);
    return status;
}

int pf_serving_run(const pf_command *command, const pf_options *options, pf_role role, pf_out *out)
{
    const int usage = check_options(command, options);
    if (usage != PF_EXIT_DONE) return usage;
    pf_error error = { 0 };
    const pf_status status = serve_counted(options, role, out, &error);
    return pf_serving_exit(status, &error);
}
