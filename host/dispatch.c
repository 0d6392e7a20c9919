#include "host/dispatch.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "host/sequence_host.h"
#include "proto/idmap.h"

enum { SLOT_BITS = 24, N = PF_MAX_BATCH_SEQUENCES };
static const uint64_t LOOK_NS = 20 * 1000 * 1000; /* how often a computing peer returns to ask `enough` */

/* An open sequence of a slot, as its stream and the peer know it. internal = generation << SLOT_BITS | slot, so that a
 * late answer for the slot's previous sequence is dropped. */
typedef struct {
    void *stream;         /* NULL: free */
    uint64_t sequence;    /* on its stream */
    uint64_t internal;    /* at the peer */
    uint32_t incarnation; /* the highest it has been opened with */
    bool is_finished;     /* to be closed at the peer */
    uint64_t touched_ns;  /* when its client or the peer last sent something about it */
    uint64_t touched_in;  /* the submit in which its client did */
    bool is_spoken_of;    /* in the list of that name, also once it is free */
    uint64_t sent_round;  /* whose proposal has been sent before the peer made it; 0: none */
    pf_traffic_sequence traffic;
} dispatch_slot;

struct pf_dispatch {
    pf_service service;
    pf_peer *peer;
    pf_dispatch_send *send;
    void *user;
    pf_idmap *ids;
    int32_t max;
    uint64_t idle_timeout_ns;
    dispatch_slot *slots; /* [max] */
    pf_idmap *streams;    /* that have sequences: (stream, 0) */
    int32_t *n_of_stream; /* [max] by what streams finds: how many */
    int32_t
        *spoken_of; /* [n_spoken_of] slots that their clients have said something of, since the peer owed no answer */
    int32_t n_spoken_of;
    uint64_t generation;
    uint64_t n_submits;
    uint64_t queue_ns;             /* of the batches since the last collect, the longest */
    bool submitted;                /* something since the last collect */
    int32_t n_entries;             /* submitted since the peer's last answer */
    pf_traffic *traffic;           /* NULL: what passes is not counted */
    pf_prepared_answers *prepared; /* NULL: nothing is sent before the peer is asked */

    /* Parts of what is sent next. */
    pf_proposal proposals[N];
    pf_verdict verdicts[N];
    pf_prefix_request prefix_requests[N];
    pf_refusal refusals[N];
    pf_close closes[N];
    char refusal_texts[N][PF_MAX_REFUSAL_BYTES + 1]; /* of refusals made here */
};

pf_status pf_dispatch_create(pf_service service, pf_peer *peer, int32_t max_sequences, uint64_t idle_timeout_ns,
                             pf_dispatch_send *send, void *user, pf_dispatch **out)
{
    if (max_sequences < 1 || max_sequences >= 1 << SLOT_BITS) return PF_INVALID;
    pf_idmap *ids;
    PF_TRY(pf_idmap_create(max_sequences, &ids));
    pf_dispatch *dispatch = calloc(1, sizeof *dispatch);
    if (!dispatch) {
        pf_idmap_destroy(ids);
        return PF_NOMEM;
    }
    dispatch->ids = ids;
    const size_t n = (size_t)max_sequences;
    dispatch->slots = calloc(n, sizeof *dispatch->slots);
    dispatch->n_of_stream = calloc(n, sizeof *dispatch->n_of_stream);
    dispatch->spoken_of = calloc(n, sizeof *dispatch->spoken_of);
    if (!dispatch->slots || !dispatch->n_of_stream || !dispatch->spoken_of ||
        pf_idmap_create(max_sequences, &dispatch->streams) != PF_OK) {
        pf_dispatch_destroy(dispatch);
        return PF_NOMEM;
    }
    dispatch->service = service;
    dispatch->peer = peer;
    dispatch->send = send;
    dispatch->user = user;
    dispatch->max = max_sequences;
    dispatch->idle_timeout_ns = idle_timeout_ns;
    *out = dispatch;
    return PF_OK;
}

void pf_dispatch_count_in(pf_dispatch *dispatch, pf_traffic *traffic)
{
    dispatch->traffic = traffic;
}

void pf_dispatch_destroy(pf_dispatch *dispatch)
{
    if (!dispatch) return;
    if (dispatch->prepared) pf_prepared_listen(dispatch->prepared, NULL, NULL);
    pf_idmap_destroy(dispatch->ids);
    pf_idmap_destroy(dispatch->streams);
    free(dispatch->n_of_stream);
    free(dispatch->spoken_of);
    free(dispatch->slots);
    free(dispatch);
}

