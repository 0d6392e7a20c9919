/* Virtual time: which process runs when, and how a world ends. */
#include "sim/world.h"
#include "tests/support/test.h"

enum { MOST = 64 };
static const uint64_t MS = 1000 * 1000, BEGIN = PF_WORLD_BEGIN_NS;

typedef struct {
    int32_t n;
    int32_t which[MOST];
    uint64_t when_ns[MOST];
} diary;

typedef struct {
    diary *diary;
    int32_t number;
    uint64_t step_ns;
    int32_t n_steps;
    pf_process *other;
} walker;

static void note(walker *w, pf_process *p)
{
    assert_true(w->diary->n < MOST);
    w->diary->which[w->diary->n] = w->number;
    w->diary->when_ns[w->diary->n++] = *pf_process_clock(p);
}

static void walk(pf_process *p, void *arg)
{
    walker *w = arg;
    for (int32_t i = 0; i < w->n_steps; i++) {
        pf_process_wait(p, *pf_process_clock(p) + w->step_ns);
        note(w, p);
    }
}

static void the_earliest_process_runs_next(void **state)
{
    (void)state;
    diary d = { 0 };
    walker slow = { &d, 1, 3 * MS, 2, NULL }, fast = { &d, 2, 2 * MS, 3, NULL };
    pf_world *world;
    pf_process *p;
    assert_status(pf_world_create(1, 1000 * MS, 0, &world), PF_OK);
    assert_status(pf_world_spawn(world, true, walk, &slow, &p), PF_OK);
    assert_status(pf_world_spawn(world, true, walk, &fast, &p), PF_OK);
    assert_status(pf_world_run(world), PF_OK);
    const int32_t which[] = { 2, 1, 2, 1, 2 };
    const uint64_t when_ms[] = { 2, 3, 4, 6, 6 }; /* of equal times the one that was spawned first */
    assert_int_equal(d.n, 5);
    for (int32_t i = 0; i < 5; i++) {
        assert_int_equal(d.which[i], which[i]);
        assert_int_equal(d.when_ns[i], BEGIN + when_ms[i] * MS);
    }
    assert_int_equal(pf_world_ended_ns(world), BEGIN + 6 * MS);
    pf_world_destroy(world);
}

/* Computes for a while, and then sees what was sent meanwhile. */
static void compute(pf_process *p, void *arg)
{
    walker *w = arg;
    *pf_process_clock(p) += w->step_ns;
    pf_process_wait(p, *pf_process_clock(p));
    note(w, p);
}

static void a_process_that_computes_lets_earlier_ones_run_before_it_looks(void **state)
{
    (void)state;
    diary d = { 0 };
    walker busy = { &d, 1, 5 * MS, 1, NULL }, other = { &d, 2, 2 * MS, 2, NULL };
    pf_world *world;
    pf_process *p;
    assert_status(pf_world_create(1, 1000 * MS, 0, &world), PF_OK);
    assert_status(pf_world_spawn(world, true, compute, &busy, &p), PF_OK);
    assert_status(pf_world_spawn(world, true, walk, &other, &p), PF_OK);
    assert_status(pf_world_run(world), PF_OK);
    assert_int_equal(d.n, 3);
    assert_int_equal(d.which[2], 1);
    pf_world_destroy(world);
}

static void serve(pf_process *p, void *arg)
{
    walker *w = arg;
    while (!pf_process_is_over(p)) {
        pf_process_wait(p, UINT64_MAX);
        note(w, p);
    }
}

static void wake_other(pf_process *p, void *arg)
{
    walker *w = arg;
    pf_process_wait(p, BEGIN + w->step_ns);
    pf_process_wake(w->other, BEGIN + 2 * w->step_ns);
}

static void a_server_sleeps_until_it_is_woken_and_ends_when_it_has_drained(void **state)
{
    (void)state;
    diary d = { 0 };
    walker server = { .diary = &d, .number = 1 }, client = { .step_ns = 7 * MS };
    pf_world *world;
    pf_process *p;
    assert_status(pf_world_create(1, 1000 * MS, 50 * MS, &world), PF_OK);
    assert_status(pf_world_spawn(world, false, serve, &server, &client.other), PF_OK);
    assert_status(pf_world_spawn(world, true, wake_other, &client, &p), PF_OK);
    assert_status(pf_world_run(world), PF_OK);
    assert_int_equal(d.n, 2);
    assert_int_equal(d.when_ns[0], BEGIN + 14 * MS);
    assert_int_equal(d.when_ns[1], BEGIN + 7 * MS + 50 * MS);
    pf_world_destroy(world);
}

static void wait_for_ever(pf_process *p, void *arg)
{
    (void)arg;
    while (!pf_process_is_over(p)) pf_process_wait(p, UINT64_MAX);
}

static void a_world_in_which_all_wait_for_ever_is_stuck_and_ends(void **state)
{
    (void)state;
    pf_world *world;
    pf_process *p;
    assert_status(pf_world_create(1, 1000 * MS, 0, &world), PF_OK);
    for (int32_t i = 0; i < 3; i++) assert_status(pf_world_spawn(world, i > 0, wait_for_ever, NULL, &p), PF_OK);
    assert_status(pf_world_run(world), PF_CANCELLED);
    assert_true(*pf_world_is_over(world));
    pf_world_destroy(world);
}

static void walk_for_ever(pf_process *p, void *arg)
{
    (void)arg;
    while (!pf_process_is_over(p)) pf_process_wait(p, *pf_process_clock(p) + MS);
}

static void a_world_ends_at_its_time_limit(void **state)
{
    (void)state;
    pf_world *world;
    pf_process *p;
    assert_status(pf_world_create(1, 1000 * MS, 0, &world), PF_OK);
    assert_status(pf_world_spawn(world, true, walk_for_ever, NULL, &p), PF_OK);
    assert_status(pf_world_run(world), PF_CANCELLED);
    assert_int_equal(pf_world_ended_ns(world), BEGIN + 1000 * MS);
    pf_world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earliest_process_runs_next),
        cmocka_unit_test(a_process_that_computes_lets_earlier_ones_run_before_it_looks),
        cmocka_unit_test(a_server_sleeps_until_it_is_woken_and_ends_when_it_has_drained),
        cmocka_unit_test(a_world_in_which_all_wait_for_ever_is_stuck_and_ends),
        cmocka_unit_test(a_world_ends_at_its_time_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
