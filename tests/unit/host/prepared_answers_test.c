/* Proposals that are sent when their verdicts arrive. */
#include <pthread.h>

#include "host/prepared_answers.h"
#include "tests/support/test.h"

enum { N = 4, INTERNAL = 1000, BASE = 10, K = 3, ROUND = 5 };

static int stream_a, stream_b; /* their addresses name streams */
static const int32_t CHAIN[K] = { 1, 2, 3 }, DRAFTED[2] = { 7, 8 };

/* The peer's sequence INTERNAL + i is sequence i of stream A. */
static bool own(void *user, uint64_t sequence, void **stream, uint64_t *number)
{
    if (sequence < INTERNAL) return false;
    *stream = user;
    *number = sequence - INTERNAL;
    return true;
}

static pf_prepared_answers *open_table(void)
{
    pf_prepared_answers *p;
    assert_int_equal(pf_prepared_create(N, &p), PF_OK);
    pf_prepared_listen(p, own, &stream_a);
    return p;
}

/* Behind n_accepted tokens of the chain the token 40 + n_accepted. */
static pf_prepared_outcome outcome_of(uint64_t sequence, int32_t n_accepted)
{
    return (pf_prepared_outcome){ .round = ROUND,
                                  .base = BASE,
                                  .accepted = CHAIN,
                                  .n_accepted = n_accepted,
                                  .token = 40 + n_accepted,
                                  .wanted = K,
                                  .max_draft = K,
                                  .proposal = { .sequence = INTERNAL + sequence,
                                                .incarnation = 1,
                                                .round = ROUND + 1,
                                                .base = BASE + n_accepted + 1,
                                                .tokens = DRAFTED,
                                                .n_tokens = 2,
                                                .ahead = PF_AHEAD_HIT } };
}

static void put(pf_prepared_answers *p, int32_t i, uint64_t sequence, int32_t n_accepted)
{
    const pf_prepared_outcome outcome = outcome_of(sequence, n_accepted);
    assert_true(pf_prepared_put(p, i, &outcome));
}

typedef struct {
    int32_t tokens[K + 1];
    pf_verdict verdict;
} said;

/* The verdict of outcome_of. */
static said verdict_of_outcome(uint64_t sequence, int32_t n_accepted)
{
    said s = { .verdict = { .sequence = sequence,
                            .incarnation = 1,
                            .round = ROUND,
                            .base = BASE,
                            .n_tokens = n_accepted + 1,
                            .n_accepted = n_accepted } };
    for (int32_t i = 0; i < n_accepted; i++) s.tokens[i] = CHAIN[i];
    s.tokens[n_accepted] = 40 + n_accepted;
    return s;
}

typedef struct {
    bool refuses;
    int32_t n_batches, n_proposals;
    pf_proposal last;
} sent;

static bool send(void *user, const pf_batch *batch)
{
    sent *s = user;
    if (s->refuses) return false;
    s->n_batches++;
    s->n_proposals += batch->n_proposals;
    s->last = batch->proposals[batch->n_proposals - 1];
    return true;
}

static int32_t answer(pf_prepared_answers *p, const void *stream, said v, sent *to)
{
    v.verdict.tokens = v.tokens;
    const pf_batch batch = { .verdicts = &v.verdict, .n_verdicts = 1 };
    return pf_prepared_answer(p, stream, &batch, send, to);
}

static void a_verdict_of_a_prepared_outcome_is_answered_once(void **state)
{
    (void)state;
    sent to = { 0 };
    pf_prepared_answers *p = open_table();
    assert_false(pf_prepared_any(p));
    put(p, 0, 3, 0);
    put(p, 1, 3, 2);
    assert_true(pf_prepared_any(p));
    assert_int_equal(answer(p, &stream_a, verdict_of_outcome(3, 2), &to), 1);
    assert_int_equal(to.n_proposals, 1);
    assert_int_equal(to.last.sequence, 3);
    assert_int_equal(to.last.base, BASE + 3);
    assert_ptr_equal(to.last.tokens, DRAFTED);
    assert_int_equal(answer(p, &stream_a, verdict_of_outcome(3, 2), &to), 0);
    assert_int_equal(answer(p, &stream_a, verdict_of_outcome(3, 0), &to), 0);
    assert_true(pf_prepared_sent_ns(p, 1) > 0);
    assert_int_equal(pf_prepared_sent_ns(p, 0), 0);
    assert_true(pf_prepared_claim(p, INTERNAL + 3, ROUND));
    pf_prepared_remove(p, 0);
    pf_prepared_remove(p, 1);
    assert_false(pf_prepared_any(p));
    pf_prepared_destroy(p);
}

