#include "draft/choice_drafter.h"

#include <stdlib.h>

#include "draft/choice_parts.h"
#include "host/sequence_host.h"
#include "proto/drafter_names.h"

static pf_choice *choice_of(pf_peer *peer)
{
    return (pf_choice *)peer;
}

/* ---- the peer ------------------------------------------------------------------------------------------------------ */

static pf_status submit(pf_peer *peer, const pf_batch *batch)
{
    pf_choice *c = choice_of(peer);
    pf_peer *model = c->parts[PF_DRAFTS_BY_MODEL];
    pf_choice_take_batch(c, batch);
    pf_choice_look_up(c, batch, PF_DRAFTS_BY_NGRAM);
    pf_choice_look_up(c, batch, PF_DRAFTS_BY_SUFFIX);
    if (!model) return PF_OK;
    const pf_batch share = pf_choice_share(c, batch, PF_DRAFTS_BY_MODEL);
    return share.n_closes + share.n_opens + share.n_verdicts == 0 ? PF_OK : pf_peer_submit(model, &share);
}

static pf_status collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    pf_choice *c = choice_of(peer);
    pf_peer *model = c->parts[PF_DRAFTS_BY_MODEL];
    if (!pf_lookup_answers_are_empty(c->answers)) {
        pf_batch *answer = pf_lookup_answers_hand_out(c->answers);
        answer->timing.compute_ns = c->looked_ns;
        c->looked_ns = 0;
        *out = answer;
        return PF_OK;
    }
    if (!model) return pf_fail(error, PF_CANCELLED, "nothing was asked of the lookups");
    const pf_batch *answer;
    PF_TRY(pf_peer_collect(model, deadline_ns, &answer, error));
    for (int32_t i = 0; i < answer->n_refusals; i++) pf_choice_end_refused(c, answer->refusals[i].sequence);
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
    const pf_choice *c = (const pf_choice *)peer;
    return pf_peer_backlog(c->parts[c->home]);
}

static bool owes(const pf_peer *peer, uint64_t sequence)
{
    const pf_choice *c = (const pf_choice *)peer;
    const pf_peer *model = c->parts[PF_DRAFTS_BY_MODEL];
    if (pf_choice_holds(c, sequence)) return true;
    return model && pf_choice_has(c, sequence, PF_DRAFTS_BY_MODEL) && pf_peer_owes(model, sequence);
}

/* Of a cascade the model's word. */
static pf_status check_open(const pf_peer *peer, const pf_open *open, pf_error *error)
{
    const pf_choice *c = (const pf_choice *)peer;
    pf_open as_part;
    pf_drafts_by by;
    PF_TRY(pf_choice_read_open(c, open, &by, &as_part, error));
    return pf_peer_check_open(c->parts[by == PF_DRAFTS_BY_CASCADE ? PF_DRAFTS_BY_MODEL : by], &as_part, error);
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
    pf_choice *c = choice_of(peer);
    pf_peer *model = c->parts[PF_DRAFTS_BY_MODEL];
    return model && pf_lookup_answers_are_empty(c->answers) && pf_peer_work_ahead(model);
}

static void destroy(pf_peer *peer)
{
    pf_choice *c = choice_of(peer);
    for (int32_t part = 0; part < PF_CHOICE_PARTS; part++) pf_peer_destroy(c->parts[part]);
    pf_idmap_destroy(c->ids);
    pf_lookup_answers_destroy(c->answers);
    free(c->sequences);
    free(c);
}

static const pf_peer *get_model(const pf_peer *peer)
{
    return ((const pf_choice *)peer)->parts[PF_DRAFTS_BY_MODEL];
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
    .model = get_model,
};

/* ---- creation ------------------------------------------------------------------------------------------------------ */

static pf_status make_memory(pf_choice *c, pf_error *error)
{
    const int32_t n = c->info.max_sequences > 0 ? c->info.max_sequences : PF_MAX_BATCH_SEQUENCES;
    pf_status status = pf_idmap_create(n, &c->ids);
    if (status == PF_OK) status = pf_lookup_answers_create(n, &c->answers);
    if (status == PF_OK) c->sequences = calloc((size_t)n, sizeof *c->sequences);
    if (status == PF_OK && !c->sequences) status = PF_NOMEM;
    return status == PF_OK ? PF_OK : pf_fail(error, status, "no memory for a choice of drafters");
}

static pf_status describe(pf_choice *c, const pf_choice_drafter_config *config, pf_error *error)
{
    c->home = c->parts[PF_DRAFTS_BY_MODEL] ? PF_DRAFTS_BY_MODEL : config->offered[0];
    PF_TRY(pf_peer_info(c->parts[c->home], &c->info, error));
    c->info.n_drafters = 0;
    for (int32_t i = 0; i < config->n_offered; i++) {
        c->offered[i] = config->offered[i];
        PF_TRY(pf_drafter_names_add(&c->info, pf_drafts_by_word(config->offered[i])));
    }
    return PF_OK;
}

pf_status pf_choice_drafter_create(const pf_choice_drafter_config *config, pf_peer **out, pf_error *error)
{
    pf_choice *c = calloc(1, sizeof *c);
    if (!c) {
        pf_peer_destroy(config->model);
        pf_peer_destroy(config->suffix);
        pf_peer_destroy(config->ngram);
        return pf_fail(error, PF_NOMEM, "no memory for a choice of drafters");
    }
    c->peer.ops = &peer_ops;
    c->parts[PF_DRAFTS_BY_MODEL] = config->model;
    c->parts[PF_DRAFTS_BY_SUFFIX] = config->suffix;
    c->parts[PF_DRAFTS_BY_NGRAM] = config->ngram;
    c->stop = config->stop;
    pf_status status = describe(c, config, error);
    if (status == PF_OK) status = make_memory(c, error);
    if (status != PF_OK) {
        destroy(&c->peer);
        return status;
    }
    *out = &c->peer;
    return PF_OK;
}

size_t pf_choice_drafter_reserved_bytes(const pf_peer *peer)
{
    const pf_choice *c = (const pf_choice *)peer;
    size_t bytes = 0;
    if (peer->ops != &peer_ops) return pf_host_reserved_bytes(peer);
    for (int32_t part = 0; part < PF_CHOICE_PARTS; part++)
        if (c->parts[part]) bytes += pf_host_reserved_bytes(c->parts[part]);
    return bytes;
}

uint64_t pf_choice_drafter_rests_until_ns(const pf_peer *peer)
{
    const pf_choice *d = (const pf_choice *)peer;
    uint64_t until_ns = UINT64_MAX;
    if (peer->ops != &peer_ops) return pf_host_rests_until_ns(peer);
    for (int32_t part = 0; part < PF_CHOICE_PARTS; part++) {
        const uint64_t part_ns = d->parts[part] ? pf_host_rests_until_ns(d->parts[part]) : UINT64_MAX;
        if (part_ns < until_ns) until_ns = part_ns;
    }
    return until_ns == UINT64_MAX ? 0 : until_ns;
}

pf_choice_counts pf_choice_drafter_counts(const pf_peer *peer)
{
    const pf_choice *c = (const pf_choice *)peer;
    return (pf_choice_counts){ c->rounds.n_lookups, c->rounds.n_models };
}
