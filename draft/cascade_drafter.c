#include "draft/cascade_drafter.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "draft/goodput.h"
#include "proto/idmap.h"

static const double DECAY = 0.95;       /* of a round's weight: a half after 14 */
static const double FIRST_TOKENS = 1.0; /* that a lookup must have before both are measured */
enum {
    FIRST_ROUNDS = 3,  /* of each that are measured before they are weighed */
    RETRY_ROUNDS = 48, /* without one of them, after which it is tried */
};

typedef enum { BY_NONE, BY_LOOKUP, BY_MODEL } proposer;

/* A sequence, by its slot of the map. */
typedef struct {
    proposer by;         /* of the round whose verdict comes next */
    int32_t n_rows;      /* that it verifies, of a lookup */
    uint64_t verdict_ns; /* when the last verdict came; 0: none has */
    bool is_pending;     /* a lookup waits to be collected */
    pf_proposal proposal;
    int32_t tokens[PF_MAX_DRAFT_TOKENS], parents[PF_MAX_DRAFT_TOKENS];
} cascade_sequence;

/* Decayed sums over rounds. */
typedef struct {
    double rounds, tokens, ns;
    int32_t n_measured; /* up to FIRST_ROUNDS */
    int32_t n_without;  /* rounds since the last one */
} cascade_rounds;

typedef struct {
    pf_peer peer;
    pf_peer *lookup, *model;
    pf_stop stop;
    int32_t max_sequences;
    pf_idmap *ids;
    cascade_sequence *sequences; /* [max_sequences] */
    pf_proposal *proposals;      /* [max_sequences] of an answer */
    pf_verdict *verdicts;        /* [PF_MAX_BATCH_SEQUENCES] for the model */
    pf_batch answer;
    int32_t n_pending;
    uint64_t looked_ns; /* what the lookups of the next answer took */
    cascade_rounds looked_up, drafted, all;
    pf_goodput cost; /* of a lookup's round by its rows */
    pf_cascade_counts counts;
} cascade_drafter;

static cascade_drafter *cascade_of(pf_peer *peer)
{
    return (cascade_drafter *)peer;
}

static uint64_t now_ns(const cascade_drafter *d)
{
    return pf_clock_now_ns(d->stop.clock_ns);
}

static cascade_sequence *find(const cascade_drafter *d, uint64_t sequence)
{
    const int32_t slot = pf_idmap_find(d->ids, 0, sequence);
    return slot < 0 ? NULL : &d->sequences[slot];
}

/* ---- what rounds give ---------------------------------------------------------------------------------------------- */

static void add_round(cascade_rounds *r, int32_t n_tokens, uint64_t ns)
{
    const double mean_ns = r->rounds > 0.0 ? r->ns / r->rounds : (double)ns;
    const double bounded =
        r->n_measured >= FIRST_ROUNDS && (double)ns > 4.0 * mean_ns ? 4.0 * mean_ns : (double)ns; /* a stall */
    r->rounds = DECAY * r->rounds + 1.0;
    r->tokens = DECAY * r->tokens + n_tokens;
    r->ns = DECAY * r->ns + bounded;
    if (r->n_measured < FIRST_ROUNDS) r->n_measured++;
}

/* A round has ended: it began with the verdict before. */
static void measure(cascade_drafter *d, cascade_sequence *s, const pf_verdict *verdict)
{
    const uint64_t at_ns = now_ns(d);
    if (s->verdict_ns > 0 && s->by != BY_NONE && verdict->n_tokens > 0) {
        const uint64_t ns = at_ns - s->verdict_ns;
        add_round(&d->all, verdict->n_tokens, ns);
        add_round(s->by == BY_LOOKUP ? &d->looked_up : &d->drafted, verdict->n_tokens, ns);
        if (s->by == BY_LOOKUP) pf_goodput_observe_step(&d->cost, s->n_rows, ns, 0);
    }
    s->verdict_ns = at_ns;
    s->by = BY_NONE;
}

/* Whether a lookup of n_tokens, of which so many are expected to be accepted, is worth more than the model's round. */
static bool is_worth_more(const cascade_drafter *d, int32_t n_tokens, double expected)
{
    if (d->looked_up.n_measured < FIRST_ROUNDS || d->drafted.n_measured < FIRST_ROUNDS || d->all.ns <= 0.0)
        return expected >= FIRST_TOKENS;
    if (d->looked_up.n_without >= RETRY_ROUNDS) return true;
    if (d->drafted.n_without >= RETRY_ROUNDS && expected < FIRST_TOKENS) return false;
    const double rate = d->all.tokens / d->all.ns;
    const double looked_up = 1.0 + expected - rate * pf_goodput_step_ns(&d->cost, n_tokens + 1);
    const double drafted = (d->drafted.tokens - rate * d->drafted.ns) / d->drafted.rounds;
    return looked_up >= drafted;
}

