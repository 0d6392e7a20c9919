#include "draft/choice_drafter.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "draft/cascade_rounds.h"
#include "draft/lookup_answers.h"
#include "draft/suffix_drafter.h"
#include "host/sequence_host.h"
#include "proto/drafter_names.h"
#include "proto/idmap.h"

/* The drafters behind it: parts of what is offered, by their kinds. */
enum { N_PARTS = PF_DRAFTS_BY_SUFFIX + 1 };

/* A sequence, by its slot of the map. */
typedef struct {
    pf_drafts_by by;
    int32_t n_told;         /* tokens of the verdict that is being submitted */
    pf_cascade_round round; /* of a cascade */
} choice_sequence;

typedef struct {
    pf_peer peer;
    pf_peer *parts[N_PARTS]; /* NULL: not needed */
    pf_drafts_by home;       /* of the part that answers for sequences that are not open */
    pf_drafts_by offered[PF_N_DRAFTS_BY];
    pf_model_info info;
    pf_stop stop;
    pf_idmap *ids;
    choice_sequence *sequences; /* [max_sequences] */
    pf_lookup_answers *answers;
    uint64_t looked_ns; /* what the lookups of the next answer took */
    pf_cascade_rounds rounds;
    pf_open opens[PF_MAX_BATCH_SEQUENCES]; /* of the batch for a part */
    pf_verdict verdicts[PF_MAX_BATCH_SEQUENCES];
} choice_drafter;

static choice_drafter *choice_of(pf_peer *peer)
{
    return (choice_drafter *)peer;
}

static bool has_part(pf_drafts_by by, pf_drafts_by part)
{
    return by == PF_DRAFTS_BY_CASCADE ? part == PF_DRAFTS_BY_SUFFIX || part == PF_DRAFTS_BY_MODEL : by == part;
}

static choice_sequence *find(const choice_drafter *d, uint64_t sequence)
{
    const int32_t slot = pf_idmap_find(d->ids, 0, sequence);
    return slot < 0 ? NULL : &d->sequences[slot];
}

static int32_t slot_of(const choice_drafter *d, const choice_sequence *s)
{
    return (int32_t)(s - d->sequences);
}

/* ---- opens and closes ---------------------------------------------------------------------------------------------- */

/* Which of the offered an open asks for, as its part sees it. */
static pf_status read_open(const choice_drafter *d, const pf_open *open, pf_drafts_by *by, pf_open *out,
                           pf_error *error)
{
    PF_TRY(pf_drafter_names_check(&d->info, open->drafter, error));
    *by = d->offered[open->drafter[0] ? pf_drafter_names_find(&d->info, open->drafter) : 0];
    *out = *open;
    out->drafter[0] = '\0';
    return PF_OK;
}

static void close_at(choice_drafter *d, pf_drafts_by part, uint64_t sequence)
{
    pf_close close = { sequence };
    const pf_batch batch = { .closes = &close, .n_closes = 1 };
    (void)!pf_peer_submit(d->parts[part], &batch); /* one that takes no close fails at the next collect, too */
}

static void forget(choice_drafter *d, uint64_t sequence)
{
    const int32_t slot = pf_idmap_remove(d->ids, 0, sequence);
    if (slot >= 0) pf_lookup_answers_drop(d->answers, slot);
}

/* Closes a sequence at the parts that `by` does not have; PF_N_DRAFTS_BY: at all. */
static void leave(choice_drafter *d, const choice_sequence *s, uint64_t sequence, pf_drafts_by by)
{
    for (int32_t part = 0; part < N_PARTS; part++)
        if (has_part(s->by, (pf_drafts_by)part) && (by == PF_N_DRAFTS_BY || !has_part(by, (pf_drafts_by)part)))
            close_at(d, (pf_drafts_by)part, sequence);
}

static void refuse_open(choice_drafter *d, const pf_open *open, const pf_error *why)
{
    const choice_sequence *s = find(d, open->sequence);
    if (s) leave(d, s, open->sequence, PF_N_DRAFTS_BY);
    forget(d, open->sequence);
    const pf_refusal refusal = { open->sequence, open->incarnation, why->status, why->text };
    pf_lookup_answers_refuse(d->answers, &refusal);
}