/* ---- from a stream to the peer --------------------------------------------------------------------------------- */

static uint64_t key(const void *stream)
{
    return (uint64_t)(uintptr_t)stream;
}

static dispatch_slot *find_slot(const pf_dispatch *dispatch, const void *stream, uint64_t sequence)
{
    const int32_t slot = pf_idmap_find(dispatch->ids, key(stream), sequence);
    return slot < 0 ? NULL : &dispatch->slots[slot];
}

static void note_spoken_of(pf_dispatch *dispatch, dispatch_slot *t)
{
    if (t->is_spoken_of) return;
    t->is_spoken_of = true;
    dispatch->spoken_of[dispatch->n_spoken_of++] = (int32_t)(t - dispatch->slots);
}

/* There are as many streams with sequences as sequences, at most. */
static void count_open(pf_dispatch *dispatch, const void *stream)
{
    int32_t at = pf_idmap_find(dispatch->streams, key(stream), 0);
    if (at < 0) at = pf_idmap_insert(dispatch->streams, key(stream), 0);
    dispatch->n_of_stream[at]++;
}

static void count_closed(pf_dispatch *dispatch, const void *stream)
{
    const int32_t at = pf_idmap_find(dispatch->streams, key(stream), 0);
    if (--dispatch->n_of_stream[at] == 0) (void)pf_idmap_remove(dispatch->streams, key(stream), 0);
}

/* Records that the client has sent something about a sequence. NULL: it is not open. */
static dispatch_slot *touch(pf_dispatch *dispatch, const void *stream, uint64_t sequence)
{
    dispatch_slot *t = find_slot(dispatch, stream, sequence);
    if (!t) return NULL;
    t->touched_ns = pf_now_ns();
    t->touched_in = dispatch->n_submits;
    note_spoken_of(dispatch, t);
    return t;
}

/* Likewise; translates the id to the peer's. */
static dispatch_slot *to_internal(pf_dispatch *dispatch, const void *stream, uint64_t *sequence)
{
    dispatch_slot *t = touch(dispatch, stream, *sequence);
    if (t) *sequence = t->internal;
    return t;
}

static void evict(pf_dispatch *dispatch, int32_t slot)
{
    dispatch_slot *t = &dispatch->slots[slot];
    pf_traffic_close(dispatch->traffic, &t->traffic);
    (void)pf_idmap_remove(dispatch->ids, key(t->stream), t->sequence);
    count_closed(dispatch, t->stream);
    *t = (dispatch_slot){ .is_spoken_of = t->is_spoken_of };
}

static pf_status close_finished(pf_dispatch *dispatch);

/* Whether the client waits for an answer about it. */
static bool is_awaited(const pf_dispatch *dispatch, const dispatch_slot *t)
{
    return dispatch->submitted && pf_peer_owes(dispatch->peer, t->internal);
}

/* Evicts the sequence that has been idle longest, and long enough. Its client learns of it from the prefix request
 * that answers its next message. */
static bool evict_idle(pf_dispatch *dispatch)
{
    dispatch_slot *idle = NULL;
    for (int32_t slot = 0; slot < dispatch->max; slot++) {
        dispatch_slot *t = &dispatch->slots[slot];
        if (t->touched_in == dispatch->n_submits) continue; /* the peer has not processed this submit yet */
        if ((!idle || t->touched_ns < idle->touched_ns) && !is_awaited(dispatch, t)) idle = t;
    }
    if (!idle || pf_now_ns() - idle->touched_ns < dispatch->idle_timeout_ns) return false;
    idle->is_finished = true;
    return close_finished(dispatch) == PF_OK;
}

