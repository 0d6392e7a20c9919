/* Threads of an engine: how many by the cores and the model, and which CPU is whose. */
#include "engine/engine.h"
#include "engine/threads.h"
#include "kernels/cpu.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

static void threads_are_chosen_by_the_cores_and_by_what_a_step_reads(void **state)
{
    (void)state;
    const struct {
        bool are_given;
        int32_t n_threads;
        size_t step_bytes;
        pf_threads chosen;
    } cases[] = {
        { false, 8, (1 << 19) - 1, { 1, 1, false } }, /* barriers would take longer than the pass */
        { false, 8, 1 << 19, { 8, 1, true } },        /* one to all: to be measured */
        { false, 2, 8 << 20, { 2, 1, true } },        /* the same */
        { false, 2, (8 << 20) + 1, { 2, 2, true } },  /* all */
        { false, 16, 22 << 20, { 16, 3, true } },     /* no fewer than read 8 MiB each */
        { false, 16, 24 << 20, { 16, 3, true } },
        { false, 16, (24 << 20) + 1, { 16, 4, true } },
        { false, 16, (size_t)2 << 30, { 16, 16, true } },
        { false, 1, 1 << 20, { 1, 1, false } }, /* nothing to choose */
        { true, 8, 1, { 8, 8, false } },        /* as was asked for */
        { true, 8, 1 << 20, { 8, 8, false } },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        const pf_threads chosen = pf_threads_choose(cases[i].are_given, cases[i].n_threads, cases[i].step_bytes);
        if (chosen.n_threads != cases[i].chosen.n_threads || chosen.fewest_members != cases[i].chosen.fewest_members ||
            chosen.may_back_off != cases[i].chosen.may_back_off)
            fail_msg("case %zu: %d threads, %d or more, %d", i, chosen.n_threads, chosen.fewest_members,
                     chosen.may_back_off);
    }
}

static void a_team_of_the_whole_machine_is_pinned_and_a_server_calls_from_its_last_cpu(void **state)
{
    (void)state;
    int32_t asks[] = { 0, 2, 4, 7 }, serves[] = { 0, 2, 4, 7 }, smaller[] = { 0, 2, 4, 7 }, one[] = { 5 };
    assert_int_equal(pf_threads_pinning(4, false, asks, 4), 4);
    assert_memory_equal(asks, ((int32_t[]){ 0, 2, 4, 7 }), sizeof asks);
    assert_int_equal(pf_threads_pinning(4, true, serves, 4), 4);
    assert_memory_equal(serves, ((int32_t[]){ 7, 2, 4, 0 }), sizeof serves);
    assert_int_equal(pf_threads_pinning(3, true, smaller, 4), 0);
    assert_int_equal(pf_threads_pinning(5, true, smaller, 4), 0);
    assert_int_equal(pf_threads_pinning(1, true, one, 1), 0);
    assert_int_equal(pf_threads_pinning(2, true, NULL, 0), 0); /* the list of CPUs was not to be had */
}

static void an_engine_runs_a_tiny_model_on_one_thread_unless_told_how_many(void **state)
{
    (void)state;
    char directory[PF_TINY_PATH];
    pf_tiny_model_create(&(pf_tiny_model){ .vocab = 128 }, directory);
    for (int32_t asked = 0; asked <= 3; asked++) {
        const pf_engine_options options = { .size = sizeof(pf_engine_options), .n_threads = asked };
        pf_engine *engine;
        pf_error error;
        assert_ok(pf_engine_open(directory, &options, &engine, &error), error);
        assert_int_equal(pf_team_size(pf_engine_team(engine)), asked > 0 ? asked : 1);
        pf_engine_close(engine);
    }
    pf_tiny_model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_are_chosen_by_the_cores_and_by_what_a_step_reads),
        cmocka_unit_test(a_team_of_the_whole_machine_is_pinned_and_a_server_calls_from_its_last_cpu),
        cmocka_unit_test(an_engine_runs_a_tiny_model_on_one_thread_unless_told_how_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
