#include "host/held_batch.h"

#include <stdio.h>
#include <string.h>

static void lay_out_proposal(pf_held_proposal *p, const pf_held_room *room, pf_arena *arena)
{
    const size_t n = (size_t)room->draft_tokens, n_ids = n * (size_t)room->max_declared;
    p->tokens = pf_arena_take(arena, n, sizeof *p->tokens);
    p->parents = pf_arena_take(arena, n, sizeof *p->parents);
    p->declared = pf_arena_take(arena, n, sizeof *p->declared);
    p->ids = pf_arena_take(arena, n_ids, sizeof *p->ids);
    p->probabilities = pf_arena_take(arena, n_ids, sizeof *p->probabilities);
}

void pf_held_lay_out(pf_held_batch *held, const pf_held_room *room, pf_arena *arena)
{
    pf_batch *b = &held->batch;
    held->room = *room;
    b->closes = pf_arena_take(arena, PF_HELD_MESSAGES, sizeof *b->closes);
    b->opens = pf_arena_take(arena, 1, sizeof *b->opens);
    b->verdicts = pf_arena_take(arena, PF_HELD_MESSAGES, sizeof *b->verdicts);
    b->proposals = pf_arena_take(arena, PF_HELD_MESSAGES, sizeof *b->proposals);
    b->prefix_requests = pf_arena_take(arena, PF_HELD_MESSAGES, sizeof *b->prefix_requests);
    b->refusals = pf_arena_take(arena, PF_HELD_MESSAGES, sizeof *b->refusals);
    held->open_tokens = pf_arena_take(arena, (size_t)room->open_tokens, sizeof *held->open_tokens);
    held->stop_tokens = pf_arena_take(arena, PF_MAX_STOP_TOKENS, sizeof *held->stop_tokens);
    held->excluded = pf_arena_take(arena, (size_t)2 * PF_MAX_EXCLUDED, sizeof *held->excluded);
    const size_t n_biases = room->open_tokens > 0 ? PF_MAX_LOGIT_BIASES : 0;
    held->bias_ids = pf_arena_take(arena, n_biases, sizeof *held->bias_ids);
    held->biases = pf_arena_take(arena, n_biases, sizeof *held->biases);
    held->refusal_texts = pf_arena_take(arena, PF_HELD_MESSAGES, sizeof *held->refusal_texts);
    for (int32_t i = 0; i < PF_HELD_MESSAGES; i++) {
        held->verdict_tokens[i] = pf_arena_take(arena, PF_MAX_VERDICT_TOKENS, sizeof(int32_t));
        held->logprobs[i] = pf_arena_take(arena, (size_t)room->logprobs, sizeof(pf_token_logprobs));
        lay_out_proposal(&held->proposals[i], room, arena);
    }
}

bool pf_held_is_empty(const pf_held_batch *held)
{
    const pf_batch *b = &held->batch;
    return b->n_closes + b->n_opens + b->n_verdicts + b->n_proposals + b->n_prefix_requests + b->n_refusals == 0;
}

void pf_held_clear(pf_held_batch *held)
{
    pf_batch *b = &held->batch;
    b->n_closes = b->n_opens = b->n_verdicts = b->n_proposals = b->n_prefix_requests = b->n_refusals = 0;
    b->timing = (pf_timing){ 0 };
}

/* ---- whether a batch fits -------------------------------------------------------------------------------------- */

static bool open_fits(const pf_held_batch *held, const pf_open *open)
{
    return open->n_tokens >= 0 && open->n_tokens <= held->room.open_tokens && open->n_stop_tokens >= 0 &&
           open->n_stop_tokens <= PF_MAX_STOP_TOKENS && open->n_excluded >= 0 && open->n_excluded <= PF_MAX_EXCLUDED &&
           open->rules.n_biases >= 0 && open->rules.n_biases <= PF_MAX_LOGIT_BIASES;
}

static bool proposal_fits(const pf_held_batch *held, const pf_proposal *p)
{
    if (p->n_tokens < 0 || p->n_tokens > held->room.draft_tokens) return false;
    for (int32_t i = 0; p->declared && i < p->n_tokens; i++)
        if (p->declared[i].n < 0 || p->declared[i].n > held->room.max_declared) return false;
    return true;
}

