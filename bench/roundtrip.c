/* Measures round trips of real messages. */
#include "bench/roundtrip.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/stop.h"
#include "bench/statistics.h"
#include "engine/engine.h"

enum {
    DECLARED = 64, /* as an engine requests */
    GROWTH = 240   /* or less, where the worker's context is short */
};
static const uint64_t WAIT_NS = 10000000000;
static const uint64_t PROMPT_TOKEN_NS =
    100000000; /* added to the timeout for each prompt token: few models prefill so slowly */
static const uint64_t POLL_NS = 50000000;

/* A sequence, as the owner of the request sees it. */
typedef struct {
    uint64_t id, round;                        /* of its last verdict */
    int32_t committed;                         /* before that verdict */
    int32_t n_verdict;                         /* tokens of that verdict */
    int32_t proposed[PF_MAX_DRAFT_TOKENS + 1]; /* [n_proposed], and room for the target's own token */
    int32_t n_proposed;
    bool is_answered; /* a proposal for the last verdict has arrived */
} trip_sequence;

typedef struct {
    pf_peer *peer;
    const pf_roundtrip_plan *plan;
    const pf_roundtrip_watch *watch;
    pf_error *error;
    int32_t n_vocab, max_declared;
    int32_t growth;           /* tokens beyond the prompt after which sequences restart */
    int32_t *prompt;          /* [plan->context] */
    trip_sequence *sequences; /* [plan->n_sequences] */
    pf_open *opens;           /* [n_sequences] and so on: the next message */
    pf_close *closes;
    pf_verdict *verdicts;
    uint64_t n_begun; /* sequences so far: the last one's id */
    uint64_t n_rounds;
    double *away_us, *compute_us, *round_us; /* [plan->n_rounds] */
} driver;

/* The times of one round. */
typedef struct {
    uint64_t begin_ns;
    uint64_t total_ns, compute_ns;
    int64_t n_tokens;
    bool opened; /* a sequence began in it */
} trip;

/* ---- what goes out ---------------------------------------------------------------------------------------------- */

/* Opens a sequence in place of one that has reached its length. */
static void begin(driver *d, trip_sequence *s, pf_batch *batch)
{
    if (s->id > 0) d->closes[batch->n_closes++] = (pf_close){ s->id };
    *s = (trip_sequence){ .id = ++d->n_begun, .committed = d->plan->context };
    d->opens[batch->n_opens++] = (pf_open){
        .sequence = s->id,
        .incarnation = 1,
        .tokens = d->prompt,
        .n_tokens = d->plan->context,
        .method = d->plan->temperature > 0.0f ? PF_METHOD_REJECTION : PF_METHOD_GREEDY,
        .sampling = { .temperature = d->plan->temperature, .top_p = 1.0f },
        .max_declared = d->max_declared,
        .max_draft = d->plan->draft_len,
    };
}

/* The verdict on the last proposal: some of its tokens, and one correction token. */
static pf_verdict judge(driver *d, trip_sequence *s, int32_t index)
{
    const int32_t n_accepted = (int32_t)((d->n_rounds + (uint64_t)index) % (uint64_t)(s->n_proposed + 1));
    const int32_t refused = s->proposed[n_accepted];
    s->proposed[n_accepted] = (refused + 1) % d->n_vocab;
    s->n_verdict = n_accepted + 1;
    s->is_answered = false;
    return (pf_verdict){
        .sequence = s->id,
        .incarnation = 1,
        .round = s->round,
        .base = s->committed,
        .tokens = s->proposed,
        .n_tokens = s->n_verdict,
        .n_accepted = n_accepted,
    };
}

/* Appends the last verdicts to the sequences. Returns whether all restart: the first time, and once one is long enough. */
static bool commit_verdicts(driver *d)
{
    bool restarts = d->n_begun == 0;
    for (int32_t i = 0; i < d->plan->n_sequences; i++) {
        trip_sequence *s = &d->sequences[i];
        s->committed += s->n_verdict;
        s->round++;
        restarts |= s->committed >= d->plan->context + d->growth;
    }
    return restarts;
}

static pf_batch fill_batch(driver *d)
{
    pf_batch batch = { .opens = d->opens, .closes = d->closes, .verdicts = d->verdicts };
    const bool restarts = commit_verdicts(d);
    for (int32_t i = 0; i < d->plan->n_sequences; i++) {
        if (restarts) begin(d, &d->sequences[i], &batch);
        batch.verdicts[batch.n_verdicts++] = judge(d, &d->sequences[i], i);
    }
    return batch;
}

/* ---- what comes back -------------------------------------------------------------------------------------------- */

