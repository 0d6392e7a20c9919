#include "proto/stream.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "proto/idmap.h"

/* ---- the owner's side ------------------------------------------------------------------------------------------ */

typedef struct {
    uint32_t incarnation; /* 0: never opened */
    uint64_t round;       /* of the next verdict */
    int32_t committed;
    int32_t n_proposed; /* Verifier: tokens of the round's proposal */
    bool due;           /* must be opened (again) first */
    bool asked;         /* Drafter: the round's proposal has been asked for, and has not come */
} owned;

struct pf_stream_owner {
    pf_idmap *ids;
    int32_t max;
    owned *slots; /* [max]; of those not in use nothing is read */
};

pf_status pf_stream_owner_create(int32_t max_sequences, pf_stream_owner **out)
{
    pf_idmap *ids;
    PF_TRY(pf_idmap_create(max_sequences, &ids));
    pf_stream_owner *owner = calloc(1, sizeof *owner);
    owned *slots = calloc((size_t)max_sequences, sizeof *slots);
    if (!owner || !slots) {
        pf_idmap_destroy(ids);
        free(owner);
        free(slots);
        return PF_NOMEM;
    }
    *owner = (pf_stream_owner){ .ids = ids, .max = max_sequences, .slots = slots };
    *out = owner;
    return PF_OK;
}

void pf_stream_owner_destroy(pf_stream_owner *owner)
{
    if (!owner) return;
    pf_idmap_destroy(owner->ids);
    free(owner->slots);
    free(owner);
}

static owned *find_owned(const pf_stream_owner *owner, uint64_t sequence)
{
    const int32_t slot = pf_idmap_find(owner->ids, 0, sequence);
    return slot < 0 ? NULL : &owner->slots[slot];
}

pf_status pf_stream_owner_begin(pf_stream_owner *owner, uint64_t sequence, int32_t committed)
{
    if (committed < 0 || find_owned(owner, sequence)) return PF_INVALID;
    const int32_t slot = pf_idmap_insert(owner->ids, 0, sequence);
    if (slot < 0) return PF_LIMIT;
    owner->slots[slot] = (owned){ .committed = committed, .due = true };
    return PF_OK;
}

/* The incarnation moves here already: an answer to the old one may come before the next open. */
pf_status pf_stream_owner_restart(pf_stream_owner *owner, uint64_t sequence, int32_t committed)
{
    owned *s = find_owned(owner, sequence);
    if (!s || committed < 0) return PF_INVALID;
    *s = (owned){ .incarnation = s->incarnation + 1, .committed = committed, .due = true };
    return PF_OK;
}

void pf_stream_owner_end(pf_stream_owner *owner, uint64_t sequence)
{
    (void)pf_idmap_remove(owner->ids, 0, sequence);
}

bool pf_stream_owner_due(const pf_stream_owner *owner, uint64_t sequence)
{
    const owned *s = find_owned(owner, sequence);
    return s && s->due;
}

pf_status pf_stream_owner_open(pf_stream_owner *owner, uint64_t sequence, pf_open *open, int32_t *n_committed)
{
    owned *s = find_owned(owner, sequence);
    if (!s) return PF_INVALID;
    s->incarnation++;
    s->due = false;
    s->asked = false;
    s->n_proposed = 0;
    open->sequence = sequence;
    open->incarnation = s->incarnation;
    open->next_round = s->round;
    *n_committed = s->committed;
    return PF_OK;
}

/* The round is decided: n_tokens more. */
static void decide(owned *s, int32_t n_tokens)
{
    s->committed += n_tokens;
    s->round++;
    s->n_proposed = 0;
}

pf_status pf_stream_owner_commit(pf_stream_owner *owner, uint64_t sequence, int32_t n_tokens, pf_verdict *verdict)
{
    owned *s = find_owned(owner, sequence);
    if (!s || n_tokens < 0 || n_tokens > PF_MAX_VERDICT_TOKENS || s->committed > INT32_MAX - n_tokens)
        return PF_INVALID;
    verdict->sequence = sequence;
    verdict->incarnation = s->incarnation;
    verdict->round = s->round;
    verdict->base = s->committed;
    decide(s, n_tokens);
    s->asked = true;
    return PF_OK;
}

pf_fence pf_stream_owner_on_proposal(pf_stream_owner *owner, const pf_proposal *proposal)
{
    owned *s = find_owned(owner, proposal->sequence);
    if (!s || proposal->incarnation < s->incarnation) return PF_FENCE_STALE;
    if (proposal->incarnation > s->incarnation || proposal->round > s->round) return PF_FENCE_PROTOCOL_VIOLATION;
    if (proposal->round < s->round || !s->asked || s->due) return PF_FENCE_STALE;
    if (proposal->base != s->committed) return PF_FENCE_PROTOCOL_VIOLATION;
    s->asked = false;
    return PF_FENCE_CURRENT;
}

