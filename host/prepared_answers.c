#include "host/prepared_answers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

typedef struct {
    bool is_there;
    bool is_claimed;
    void *stream;
    uint64_t number;  /* of the sequence on its stream */
    uint64_t sent_ns; /* 0: it has not been sent */
    pf_prepared_outcome outcome;
} entry;

struct pf_prepared_answers {
    pthread_mutex_t lock;
    pf_prepared_owner *owner; /* NULL: nothing is kept; the computing thread's, with its user */
    void *user;
    atomic_int n_there;
    int32_t n;
    entry *entries;         /* [n] */
    pf_proposal *proposals; /* [n] of the answer in the making */
    int32_t *chosen;        /* [n] their entries */
};

pf_status pf_prepared_create(int32_t n, pf_prepared_answers **out)
{
    if (n < 1) return PF_INVALID;
    pf_prepared_answers *p = calloc(1, sizeof *p);
    if (!p) return PF_NOMEM;
    const size_t count = (size_t)n;
    p->n = n;
    p->entries = calloc(count, sizeof *p->entries);
    p->proposals = calloc(count, sizeof *p->proposals);
    p->chosen = calloc(count, sizeof *p->chosen);
    pthread_mutex_init(&p->lock, NULL);
    if (!p->entries || !p->proposals || !p->chosen) {
        pf_prepared_destroy(p);
        return PF_NOMEM;
    }
    *out = p;
    return PF_OK;
}

void pf_prepared_destroy(pf_prepared_answers *p)
{
    if (!p) return;
    pthread_mutex_destroy(&p->lock);
    free(p->entries);
    free(p->proposals);
    free(p->chosen);
    free(p);
}

/* ---- the computing thread -------------------------------------------------------------------------------------- */

void pf_prepared_listen(pf_prepared_answers *p, pf_prepared_owner *owner, void *user)
{
    p->owner = owner;
    p->user = user;
}

bool pf_prepared_put(pf_prepared_answers *p, int32_t i, const pf_prepared_outcome *outcome)
{
    entry e = { .is_there = true, .outcome = *outcome };
    if (!p->owner || !p->owner(p->user, outcome->proposal.sequence, &e.stream, &e.number)) return false;
    pthread_mutex_lock(&p->lock);
    if (!p->entries[i].is_there) (void)atomic_fetch_add(&p->n_there, 1);
    p->entries[i] = e;
    pthread_mutex_unlock(&p->lock);
    return true;
}

static void clear(pf_prepared_answers *p, int32_t i)
{
    if (p->entries[i].is_there) (void)atomic_fetch_sub(&p->n_there, 1);
    p->entries[i] = (entry){ .is_there = false };
}

void pf_prepared_remove(pf_prepared_answers *p, int32_t i)
{
    pthread_mutex_lock(&p->lock);
    clear(p, i);
    pthread_mutex_unlock(&p->lock);
}

bool pf_prepared_withdraw(pf_prepared_answers *p, int32_t i)
{
    pthread_mutex_lock(&p->lock);
    const bool stays = p->entries[i].sent_ns > 0 && !p->entries[i].is_claimed;
    if (!stays) clear(p, i);
    pthread_mutex_unlock(&p->lock);
    return !stays;
}

uint64_t pf_prepared_sent_ns(pf_prepared_answers *p, int32_t i)
{
    pthread_mutex_lock(&p->lock);
    const uint64_t sent_ns = p->entries[i].sent_ns;
    pthread_mutex_unlock(&p->lock);
    return sent_ns;
}

bool pf_prepared_claim(pf_prepared_answers *p, uint64_t sequence, uint64_t round)
{
    bool is_sent = false;
    if (!pf_prepared_any(p)) return false;
    pthread_mutex_lock(&p->lock);
    for (int32_t i = 0; i < p->n; i++) {
        entry *e = &p->entries[i];
        if (!e->is_there || e->outcome.proposal.sequence != sequence) continue;
        e->is_claimed = true;
        is_sent |= e->sent_ns > 0 && e->outcome.round == round;
    }
    pthread_mutex_unlock(&p->lock);
    return is_sent;
}

bool pf_prepared_any(const pf_prepared_answers *p)
{
    return atomic_load(&p->n_there) > 0;
}

/* ---- the receiving thread -------------------------------------------------------------------------------------- */

static bool is_of(const pf_verdict *v, const pf_prepared_outcome *o)
{
    const int32_t wanted = v->next_draft > 0 && v->next_draft < o->max_draft ? v->next_draft : o->max_draft;
    if (v->incarnation != o->proposal.incarnation || v->round != o->round || v->base != o->base) return false;
    if (v->finish != PF_FINISH_NONE || v->next_draft == PF_NO_DRAFT || wanted != o->wanted) return false;
    if (v->n_accepted != o->n_accepted || v->n_tokens != o->n_accepted + 1) return false;
    return v->tokens[o->n_accepted] == o->token &&
           (o->n_accepted == 0 || memcmp(v->tokens, o->accepted, (size_t)o->n_accepted * sizeof *o->accepted) == 0);
}

/* The outcome that a verdict has; -1: none is there, or the sequence is claimed or has been answered. */
static int32_t find(const pf_prepared_answers *p, const void *stream, const pf_verdict *v)
{
    int32_t found = -1;
    for (int32_t i = 0; i < p->n; i++) {
        const entry *e = &p->entries[i];
        if (!e->is_there || e->stream != stream || e->number != v->sequence) continue;
        if (e->is_claimed || e->sent_ns > 0) return -1;
        if (is_of(v, &e->outcome)) found = i;
    }
    return found;
}

/* A verdict that is in the batch twice is answered once. */
static bool is_chosen(const pf_prepared_answers *p, int32_t n, uint64_t sequence)
{
    for (int32_t i = 0; i < n; i++)
        if (p->proposals[i].sequence == sequence) return true;
    return false;
}

int32_t pf_prepared_answer(pf_prepared_answers *p, const void *stream, const pf_batch *batch, pf_prepared_send *send,
                           void *user)
{
    int32_t n = 0;
    if (!pf_prepared_any(p) || batch->n_opens + batch->n_closes > 0) return 0;
    pthread_mutex_lock(&p->lock);
    for (int32_t i = 0; i < batch->n_verdicts; i++) {
        const int32_t at = find(p, stream, &batch->verdicts[i]);
        if (at < 0 || is_chosen(p, n, batch->verdicts[i].sequence)) continue;
        p->proposals[n] = p->entries[at].outcome.proposal;
        p->proposals[n].sequence = p->entries[at].number;
        p->chosen[n++] = at;
    }
    const pf_batch answer = { .proposals = p->proposals, .n_proposals = n };
    if (n > 0 && !send(user, &answer)) n = 0;
    const uint64_t now_ns = n > 0 ? pf_now_ns() : 0;
    for (int32_t i = 0; i < n; i++) p->entries[p->chosen[i]].sent_ns = now_ns;
    pthread_mutex_unlock(&p->lock);
    return n;
}