/* The sequence that this is the next proposal of; NULL: of none, or a duplicate. */
static trip_sequence *find_sequence(driver *d, const pf_proposal *proposal)
{
    for (int32_t i = 0; i < d->plan->n_sequences; i++) {
        trip_sequence *s = &d->sequences[i];
        if (s->id == proposal->sequence && s->round + 1 == proposal->round) return s->is_answered ? NULL : s;
    }
    return NULL;
}

static pf_status check_proposal(const driver *d, const pf_proposal *p)
{
    if (p->n_tokens > d->plan->draft_len)
        return pf_fail(d->error, PF_FORMAT, "the worker proposes %d tokens, %d were asked for at most", p->n_tokens,
                       d->plan->draft_len);
    const int32_t n_known = pf_count_known(p->tokens, p->n_tokens, d->n_vocab);
    if (n_known < p->n_tokens)
        return pf_fail(d->error, PF_FORMAT, "the worker proposes token %d, its vocabulary has %d", p->tokens[n_known],
                       d->n_vocab);
    return PF_OK;
}

/* *missing: the number of sequences without a proposal. */
static pf_status take_answer(driver *d, const pf_batch *answer, trip *t, int32_t *missing)
{
    const uint64_t away_ns = pf_now_ns() - t->begin_ns;
    t->compute_ns += answer->timing.compute_ns < away_ns ? answer->timing.compute_ns : away_ns;
    for (int32_t i = 0; i < answer->n_proposals; i++) {
        const pf_proposal *proposal = &answer->proposals[i];
        trip_sequence *s = find_sequence(d, proposal);
        if (!s) continue;
        PF_TRY(check_proposal(d, proposal));
        s->is_answered = true;
        s->n_proposed = proposal->n_tokens;
        for (int32_t j = 0; j < proposal->n_tokens; j++) s->proposed[j] = proposal->tokens[j];
        t->n_tokens += proposal->n_tokens;
        --*missing;
    }
    return PF_OK;
}

/* The timeout of a round. */
static uint64_t wait_ns(const pf_roundtrip_plan *plan, bool opens)
{
    const uint64_t n_prompt_tokens = opens ? (uint64_t)plan->n_sequences * (uint64_t)plan->context : 0;
    return (plan->wait_ns ? plan->wait_ns : WAIT_NS) + n_prompt_tokens * PROMPT_TOKEN_NS;
}

static pf_status await_proposals(driver *d, trip *t)
{
    const uint64_t most_ns = wait_ns(d->plan, t->opened), limit_ns = t->begin_ns + most_ns;
    int32_t missing = d->plan->n_sequences;
    do {
        if (pf_is_told(d->watch->cancel)) return PF_CANCELLED;
        const pf_batch *answer;
        const pf_status status = pf_peer_collect(d->peer, pf_now_ns() + POLL_NS, &answer, d->error);
        if (status == PF_CANCELLED) continue;
        if (status != PF_OK) return status;
        for (int32_t i = 0; i < answer->n_refusals; i++)
            return pf_fail(d->error, answer->refusals[i].status, "the worker refused: %s", answer->refusals[i].text);
        PF_TRY(take_answer(d, answer, t, &missing));
    } while (missing > 0 && pf_now_ns() < limit_ns);
    return missing <= 0
               ? PF_OK
               : pf_fail(d->error, PF_UNAVAILABLE, "the worker has not answered for %g s", (double)most_ns * 1e-9);
}

/* ---- the rounds ------------------------------------------------------------------------------------------------- */

static pf_status round_trip(driver *d, trip *t)
{
    const pf_batch batch = fill_batch(d);
    *t = (trip){ .begin_ns = pf_now_ns(), .opened = batch.n_opens > 0 };
    const pf_status status = pf_peer_submit(d->peer, &batch);
    if (status != PF_OK) return pf_fail(d->error, status, "the worker took no message: %s", pf_status_name(status));
    PF_TRY(await_proposals(d, t));
    t->total_ns = pf_now_ns() - t->begin_ns;
    if (t->compute_ns > t->total_ns) t->compute_ns = t->total_ns;
    d->n_rounds++;
    return PF_OK;
}

/* The counted rounds so far. */
typedef struct {
    int32_t n;
    uint64_t total_ns;
    int64_t n_tokens;
} tally;

static void count(driver *d, tally *so_far, const trip *t)
{
    const int32_t i = so_far->n++;
    so_far->total_ns += t->total_ns;
    so_far->n_tokens += t->n_tokens;
    d->away_us[i] = (double)(t->total_ns - t->compute_ns) * 1e-3;
    d->compute_us[i] = (double)t->compute_ns * 1e-3;
    d->round_us[i] = (double)t->total_ns * 1e-3;
}

static pf_status measure(driver *d, tally *so_far)
{
    for (int32_t n_warm = d->plan->n_rounds / 10 + 1; so_far->n < d->plan->n_rounds;) {
        trip t;
        PF_TRY(round_trip(d, &t));
        if (t.opened) continue;
        if (n_warm > 0)
            n_warm--;
        else
            count(d, so_far, &t);
        if (d->watch->progress)
            d->watch->progress(d->watch->progress_user, (size_t)so_far->n, (size_t)d->plan->n_rounds);
    }
    return PF_OK;
}

