/* What takes seconds is given up when it is told to stop: a model that is loaded, a context that is made, passes of a bench. */
#include "bench/crossover.h"
#include "bench/stepper.h"
#include "kernels/cpu.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

#include <string.h>
#include <sys/resource.h>

static char directory[PF_TINY_PATH];

/* Sets the flag once so many of a hundred parts are loaded. */
typedef struct {
    size_t percent;
    volatile bool told;
} teller;

static void tell(void *user, size_t done, size_t total)
{
    teller *t = user;
    if (done * 100 >= total * t->percent) t->told = true;
}

static pf_status open_engine(teller *t, pf_engine **out, pf_error *error)
{
    const pf_engine_options options = {
        .size = sizeof(pf_engine_options), .n_threads = 2, .progress = tell, .user = t, .cancel = &t->told
    };
    return pf_engine_open(directory, &options, out, error);
}

static void a_model_and_a_context_are_given_up(void **state)
{
    (void)state;
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 4 }, directory);
    pf_engine *engine;
    for (size_t percent = 0; percent <= 100; percent += 50) {
        pf_error error = { 0 };
        teller t = { .percent = percent };
        assert_int_equal(open_engine(&t, &engine, &error), PF_CANCELLED);
        assert_true((strstr(error.text, "while it was loaded") != NULL) == (percent < 100));
    }
    pf_tiny_model_remove(directory);
}

static void passes_are_given_up(void **state)
{
    (void)state;
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 4 }, directory);
    pf_engine *engine;
    pf_error error = { 0 };
    teller t = { .percent = 101 };
    pf_stepper stepper;
    uint64_t ns;
    assert_ok(open_engine(&t, &engine, &error), error);
    assert_ok(pf_stepper_open(engine, 8, &t.told, &stepper, &error), error);
    assert_ok(pf_stepper_begin(&stepper, 8, &ns, &error), error);
    assert_ok(pf_stepper_step(&stepper, 2, &ns, &error), error);
    t.told = true;
    assert_int_equal(pf_stepper_step(&stepper, 2, &ns, &error), PF_CANCELLED);
    pf_stepper_end(&stepper);
    assert_int_equal(pf_stepper_begin(&stepper, 8, &ns, &error), PF_CANCELLED);
    pf_stepper_close(&stepper);
    pf_engine_close(engine);
    pf_tiny_model_remove(directory);
}

/* And until then it takes no more memory than it says. */
static void the_crossover_is_given_up(void **state)
{
    (void)state;
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 4 }, directory);
    pf_engine *engine;
    pf_error error = { 0 };
    teller t = { .percent = 101 };
    assert_ok(open_engine(&t, &engine, &error), error);
    struct rusage before, after;
    int32_t rows = 0;
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    assert_ok(pf_crossover_measure(engine, &t.told, &rows, &error), error);
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_true(rows >= 1);
    assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, 48 << 10); /* KiB */
    t.told = true;
    if (rows > 1) assert_int_equal(pf_crossover_measure(engine, &t.told, &rows, &error), PF_CANCELLED);
    pf_engine_close(engine);
    pf_tiny_model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_and_a_context_are_given_up),
        cmocka_unit_test(passes_are_given_up),
        cmocka_unit_test(the_crossover_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
