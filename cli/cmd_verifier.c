/* pilotfish verifier: a target model that disposes of what workers elsewhere propose. */
#include "cli/commands.h"
#include "cli/serving.h"

static int run(const pf_options *options, pf_out *out)
{
    return pf_serving_run(&pf_command_verifier, options, PF_ROLE_VERIFIER, out);
}

static const pf_option_group *const groups[] = {
    &pf_options_model,          &pf_options_service,        &pf_options_metrics,
    &pf_options_target_backend, &pf_options_running,        &pf_options_target_head,
    &pf_options_context,        &pf_options_verifier_trial, NULL
};

const pf_command pf_command_verifier = {
    .name = "verifier",
    .summary = "serve a target model: a drafter elsewhere proposes, it disposes",
    .synopsis = "-m TARGET --listen ADDR [options]",
    .description =
        "Serves the Verifier service of docs/protocol.md over gRPC. Prints `ready ADDR` on standard output once\n"
        "it accepts connections, with the port that it got. Ends on SIGTERM (status 0) and Ctrl-C or SIGHUP (130).\n",
    .examples = "  pilotfish verifier -m models/target --listen unix:/tmp/verifier.sock\n"
                "  pilotfish verifier -m models/target --listen localhost:7000 --simulate-step-ms 20\n",
    .groups = groups,
    .run = run,
};