static pf_roundtrip summarise(const driver *d, const tally *so_far)
{
    const size_t n = (size_t)so_far->n;
    const double seconds = (double)so_far->total_ns * 1e-9; /* 0 of nothing is NaN, as is a percentile of nothing */
    return (pf_roundtrip){
        .n_rounds = so_far->n,
        .p50_us = pf_percentile(d->away_us, n, 0.50),
        .p99_us = pf_percentile(d->away_us, n, 0.99),
        .compute_p50_us = pf_percentile(d->compute_us, n, 0.50),
        .round_p50_us = pf_percentile(d->round_us, n, 0.50),
        .per_s = (double)n / seconds,
        .tokens_per_s = (double)so_far->n_tokens / seconds,
    };
}

static pf_status run(driver *d, pf_roundtrip *out)
{
    tally so_far = { .n = 0 };
    const pf_status status = measure(d, &so_far);
    if (status == PF_OK || status == PF_CANCELLED) *out = summarise(d, &so_far);
    return status;
}

static void close_sequences(driver *d)
{
    pf_batch batch = { .closes = d->closes };
    for (int32_t i = 0; i < d->plan->n_sequences; i++)
        if (d->sequences[i].id > 0) d->closes[batch.n_closes++] = (pf_close){ d->sequences[i].id };
    if (batch.n_closes > 0) (void)!pf_peer_submit(d->peer, &batch);
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

static pf_status check_plan(driver *d)
{
    pf_model_info info;
    PF_TRY(pf_peer_info(d->peer, &info, d->error));
    const pf_roundtrip_plan *plan = d->plan;
    d->n_vocab = info.vocab_size;
    if (plan->temperature > 0.0f) d->max_declared = info.max_declared < DECLARED ? info.max_declared : DECLARED;
    if (plan->n_sequences > info.max_sequences)
        return pf_fail(d->error, PF_INVALID,
                       "the worker takes %d sequences at once, expected %d or more (--max-sequences)",
                       info.max_sequences, plan->n_sequences);
    if (plan->draft_len > info.max_draft)
        return pf_fail(d->error, PF_INVALID, "the worker proposes %d tokens at most, expected %d or more",
                       info.max_draft, plan->draft_len);
    /* A verdict more than the growth, and a proposal on top of it. The first round of a sequence is not counted: another
     * must follow. */
    const int64_t round = plan->draft_len + 1, room = (int64_t)info.max_context - plan->context - 2 * round;
    if (room <= round)
        return pf_fail(d->error, PF_INVALID, "sequences grow to %lld tokens, the worker's context holds %d",
                       (long long)(plan->context + 3 * round + 1), info.max_context);
    d->growth = room < GROWTH ? (int32_t)room : GROWTH;
    return PF_OK;
}

static bool allocate(driver *d)
{
    const size_t n = (size_t)d->plan->n_sequences, n_rounds = (size_t)d->plan->n_rounds;
    d->prompt = calloc((size_t)d->plan->context, sizeof *d->prompt); /* token 0: any vocabulary has it */
    d->sequences = calloc(n, sizeof *d->sequences);
    d->opens = calloc(n, sizeof *d->opens);
    d->closes = calloc(n, sizeof *d->closes);
    d->verdicts = calloc(n, sizeof *d->verdicts);
    d->away_us = calloc(n_rounds, sizeof *d->away_us);
    d->compute_us = calloc(n_rounds, sizeof *d->compute_us);
    d->round_us = calloc(n_rounds, sizeof *d->round_us);
    return d->prompt && d->sequences && d->opens && d->closes && d->verdicts && d->away_us && d->compute_us &&
           d->round_us;
}

static void clear(driver *d)
{
    free(d->prompt);
    free(d->sequences);
    free(d->opens);
    free(d->closes);
    free(d->verdicts);
    free(d->away_us);
    free(d->compute_us);
    free(d->round_us);
}

pf_status pf_bench_roundtrip(pf_peer *peer, const pf_roundtrip_plan *plan, const pf_roundtrip_watch *watch,
                             pf_roundtrip *out, pf_error *error)
{
    driver d = { .peer = peer, .plan = plan, .watch = watch, .error = error };
    PF_TRY(check_plan(&d));
    pf_status status = PF_NOMEM;
    if (allocate(&d)) {
        status = run(&d, out);
        close_sequences(&d);
    } else {
        (void)!pf_fail(error, PF_NOMEM, "no memory for %d rounds of %d sequences", plan->n_rounds, plan->n_sequences);
    }
    clear(&d);
    return status;
}