/* Takes a slot. An open that the peer would refuse takes none, and evicts nothing. Else the refusal. */
static pf_status admit(pf_dispatch *dispatch, void *stream, const pf_open *open, dispatch_slot **out, pf_error *error)
{
    dispatch_slot *t = touch(dispatch, stream, open->sequence);
    if (!t) {
        PF_TRY(pf_peer_check_open(dispatch->peer, open, error));
        int32_t slot = pf_idmap_insert(dispatch->ids, key(stream), open->sequence);
        if (slot < 0 && evict_idle(dispatch)) slot = pf_idmap_insert(dispatch->ids, key(stream), open->sequence);
        if (slot < 0)
            return pf_fail(error, PF_LIMIT, "%d sequence%s open, more are not taken", (int)dispatch->max,
                           dispatch->max == 1 ? " is" : "s are");
        t = &dispatch->slots[slot];
        *t = (dispatch_slot){ .stream = stream,
                              .sequence = open->sequence,
                              .internal = ++dispatch->generation << SLOT_BITS | (uint64_t)slot,
                              .touched_ns = pf_now_ns(),
                              .touched_in = dispatch->n_submits,
                              .is_spoken_of = t->is_spoken_of };
        note_spoken_of(dispatch, t);
        count_open(dispatch, stream);
    }
    if (open->incarnation > t->incarnation) {
        t->incarnation = open->incarnation;
        t->sent_round = 0;
    }
    *out = t;
    return PF_OK;
}

static void translate_closes(pf_dispatch *dispatch, void *stream, pf_batch *batch)
{
    int32_t n = 0;
    for (int32_t i = 0; i < batch->n_closes; i++) {
        const int32_t slot = pf_idmap_find(dispatch->ids, key(stream), batch->closes[i].sequence);
        if (slot < 0) continue;
        batch->closes[n++].sequence = dispatch->slots[slot].internal;
        evict(dispatch, slot);
    }
    batch->n_closes = n;
}

static void refuse_open(pf_dispatch *dispatch, const pf_open *open, const pf_error *error, pf_batch *reply)
{
    char *text = dispatch->refusal_texts[reply->n_refusals];
    snprintf(text, sizeof dispatch->refusal_texts[0], "%s", error->text);
    reply->refusals[reply->n_refusals++] = (pf_refusal){ open->sequence, open->incarnation, error->status, text };
}

static void translate_opens(pf_dispatch *dispatch, void *stream, pf_batch *batch, pf_batch *reply, uint64_t waited_ns)
{
    int32_t n = 0;
    for (int32_t i = 0; i < batch->n_opens; i++) {
        pf_open open = batch->opens[i];
        dispatch_slot *t;
        pf_error error;
        if (admit(dispatch, stream, &open, &t, &error) != PF_OK) {
            refuse_open(dispatch, &open, &error, reply);
            continue;
        }
        pf_traffic_open(dispatch->traffic, &t->traffic, &open, waited_ns);
        open.sequence = t->internal;
        batch->opens[n++] = open;
    }
    batch->n_opens = n;
}

/* Except for sequences that the same reply refuses. */
static void ask_for_prefix(pf_batch *reply, uint64_t sequence, uint32_t incarnation)
{
    if (pf_batch_refuses(reply, sequence, incarnation)) return;
    reply->prefix_requests[reply->n_prefix_requests++] =
        (pf_prefix_request){ .sequence = sequence, .incarnation = incarnation };
}

static void translate_proposals(pf_dispatch *dispatch, void *stream, pf_batch *batch, pf_batch *reply)
{
    int32_t n = 0;
    for (int32_t i = 0; i < batch->n_proposals; i++) {
        pf_proposal p = batch->proposals[i];
        dispatch_slot *t = to_internal(dispatch, stream, &p.sequence);
        if (!t) {
            ask_for_prefix(reply, p.sequence, p.incarnation);
            continue;
        }
        pf_traffic_proposal(dispatch->traffic, &t->traffic, &p);
        batch->proposals[n++] = p;
    }
    batch->n_proposals = n;
}

static void translate_verdicts(pf_dispatch *dispatch, void *stream, pf_batch *batch, pf_batch *reply)
{
    int32_t n = 0;
    for (int32_t i = 0; i < batch->n_verdicts; i++) {
        pf_verdict v = batch->verdicts[i];
        dispatch_slot *t = to_internal(dispatch, stream, &v.sequence);
        if (!t) {
            ask_for_prefix(reply, v.sequence, v.incarnation);
            continue;
        }
        pf_traffic_verdict(dispatch->traffic, &t->traffic, &v);
        if (dispatch->prepared && pf_prepared_claim(dispatch->prepared, v.sequence, v.round))
            t->sent_round = v.round + 1;
        batch->verdicts[n++] = v;
    }
    batch->n_verdicts = n;
}

