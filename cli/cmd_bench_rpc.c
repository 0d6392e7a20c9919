/* pilotfish bench rpc: round trips of real messages. */
#include <stdio.h>

#include "bench/roundtrip.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "engine/connect.h"

static pf_status to_worker(const pf_options *options, pf_roundtrip *out, pf_error *error)
{
    pf_peer *peer = NULL;
    pf_status status = pf_connect_drafter(options->worker, &peer, error);
    if (status == PF_OK) status = pf_bench_roundtrip(peer, options->bench_rounds, pf_interrupt_flag(), out, error);
    pf_peer_destroy(peer);
    return status;
}

static pf_status to_loopback(const pf_options *options, pf_roundtrip *out, pf_error *error)
{
    pf_loopback *loopback;
    PF_TRY(pf_loopback_open(&loopback, error));
    const pf_status status =
        pf_bench_roundtrip(pf_loopback_peer(loopback), options->bench_rounds, pf_interrupt_flag(), out, error);
    pf_loopback_close(loopback);
    return status;
}

static int run(const pf_options *options, pf_out *out)
{
    if ((options->worker != NULL) == options->loopback)
        return pf_options_misuse(&pf_command_bench_rpc, "give one of --worker ADDR and --loopback");
    pf_error error = { 0 };
    pf_roundtrip r;
    const pf_status status = (options->worker ? to_worker : to_loopback)(options, &r, &error);
    if (*pf_interrupt_flag()) return PF_EXIT_INTERRUPTED;
    if (status != PF_OK) return pf_out_fail_error(status, &error);
    if (options->json)
        return pf_out_json(out, json_pack("{s:o, s:o, s:o, s:o, s:I}", "p50_us", pf_json_number(r.p50_us), "p99_us",
                                          pf_json_number(r.p99_us), "per_s", pf_json_number(r.per_s), "compute_p50_us",
                                          pf_json_number(r.compute_p50_us), "rounds", (json_int_t)r.rounds));
    pf_out_print(
        out, "%lld round trips: %.1f us at the median, %.1f us at p99, beside %.1f us of computing; %.0f a second\n",
        (long long)r.rounds, r.p50_us, r.p99_us, r.compute_p50_us, r.per_s);
    return PF_EXIT_DONE;
}

static const pf_option_group *const groups[] = { &pf_options_rpc, &pf_options_json, NULL };

const pf_command pf_command_bench_rpc = {
    .name = "bench rpc",
    .summary = "round trips of real messages, to a worker or in this process",
    .synopsis = "(--worker ADDR | --loopback) [--rounds N] [--json]",
    .description =
        "A verdict goes out, a proposal of one token comes back. p50 and p99 are the way there and back: what\n"
        "the worker says it computed is taken off.\n",
    .examples = "  pilotfish bench rpc --loopback\n"
                "  pilotfish bench rpc --worker unix:/tmp/worker.sock --rounds 500 --json\n",
    .groups = groups,
    .run = run,
};