static void a_verdict_that_differs_in_any_field_is_not_answered(void **state)
{
    (void)state;
    sent to = { 0 };
    pf_prepared_answers *p = open_table();
    put(p, 0, 3, 2);
    said v[10];
    for (int i = 0; i < 10; i++) v[i] = verdict_of_outcome(3, 2);
    v[0].verdict.incarnation++;
    v[1].verdict.round++;
    v[2].verdict.base++;
    v[3].verdict.n_accepted = 1;
    v[4].tokens[1]++;
    v[5].tokens[2]++;
    v[6].verdict.finish = PF_FINISH_EOS;
    v[7].verdict.next_draft = PF_NO_DRAFT;
    v[8].verdict.next_draft = 2;
    v[9].verdict.sequence++;
    for (int i = 0; i < 10; i++)
        if (answer(p, &stream_a, v[i], &to) != 0) fail_msg("verdict %d is answered", i);
    assert_int_equal(answer(p, &stream_b, verdict_of_outcome(3, 2), &to), 0);
    assert_int_equal(answer(p, &stream_a, verdict_of_outcome(3, 2), &to), 1);
    pf_prepared_destroy(p);
}

static void a_verdict_beside_an_open_or_a_close_waits(void **state)
{
    (void)state;
    sent to = { 0 };
    pf_prepared_answers *p = open_table();
    put(p, 0, 3, 0);
    said v = verdict_of_outcome(3, 0);
    v.verdict.tokens = v.tokens;
    pf_close close = { 3 };
    const pf_batch closing = { .verdicts = &v.verdict, .n_verdicts = 1, .closes = &close, .n_closes = 1 };
    assert_int_equal(pf_prepared_answer(p, &stream_a, &closing, send, &to), 0);
    pf_open open = { .sequence = 3 };
    const pf_batch opening = { .verdicts = &v.verdict, .n_verdicts = 1, .opens = &open, .n_opens = 1 };
    assert_int_equal(pf_prepared_answer(p, &stream_a, &opening, send, &to), 0);
    pf_prepared_destroy(p);
}

static void verdicts_of_a_batch_are_answered_in_one_and_each_once(void **state)
{
    (void)state;
    sent to = { 0 };
    pf_prepared_answers *p = open_table();
    put(p, 0, 3, 0);
    put(p, 1, 4, 1);
    said a = verdict_of_outcome(3, 0), b = verdict_of_outcome(4, 1), c = verdict_of_outcome(5, 1);
    pf_verdict verdicts[] = { a.verdict, c.verdict, b.verdict, a.verdict };
    verdicts[0].tokens = verdicts[3].tokens = a.tokens;
    verdicts[1].tokens = c.tokens;
    verdicts[2].tokens = b.tokens;
    const pf_batch batch = { .verdicts = verdicts, .n_verdicts = 4 };
    assert_int_equal(pf_prepared_answer(p, &stream_a, &batch, send, &to), 2);
    assert_int_equal(to.n_batches, 1);
    assert_int_equal(to.last.sequence, 4);
    pf_prepared_destroy(p);
}

static void nothing_is_answered_once_the_sequence_is_claimed(void **state)
{
    (void)state;
    sent to = { 0 };
    pf_prepared_answers *p = open_table();
    put(p, 0, 3, 0);
    put(p, 1, 4, 0);
    assert_false(pf_prepared_claim(p, INTERNAL + 3, ROUND));
    assert_int_equal(answer(p, &stream_a, verdict_of_outcome(3, 0), &to), 0);
    assert_int_equal(answer(p, &stream_a, verdict_of_outcome(4, 0), &to), 1);
    assert_false(pf_prepared_claim(p, INTERNAL + 4,
                                   ROUND + 1)); /* a verdict of another round is not the one that was answered */
    pf_prepared_destroy(p);
}