static pf_status check_direction(const pf_dispatch *dispatch, const pf_batch *batch, const pf_rejected *rejected,
                                 pf_error *error)
{
    const bool drafter = dispatch->service == PF_SERVICE_DRAFTER;
    if (drafter && batch->n_proposals + rejected->n_proposals)
        return pf_fail(error, PF_FORMAT, "a Drafter makes proposals, it takes none");
    if (!drafter && batch->n_verdicts + rejected->n_verdicts)
        return pf_fail(error, PF_FORMAT, "a Verifier makes verdicts, it takes none");
    if (batch->n_prefix_requests || batch->n_refusals)
        return pf_fail(error, PF_FORMAT, "prefix requests and refusals go from server to client only");
    return PF_OK;
}

static pf_status pass_on(pf_dispatch *dispatch, pf_error *error);

/* Bounds what one stream may add to the next answer, so that it leaves room for others: what exceeds an answer waits
 * for the peer's next one. */
static pf_status make_room(pf_dispatch *dispatch, const pf_batch *batch, pf_error *error)
{
    const int32_t n = batch->n_opens + batch->n_proposals + batch->n_verdicts;
    if (dispatch->n_entries > 0 && dispatch->n_entries + n > N) {
        const pf_status status = pass_on(dispatch, error);
        if (status != PF_OK && status != PF_CANCELLED) return status;
    }
    dispatch->n_entries += n;
    return PF_OK;
}

/* A refused sequence is closed, at the peer as well, where the same open may have arrived again; but not one that its
 * client has opened again meanwhile, which is answered for itself. */
static void end_refused(dispatch_slot *t, const pf_refusal *refusal)
{
    if (t && refusal->incarnation >= t->incarnation) t->is_finished = true;
}

static pf_status refuse_rejected(pf_dispatch *dispatch, void *stream, const pf_rejected *rejected)
{
    for (int32_t i = 0; i < rejected->n; i++) {
        const pf_refusal *refusal = &rejected->refusals[i];
        end_refused(find_slot(dispatch, stream, refusal->sequence), refusal);
    }
    for (int32_t i = 0; i < rejected->n; i += N) {
        const int32_t left = rejected->n - i;
        pf_batch reply = { .refusals = dispatch->refusals, .n_refusals = left < N ? left : N };
        memcpy(reply.refusals, rejected->refusals + i, (size_t)reply.n_refusals * sizeof *reply.refusals);
        dispatch->send(dispatch->user, stream, &reply);
    }
    return rejected->n > 0 ? close_finished(dispatch) : PF_OK;
}

pf_status pf_dispatch_submit(pf_dispatch *dispatch, void *stream, const pf_batch *batch, const pf_rejected *rejected,
                             uint64_t queue_ns, pf_error *error)
{
    static const pf_rejected none = { .n = 0 };
    if (!rejected) rejected = &none;
    PF_TRY(check_direction(dispatch, batch, rejected, error));
    pf_status status = refuse_rejected(dispatch, stream, rejected);
    if (status != PF_OK) return pf_fail(error, status, "the peer takes no close: %s", pf_status_name(status));
    PF_TRY(make_room(dispatch, batch, error));
    dispatch->n_submits++;
    pf_batch in = *batch;
    pf_batch reply = { .refusals = dispatch->refusals, .prefix_requests = dispatch->prefix_requests };
    translate_closes(dispatch, stream, &in);
    translate_opens(dispatch, stream, &in, &reply, queue_ns);
    translate_proposals(dispatch, stream, &in, &reply);
    translate_verdicts(dispatch, stream, &in, &reply);
    if (reply.n_refusals || reply.n_prefix_requests) dispatch->send(dispatch->user, stream, &reply);
    if (in.n_opens + in.n_closes + in.n_proposals + in.n_verdicts == 0) return PF_OK;

    if (queue_ns > dispatch->queue_ns) dispatch->queue_ns = queue_ns;
    status = pf_peer_submit(dispatch->peer, &in);
    if (status != PF_OK) return pf_fail(error, status, "the peer cannot take this batch: %s", pf_status_name(status));
    dispatch->submitted = true;
    return PF_OK;
}

/* ---- from the peer to the streams ------------------------------------------------------------------------------ */

static dispatch_slot *resident(const pf_dispatch *dispatch, uint64_t internal)
{
    const uint64_t slot = internal & ((1u << SLOT_BITS) - 1);
    if (slot >= (uint64_t)dispatch->max) return NULL;
    dispatch_slot *t = &dispatch->slots[slot];
    return t->stream && t->internal == internal ? t : NULL;
}

