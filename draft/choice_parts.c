#include "draft/choice_parts.h"

#include "base/clock.h"
#include "draft/suffix_drafter.h"
#include "proto/drafter_names.h"

static bool has_part(pf_drafts_by by, pf_drafts_by part)
{
    return by == PF_DRAFTS_BY_CASCADE ? part == PF_DRAFTS_BY_SUFFIX || part == PF_DRAFTS_BY_MODEL : by == part;
}

static pf_choice_sequence *find(const pf_choice *c, uint64_t sequence)
{
    const int32_t slot = pf_idmap_find(c->ids, 0, sequence);
    return slot < 0 ? NULL : &c->sequences[slot];
}

static int32_t slot_of(const pf_choice *c, const pf_choice_sequence *s)
{
    return (int32_t)(s - c->sequences);
}

/* ---- opens and closes ---------------------------------------------------------------------------------------------- */

pf_status pf_choice_read_open(const pf_choice *c, const pf_open *open, pf_drafts_by *by, pf_open *out, pf_error *error)
{
    PF_TRY(pf_drafter_names_check(&c->info, open->drafter, error));
    *by = c->offered[open->drafter[0] ? pf_drafter_names_find(&c->info, open->drafter) : 0];
    *out = *open;
    out->drafter[0] = '\0';
    return PF_OK;
}

static void close_at(pf_choice *c, pf_drafts_by part, uint64_t sequence)
{
    pf_close close = { sequence };
    const pf_batch batch = { .closes = &close, .n_closes = 1 };
    (void)!pf_peer_submit(c->parts[part], &batch); /* one that takes no close fails at the next collect, too */
}

static void forget(pf_choice *c, uint64_t sequence)
{
    const int32_t slot = pf_idmap_remove(c->ids, 0, sequence);
    if (slot >= 0) pf_lookup_answers_drop(c->answers, slot);
}

/* Closes a sequence at the parts that `by` does not have; PF_N_DRAFTS_BY: at all. */
static void leave(pf_choice *c, const pf_choice_sequence *s, uint64_t sequence, pf_drafts_by by)
{
    for (int32_t part = 0; part < PF_CHOICE_PARTS; part++)
        if (has_part(s->by, (pf_drafts_by)part) && (by == PF_N_DRAFTS_BY || !has_part(by, (pf_drafts_by)part)))
            close_at(c, (pf_drafts_by)part, sequence);
}

static void refuse_open(pf_choice *c, const pf_open *open, const pf_error *why)
{
    const pf_choice_sequence *s = find(c, open->sequence);
    if (s) leave(c, s, open->sequence, PF_N_DRAFTS_BY);
    forget(c, open->sequence);
    const pf_refusal refusal = { open->sequence, open->incarnation, why->status, why->text };
    pf_lookup_answers_refuse(c->answers, &refusal);
}

static void take_open(pf_choice *c, const pf_open *open)
{
    pf_error error;
    pf_open as_part;
    pf_drafts_by by = PF_N_DRAFTS_BY; /* unless it is read */
    pf_status status = pf_choice_read_open(c, open, &by, &as_part, &error);
    int32_t slot = pf_idmap_find(c->ids, 0, open->sequence);
    if (status == PF_OK && slot >= 0) leave(c, &c->sequences[slot], open->sequence, by);
    if (status == PF_OK && slot < 0) slot = pf_idmap_insert(c->ids, 0, open->sequence);
    if (status == PF_OK && slot < 0)
        status = pf_fail(&error, PF_LIMIT, "%d sequences are open, more are not taken", pf_idmap_count(c->ids));
    if (status != PF_OK) {
        refuse_open(c, open, &error);
        return;
    }
    pf_lookup_answers_drop(c->answers, slot);
    c->sequences[slot] = (pf_choice_sequence){ .by = by };
}

void pf_choice_take_batch(pf_choice *c, const pf_batch *batch)
{
    for (int32_t i = 0; i < batch->n_closes; i++) forget(c, batch->closes[i].sequence);
    for (int32_t i = 0; i < batch->n_opens; i++) take_open(c, &batch->opens[i]);
    for (int32_t i = 0; i < batch->n_verdicts; i++) {
        pf_choice_sequence *s = find(c, batch->verdicts[i].sequence);
        if (s) s->n_told = batch->verdicts[i].n_tokens;
    }
}

/* ---- a part's share of a batch ------------------------------------------------------------------------------------- */

static bool is_for(const pf_choice *c, const pf_choice_sequence *s, pf_drafts_by part)
{
    return s ? has_part(s->by, part) : part == c->home;
}

