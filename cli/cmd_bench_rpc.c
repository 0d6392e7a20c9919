/* pilotfish bench rpc: round trips of real messages. */
#include <math.h>

#include "bench/roundtrip.h"
#include "cli/commands.h"
#include "cli/cut_short.h"
#include "cli/figures.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/progress.h"
#include "include/pilotfish.h"

static pf_status to_worker(const pf_options *options, const pf_roundtrip_watch *watch, pf_roundtrip *out,
                           pf_error *error)
{
    pf_peer *peer = NULL;
    const pf_connect_options connect = { .size = sizeof connect, .must_answer = true, .cancel = pf_interrupt_flag() };
    pf_status status = pf_connect_drafter(options->worker, &connect, &peer, error);
    if (status == PF_OK) status = pf_bench_roundtrip(peer, &options->trips, watch, out, error);
    pf_peer_destroy(peer);
    return status;
}

static pf_status to_loopback(const pf_options *options, const pf_roundtrip_watch *watch, pf_roundtrip *out,
                             pf_error *error)
{
    pf_loopback *loopback;
    PF_TRY(pf_loopback_open(&loopback, error));
    pf_cut_short_remove(pf_loopback_directory(loopback));
    const pf_status status = pf_bench_roundtrip(pf_loopback_peer(loopback), &options->trips, watch, out, error);
    pf_cut_short_remove(NULL);
    pf_loopback_close(loopback);
    return status;
}

static int print_figures(const pf_options *options, pf_out *out, const pf_roundtrip *r)
{
    if (options->json)
        return pf_out_json(out,
                           json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:i, s:i, s:o}", "p50_us",
                                     pf_json_number(r->p50_us), "p99_us", pf_json_number(r->p99_us), "per_s",
                                     pf_json_number(r->per_s), "compute_p50_us", pf_json_number(r->compute_p50_us),
                                     "round_p50_us", pf_json_number(r->round_p50_us), "tokens_per_s",
                                     pf_json_number(r->tokens_per_s), "rounds", r->n_rounds, "sequences",
                                     options->trips.n_sequences, "draft_len", options->trips.draft_len, "context",
                                     options->trips.context, "temperature", pf_json_float(options->trips.temperature)));
    if (r->n_rounds == 0) {
        pf_out_print(out, "no round trip was counted: it ended while it warmed up\n");
        return PF_EXIT_DONE;
    }
    pf_out_print(out,
                 "%d round trips: %.1f us at the median, %.1f us at p99, beside %.1f us of computing; %s a second\n",
                 r->n_rounds, r->p50_us, r->p99_us, r->compute_p50_us, pf_figure_rate(r->per_s).text);
    pf_out_print(out, "sequences of a message: %d, tokens of a proposal: %d; %s draft tokens a second\n",
                 options->trips.n_sequences, options->trips.draft_len, pf_figure_rate(r->tokens_per_s).text);
    return PF_EXIT_DONE;
}

static int run(const pf_options *options, pf_out *out)
{
    if ((options->worker != NULL) == options->loopback)
        return pf_options_misuse(&pf_command_bench_rpc, "give one of --worker ADDR and --loopback");
    pf_error error = { 0 };
    pf_roundtrip r = {
        .p50_us = NAN, .p99_us = NAN, .per_s = NAN, .compute_p50_us = NAN, .round_p50_us = NAN, .tokens_per_s = NAN
    }; /* as it stays where Ctrl-C comes before the first round */
    pf_progress progress;
    const pf_roundtrip_watch watch = { .cancel = pf_interrupt_flag(),
                                       .progress = pf_progress_update,
                                       .progress_user = &progress };
    pf_progress_begin(&progress, "measuring");
    const pf_status status = (options->worker ? to_worker : to_loopback)(options, &watch, &r, &error);
    pf_progress_end(&progress);
    const bool interrupted = *pf_interrupt_flag();
    if (status != PF_OK && !interrupted) return pf_out_fail_error(status, &error);
    const int code = print_figures(options, out, &r);
    return code == PF_EXIT_DONE && interrupted ? PF_EXIT_INTERRUPTED : code;
}

static const pf_option_group *const groups[] = { &pf_options_rpc, &pf_options_json, NULL };

const pf_command pf_command_bench_rpc = {
    .name = "bench rpc",
    .summary = "round trips of real messages, to a worker or in this process",
    .synopsis = "(--worker ADDR | --loopback) [options]",
    .description =
        "A verdict for each sequence goes out, a proposal for each comes back, as in a round of an engine that\n"
        "serves them together; 0 to K tokens of each proposal are accepted, in turn. p50 and p99 are the way there\n"
        "and back: what the worker says it computed is taken off.\n",
    .examples = "  pilotfish bench rpc --loopback\n"
                "  pilotfish bench rpc --worker unix:/tmp/worker.sock --rounds 500 --json\n"
                "  pilotfish bench rpc --worker unix:/tmp/worker.sock --sequences 8 --draft-len 4 --context 128\n",
    .groups = groups,
    .run = run,
};