static bool find_owner(void *user, uint64_t internal, void **stream, uint64_t *number)
{
    const dispatch_slot *t = resident(user, internal);
    if (!t) return false;
    *stream = t->stream;
    *number = t->sequence;
    return true;
}

pf_prepared_answers *pf_dispatch_prepare(pf_dispatch *dispatch)
{
    dispatch->prepared = dispatch->service == PF_SERVICE_DRAFTER ? pf_host_prepared(dispatch->peer) : NULL;
    if (dispatch->prepared) pf_prepared_listen(dispatch->prepared, find_owner, dispatch);
    return dispatch->prepared;
}

/* Which parts of an answer have been sent, or belong to no stream. */
typedef struct {
    bool proposals[N], verdicts[N], prefix_requests[N], refusals[N];
} marks;

/* The parts of `answer` not yet sent that belong to one stream, with its own ids: the stream of the first one. Returns
 * the stream, or NULL when all is sent. */
static void *select_parts(pf_dispatch *dispatch, const pf_batch *answer, marks *sent, pf_batch *out)
{
    void *stream = NULL;
    const uint64_t now_ns = pf_now_ns();
    *out = (pf_batch){ .proposals = dispatch->proposals,
                       .verdicts = dispatch->verdicts,
                       .prefix_requests = dispatch->prefix_requests,
                       .refusals = dispatch->refusals,
                       .timing = answer->timing };

#define PF_SELECT(kind)                                                  \
    for (int32_t i = 0; i < answer->n_##kind; i++) {                     \
        if (sent->kind[i]) continue;                                     \
        dispatch_slot *t = resident(dispatch, answer->kind[i].sequence); \
        if (t && !stream) stream = t->stream;                            \
        if (t && t->stream != stream) continue;                          \
        sent->kind[i] = true;                                            \
        if (!t) continue;                                                \
        t->touched_ns = now_ns;                                          \
        out->kind[out->n_##kind] = answer->kind[i];                      \
        out->kind[out->n_##kind++].sequence = t->sequence;               \
    }
    PF_SELECT(proposals)
    PF_SELECT(verdicts)
    PF_SELECT(prefix_requests)
    PF_SELECT(refusals)
#undef PF_SELECT
    return stream;
}

static void count_answer(pf_dispatch *dispatch, const pf_batch *answer)
{
    dispatch_slot *t;
    if (!dispatch->traffic) return;
    for (int32_t i = 0; i < answer->n_verdicts; i++)
        if ((t = resident(dispatch, answer->verdicts[i].sequence)) != NULL)
            pf_traffic_verdict(dispatch->traffic, &t->traffic, &answer->verdicts[i]);
    for (int32_t i = 0; i < answer->n_proposals; i++)
        if ((t = resident(dispatch, answer->proposals[i].sequence)) != NULL)
            pf_traffic_proposal(dispatch->traffic, &t->traffic, &answer->proposals[i]);
}

/* Proposals that left when their verdicts arrived. */
static void mark_sent_before(const pf_dispatch *dispatch, const pf_batch *answer, marks *sent)
{
    for (int32_t i = 0; dispatch->prepared && i < answer->n_proposals; i++) {
        const dispatch_slot *t = resident(dispatch, answer->proposals[i].sequence);
        sent->proposals[i] = t && t->sent_round > 0 && t->sent_round == answer->proposals[i].round;
    }
}

static void distribute(pf_dispatch *dispatch, const pf_batch *answer)
{
    assert(answer->n_proposals <= N && answer->n_verdicts <= N && answer->n_prefix_requests <= N &&
           answer->n_refusals <= N);
    marks sent = { .proposals = { false } };
    mark_sent_before(dispatch, answer, &sent);
    pf_batch out;
    for (void *stream; (stream = select_parts(dispatch, answer, &sent, &out)) != NULL;) {
        if (out.timing.queue_ns == 0) out.timing.queue_ns = dispatch->queue_ns;
        dispatch->send(dispatch->user, stream, &out);
    }
}

/* Closes finished sequences at the peer. A close asks for no answer. */
static pf_status close_finished(pf_dispatch *dispatch)
{
    pf_status status = PF_OK;
    for (int32_t slot = 0; slot < dispatch->max;) {
        pf_batch batch = { .closes = dispatch->closes };
        for (; slot < dispatch->max && batch.n_closes < N; slot++) {
            if (!dispatch->slots[slot].is_finished) continue;
            dispatch->closes[batch.n_closes++].sequence = dispatch->slots[slot].internal;
            evict(dispatch, slot);
        }
        const pf_status taken = batch.n_closes > 0 ? pf_peer_submit(dispatch->peer, &batch) : PF_OK;
        if (taken != PF_OK) status = taken;
    }
    return status;
}

static pf_status close_refused(pf_dispatch *dispatch, const pf_batch *answer)
{
    for (int32_t i = 0; i < answer->n_refusals; i++)
        end_refused(resident(dispatch, answer->refusals[i].sequence), &answer->refusals[i]);
    return answer->n_refusals > 0 ? close_finished(dispatch) : PF_OK;
}

/* Routes one answer to its streams. PF_CANCELLED: there is none left. */
static pf_status pass_on(pf_dispatch *dispatch, pf_error *error)
{
    const pf_batch *answer;
    pf_status status = pf_peer_collect(dispatch->peer, pf_now_ns() + LOOK_NS, &answer, error);
    dispatch->n_entries = 0;
    dispatch->submitted = status != PF_CANCELLED;
    if (status != PF_OK) return status;
    count_answer(dispatch, answer);
    distribute(dispatch, answer);
    status = close_refused(dispatch, answer);
    return status == PF_OK ? PF_OK : pf_fail(error, status, "the peer takes no close: %s", pf_status_name(status));
}

/* Of which the peer owes nothing any more. */
static void forget_answered(pf_dispatch *dispatch)
{
    int32_t n = 0;
    for (int32_t i = 0; i < dispatch->n_spoken_of; i++) {
        dispatch_slot *t = &dispatch->slots[dispatch->spoken_of[i]];
        t->is_spoken_of = t->stream && is_awaited(dispatch, t);
        if (t->is_spoken_of) dispatch->spoken_of[n++] = dispatch->spoken_of[i];
    }
    dispatch->n_spoken_of = n;
}

pf_status pf_dispatch_collect(pf_dispatch *dispatch, pf_dispatch_enough *enough, pf_error *error)
{
    if (!dispatch->submitted) return PF_OK;
    pf_status status;
    while ((status = pass_on(dispatch, error)) == PF_OK)
        if (enough && enough(dispatch->user)) break;
    dispatch->queue_ns = 0;
    forget_answered(dispatch);
    return status == PF_CANCELLED ? PF_OK : status;
}

bool pf_dispatch_is_behind(const pf_dispatch *dispatch)
{
    return dispatch->submitted;
}

bool pf_dispatch_work_ahead(pf_dispatch *dispatch)
{
    return !dispatch->submitted && pf_peer_work_ahead(dispatch->peer);
}

void pf_dispatch_end_stream(pf_dispatch *dispatch, void *stream)
{
    for (int32_t slot = 0; slot < dispatch->max; slot++)
        if (dispatch->slots[slot].stream == stream) dispatch->slots[slot].is_finished = true;
    (void)!close_finished(
        dispatch); /* a peer that refuses this has failed as a whole, which the next collect reports */
}

int32_t pf_dispatch_free_slots(pf_dispatch *dispatch)
{
    const int32_t n = dispatch->max - pf_idmap_count(dispatch->ids);
    return n == 0 && evict_idle(dispatch) ? 1 : n;
}

bool pf_dispatch_is_open(const pf_dispatch *dispatch, const void *stream, uint64_t sequence)
{
    return find_slot(dispatch, stream, sequence) != NULL;
}

uint64_t pf_dispatch_number(const pf_dispatch *dispatch, const void *stream, uint64_t sequence)
{
    const dispatch_slot *t = find_slot(dispatch, stream, sequence);
    return t ? t->internal : 0;
}

int32_t pf_dispatch_open_sequences(const pf_dispatch *dispatch)
{
    return pf_idmap_count(dispatch->ids);
}

bool pf_dispatch_owes(const pf_dispatch *dispatch, const void *stream)
{
    for (int32_t i = 0; i < dispatch->n_spoken_of; i++) {
        const dispatch_slot *t = &dispatch->slots[dispatch->spoken_of[i]];
        if (t->stream == stream && is_awaited(dispatch, t)) return true;
    }
    return false;
}

bool pf_dispatch_has_sequences(const pf_dispatch *dispatch, const void *stream)
{
    return pf_idmap_find(dispatch->streams, key(stream), 0) >= 0;
}