static void take_open(choice_drafter *d, const pf_open *open)
{
    pf_error error;
    pf_open as_part;
    pf_drafts_by by;
    pf_status status = read_open(d, open, &by, &as_part, &error);
    int32_t slot = pf_idmap_find(d->ids, 0, open->sequence);
    if (status == PF_OK && slot >= 0) leave(d, &d->sequences[slot], open->sequence, by);
    if (status == PF_OK && slot < 0) slot = pf_idmap_insert(d->ids, 0, open->sequence);
    if (status == PF_OK && slot < 0)
        status = pf_fail(&error, PF_LIMIT, "%d sequences are open, more are not taken", pf_idmap_count(d->ids));
    if (status != PF_OK) {
        refuse_open(d, open, &error);
        return;
    }
    pf_lookup_answers_drop(d->answers, slot);
    d->sequences[slot] = (choice_sequence){ .by = by };
}

static void take_batch(choice_drafter *d, const pf_batch *batch)
{
    for (int32_t i = 0; i < batch->n_closes; i++) forget(d, batch->closes[i].sequence);
    for (int32_t i = 0; i < batch->n_opens; i++) take_open(d, &batch->opens[i]);
    for (int32_t i = 0; i < batch->n_verdicts; i++) {
        choice_sequence *s = find(d, batch->verdicts[i].sequence);
        if (s) s->n_told = batch->verdicts[i].n_tokens;
    }
}

/* ---- a part's share of a batch ------------------------------------------------------------------------------------- */

static bool is_for(const choice_drafter *d, const choice_sequence *s, pf_drafts_by part)
{
    return s ? has_part(s->by, part) : part == d->home;
}

