/* Pieces of a phase: each is taken once, the own share first, and a late member's by the others. */
#include "tests/support/test.h"

#include <sched.h>
#include <stdlib.h>

#include "base/pieces.h"

enum { MOST = 7, LONGEST = 300, N_PHASES = 400 };

static void a_member_takes_its_own_share_in_order_and_then_the_others(void **state)
{
    (void)state;
    pf_pieces all[3];
    pf_pieces_reset(all, 3);
    for (int32_t id = 0; id < 3; id++) pf_pieces_begin(all, (pf_member){ NULL, id, 3 }, 0);
    /* shares 0..9, 10..19, 20..29 in pieces of four: member 1 alone */
    static const int32_t expected[][2] = { { 10, 14 }, { 14, 18 }, { 18, 20 }, { 20, 24 }, { 24, 28 },
                                           { 28, 30 }, { 0, 4 },   { 4, 8 },   { 8, 10 } };
    const pf_member member = { NULL, 1, 3 };
    int32_t begin, end;
    for (size_t i = 0; i < PF_COUNT(expected); i++) {
        assert_true(pf_pieces_take(all, member, 0, 30, 4, &begin, &end));
        assert_int_equal(begin, expected[i][0]);
        assert_int_equal(end, expected[i][1]);
    }
    for (int32_t id = 0; id < 3; id++)
        assert_false(pf_pieces_take(all, (pf_member){ NULL, id, 3 }, 0, 30, 4, &begin, &end));
}

static void a_share_may_be_empty(void **state)
{
    (void)state;
    pf_pieces all[4];
    pf_pieces_reset(all, 4);
    int32_t begin, end, n = 0;
    for (int32_t id = 0; id < 4; id++)
        while (pf_pieces_take(all, (pf_member){ NULL, id, 4 }, 0, 2, 5, &begin, &end)) n += end - begin;
    assert_int_equal(n, 2);
}

typedef struct {
    pf_pieces pieces[MOST];
    int32_t totals[N_PHASES], sizes[N_PHASES];
    int taken[LONGEST]; /* by whoever took it: plain memory, so that ThreadSanitizer sees two who did */
    int32_t n_wrong;
} board;

static void take_all(pf_member member, void *arg)
{
    board *b = arg;
    for (int32_t phase = 0; phase < N_PHASES; phase++) {
        pf_pieces_begin(b->pieces, member, phase);
        int32_t begin, end;
        while (pf_pieces_take(b->pieces, member, phase, b->totals[phase], b->sizes[phase], &begin, &end))
            for (int32_t i = begin; i < end; i++) b->taken[i]++;
        pf_team_barrier(member);
        if (member.id == phase % member.n_threads)
            for (int32_t i = 0; i < LONGEST; i++)
                if (b->taken[i] != (i < b->totals[phase] ? phase + 1 : 0)) b->n_wrong++;
        pf_team_barrier(member);
    }
}

static void each_piece_of_each_phase_is_taken_once(void **state)
{
    (void)state;
    srand(7);
    for (int32_t n_threads = 1; n_threads <= MOST; n_threads += 2) {
        pf_error error;
        pf_team *team;
        assert_ok(pf_team_create(n_threads, NULL, 0, &team, &error), error);
        board b = { .n_wrong = 0 };
        const int32_t total = 1 + rand() % LONGEST;
        for (int32_t phase = 0; phase < N_PHASES; phase++) {
            b.totals[phase] = total;
            b.sizes[phase] = 1 + rand() % 40;
        }
        for (int step = 0; step < 3; step++) {
            for (int32_t i = 0; i < LONGEST; i++) b.taken[i] = 0;
            pf_pieces_reset(b.pieces, n_threads);
            pf_team_run(team, take_all, &b);
            assert_int_equal(b.n_wrong, 0);
        }
        pf_team_destroy(team);
    }
}

typedef struct {
    pf_pieces pieces[MOST];
    _Atomic int32_t n_done, n_taken[MOST];
} late;

/* Member 0 is held up with its first piece until the others have found no more. */
static void come_late(pf_member member, void *arg)
{
    late *l = arg;
    int32_t begin, end;
    pf_pieces_begin(l->pieces, member, 0);
    while (pf_pieces_take(l->pieces, member, 0, 90, 2, &begin, &end)) {
        l->n_taken[member.id] += end - begin;
        while (member.id == 0 && l->n_done < member.n_threads - 1) sched_yield();
    }
    l->n_done++;
}

static void what_a_late_member_has_not_begun_the_others_take(void **state)
{
    (void)state;
    pf_error error;
    pf_team *team;
    assert_ok(pf_team_create(3, NULL, 0, &team, &error), error);
    late l = { .n_done = 0 };
    pf_pieces_reset(l.pieces, 3);
    pf_team_run(team, come_late, &l);
    /* or nothing, when the others were so early that they had taken all */
    assert_true(l.n_taken[0] == 2 || l.n_taken[0] == 0);
    assert_int_equal(l.n_taken[0] + l.n_taken[1] + l.n_taken[2], 90);
    pf_team_destroy(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_takes_its_own_share_in_order_and_then_the_others),
        cmocka_unit_test(a_share_may_be_empty),
        cmocka_unit_test(each_piece_of_each_phase_is_taken_once),
        cmocka_unit_test(what_a_late_member_has_not_begun_the_others_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