/* ---- submit -------------------------------------------------------------------------------------------------------- */

static void take_opens_and_closes(cascade_drafter *d, const pf_batch *batch)
{
    for (int32_t i = 0; i < batch->n_closes; i++) {
        const int32_t slot = pf_idmap_remove(d->ids, 0, batch->closes[i].sequence);
        if (slot >= 0 && d->sequences[slot].is_pending) d->n_pending--;
        if (slot >= 0) d->sequences[slot].is_pending = false;
    }
    for (int32_t i = 0; i < batch->n_opens; i++) {
        int32_t slot = pf_idmap_find(d->ids, 0, batch->opens[i].sequence);
        if (slot < 0) slot = pf_idmap_insert(d->ids, 0, batch->opens[i].sequence);
        if (slot < 0) continue; /* the model refuses it */
        if (d->sequences[slot].is_pending) d->n_pending--;
        d->sequences[slot].is_pending = false;
        d->sequences[slot].by = BY_NONE;
        d->sequences[slot].verdict_ns = 0;
    }
}

/* What the lookups say to the batch, borrowed until the next call on them; NULL: nothing. */
static const pf_batch *ask_lookup(cascade_drafter *d, const pf_batch *batch)
{
    const pf_batch *answer;
    const uint64_t begin_ns = now_ns(d);
    if (pf_peer_submit(d->lookup, batch) != PF_OK) return NULL;
    const pf_status status = pf_peer_collect(d->lookup, UINT64_MAX, &answer, NULL);
    d->looked_ns += now_ns(d) - begin_ns;
    return status == PF_OK ? answer : NULL;
}

static const pf_proposal *proposal_of(const pf_batch *answer, const pf_verdict *verdict)
{
    for (int32_t i = 0; answer && i < answer->n_proposals; i++) {
        const pf_proposal *p = &answer->proposals[i];
        if (p->sequence == verdict->sequence && p->incarnation == verdict->incarnation &&
            p->round == verdict->round + 1)
            return p;
    }
    return NULL;
}

static void keep_lookup(cascade_drafter *d, cascade_sequence *s, const pf_proposal *p)
{
    const size_t n = (size_t)p->n_tokens;
    if (!s->is_pending) d->n_pending++;
    s->is_pending = true;
    s->proposal = *p;
    memcpy(s->tokens, p->tokens, n * sizeof *s->tokens);
    s->proposal.tokens = s->tokens;
    if (p->parents) memcpy(s->parents, p->parents, n * sizeof *s->parents);
    s->proposal.parents = p->parents ? s->parents : NULL;
    s->by = BY_LOOKUP;
    s->n_rows = p->n_tokens + 1;
    d->counts.n_lookups++;
    d->looked_up.n_without = 0;
    d->drafted.n_without++;
}

/* The verdict as the model is told it. */
static pf_verdict divide(cascade_drafter *d, const pf_batch *looked_up, const pf_verdict *verdict)
{
    pf_verdict to_model = *verdict;
    cascade_sequence *s = find(d, verdict->sequence);
    if (!s) return to_model;
    const pf_proposal *p = proposal_of(looked_up, verdict);
    if (!p) return to_model;
    measure(d, s, verdict);
    if (p->n_tokens > 0 && is_worth_more(d, p->n_tokens, pf_suffix_drafter_expects(d->lookup, verdict->sequence))) {
        keep_lookup(d, s, p);
        to_model.next_draft = PF_NO_DRAFT;
        return to_model;
    }
    pf_suffix_drafter_withhold(d->lookup, verdict->sequence);
    s->by = BY_MODEL;
    d->counts.n_models++;
    d->drafted.n_without = 0;
    if (p->n_tokens > 0) d->looked_up.n_without++;
    return to_model;
}

static pf_status submit(pf_peer *peer, const pf_batch *batch)
{
    cascade_drafter *d = cascade_of(peer);
    take_opens_and_closes(d, batch);
    const pf_batch *looked_up = ask_lookup(d, batch);
    pf_batch to_model = *batch;
    to_model.verdicts = d->verdicts;
    for (int32_t i = 0; i < batch->n_verdicts; i++) d->verdicts[i] = divide(d, looked_up, &batch->verdicts[i]);
    return pf_peer_submit(d->model, &to_model);
}

/* ---- collect ------------------------------------------------------------------------------------------------------- */

static void hand_out(cascade_drafter *d, const pf_batch **out)
{
    d->answer = (pf_batch){ .proposals = d->proposals, .timing.compute_ns = d->looked_ns };
    for (int32_t slot = 0; slot < d->max_sequences && d->n_pending > 0; slot++) {
        cascade_sequence *s = &d->sequences[slot];
        if (!s->is_pending) continue;
        s->is_pending = false;
        d->n_pending--;
        d->proposals[d->answer.n_proposals++] = s->proposal;
    }
    d->looked_ns = 0;
    *out = &d->answer;
}