static void an_outcome_that_was_sent_is_not_withdrawn_until_it_is_claimed(void **state)
{
    (void)state;
    sent to = { 0 };
    pf_prepared_answers *p = open_table();
    put(p, 0, 3, 0);
    put(p, 1, 3, 1);
    assert_int_equal(answer(p, &stream_a, verdict_of_outcome(3, 0), &to), 1);
    assert_false(pf_prepared_withdraw(p, 0));
    assert_true(pf_prepared_withdraw(p, 1));
    assert_true(pf_prepared_claim(p, INTERNAL + 3, ROUND));
    assert_true(pf_prepared_withdraw(p, 0));
    assert_false(pf_prepared_any(p));
    pf_prepared_destroy(p);
}

static void a_proposal_that_cannot_be_sent_is_made_later(void **state)
{
    (void)state;
    sent to = { .refuses = true };
    pf_prepared_answers *p = open_table();
    put(p, 0, 3, 0);
    assert_int_equal(answer(p, &stream_a, verdict_of_outcome(3, 0), &to), 0);
    assert_int_equal(pf_prepared_sent_ns(p, 0), 0);
    assert_false(pf_prepared_claim(p, INTERNAL + 3, ROUND));
    pf_prepared_destroy(p);
}

static void nothing_is_kept_without_an_owner(void **state)
{
    (void)state;
    pf_prepared_answers *p;
    assert_int_equal(pf_prepared_create(0, &p), PF_INVALID);
    p = open_table();
    pf_prepared_listen(p, NULL, NULL);
    const pf_prepared_outcome outcome = outcome_of(3, 0);
    assert_false(pf_prepared_put(p, 0, &outcome));
    pf_prepared_listen(p, own, &stream_a);
    pf_prepared_outcome unowned = outcome;
    unowned.proposal.sequence = 1;
    assert_false(pf_prepared_put(p, 0, &unowned));
    assert_false(pf_prepared_any(p));
    pf_prepared_destroy(p);
}

enum { RACES = 2000 };

typedef struct {
    pf_prepared_answers *p;
    pthread_barrier_t start, end;
    int32_t n_answered;
} race;

static void *receive(void *arg)
{
    race *r = arg;
    for (int i = 0; i < RACES; i++) {
        sent to = { 0 };
        pthread_barrier_wait(&r->start);
        r->n_answered = answer(r->p, &stream_a, verdict_of_outcome(3, 1), &to);
        pthread_barrier_wait(&r->end);
    }
    return NULL;
}

static void a_claim_knows_of_every_answer_of_another_thread(void **state)
{
    (void)state;
    race r = { .p = open_table() };
    pthread_t thread;
    pthread_barrier_init(&r.start, NULL, 2);
    pthread_barrier_init(&r.end, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, receive, &r), 0);
    int32_t n_wrong = 0;
    for (int i = 0; i < RACES; i++) {
        put(r.p, 2, 3, 1);
        pthread_barrier_wait(&r.start);
        const bool is_sent = pf_prepared_claim(r.p, INTERNAL + 3, ROUND);
        pthread_barrier_wait(&r.end);
        n_wrong += is_sent != (r.n_answered == 1);
        pf_prepared_remove(r.p, 2);
    }
    pthread_join(thread, NULL);
    assert_int_equal(n_wrong, 0);
    pthread_barrier_destroy(&r.start);
    pthread_barrier_destroy(&r.end);
    pf_prepared_destroy(r.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_of_a_prepared_outcome_is_answered_once),
        cmocka_unit_test(a_verdict_that_differs_in_any_field_is_not_answered),
        cmocka_unit_test(a_verdict_beside_an_open_or_a_close_waits),
        cmocka_unit_test(verdicts_of_a_batch_are_answered_in_one_and_each_once),
        cmocka_unit_test(nothing_is_answered_once_the_sequence_is_claimed),
        cmocka_unit_test(an_outcome_that_was_sent_is_not_withdrawn_until_it_is_claimed),
        cmocka_unit_test(a_proposal_that_cannot_be_sent_is_made_later),
        cmocka_unit_test(nothing_is_kept_without_an_owner),
        cmocka_unit_test(a_claim_knows_of_every_answer_of_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
