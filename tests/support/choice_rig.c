#include "tests/support/choice_rig.h"

#include <stdlib.h>

#include "draft/ngram_drafter.h"
#include "draft/suffix_drafter.h"
#include "tests/support/near_peer.h"
#include "tests/support/test.h"

/* ---- a model ------------------------------------------------------------------------------------------------------- */

static pf_status follow(pf_host *host, pf_host_sequence *s, const pf_verdict *verdict)
{
    stub_model *m = (stub_model *)host;
    (void)s;
    m->n_told++;
    m->n_asked += verdict->next_draft != PF_NO_DRAFT;
    return PF_OK;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is that of the hosts' function */
static pf_host_turn turn(const pf_host *host, const pf_host_sequence *s, int32_t *n_tokens)
{
    (void)host;
    (void)n_tokens;
    return s->is_due ? PF_HOST_READY : PF_HOST_IDLE;
}

static bool add(pf_host *host, pf_host_sequence *s)
{
    stub_model *m = (stub_model *)host;
    pf_proposal proposal;
    *m->clock_ns += m->pass_ns;
    s->n_drafted = pf_host_draft_room(host, s);
    for (int32_t i = 0; i < s->n_drafted; i++) s->tokens[s->n_committed + i] = MODEL_TOKEN;
    pf_host_begin_proposal(host, s, &proposal);
    proposal.tokens = s->tokens + s->n_committed;
    proposal.n_tokens = s->n_drafted;
    pf_host_propose(host, s, &proposal);
    return true;
}

static pf_status check_open(const pf_host *host, const pf_open *open, pf_error *error)
{
    const stub_model *m = (const stub_model *)host;
    if (m->limit == 0 || open->sequence < (uint64_t)m->limit) return PF_OK;
    return pf_fail(error, PF_LIMIT, "the stub takes no more");
}

static bool work_ahead(pf_host *host)
{
    return ((stub_model *)host)->n_ahead++ == 0;
}

static const pf_host_role stub_role = { .name = "stub",
                                        .model = "stub",
                                        .check_open = check_open,
                                        .follow = follow,
                                        .turn = turn,
                                        .add = add,
                                        .work_ahead = work_ahead };

static pf_peer *make_model(choice_rig *r, const pf_model_info *info)
{
    const pf_host_config host = { .max_sequences = info->max_sequences,
                                  .max_draft = info->max_draft,
                                  .max_tokens = RIG_CONTEXT,
                                  .n_vocab = RIG_VOCAB,
                                  .info = info };
    pf_peer *model;
    pf_error error = { 0 };
    r->model = calloc(1, sizeof *r->model);
    assert_non_null(r->model);
    r->model->clock_ns = &r->clock_ns;
    assert_ok(pf_host_create(&r->model->host, &stub_role, &host, &model, &error), error);
    return model;
}

void rig_make(choice_rig *r, int32_t max_sequences, const pf_drafts_by *offered, int32_t n)
{
    const pf_model_info info = { .model_id = "stub",
                                 .vocab_size = RIG_VOCAB,
                                 .max_context = RIG_CONTEXT,
                                 .max_sequences = max_sequences,
                                 .max_draft = 8 };
    *r = (choice_rig){ .clock_ns = 1 };
    const pf_stop stop = { .clock_ns = &r->clock_ns };
    const pf_suffix_drafter_config suffix = { .max_sequences = max_sequences, .max_draft = 8, .stop = stop };
    pf_choice_drafter_config choice = { .offered = offered, .n_offered = n, .stop = stop };
    pf_error error = { 0 };
    for (int32_t i = 0; i < n; i++) {
        if (pf_drafts_by_model(offered[i]) && !choice.model) choice.model = make_model(r, &info);
        if (pf_drafts_by_suffixes(offered[i]) && !choice.suffix)
            assert_ok(pf_suffix_drafter_create(&info, &suffix, &choice.suffix, &error), error);
        if (offered[i] == PF_DRAFTS_BY_NGRAM)
            assert_ok(pf_ngram_drafter_create(&info, max_sequences, 8, (pf_stop){ 0 }, &choice.ngram, &error), error);
    }
    assert_ok(pf_choice_drafter_create(&choice, &r->choice, &error), error);
}

void rig_end(choice_rig *r)
{
    pf_peer_destroy(r->choice);
}

/* ---- a text -------------------------------------------------------------------------------------------------------- */

rig_sequence rig_open_text(uint64_t sequence, bool repeats)
{
    static int32_t periodic[64], fresh[64];
    for (int32_t i = 0; i < 64; i++) {
        periodic[i] = 100 + i % 4;
        fresh[i] = 1000 + i;
    }
    pf_open open = near_peer_open(sequence);
    open.tokens = repeats ? periodic : fresh;
    open.n_tokens = 64;
    return (rig_sequence){ .open = open, .base = 64 };
}

pf_proposal rig_commit(choice_rig *r, rig_sequence *t, const int32_t *tokens, int32_t n, uint64_t ns)
{
    pf_verdict verdict = { .sequence = t->open.sequence,
                           .incarnation = t->open.incarnation,
                           .round = t->round,
                           .base = t->base,
                           .tokens = tokens,
                           .n_tokens = n,
                           .n_accepted = n - 1 };
    const pf_batch batch = { .opens = &t->open, .n_opens = t->round == 0, .verdicts = &verdict, .n_verdicts = 1 };
    r->clock_ns += ns;
    const pf_batch *answer = near_peer_ask(r->choice, batch);
    assert_non_null(answer);
    assert_int_equal(answer->n_proposals, 1);
    t->round++;
    t->base += n;
    assert_int_equal(answer->proposals[0].round, t->round);
    assert_int_equal(answer->proposals[0].base, t->base);
    return answer->proposals[0];
}

pf_proposal rig_commit_period(choice_rig *r, rig_sequence *t, int32_t n, uint64_t ns)
{
    int32_t tokens[16];
    for (int32_t i = 0; i < n; i++) tokens[i] = 100 + (t->base + i) % 4;
    return rig_commit(r, t, tokens, n, ns);
}

pf_proposal rig_commit_fresh(choice_rig *r, rig_sequence *t, int32_t n, uint64_t ns)
{
    int32_t tokens[16];
    for (int32_t i = 0; i < n; i++) tokens[i] = 5000 + t->base + i;
    return rig_commit(r, t, tokens, n, ns);
}