static bool verdict_fits(const pf_held_batch *held, const pf_verdict *verdict)
{
    if (verdict->n_tokens < 0 || verdict->n_tokens > PF_MAX_VERDICT_TOKENS) return false;
    return !verdict->logprobs || verdict->n_tokens <= held->room.logprobs;
}

static bool is_closed(const pf_batch *batch, uint64_t sequence)
{
    for (int32_t i = 0; i < batch->n_closes; i++)
        if (batch->closes[i].sequence == sequence) return true;
    return false;
}

/* Messages of a kind that are held and stay. */
#define PF_COUNT_KEPT(kind)                                                                                      \
    static int32_t count_##kind(const pf_held_batch *held, const pf_batch *batch)                                \
    {                                                                                                            \
        int32_t n = 0;                                                                                           \
        for (int32_t i = 0; i < held->batch.n_##kind; i++) n += !is_closed(batch, held->batch.kind[i].sequence); \
        return n;                                                                                                \
    }
PF_COUNT_KEPT(opens)
PF_COUNT_KEPT(verdicts)
PF_COUNT_KEPT(proposals)
#undef PF_COUNT_KEPT

static bool counts_fit(const pf_held_batch *held, const pf_batch *batch)
{
    const pf_batch *b = &held->batch;
    return count_opens(held, batch) + batch->n_opens <= 1 &&
           count_verdicts(held, batch) + batch->n_verdicts <= PF_HELD_MESSAGES &&
           count_proposals(held, batch) + batch->n_proposals <= PF_HELD_MESSAGES &&
           b->n_closes + batch->n_closes <= PF_HELD_MESSAGES &&
           b->n_prefix_requests + batch->n_prefix_requests <= PF_HELD_MESSAGES &&
           b->n_refusals + batch->n_refusals <= PF_HELD_MESSAGES;
}

static bool fits(const pf_held_batch *held, const pf_batch *batch)
{
    if (!counts_fit(held, batch)) return false;
    for (int32_t i = 0; i < batch->n_opens; i++)
        if (!open_fits(held, &batch->opens[i])) return false;
    for (int32_t i = 0; i < batch->n_verdicts; i++)
        if (!verdict_fits(held, &batch->verdicts[i])) return false;
    for (int32_t i = 0; i < batch->n_proposals; i++)
        if (!proposal_fits(held, &batch->proposals[i])) return false;
    return true;
}

/* ---- copies ---------------------------------------------------------------------------------------------------- */

static const int32_t *copy_ids(int32_t *to, const int32_t *from, int32_t n)
{
    if (n > 0) memcpy(to, from, (size_t)n * sizeof *to);
    return to;
}

static void copy_open(pf_held_batch *held, const pf_open *open)
{
    pf_open *o = &held->batch.opens[held->batch.n_opens++];
    *o = *open;
    o->tokens = copy_ids(held->open_tokens, open->tokens, open->n_tokens);
    o->stop_tokens = copy_ids(held->stop_tokens, open->stop_tokens, open->n_stop_tokens);
    const int32_t n_biases = open->rules.n_biases;
    o->rules.bias_ids = copy_ids(held->bias_ids, open->rules.bias_ids, n_biases);
    if (n_biases > 0) memcpy(held->biases, open->rules.biases, (size_t)n_biases * sizeof *held->biases);
    o->rules.biases = held->biases;
    o->excluded = copy_ids(held->excluded, open->excluded, 2 * open->n_excluded);
}

static void copy_verdict(pf_held_batch *held, const pf_verdict *verdict)
{
    const int32_t i = held->batch.n_verdicts++;
    held->batch.verdicts[i] = *verdict;
    held->batch.verdicts[i].tokens = copy_ids(held->verdict_tokens[i], verdict->tokens, verdict->n_tokens);
    if (!verdict->logprobs) return;
    memcpy(held->logprobs[i], verdict->logprobs, (size_t)verdict->n_tokens * sizeof *verdict->logprobs);
    held->batch.verdicts[i].logprobs = held->logprobs[i];
}

static void copy_declared(const pf_held_proposal *to, int32_t row, int32_t max_declared, const pf_declared *from)
{
    int32_t *ids = to->ids + (ptrdiff_t)row * max_declared;
    float *probabilities = to->probabilities + (ptrdiff_t)row * max_declared;
    memcpy(ids, from->ids, (size_t)from->n * sizeof *ids);
    memcpy(probabilities, from->probabilities, (size_t)from->n * sizeof *probabilities);
    to->declared[row] = (pf_declared){ ids, probabilities, from->n };
}

static void copy_proposal(pf_held_batch *held, const pf_proposal *proposal)
{
    const int32_t i = held->batch.n_proposals++;
    const pf_held_proposal *to = &held->proposals[i];
    pf_proposal *p = &held->batch.proposals[i];
    *p = *proposal;
    p->tokens = copy_ids(to->tokens, proposal->tokens, p->n_tokens);
    if (proposal->parents) p->parents = copy_ids(to->parents, proposal->parents, p->n_tokens);
    for (int32_t row = 0; proposal->declared && row < p->n_tokens; row++)
        copy_declared(to, row, held->room.max_declared, &proposal->declared[row]);
    if (proposal->declared) p->declared = to->declared;
}

static void copy_refusal(pf_held_batch *held, const pf_refusal *refusal)
{
    const int32_t i = held->batch.n_refusals++;
    held->batch.refusals[i] = *refusal;
    snprintf(held->refusal_texts[i], sizeof held->refusal_texts[i], "%s", refusal->text);
    held->batch.refusals[i].text = held->refusal_texts[i];
}

/* ---- closes ---------------------------------------------------------------------------------------------------- */

/* Message j takes the place of message i, and its arrays with it: a swap, since each place keeps arrays of its own. */
static void move_verdict(pf_held_batch *held, int32_t i, int32_t j)
{
    int32_t *tokens = held->verdict_tokens[i];
    pf_token_logprobs *logprobs = held->logprobs[i];
    held->batch.verdicts[i] = held->batch.verdicts[j];
    held->verdict_tokens[i] = held->verdict_tokens[j];
    held->verdict_tokens[j] = tokens;
    held->logprobs[i] = held->logprobs[j];
    held->logprobs[j] = logprobs;
}

static void move_proposal(pf_held_batch *held, int32_t i, int32_t j)
{
    const pf_held_proposal arrays = held->proposals[i];
    held->batch.proposals[i] = held->batch.proposals[j];
    held->proposals[i] = held->proposals[j];
    held->proposals[j] = arrays;
}

static void drop_closed(pf_held_batch *held, const pf_batch *closing)
{
    pf_batch *b = &held->batch;
    int32_t n = 0;
    if (b->n_opens > 0 && is_closed(closing, b->opens[0].sequence)) b->n_opens = 0;
    for (int32_t i = 0; i < b->n_verdicts; i++)
        if (!is_closed(closing, b->verdicts[i].sequence)) move_verdict(held, n++, i);
    b->n_verdicts = n;
    n = 0;
    for (int32_t i = 0; i < b->n_proposals; i++)
        if (!is_closed(closing, b->proposals[i].sequence)) move_proposal(held, n++, i);
    b->n_proposals = n;
}

bool pf_held_add(pf_held_batch *held, const pf_batch *batch)
{
    pf_batch *b = &held->batch;
    if (!fits(held, batch)) return false;
    drop_closed(held, batch);
    for (int32_t i = 0; i < batch->n_closes; i++) b->closes[b->n_closes++] = batch->closes[i];
    for (int32_t i = 0; i < batch->n_opens; i++) copy_open(held, &batch->opens[i]);
    for (int32_t i = 0; i < batch->n_verdicts; i++) copy_verdict(held, &batch->verdicts[i]);
    for (int32_t i = 0; i < batch->n_proposals; i++) copy_proposal(held, &batch->proposals[i]);
    for (int32_t i = 0; i < batch->n_prefix_requests; i++)
        b->prefix_requests[b->n_prefix_requests++] = batch->prefix_requests[i];
    for (int32_t i = 0; i < batch->n_refusals; i++) copy_refusal(held, &batch->refusals[i]);
    b->timing = batch->timing;
    return true;
}
