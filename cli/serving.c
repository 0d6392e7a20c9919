/* An engine that serves. */
#include "cli/serving.h"

#include <signal.h>

#include "cli/interrupt.h"
#include "cli/setup.h"

enum { DEFAULT_SEQUENCES = PF_MAX_BATCH_SEQUENCES };

/* Without the ready line a process that waits for it would wait for ever: pf_out_finish reports why this ends instead. */
static bool on_ready(void *user, const char *address)
{
    pf_out *out = user;
    return pf_out_print(out, "ready %s\n", address) && pf_out_flush(out);
}

static void on_log(void *user, const char *line)
{
    (void)user;
    pf_out_say("pilotfish: %s", line);
}

int pf_serving_run(const pf_command *command, const pf_options *options, pf_role role, pf_out *out)
{
    if (!options->model) return pf_options_misuse(command, "a model is needed: -m MODEL");
    if (!options->listen) return pf_options_misuse(command, "an address is needed: --listen host:port or unix:/path");

    pf_error error = { 0 };
    pf_engine *engine = NULL;
    const int32_t n_sequences = options->max_sequences > 0 ? options->max_sequences : DEFAULT_SEQUENCES;
    pf_status status = pf_setup_open_engine(options, n_sequences, &engine, &error);
    if (status == PF_OK) {
        pf_serve_options serve = {
            .size = sizeof serve,
            .role = role,
            .address = options->listen,
            .ready = on_ready,
            .log = on_log,
            .user = out,
        };
        pf_role_options playing;
        status = pf_setup_plan_role(options, engine, role, &playing, &error);
        if (status == PF_OK) {
            serve.simulate_ns = playing.simulate_ns;
            serve.simulate_rows = playing.simulate_rows;
            serve.no_prefix_cache = options->prefix_cache_off != 0;
            serve.stop = playing.stop;
        }
        if (status == PF_OK) status = pf_engine_serve(engine, &serve, &error);
    }
    pf_engine_close(engine);
    if (*pf_interrupt_flag()) return pf_interrupt_signal() == SIGTERM ? PF_EXIT_DONE : PF_EXIT_INTERRUPTED;
    return status == PF_OK ? PF_EXIT_DONE : pf_out_fail_error(status, &error);
}
