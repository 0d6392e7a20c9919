/* pilotfish worker: a draft model that proposes to engines elsewhere. */
#include "cli/commands.h"
#include "cli/serving.h"

static int run(const pf_options *options, pf_out *out)
{
    return pf_serving_run(&pf_command_worker, options, PF_ROLE_DRAFTER, out);
}

static const pf_option_group *const groups[] = {
    &pf_options_model,   &pf_options_worker_drafter, &pf_options_service,
    &pf_options_metrics, &pf_options_running,        &pf_options_draft_head,
    &pf_options_context, &pf_options_worker_trial,   NULL
};

const pf_command pf_command_worker = {
    .name = "worker",
    .summary = "serve a draft model: it proposes, an engine elsewhere disposes",
    .synopsis = "(-m DRAFT | --drafter ngram|suffix) --listen ADDR [options]",
    .description =
        "Serves the Drafter service of docs/protocol.md over gRPC. Prints `ready ADDR` on standard output once\n"
        "it accepts connections, with the port that it got. Ends on SIGTERM (status 0) and Ctrl-C or SIGHUP (130).\n",
    .examples = "  pilotfish worker -m models/draft --listen unix:/tmp/worker.sock\n"
                "  pilotfish worker -m models/draft --listen 0.0.0.0:7001 --threads 1 --cores 1\n"
                "  pilotfish worker -m models/draft --listen localhost:0 --simulate-token-ms 2\n"
                "  pilotfish worker -m models/draft --drafter model,suffix,cascade --listen unix:/tmp/worker.sock\n"
                "  pilotfish worker --drafter suffix --suffix-corpus 64M --listen unix:/tmp/worker.sock\n",
    .groups = groups,
    .run = run,
};