/* Borrowed until the next call. */
static pf_batch share_of(choice_drafter *d, const pf_batch *batch, pf_drafts_by part)
{
    pf_batch share = *batch;
    share.opens = d->opens;
    share.verdicts = d->verdicts;
    share.n_opens = share.n_verdicts = 0;
    for (int32_t i = 0; i < batch->n_opens; i++) {
        const choice_sequence *s = find(d, batch->opens[i].sequence);
        if (!s || !has_part(s->by, part)) continue; /* none: it has been refused */
        pf_open *open = &d->opens[share.n_opens++];
        *open = batch->opens[i];
        open->drafter[0] = '\0';
    }
    for (int32_t i = 0; i < batch->n_verdicts; i++) {
        const choice_sequence *s = find(d, batch->verdicts[i].sequence);
        if (!is_for(d, s, part)) continue;
        pf_verdict *verdict = &d->verdicts[share.n_verdicts++];
        *verdict = batch->verdicts[i];
        if (part == PF_DRAFTS_BY_MODEL && s && pf_lookup_answers_holds(d->answers, slot_of(d, s)))
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
static void take_proposal(choice_drafter *d, const pf_proposal *p)
{
    choice_sequence *s = find(d, p->sequence);
    if (!s) return;
    if (s->by == PF_DRAFTS_BY_CASCADE) {
        pf_peer *suffix = d->parts[PF_DRAFTS_BY_SUFFIX];
        pf_cascade_end_round(&d->rounds, &s->round, s->n_told, pf_clock_now_ns(d->stop.clock_ns));
        if (!pf_cascade_begin_round(&d->rounds, &s->round, p->n_tokens,
                                    pf_suffix_drafter_expects(suffix, p->sequence))) {
            pf_suffix_drafter_withhold(suffix, p->sequence);
            return;
        }
    }
    pf_lookup_answers_hold(d->answers, slot_of(d, s), p);
}

/* What a lookup refuses or lacks of a cascade is the model's to say. */
static void take_answer(choice_drafter *d, const pf_batch *answer)
{
    for (int32_t i = 0; i < answer->n_proposals; i++) take_proposal(d, &answer->proposals[i]);
    for (int32_t i = 0; i < answer->n_refusals; i++) {
        const choice_sequence *s = find(d, answer->refusals[i].sequence);
        if (!s || s->by == PF_DRAFTS_BY_CASCADE) continue;
        forget(d, answer->refusals[i].sequence);
        pf_lookup_answers_refuse(d->answers, &answer->refusals[i]);
    }
    for (int32_t i = 0; i < answer->n_prefix_requests; i++) {
        const choice_sequence *s = find(d, answer->prefix_requests[i].sequence);
        if (!s || s->by != PF_DRAFTS_BY_CASCADE) pf_lookup_answers_ask(d->answers, &answer->prefix_requests[i]);
    }
}

static void look_up(choice_drafter *d, const pf_batch *batch, pf_drafts_by part)
{
    if (!d->parts[part]) return;
    const pf_batch share = share_of(d, batch, part);
    if (is_empty(&share)) return;
    const uint64_t begin_ns = pf_clock_now_ns(d->stop.clock_ns);
    const pf_batch *answer;
    if (pf_peer_submit(d->parts[part], &share) != PF_OK) return;
    while (pf_peer_collect(d->parts[part], UINT64_MAX, &answer, NULL) == PF_OK) take_answer(d, answer);
    d->looked_ns += pf_clock_now_ns(d->stop.clock_ns) - begin_ns;
}

/* ---- the peer ------------------------------------------------------------------------------------------------------ */

static pf_status submit(pf_peer *peer, const pf_batch *batch)
{
    choice_drafter *d = choice_of(peer);
    pf_peer *model = d->parts[PF_DRAFTS_BY_MODEL];
    take_batch(d, batch);
    look_up(d, batch, PF_DRAFTS_BY_NGRAM);
    look_up(d, batch, PF_DRAFTS_BY_SUFFIX);
    if (!model) return PF_OK;
    const pf_batch share = share_of(d, batch, PF_DRAFTS_BY_MODEL);
    return is_empty(&share) ? PF_OK : pf_peer_submit(model, &share);
}

static pf_status collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    choice_drafter *d = choice_of(peer);
    pf_peer *model = d->parts[PF_DRAFTS_BY_MODEL];
    if (!pf_lookup_answers_are_empty(d->answers)) {
        pf_batch *answer = pf_lookup_answers_hand_out(d->answers);
        answer->timing.compute_ns = d->looked_ns;
        d->looked_ns = 0;
        *out = answer;
        return PF_OK;
    }
    if (!model) return pf_fail(error, PF_CANCELLED, "nothing was asked of the lookups");
    const pf_batch *answer;
    PF_TRY(pf_peer_collect(model, deadline_ns, &answer, error));
    for (int32_t i = 0; i < answer->n_refusals; i++) {
        const choice_sequence *s = find(d, answer->refusals[i].sequence);
        if (s && s->by == PF_DRAFTS_BY_CASCADE) close_at(d, PF_DRAFTS_BY_SUFFIX, answer->refusals[i].sequence);
        forget(d, answer->refusals[i].sequence);
    }
    *out = answer;
    return PF_OK;
}

static pf_status get_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    (void)error;
    *out = choice_of(peer)->info;
    return PF_OK;
}

static int32_t count_backlog(const pf_peer *peer)
{
    const choice_drafter *d = (const choice_drafter *)peer;
    return pf_peer_backlog(d->parts[d->home]);
}

static bool owes(const pf_peer *peer, uint64_t sequence)
{
    const choice_drafter *d = (const choice_drafter *)peer;
    const pf_peer *model = d->parts[PF_DRAFTS_BY_MODEL];
    const choice_sequence *s = find(d, sequence);
    if (s && pf_lookup_answers_holds(d->answers, slot_of(d, s))) return true;
    return model && is_for(d, s, PF_DRAFTS_BY_MODEL) && pf_peer_owes(model, sequence);
}

/* Of a cascade the model's word. */
static pf_status check_open(const pf_peer *peer, const pf_open *open, pf_error *error)
{
    const choice_drafter *d = (const choice_drafter *)peer;
    pf_open as_part;
    pf_drafts_by by;
    PF_TRY(read_open(d, open, &by, &as_part, error));
    return pf_peer_check_open(d->parts[by == PF_DRAFTS_BY_CASCADE ? PF_DRAFTS_BY_MODEL : by], &as_part, error);
}

