#include "tests/support/duet.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pf_duet_request *requests;
    int32_t n;
    pf_duet_text *texts;
    uint64_t round[PF_MAX_BATCH_SEQUENCES]; /* whose proposal is next */
    pf_verdict verdicts[PF_MAX_BATCH_SEQUENCES];
    int32_t n_verdicts;
    pf_proposal proposals[PF_MAX_BATCH_SEQUENCES];
    int32_t n_proposals;
} duet;

static _Noreturn void give_up(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    abort();
}

static const pf_batch *exchange(pf_peer *peer, const pf_batch *batch)
{
    pf_error error = { 0 };
    const pf_batch *answer;
    if (pf_peer_submit(peer, batch) != PF_OK) give_up("duet: submit failed\n");
    if (pf_peer_collect(peer, UINT64_MAX, &answer, &error) != PF_OK) give_up("duet: collect: %s\n", error.text);
    if (answer->n_refusals > 0) give_up("duet: refused: %s\n", answer->refusals[0].text);
    if (answer->n_prefix_requests > 0) give_up("duet: a prefix was asked for\n");
    return answer;
}

static pf_open open_of(const pf_duet_request *r)
{
    pf_open open = { .sequence = r->sequence,
                     .incarnation = 1,
                     .tokens = r->prompt,
                     .n_tokens = r->n_prompt,
                     .sampling = r->sampling,
                     .method = r->method,
                     .max_draft = r->draft_len * (1 + r->siblings),
                     .adaptive_draft = r->adaptive,
                     .trees = r->adaptive || r->siblings > 0,
                     .siblings = r->siblings,
                     .max_declared = r->max_declared,
                     .max_tokens = r->n_prompt + r->n_new,
                     .stop_tokens = r->stop,
                     .n_stop_tokens = r->n_stop,
                     .excluded = r->excluded,
                     .n_excluded = r->n_excluded,
                     .rules = r->rules };
    open.rules.n_prompt = r->n_prompt;
    return open;
}

static int32_t index_of(const duet *d, uint64_t sequence)
{
    for (int32_t i = 0; i < d->n; i++)
        if (d->requests[i].sequence == sequence) return i;
    give_up("duet: a verdict or proposal for sequence %llu, which is not open\n", (unsigned long long)sequence);
}

/* Append what the verifier committed, and make it the drafter's verdict. */
static void take_verdicts(duet *d, const pf_batch *answer)
{
    d->n_verdicts = 0;
    for (int32_t j = 0; j < answer->n_verdicts; j++) {
        const pf_verdict *v = &answer->verdicts[j];
        const int32_t i = index_of(d, v->sequence);
        pf_duet_text *text = &d->texts[i];
        if (v->round != d->round[i] || v->base != d->requests[i].n_prompt + text->n_tokens)
            give_up("duet: a verdict of another round\n");
        if (text->n_tokens + v->n_tokens > d->requests[i].n_new) give_up("duet: more tokens than were asked for\n");
        memcpy(text->tokens + text->n_tokens, v->tokens, (size_t)v->n_tokens * sizeof *v->tokens);
        d->verdicts[d->n_verdicts] = *v;
        d->verdicts[d->n_verdicts++].tokens = text->tokens + text->n_tokens;
        text->n_tokens += v->n_tokens;
        text->accepted += v->n_accepted;
        text->finish = v->finish;
        d->round[i]++;
    }
}

/* One proposal for every sequence that goes on: the drafter's, or an empty one. */
static void take_proposals(duet *d, const pf_batch *answer, pf_duet_tamper *tamper, void *user)
{
    d->n_proposals = 0;
    for (int32_t j = 0; j < d->n_verdicts; j++) {
        if (d->verdicts[j].finish != PF_FINISH_NONE) continue;
        const int32_t i = index_of(d, d->verdicts[j].sequence);
        pf_proposal proposal = { .sequence = d->requests[i].sequence,
                                 .incarnation = 1,
                                 .round = d->round[i],
                                 .base = d->requests[i].n_prompt + d->texts[i].n_tokens };
        for (int32_t k = 0; answer && k < answer->n_proposals; k++) {
            const pf_proposal *p = &answer->proposals[k];
            if (p->sequence != proposal.sequence) continue;
            if (p->round != proposal.round || p->base != proposal.base) give_up("duet: a proposal of another round\n");
            proposal = *p;
        }
        if (answer) {
            d->texts[i].rounds++;
            d->texts[i].drafted += proposal.n_tokens;
        }
        if (tamper) tamper(user, &proposal);
        d->proposals[d->n_proposals++] = proposal;
    }
}

void pf_duet_run(pf_peer *verifier, pf_peer *drafter, const pf_duet_request *requests, int32_t n,
                 pf_duet_tamper *tamper, void *user, pf_duet_text *texts)
{
    duet d = { .requests = requests, .n = n, .texts = texts };
    pf_open opens[PF_MAX_BATCH_SEQUENCES];
    pf_close closes[PF_MAX_BATCH_SEQUENCES];
    for (int32_t i = 0; i < n; i++) {
        opens[i] = open_of(&requests[i]);
        closes[i] = (pf_close){ requests[i].sequence };
        texts[i] = (pf_duet_text){ 0 };
    }
    const pf_batch begin = { .opens = opens, .n_opens = n };
    if (drafter && pf_peer_submit(drafter, &begin) != PF_OK) give_up("duet: submit failed\n");
    take_verdicts(&d, exchange(verifier, &begin));
    for (;;) {
        int32_t n_open = 0;
        for (int32_t j = 0; j < d.n_verdicts; j++) n_open += d.verdicts[j].finish == PF_FINISH_NONE;
        if (n_open == 0) break;
        const pf_batch verdicts = { .verdicts = d.verdicts, .n_verdicts = d.n_verdicts };
        take_proposals(&d, drafter ? exchange(drafter, &verdicts) : NULL, tamper, user);
        take_verdicts(&d, exchange(verifier, &(pf_batch){ .proposals = d.proposals, .n_proposals = d.n_proposals }));
    }
    const pf_batch end = { .closes = closes, .n_closes = n };
    if (pf_peer_submit(verifier, &end) != PF_OK) give_up("duet: submit failed\n");
    if (drafter && pf_peer_submit(drafter, &end) != PF_OK) give_up("duet: submit failed\n");
}