pf_batch pf_choice_share(pf_choice *c, const pf_batch *batch, pf_drafts_by part)
{
    pf_batch share = *batch;
    share.opens = c->opens;
    share.verdicts = c->verdicts;
    share.n_opens = share.n_verdicts = 0;
    for (int32_t i = 0; i < batch->n_opens; i++) {
        const pf_choice_sequence *s = find(c, batch->opens[i].sequence);
        if (!s || !has_part(s->by, part)) continue; /* none: it has been refused */
        pf_open *open = &c->opens[share.n_opens++];
        *open = batch->opens[i];
        open->drafter[0] = '\0';
    }
    for (int32_t i = 0; i < batch->n_verdicts; i++) {
        const pf_choice_sequence *s = find(c, batch->verdicts[i].sequence);
        if (!is_for(c, s, part)) continue;
        pf_verdict *verdict = &c->verdicts[share.n_verdicts++];
        *verdict = batch->verdicts[i];
        if (part == PF_DRAFTS_BY_MODEL && s && pf_lookup_answers_holds(c->answers, slot_of(c, s)))
            verdict->next_draft = PF_NO_DRAFT;
    }
    return share;
}

static bool is_empty(const pf_batch *share)
{
    return share->n_closes + share->n_opens + share->n_verdicts == 0;
}

/* ---- lookups ------------------------------------------------------------------------------------------------------- */

/* Sent, or of a cascade where it is worth more than what the model would propose. */
static void take_proposal(pf_choice *c, const pf_proposal *p)
{
    pf_choice_sequence *s = find(c, p->sequence);
    if (!s) return;
    if (s->by == PF_DRAFTS_BY_CASCADE) {
        pf_peer *suffix = c->parts[PF_DRAFTS_BY_SUFFIX];
        pf_cascade_end_round(&c->rounds, &s->round, s->n_told, pf_clock_now_ns(c->stop.clock_ns));
        if (!pf_cascade_begin_round(&c->rounds, &s->round, p->n_tokens,
                                    pf_suffix_drafter_expects(suffix, p->sequence))) {
            pf_suffix_drafter_withhold(suffix, p->sequence);
            return;
        }
    }
    pf_lookup_answers_hold(c->answers, slot_of(c, s), p);
}

/* What a lookup refuses or lacks of a cascade is the model's to say. */
static void take_answer(pf_choice *c, const pf_batch *answer)
{
    for (int32_t i = 0; i < answer->n_proposals; i++) take_proposal(c, &answer->proposals[i]);
    for (int32_t i = 0; i < answer->n_refusals; i++) {
        const pf_choice_sequence *s = find(c, answer->refusals[i].sequence);
        if (!s || s->by == PF_DRAFTS_BY_CASCADE) continue;
        forget(c, answer->refusals[i].sequence);
        pf_lookup_answers_refuse(c->answers, &answer->refusals[i]);
    }
    for (int32_t i = 0; i < answer->n_prefix_requests; i++) {
        const pf_choice_sequence *s = find(c, answer->prefix_requests[i].sequence);
        if (!s || s->by != PF_DRAFTS_BY_CASCADE) pf_lookup_answers_ask(c->answers, &answer->prefix_requests[i]);
    }
}

void pf_choice_look_up(pf_choice *c, const pf_batch *batch, pf_drafts_by part)
{
    if (!c->parts[part]) return;
    const pf_batch share = pf_choice_share(c, batch, part);
    if (is_empty(&share)) return;
    const uint64_t begin_ns = pf_clock_now_ns(c->stop.clock_ns);
    const pf_batch *answer;
    if (pf_peer_submit(c->parts[part], &share) != PF_OK) return;
    while (pf_peer_collect(c->parts[part], UINT64_MAX, &answer, NULL) == PF_OK) take_answer(c, answer);
    c->looked_ns += pf_clock_now_ns(c->stop.clock_ns) - begin_ns;
}

/* ---- what the peer asks -------------------------------------------------------------------------------------------- */

void pf_choice_end_refused(pf_choice *c, uint64_t sequence)
{
    const pf_choice_sequence *s = find(c, sequence);
    if (s && s->by == PF_DRAFTS_BY_CASCADE) close_at(c, PF_DRAFTS_BY_SUFFIX, sequence);
    forget(c, sequence);
}

bool pf_choice_has(const pf_choice *c, uint64_t sequence, pf_drafts_by part)
{
    return is_for(c, find(c, sequence), part);
}

bool pf_choice_holds(const pf_choice *c, uint64_t sequence)
{
    const pf_choice_sequence *s = find(c, sequence);
    return s && pf_lookup_answers_holds(c->answers, slot_of(c, s));
}
