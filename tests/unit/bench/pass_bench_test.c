/* A pass beside its kernels: that each has its figure, in order, and what the last line adds up. */
#include "tests/support/test.h"

#include <math.h>

#include "bench/pass_bench.h"
#include "tests/support/tiny_model.h"

static const char *const order[] = { "norm",       "pack normed",   "qkv",  "rope",     "store",
                                     "attention",  "pack attended", "o",    "gate, up", "activation",
                                     "pack gated", "down",          "head", "argmax" };
enum { N_PARTS = sizeof order / sizeof *order };

typedef struct {
    int32_t n, n_sums, enough, enough_sums; /* enough: this one is the last that is wanted; 0: all are */
    double sum_us, once_sum_us;
    int32_t rows[2];
} seen;

static bool look(void *user, const pf_pass_figure *f)
{
    seen *s = user;
    const pf_kernel_figure *k = &f->figure;
    const bool is_product = strcmp(f->op, "gemm") == 0;
    assert_string_equal(f->name, order[s->n++ % N_PARTS]);
    assert_true(fabs(f->pass_us - k->us * f->n_calls) < 1e-9 && isfinite(f->pass_us) && isfinite(f->once_us));
    assert_true(isnan(k->fraction) == !is_product);
    if (is_product) assert_true(k->us > 0.0 && k->gflops > 0.0 && k->gbps > 0.0 && k->limit_us > 0.0);
    s->sum_us += f->pass_us;
    s->once_sum_us += f->once_us;
    return s->n != s->enough;
}

static bool add_up(void *user, const pf_pass_sum *sum)
{
    seen *s = user;
    assert_int_equal(s->n, N_PARTS);
    assert_int_equal(sum->n_threads, 1);
    assert_int_equal(sum->context, 24);
    assert_true(sum->pass_us > 0.0 && fabs(sum->sum_us - s->sum_us) < 1e-9);
    assert_true(fabs(sum->once_sum_us - s->once_sum_us) < 1e-9);
    assert_true(fabs(sum->ratio * sum->sum_us - sum->pass_us) < 1e-9);
    s->rows[s->n_sums] = sum->rows;
    *s = (seen){ .n_sums = s->n_sums + 1, .enough_sums = s->enough_sums, .rows = { s->rows[0], s->rows[1] } };
    return s->n_sums != s->enough_sums;
}

static void a_pass_has_a_figure_for_each_kernel_and_their_sum(void **state)
{
    (void)state;
    char directory[PF_TINY_PATH];
    pf_error error;
    pf_engine *engine;
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 4 }, directory);
    const pf_engine_options options = { .size = sizeof(pf_engine_options),
                                        .n_threads = 1,
                                        .max_context = 24 + PF_PASS_MAX_ROWS };
    assert_ok(pf_engine_open(directory, &options, &engine, &error), error);

    const int32_t rows[] = { 1, 3 };
    volatile bool cancel = false;
    seen s = { 0 };
    pf_pass_bench_options asked = { .context = 24,
                                    .rows = rows,
                                    .n_rows = 2,
                                    .quick = true,
                                    .cancel = &cancel,
                                    .figure = look,
                                    .sum = add_up,
                                    .user = &s };
    assert_ok(pf_bench_pass(engine, &asked, &error), error);
    assert_true(s.n_sums == 2 && s.rows[0] == 1 && s.rows[1] == 3);

    s = (seen){ .enough = 3 };
    assert_int_equal(pf_bench_pass(engine, &asked, &error), PF_CANCELLED);
    assert_true(s.n == 3 && s.n_sums == 0);
    s = (seen){ .enough_sums = 1 };
    assert_int_equal(pf_bench_pass(engine, &asked, &error), PF_CANCELLED);
    assert_true(s.n == 0 && s.n_sums == 1);

    cancel = true;
    assert_int_equal(pf_bench_pass(engine, &asked, &error), PF_CANCELLED);
    asked.context = 25;
    assert_int_equal(pf_bench_pass(engine, &asked, &error), PF_INVALID);
    assert_non_null(strstr(error.text, "41"));
    pf_engine_close(engine);
    pf_tiny_model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pass_has_a_figure_for_each_kernel_and_their_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