static void take_invalid_logits(pf_peer *peer, pf_invalid_logits *out)
{
    pf_peer *model = choice_of(peer)->parts[PF_DRAFTS_BY_MODEL];
    *out = (pf_invalid_logits){ 0 };
    if (model) pf_peer_take_invalid_logits(model, out);
}

/* The model's; it drafts for its own proposals, and lookups take no time. */
static bool work_ahead(pf_peer *peer)
{
    choice_drafter *d = choice_of(peer);
    pf_peer *model = d->parts[PF_DRAFTS_BY_MODEL];
    return model && pf_lookup_answers_are_empty(d->answers) && pf_peer_work_ahead(model);
}

static void destroy(pf_peer *peer)
{
    choice_drafter *d = choice_of(peer);
    for (int32_t part = 0; part < N_PARTS; part++) pf_peer_destroy(d->parts[part]);
    pf_idmap_destroy(d->ids);
    pf_lookup_answers_destroy(d->answers);
    free(d->sequences);
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

/* ---- creation ------------------------------------------------------------------------------------------------------ */

static pf_status make_memory(choice_drafter *d, pf_error *error)
{
    const int32_t n = d->info.max_sequences > 0 ? d->info.max_sequences : PF_MAX_BATCH_SEQUENCES;
    pf_status status = pf_idmap_create(n, &d->ids);
    if (status == PF_OK) status = pf_lookup_answers_create(n, &d->answers);
    if (status == PF_OK) d->sequences = calloc((size_t)n, sizeof *d->sequences);
    if (status == PF_OK && !d->sequences) status = PF_NOMEM;
    return status == PF_OK ? PF_OK : pf_fail(error, status, "no memory for a choice of drafters");
}

static pf_status describe(choice_drafter *d, const pf_choice_drafter_config *config, pf_error *error)
{
    d->home = d->parts[PF_DRAFTS_BY_MODEL] ? PF_DRAFTS_BY_MODEL : config->offered[0];
    PF_TRY(pf_peer_info(d->parts[d->home], &d->info, error));
    d->info.n_drafters = 0;
    for (int32_t i = 0; i < config->n_offered; i++) {
        d->offered[i] = config->offered[i];
        PF_TRY(pf_drafter_names_add(&d->info, pf_drafts_by_word(config->offered[i])));
    }
    return PF_OK;
}

pf_status pf_choice_drafter_create(const pf_choice_drafter_config *config, pf_peer **out, pf_error *error)
{
    choice_drafter *d = calloc(1, sizeof *d);
    if (!d) {
        pf_peer_destroy(config->model);
        pf_peer_destroy(config->suffix);
        pf_peer_destroy(config->ngram);
        return pf_fail(error, PF_NOMEM, "no memory for a choice of drafters");
    }
    d->peer.ops = &peer_ops;
    d->parts[PF_DRAFTS_BY_MODEL] = config->model;
    d->parts[PF_DRAFTS_BY_SUFFIX] = config->suffix;
    d->parts[PF_DRAFTS_BY_NGRAM] = config->ngram;
    d->stop = config->stop;
    pf_status status = describe(d, config, error);
    if (status == PF_OK) status = make_memory(d, error);
    if (status != PF_OK) {
        destroy(&d->peer);
        return status;
    }
    *out = &d->peer;
    return PF_OK;
}

pf_peer *pf_choice_drafter_model(pf_peer *peer)
{
    return peer->ops == &peer_ops ? choice_of(peer)->parts[PF_DRAFTS_BY_MODEL] : peer;
}

size_t pf_choice_drafter_reserved_bytes(const pf_peer *peer)
{
    const choice_drafter *d = (const choice_drafter *)peer;
    size_t bytes = 0;
    if (peer->ops != &peer_ops) return pf_host_reserved_bytes(peer);
    for (int32_t part = 0; part < N_PARTS; part++)
        if (d->parts[part]) bytes += pf_host_reserved_bytes(d->parts[part]);
    return bytes;
}

pf_choice_counts pf_choice_drafter_counts(const pf_peer *peer)
{
    const choice_drafter *d = (const choice_drafter *)peer;
    return (pf_choice_counts){ d->rounds.n_lookups, d->rounds.n_models };
}