pf_status pf_stream_owner_propose(pf_stream_owner *owner, uint64_t sequence, int32_t n_tokens, pf_proposal *proposal)
{
    owned *s = find_owned(owner, sequence);
    if (!s || s->due || n_tokens < 0 || n_tokens > PF_MAX_DRAFT_TOKENS) return PF_INVALID;
    s->n_proposed = n_tokens;
    proposal->sequence = sequence;
    proposal->incarnation = s->incarnation;
    proposal->round = s->round;
    proposal->base = s->committed;
    return PF_OK;
}

pf_fence pf_stream_owner_on_verdict(pf_stream_owner *owner, const pf_verdict *verdict)
{
    owned *s = find_owned(owner, verdict->sequence);
    if (!s || verdict->incarnation < s->incarnation) return PF_FENCE_STALE;
    if (verdict->incarnation > s->incarnation || verdict->round > s->round) return PF_FENCE_PROTOCOL_VIOLATION;
    if (verdict->round < s->round || s->due) return PF_FENCE_STALE;

    const int32_t n = verdict->n_tokens, n_accepted = verdict->n_accepted;
    const bool is_cut = verdict->finish != PF_FINISH_NONE && n == n_accepted;
    const bool fits = verdict->base == s->committed && n_accepted >= 0 && n_accepted <= s->n_proposed &&
                      (n == n_accepted + 1 || is_cut) && s->committed <= INT32_MAX - n;
    if (!fits) return PF_FENCE_PROTOCOL_VIOLATION;
    decide(s, n);
    return PF_FENCE_CURRENT;
}

pf_status pf_stream_owner_expects(const pf_stream_owner *owner, uint64_t sequence, uint64_t *round,
                                  uint32_t *incarnation)
{
    const owned *s = find_owned(owner, sequence);
    if (!s) return PF_INVALID;
    *round = s->round;
    *incarnation = s->incarnation;
    return PF_OK;
}

pf_fence pf_stream_owner_on_prefix_request(pf_stream_owner *owner, const pf_prefix_request *request)
{
    owned *s = find_owned(owner, request->sequence);
    if (!s || request->incarnation < s->incarnation || s->due) return PF_FENCE_STALE;
    if (request->incarnation > s->incarnation) return PF_FENCE_PROTOCOL_VIOLATION;
    s->due = true;
    return PF_FENCE_CURRENT;
}

pf_fence pf_stream_owner_on_refusal(const pf_stream_owner *owner, const pf_refusal *refusal)
{
    const owned *s = find_owned(owner, refusal->sequence);
    if (!s || refusal->incarnation < s->incarnation) return PF_FENCE_STALE;
    return refusal->incarnation > s->incarnation ? PF_FENCE_PROTOCOL_VIOLATION : PF_FENCE_CURRENT;
}

void pf_stream_owner_lost(pf_stream_owner *owner)
{
    for (int32_t i = 0; i < owner->max; i++) owner->slots[i].due = true;
}

pf_status pf_stream_owner_give_up(pf_stream_owner *owner, uint64_t sequence)
{
    owned *s = find_owned(owner, sequence);
    if (!s) return PF_INVALID;
    s->due = true;
    return PF_OK;
}

/* ---- the answering side ---------------------------------------------------------------------------------------- */

typedef struct {
    uint64_t sequence;
    uint32_t incarnation;
    uint64_t round; /* of the next verdict */
    int32_t committed;
    bool judging; /* Verifier: the round's proposal has come */
} followed;

struct pf_stream_answerer {
    pf_idmap *ids;
    followed *slots; /* [max] */
};

pf_status pf_stream_answerer_create(int32_t max_sequences, pf_stream_answerer **out)
{
    pf_idmap *ids;
    PF_TRY(pf_idmap_create(max_sequences, &ids));
    pf_stream_answerer *answerer = calloc(1, sizeof *answerer);
    followed *slots = calloc((size_t)max_sequences, sizeof *slots);
    if (!answerer || !slots) {
        pf_idmap_destroy(ids);
        free(answerer);
        free(slots);
        return PF_NOMEM;
    }
    *answerer = (pf_stream_answerer){ .ids = ids, .slots = slots };
    *out = answerer;
    return PF_OK;
}

void pf_stream_answerer_destroy(pf_stream_answerer *answerer)
{
    if (!answerer) return;
    pf_idmap_destroy(answerer->ids);
    free(answerer->slots);
    free(answerer);
}

