/* Pieces of a phase: each is taken once, the own share first, and a late member's by the others. */
#include "tests/support/test.h"
#include "tests/support/threading.h"

#include <sched.h>
#include <stdlib.h>

#include "base/chunks.h"

enum { MOST = 8, LONGEST = 300, N_PHASES = 200 };

/* The chunks that one thread of n takes when it runs alone, [begin, end) after [begin, end). */
static void assert_pieces(int32_t id, int32_t n_members, pf_chunks_cut cut, const int32_t expected[][2], size_t n)
{
    pf_chunks all[MOST];
    pf_chunks_reset(all, n_members);
    for (int32_t i = 0; i < n_members; i++) pf_chunks_begin(all, (pf_member){ NULL, i, n_members }, 0);
    int32_t begin, end;
    for (size_t i = 0; i < n; i++) {
        assert_true(pf_chunks_take(all, (pf_member){ NULL, id, n_members }, 0, &cut, &begin, &end));
        assert_int_equal(begin, expected[i][0]);
        assert_int_equal(end, expected[i][1]);
    }
    for (int32_t i = 0; i < n_members; i++)
        assert_false(pf_chunks_take(all, (pf_member){ NULL, i, n_members }, 0, &cut, &begin, &end));
}

static void a_member_takes_its_own_share_in_order_and_then_the_others(void **state)
{
    (void)state;
    /* shares 0..9, 10..19, 20..29 in pieces of four: member 1 alone */
    static const int32_t expected[][2] = { { 10, 14 }, { 14, 18 }, { 18, 20 }, { 20, 24 }, { 24, 28 },
                                           { 28, 30 }, { 0, 4 },   { 4, 8 },   { 8, 10 } };
    assert_pieces(1, 3, (pf_chunks_cut){ .total = 30, .run = 30, .least = 4, .most = 4 }, expected, PF_COUNT(expected));
}

static void a_piece_is_half_of_what_is_left_within_bounds(void **state)
{
    (void)state;
    static const int32_t expected[][2] = { { 0, 16 }, { 16, 32 }, { 32, 48 }, { 48, 58 }, { 58, 63 }, { 63, 67 } };
    assert_pieces(0, 1, (pf_chunks_cut){ .total = 67, .run = 67, .least = 3, .most = 16 }, expected,
                  PF_COUNT(expected));
}

static void no_piece_reaches_across_a_run_and_what_is_too_little_joins_the_one_before(void **state)
{
    (void)state;
    /* shares 0..11, 12..23 in runs of nine */
    static const int32_t expected[][2] = { { 0, 6 }, { 6, 9 }, { 9, 12 }, { 12, 18 }, { 18, 22 }, { 22, 24 } };
    assert_pieces(0, 2, (pf_chunks_cut){ .total = 24, .run = 9, .least = 4, .most = 8 }, expected, PF_COUNT(expected));
}

static void a_share_may_be_empty(void **state)
{
    (void)state;
    static const int32_t expected[][2] = { { 0, 1 }, { 1, 2 } };
    assert_pieces(1, 4, (pf_chunks_cut){ .total = 2, .run = 2, .least = 5, .most = 5 }, expected, PF_COUNT(expected));
}

typedef struct {
    pf_chunks pieces[MOST];
    pf_chunks_cut cuts[N_PHASES];
    int taken[LONGEST]; /* plain memory, so that ThreadSanitizer sees two threads that take one item */
    _Atomic int32_t n_wrong;
} board;

static void take_all(pf_member member, void *arg)
{
    board *b = arg;
    for (int32_t phase = 0; phase < N_PHASES; phase++) {
        const pf_chunks_cut *cut = &b->cuts[phase];
        pf_chunks_begin(b->pieces, member, phase);
        int32_t begin, end;
        while (pf_chunks_take(b->pieces, member, phase, cut, &begin, &end)) {
            for (int32_t i = begin; i < end; i++) b->taken[i]++;
            if (begin >= end || begin / cut->run != (end - 1) / cut->run) b->n_wrong++;
        }
        pf_team_barrier(member);
        if (member.id == phase % member.n_threads)
            for (int32_t i = 0; i < LONGEST; i++)
                if (b->taken[i] != (i < cut->total ? phase + 1 : 0)) b->n_wrong++;
        pf_team_barrier(member);
    }
}

static void each_piece_of_each_phase_is_taken_once(void **state)
{
    (void)state;
    srand(7);
    for (int32_t n_threads = 1; n_threads <= MOST; n_threads++) {
        pf_error error;
        pf_team *team;
        assert_ok(pf_test_team_create(n_threads, &team, &error), error);
        board b = { .n_wrong = 0 };
        const int32_t total = 1 + rand() % LONGEST;
        for (int32_t phase = 0; phase < N_PHASES; phase++) {
            const int32_t least = 1 + rand() % 20;
            b.cuts[phase] = (pf_chunks_cut){ total, 1 + rand() % total, least, least + rand() % 40 };
        }
        for (int step = 0; step < 3; step++) {
            for (int32_t i = 0; i < LONGEST; i++) b.taken[i] = 0;
            pf_chunks_reset(b.pieces, n_threads);
            pf_team_run(team, take_all, &b);
            assert_int_equal(b.n_wrong, 0);
        }
        pf_team_destroy(team);
    }
}

typedef struct {
    pf_chunks pieces[MOST];
    _Atomic int32_t n_done, n_taken[MOST];
} late;

/* Member 0 is held up with its first piece until the others have found no more. */
static void come_late(pf_member member, void *arg)
{
    late *l = arg;
    int32_t begin, end;
    const pf_chunks_cut cut = { .total = 90, .run = 90, .least = 2, .most = 2 };
    pf_chunks_begin(l->pieces, member, 0);
    while (pf_chunks_take(l->pieces, member, 0, &cut, &begin, &end)) {
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
    assert_ok(pf_test_team_create(3, &team, &error), error);
    late l = { .n_done = 0 };
    pf_chunks_reset(l.pieces, 3);
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
        cmocka_unit_test(a_piece_is_half_of_what_is_left_within_bounds),
        cmocka_unit_test(no_piece_reaches_across_a_run_and_what_is_too_little_joins_the_one_before),
        cmocka_unit_test(a_share_may_be_empty),
        cmocka_unit_test(each_piece_of_each_phase_is_taken_once),
        cmocka_unit_test(what_a_late_member_has_not_begun_the_others_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
