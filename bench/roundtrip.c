/* Round trips of real messages. */
#include "bench/roundtrip.h"

#include <stdlib.h>

#include "base/clock.h"
#include "bench/statistics.h"

enum { PROMPT_TOKENS = 16, LONGEST = 256, TOKEN = 0 }; /* any vocabulary has a token 0 */
static const uint64_t PATIENCE_NS = 10000000000;
static const uint64_t POLL_NS = 50000000;

/* One sequence at the drafter, in the part of whoever owns the request. */
typedef struct {
    pf_peer *peer;
    const volatile bool *cancel;
    pf_error *error;
    uint64_t sequence, round;
    int32_t committed;
    bool is_open;
    double *away_us, *compute_us;
    size_t n;
} driver;

static const pf_proposal *find_proposal(const driver *d, const pf_batch *answer)
{
    for (int32_t i = 0; i < answer->n_proposals; i++)
        if (answer->proposals[i].sequence == d->sequence && answer->proposals[i].round == d->round + 1)
            return &answer->proposals[i];
    return NULL;
}

static pf_status await_proposal(driver *d, uint64_t *compute_ns)
{
    const uint64_t limit_ns = pf_now_ns() + PATIENCE_NS;
    while (pf_now_ns() < limit_ns) {
        if (d->cancel && *d->cancel) return PF_CANCELLED;
        const pf_batch *answer;
        const pf_status status = pf_peer_collect(d->peer, pf_now_ns() + POLL_NS, &answer, d->error);
        if (status == PF_CANCELLED) continue;
        if (status != PF_OK) return status;
        for (int32_t i = 0; i < answer->n_refusals; i++)
            return pf_fail(d->error, answer->refusals[i].status, "the worker refused: %s", answer->refusals[i].text);
        *compute_ns = answer->timing.compute_ns;
        if (find_proposal(d, answer)) return PF_OK;
    }
    return pf_fail(d->error, PF_UNAVAILABLE, "the worker has not answered for %d s", (int)(PATIENCE_NS / 1000000000u));
}

static void end_sequence(driver *d)
{
    pf_close close = { .sequence = d->sequence };
    const pf_batch batch = { .closes = &close, .n_closes = 1 };
    if (d->is_open) (void)!pf_peer_submit(d->peer, &batch);
    d->is_open = false;
}

/* A verdict of one token, with the open before it where the sequence is new; then the proposal. */
static pf_status round_trip(driver *d, uint64_t *away_ns, uint64_t *compute_ns)
{
    static const int32_t tokens[PROMPT_TOKENS]; /* PROMPT_TOKENS times TOKEN */
    pf_open open;
    pf_batch batch = { .n_verdicts = 1 };
    if (d->committed >= LONGEST) end_sequence(d);
    if (!d->is_open) {
        d->sequence++;
        d->round = 0;
        d->committed = PROMPT_TOKENS;
        open = (pf_open){
            .sequence = d->sequence,
            .incarnation = 1,
            .tokens = tokens,
            .n_tokens = PROMPT_TOKENS,
            .method = PF_METHOD_GREEDY,
            .max_draft = 1,
        };
        batch.opens = &open;
        batch.n_opens = 1;
    } else {
        d->round++;
    }
    pf_verdict verdict = {
        .sequence = d->sequence,
        .incarnation = 1,
        .round = d->round,
        .base = d->committed,
        .tokens = tokens,
        .n_tokens = 1,
    };
    batch.verdicts = &verdict;
    d->is_open = true;
    const uint64_t begin_ns = pf_now_ns();
    const pf_status status = pf_peer_submit(d->peer, &batch);
    if (status != PF_OK) return pf_fail(d->error, status, "the worker took no message: %s", pf_status_name(status));
    PF_TRY(await_proposal(d, compute_ns));
    *away_ns = pf_now_ns() - begin_ns;
    d->committed++;
    return PF_OK;
}

static pf_status run(driver *d, int32_t n_rounds, pf_roundtrip *out)
{
    const int32_t n_warm = n_rounds / 10 + 1;
    uint64_t begin_ns = 0, away_ns = 0, compute_ns = 0;
    for (int32_t i = -n_warm; i < n_rounds; i++) {
        if (i == 0) begin_ns = pf_now_ns();
        PF_TRY(round_trip(d, &away_ns, &compute_ns));
        if (i < 0) continue;
        if (compute_ns > away_ns) compute_ns = away_ns;
        d->away_us[d->n] = (double)(away_ns - compute_ns) * 1e-3;
        d->compute_us[d->n++] = (double)compute_ns * 1e-3;
    }
    const double seconds = (double)(pf_now_ns() - begin_ns) * 1e-9;
    *out = (pf_roundtrip){
        .p50_us = pf_percentile(d->away_us, d->n, 0.50),
        .p99_us = pf_percentile(d->away_us, d->n, 0.99),
        .compute_p50_us = pf_percentile(d->compute_us, d->n, 0.50),
        .per_s = (double)n_rounds / seconds,
        .rounds = n_rounds,
    };
    return PF_OK;
}

pf_status pf_bench_roundtrip(pf_peer *peer, int32_t n_rounds, const volatile bool *cancel, pf_roundtrip *out,
                             pf_error *error)
{
    driver d = { .peer = peer, .cancel = cancel, .error = error };
    d.away_us = calloc((size_t)n_rounds, sizeof *d.away_us);
    d.compute_us = calloc((size_t)n_rounds, sizeof *d.compute_us);
    const pf_status status = d.away_us && d.compute_us ? run(&d, n_rounds, out)
                                                       : pf_fail(error, PF_NOMEM, "no memory for %d rounds", n_rounds);
    end_sequence(&d);
    free(d.away_us);
    free(d.compute_us);
    return status;
}