int32_t pf_stream_answerer_find(const pf_stream_answerer *answerer, uint64_t sequence)
{
    return pf_idmap_find(answerer->ids, 0, sequence);
}

pf_fence pf_stream_answerer_on_open(pf_stream_answerer *answerer, const pf_open *open, int32_t *slot)
{
    *slot = pf_stream_answerer_find(answerer, open->sequence);
    if (*slot >= 0 && open->incarnation <= answerer->slots[*slot].incarnation) return PF_FENCE_STALE;
    if (*slot < 0) {
        *slot = pf_idmap_insert(answerer->ids, 0, open->sequence);
        if (*slot < 0) return PF_FENCE_FULL;
    }
    answerer->slots[*slot] = (followed){
        .sequence = open->sequence,
        .incarnation = open->incarnation,
        .round = open->next_round,
        .committed = open->n_tokens,
    };
    return PF_FENCE_CURRENT;
}

pf_fence pf_stream_answerer_on_close(pf_stream_answerer *answerer, const pf_close *close, int32_t *slot)
{
    *slot = pf_idmap_remove(answerer->ids, 0, close->sequence);
    return *slot < 0 ? PF_FENCE_STALE : PF_FENCE_CURRENT;
}

/* What a verdict and a proposal have in common. */
typedef struct {
    uint64_t sequence;
    uint32_t incarnation;
    uint64_t round;
    int32_t base;
} fences;

static pf_fence judge(pf_stream_answerer *answerer, fences f, int32_t *slot, pf_prefix_request *request)
{
    *slot = pf_stream_answerer_find(answerer, f.sequence);
    const followed *s = *slot < 0 ? NULL : &answerer->slots[*slot];
    if (s && f.incarnation < s->incarnation) return PF_FENCE_STALE;
    if (s && f.incarnation == s->incarnation) {
        if (f.round < s->round) return PF_FENCE_STALE;
        if (f.round == s->round && f.base == s->committed) return PF_FENCE_CURRENT;
    }
    *request = (pf_prefix_request){
        .sequence = f.sequence,
        .incarnation = f.incarnation,
        .known = s && f.incarnation == s->incarnation ? s->committed : 0,
    };
    return PF_FENCE_MISSING;
}

/* The round is decided: n_tokens more. */
static void follow(followed *s, int32_t n_tokens)
{
    s->committed += n_tokens;
    s->round++;
    s->judging = false;
}

pf_fence pf_stream_answerer_on_verdict(pf_stream_answerer *answerer, const pf_verdict *verdict, int32_t *slot,
                                       pf_prefix_request *request)
{
    const fences f = { verdict->sequence, verdict->incarnation, verdict->round, verdict->base };
    const pf_fence fence = judge(answerer, f, slot, request);
    if (fence != PF_FENCE_CURRENT) return fence;
    const int32_t n = verdict->n_tokens;
    if (n < 0 || n > PF_MAX_VERDICT_TOKENS || verdict->base > INT32_MAX - n) return PF_FENCE_STALE;
    follow(&answerer->slots[*slot], n);
    return PF_FENCE_CURRENT;
}

void pf_stream_answerer_propose(const pf_stream_answerer *answerer, int32_t slot, pf_proposal *proposal)
{
    const followed *s = &answerer->slots[slot];
    proposal->sequence = s->sequence;
    proposal->incarnation = s->incarnation;
    proposal->round = s->round;
    proposal->base = s->committed;
}

pf_fence pf_stream_answerer_on_proposal(pf_stream_answerer *answerer, const pf_proposal *proposal, int32_t *slot,
                                        pf_prefix_request *request)
{
    const fences f = { proposal->sequence, proposal->incarnation, proposal->round, proposal->base };
    const pf_fence fence = judge(answerer, f, slot, request);
    if (fence != PF_FENCE_CURRENT) return fence;
    if (answerer->slots[*slot].judging) return PF_FENCE_STALE;
    answerer->slots[*slot].judging = true;
    return PF_FENCE_CURRENT;
}

void pf_stream_answerer_commit(pf_stream_answerer *answerer, int32_t slot, int32_t n_tokens, pf_verdict *verdict)
{
    followed *s = &answerer->slots[slot];
    assert(n_tokens >= 0 && n_tokens <= PF_MAX_VERDICT_TOKENS && s->committed <= INT32_MAX - n_tokens);
    verdict->sequence = s->sequence;
    verdict->incarnation = s->incarnation;
    verdict->round = s->round;
    verdict->base = s->committed;
    follow(s, n_tokens);
}