/* A sequence that the model refuses is closed at the lookup, too. */
static void close_refused(cascade_drafter *d, const pf_batch *answer)
{
    for (int32_t i = 0; i < answer->n_refusals; i++) {
        pf_close close = { answer->refusals[i].sequence };
        const pf_batch batch = { .closes = &close, .n_closes = 1 };
        take_opens_and_closes(d, &batch);
        (void)!pf_peer_submit(d->lookup, &batch);
    }
}

static pf_status collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    cascade_drafter *d = cascade_of(peer);
    if (d->n_pending > 0) {
        hand_out(d, out);
        return PF_OK;
    }
    PF_TRY(pf_peer_collect(d->model, deadline_ns, out, error));
    close_refused(d, *out);
    return PF_OK;
}

/* ---- the rest of a peer -------------------------------------------------------------------------------------------- */

static pf_status get_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    return pf_peer_info(cascade_of(peer)->model, out, error);
}

static int32_t count_backlog(const pf_peer *peer)
{
    return pf_peer_backlog(((const cascade_drafter *)peer)->model);
}

static bool owes(const pf_peer *peer, uint64_t sequence)
{
    const cascade_drafter *d = (const cascade_drafter *)peer;
    const cascade_sequence *s = find(d, sequence);
    return (s && s->is_pending) || pf_peer_owes(d->model, sequence);
}

static pf_status check_open(const pf_peer *peer, const pf_open *open, pf_error *error)
{
    return pf_peer_check_open(((const cascade_drafter *)peer)->model, open, error);
}

static void take_invalid_logits(pf_peer *peer, pf_invalid_logits *out)
{
    pf_peer_take_invalid_logits(cascade_of(peer)->model, out);
}

/* The model's; it drafts for its own proposals, and lookups take no time. */
static bool work_ahead(pf_peer *peer)
{
    cascade_drafter *d = cascade_of(peer);
    return d->n_pending == 0 && pf_peer_work_ahead(d->model);
}

static void destroy(pf_peer *peer)
{
    cascade_drafter *d = cascade_of(peer);
    pf_peer_destroy(d->lookup);
    pf_peer_destroy(d->model);
    pf_idmap_destroy(d->ids);
    free(d->sequences);
    free(d->proposals);
    free(d->verdicts);
    free(d);
}

static const pf_peer_ops peer_ops = {
    .size = sizeof(pf_peer_ops),
    .submit = submit,
    .collect = collect,
    .info = get_info,
    .destroy = destroy,
    .backlog = count_backlog,
    .owes = owes,
    .check_open = check_open,
    .take_invalid_logits = take_invalid_logits,
    .work_ahead = work_ahead,
};

static pf_status make_memory(cascade_drafter *d)
{
    const size_t n = (size_t)d->max_sequences;
    d->sequences = calloc(n, sizeof *d->sequences);
    d->proposals = calloc(n, sizeof *d->proposals);
    d->verdicts = calloc(PF_MAX_BATCH_SEQUENCES, sizeof *d->verdicts);
    if (!d->sequences || !d->proposals || !d->verdicts) return PF_NOMEM;
    return pf_idmap_create(d->max_sequences, &d->ids);
}

pf_status pf_cascade_drafter_create(pf_peer *lookup, pf_peer *model, pf_stop stop, pf_peer **out, pf_error *error)
{
    cascade_drafter *d = calloc(1, sizeof *d);
    if (!d) {
        pf_peer_destroy(lookup);
        pf_peer_destroy(model);
        return pf_fail(error, PF_NOMEM, "no memory for the cascade drafter");
    }
    *d = (cascade_drafter){ .peer.ops = &peer_ops, .lookup = lookup, .model = model, .stop = stop };
    pf_model_info info;
    pf_status status = pf_peer_info(model, &info, error);
    if (status == PF_OK) {
        d->max_sequences = info.max_sequences > 0 ? info.max_sequences : PF_MAX_BATCH_SEQUENCES;
        status = make_memory(d);
        if (status != PF_OK) status = pf_fail(error, status, "no memory for the cascade drafter");
    }
    if (status != PF_OK) {
        destroy(&d->peer);
        return status;
    }
    *out = &d->peer;
    return PF_OK;
}

pf_peer *pf_cascade_drafter_model(pf_peer *peer)
{
    return cascade_of(peer)->model;
}

pf_cascade_counts pf_cascade_drafter_counts(const pf_peer *peer)
{
    return ((const cascade_drafter *)peer)->counts;
}
