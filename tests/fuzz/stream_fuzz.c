/*
 * The state machine of a stream against its definition, under any order of any messages: fields are what the other side
 * would say, or one beside it, or at the ends of their range.
 *
 *   answerer   CURRENT exactly where (incarnation, round, base) are those of the sequence; its slots are its own
 *   owner      a proposal or verdict is CURRENT at most once a round, and a verdict never commits more than was proposed
 *
 * The input: one byte an operation, one its sequence, then a byte for each field.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "proto/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_IDS = 6, MAX = 4 };

typedef struct {
    const uint8_t *at, *end;
} input;

/* What is known of a sequence, on either side. */
typedef struct {
    bool open, judging, due, asked;
    uint32_t incarnation;
    uint64_t round;
    int32_t committed, n_proposed, slot;
} known;

static void must(int promise)
{
    if (!promise) abort();
}

static uint8_t next(input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* Mostly what is true, else near it, else far from it. */
static uint64_t bend(input *in, uint64_t truth, uint64_t most)
{
    const uint8_t how = next(in);
    if (how < 160) return truth;
    const uint64_t values[] = { truth + 1, truth - 1, 0, 1, most, most - 1, most / 2, most / 2 + 1 };
    return values[how % 8] & most;
}

static int32_t bend_length(input *in, int32_t truth)
{
    return (int32_t)bend(in, (uint64_t)truth, INT32_MAX);
}

static int count_open(const known *k)
{
    int n = 0;
    for (int i = 0; i < N_IDS; i++) n += k[i].open;
    return n;
}

/* ---- the answering side ------------------------------------------------------------------------------------------ */

static void check_slots(const known *k)
{
    for (int i = 0; i < N_IDS; i++) {
        if (!k[i].open) continue;
        must(k[i].slot >= 0 && k[i].slot < MAX);
        for (int j = 0; j < i; j++) must(!k[j].open || k[j].slot != k[i].slot);
    }
}

static void answer_open(pf_stream_answerer *a, known *k, int id, input *in)
{
    known *s = &k[id];
    const pf_open open = { .sequence = (uint64_t)id,
                           .incarnation = (uint32_t)bend(in, s->incarnation + 1, UINT32_MAX),
                           .next_round = bend(in, s->round, UINT64_MAX),
                           .n_tokens = bend_length(in, s->committed) };
    const bool stale = s->open && open.incarnation <= s->incarnation, full = !s->open && count_open(k) == MAX;
    int32_t slot = -2;
    const pf_fence fence = pf_stream_answerer_on_open(a, &open, &slot);
    must(fence == (stale ? PF_FENCE_STALE : full ? PF_FENCE_FULL : PF_FENCE_CURRENT));
    if (fence != PF_FENCE_CURRENT) return;
    must(!s->open || slot == s->slot);
    *s = (known){ .open = true,
                  .incarnation = open.incarnation,
                  .round = open.next_round,
                  .committed = open.n_tokens,
                  .slot = slot };
    pf_proposal next = { 0 };
    pf_stream_answerer_propose(a, slot, &next);
    must(next.base == s->committed);
}

static void answer_close(pf_stream_answerer *a, known *s, int id)
{
    int32_t slot = -2;
    const pf_fence fence = pf_stream_answerer_on_close(a, &(pf_close){ (uint64_t)id }, &slot);
    must(fence == (s->open ? PF_FENCE_CURRENT : PF_FENCE_STALE) && slot == (s->open ? s->slot : -1));
    *s = (known){ .open = false };
}

/* What the definition says of a message with these fences. */
static pf_fence expected(const known *s, uint32_t incarnation, uint64_t round, int32_t base)
{
    if (s->open && incarnation < s->incarnation) return PF_FENCE_STALE;
    if (s->open && incarnation == s->incarnation && round < s->round) return PF_FENCE_STALE;
    const bool fits = s->open && incarnation == s->incarnation && round == s->round && base == s->committed;
    return fits ? PF_FENCE_CURRENT : PF_FENCE_MISSING;
}

static void check_request(const known *s, int id, uint32_t incarnation, const pf_prefix_request *request)
{
    const bool same = s->open && incarnation == s->incarnation;
    must(request->sequence == (uint64_t)id && request->incarnation == incarnation);
    must(request->known == (same ? s->committed : 0));
}

static void answer_verdict(pf_stream_answerer *a, known *s, int id, input *in)
{
    const pf_verdict v = { .sequence = (uint64_t)id,
                           .incarnation = (uint32_t)bend(in, s->incarnation, UINT32_MAX),
                           .round = bend(in, s->round, UINT64_MAX),
                           .base = bend_length(in, s->committed),
                           .n_tokens = bend_length(in, next(in) % (PF_MAX_VERDICT_TOKENS + 1)) };
    pf_fence want = expected(s, v.incarnation, v.round, v.base);
    if (want == PF_FENCE_CURRENT && (v.n_tokens > PF_MAX_VERDICT_TOKENS || v.base > INT32_MAX - v.n_tokens))
        want = PF_FENCE_STALE;
    pf_prefix_request request = { 0 };
    int32_t slot = -2;
    must(pf_stream_answerer_on_verdict(a, &v, &slot, &request) == want && slot == (s->open ? s->slot : -1));
    if (want == PF_FENCE_MISSING) check_request(s, id, v.incarnation, &request);
    if (want != PF_FENCE_CURRENT) return;
    s->committed += v.n_tokens;
    s->round++;
    s->judging = false;
    pf_proposal p;
    pf_stream_answerer_propose(a, slot, &p);
    must(p.sequence == v.sequence && p.incarnation == s->incarnation && p.round == s->round && p.base == s->committed);
}

static void answer_proposal(pf_stream_answerer *a, known *s, int id, input *in)
{
    const pf_proposal p = { .sequence = (uint64_t)id,
                            .incarnation = (uint32_t)bend(in, s->incarnation, UINT32_MAX),
                            .round = bend(in, s->round, UINT64_MAX),
                            .base = bend_length(in, s->committed) };
    pf_fence want = expected(s, p.incarnation, p.round, p.base);
    if (want == PF_FENCE_CURRENT && s->judging) want = PF_FENCE_STALE;
    pf_prefix_request request = { 0 };
    int32_t slot = -2;
    must(pf_stream_answerer_on_proposal(a, &p, &slot, &request) == want && slot == (s->open ? s->slot : -1));
    if (want == PF_FENCE_MISSING) check_request(s, id, p.incarnation, &request);
    if (want == PF_FENCE_CURRENT) s->judging = true;
}

static void answer_commit(pf_stream_answerer *a, known *s, input *in)
{
    const int32_t n = next(in) % (PF_MAX_VERDICT_TOKENS + 1);
    if (!s->open || s->committed > INT32_MAX - n) return;
    pf_verdict v;
    pf_stream_answerer_commit(a, s->slot, n, &v);
    must(v.incarnation == s->incarnation && v.round == s->round && v.base == s->committed);
    s->committed += n;
    s->round++;
    s->judging = false;
}

static void drive_answerer(input in)
{
    pf_stream_answerer *a;
    known k[N_IDS] = { { .open = false } };
    must(pf_stream_answerer_create(MAX, &a) == PF_OK);
    while (in.at < in.end) {
        const uint8_t operation = next(&in);
        const int id = next(&in) % N_IDS;
        switch (operation % 5) {
        case 0: answer_open(a, k, id, &in); break;
        case 1: answer_close(a, &k[id], id); break;
        case 2: answer_verdict(a, &k[id], id, &in); break;
        case 3: answer_proposal(a, &k[id], id, &in); break;
        default: answer_commit(a, &k[id], &in); break;
        }
        check_slots(k);
    }
    pf_stream_answerer_destroy(a);
}

/* ---- the owner's side -------------------------------------------------------------------------------------------- */

static void own_begin_or_end(pf_stream_owner *o, known *k, int id, input *in)
{
    known *s = &k[id];
    if (next(in) & 1) {
        pf_stream_owner_end(o, (uint64_t)id);
        *s = (known){ .open = false };
        return;
    }
    const int32_t committed = bend_length(in, 5);
    const pf_status want = s->open ? PF_INVALID : count_open(k) == MAX ? PF_LIMIT : PF_OK;
    must(pf_stream_owner_begin(o, (uint64_t)id, committed) == want);
    if (want == PF_OK) *s = (known){ .open = true, .due = true, .committed = committed };
}

static void own_open(pf_stream_owner *o, known *s, int id)
{
    pf_open open;
    int32_t n = -1;
    must(pf_stream_owner_open(o, (uint64_t)id, &open, &n) == (s->open ? PF_OK : PF_INVALID));
    if (!s->open) return;
    must(open.incarnation == s->incarnation + 1 && open.next_round == s->round && n == s->committed);
    s->incarnation = open.incarnation;
    s->due = s->asked = false;
    s->n_proposed = 0;
}

static void own_commit(pf_stream_owner *o, known *s, int id, input *in)
{
    const int32_t n = bend_length(in, 3);
    const bool fits = s->open && n <= PF_MAX_VERDICT_TOKENS && s->committed <= INT32_MAX - n;
    pf_verdict v;
    must(pf_stream_owner_commit(o, (uint64_t)id, n, &v) == (fits ? PF_OK : PF_INVALID));
    if (!fits) return;
    must(v.round == s->round && v.base == s->committed && v.incarnation == s->incarnation);
    s->committed += n;
    s->round++;
    s->n_proposed = 0;
    s->asked = true;
}

static void own_propose(pf_stream_owner *o, known *s, int id, input *in)
{
    const int32_t n = bend_length(in, 4);
    const bool fits = s->open && !s->due && n <= PF_MAX_DRAFT_TOKENS;
    pf_proposal p;
    must(pf_stream_owner_propose(o, (uint64_t)id, n, &p) == (fits ? PF_OK : PF_INVALID));
    if (fits) s->n_proposed = n;
}

static void own_hear_proposal(pf_stream_owner *o, known *s, int id, input *in)
{
    const pf_proposal p = { .sequence = (uint64_t)id,
                            .incarnation = (uint32_t)bend(in, s->incarnation, UINT32_MAX),
                            .round = bend(in, s->round, UINT64_MAX),
                            .base = bend_length(in, s->committed) };
    const bool fits = s->open && !s->due && s->asked && p.incarnation == s->incarnation && p.round == s->round &&
                      p.base == s->committed;
    must((pf_stream_owner_on_proposal(o, &p) == PF_FENCE_CURRENT) == fits);
    must(pf_stream_owner_on_proposal(o, &p) != PF_FENCE_CURRENT);
    if (fits) s->asked = false;
}

static void own_hear_verdict(pf_stream_owner *o, known *s, int id, input *in)
{
    const pf_verdict v = { .sequence = (uint64_t)id,
                           .incarnation = (uint32_t)bend(in, s->incarnation, UINT32_MAX),
                           .round = bend(in, s->round, UINT64_MAX),
                           .base = bend_length(in, s->committed),
                           .n_tokens = (int32_t)bend(in, (uint64_t)s->n_proposed + 1, UINT32_MAX),
                           .n_accepted = (int32_t)bend(in, (uint64_t)s->n_proposed, UINT32_MAX),
                           .finish = (pf_finish)(next(in) % 4) };
    const bool current = s->open && !s->due && v.incarnation == s->incarnation && v.round == s->round;
    const pf_fence fence = pf_stream_owner_on_verdict(o, &v);
    const int64_t n_lacking = (int64_t)v.n_accepted + 1 - v.n_tokens;
    must(fence != PF_FENCE_CURRENT ||
         (current && v.base == s->committed && v.n_accepted >= 0 && v.n_accepted <= s->n_proposed &&
          (n_lacking == 0 || (n_lacking == 1 && v.finish != PF_FINISH_NONE))));
    if (fence != PF_FENCE_CURRENT) return;
    s->committed += v.n_tokens;
    s->round++;
    s->n_proposed = 0;
    must(pf_stream_owner_on_verdict(o, &v) != PF_FENCE_CURRENT);
}

static void own_lose(pf_stream_owner *o, known *k, int id, input *in)
{
    known *s = &k[id];
    const pf_prefix_request request = { .sequence = (uint64_t)id,
                                        .incarnation = (uint32_t)bend(in, s->incarnation, UINT32_MAX) };
    switch (next(in) % 3) {
    case 0:
        must((pf_stream_owner_on_prefix_request(o, &request) == PF_FENCE_CURRENT) ==
             (s->open && !s->due && request.incarnation == s->incarnation));
        if (s->open && request.incarnation == s->incarnation) s->due = true;
        break;
    case 1:
        must(pf_stream_owner_give_up(o, (uint64_t)id) == (s->open ? PF_OK : PF_INVALID));
        s->due = s->open;
        break;
    default:
        pf_stream_owner_lost(o);
        for (int i = 0; i < N_IDS; i++) k[i].due = k[i].open;
        break;
    }
}

static void drive_owner(input in)
{
    pf_stream_owner *o;
    known k[N_IDS] = { { .open = false } };
    must(pf_stream_owner_create(MAX, &o) == PF_OK);
    while (in.at < in.end) {
        const uint8_t operation = next(&in);
        const int id = next(&in) % N_IDS;
        switch (operation % 7) {
        case 0: own_begin_or_end(o, k, id, &in); break;
        case 1: own_open(o, &k[id], id); break;
        case 2: own_commit(o, &k[id], id, &in); break;
        case 3: own_propose(o, &k[id], id, &in); break;
        case 4: own_hear_proposal(o, &k[id], id, &in); break;
        case 5: own_hear_verdict(o, &k[id], id, &in); break;
        default: own_lose(o, k, id, &in); break;
        }
        for (int i = 0; i < N_IDS; i++) must(pf_stream_owner_due(o, (uint64_t)i) == (k[i].open && k[i].due));
    }
    pf_stream_owner_destroy(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const input in = { data, data + size };
    drive_answerer(in);
    drive_owner(in);
    return 0;
}
