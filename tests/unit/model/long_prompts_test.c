/*
 * Row invariance where rows are many and members too, so that products and attention are cut into pieces, as are those of few
 * rows whose weights come from memory: each way to run a text gives the bits of one token a pass on one thread.
 */
#include <stdlib.h>

#include "model/forward/context.h"
#include "tests/support/test.h"
#include "tests/support/threading.h"
#include "tests/support/tiny_model.h"

enum { N_TEXT = 700, N_VOCAB = 97, MAX_SEQUENCES = 2 };

/* Nothing is a multiple of what it is cut into, and heads do not part evenly over any number of members but one. */
static const pf_tiny_model WIDE = { .hidden = 264,
                                    .layers = 2,
                                    .heads = 21,
                                    .kv_heads = 7,
                                    .head_dim = 36,
                                    .intermediate = 1610,
                                    .vocab = N_VOCAB,
                                    .max_position = 1024,
                                    .attention_bias = true,
                                    .seed = 11 };

/* Heads part evenly over two and eight members, in whole panels. */
static const pf_tiny_model PARTED = { .hidden = 264,
                                      .layers = 2,
                                      .heads = 16,
                                      .kv_heads = 8,
                                      .head_dim = 32,
                                      .intermediate = 330,
                                      .vocab = N_VOCAB,
                                      .max_position = 1024,
                                      .mlp_bias = true,
                                      .seed = 12 };

typedef struct {
    pf_team *team;
    pf_model *model;
    pf_context *context;
    pf_kv *kv;
    int32_t text[N_TEXT], other[N_TEXT];
    float (*plain)[N_VOCAB]; /* [N_TEXT] of the text; NULL while they are made */
} rig;

static char directory[PF_TINY_PATH];

static void set_up(rig *r, pf_isa isa, pf_dtype dtype, int32_t n_threads)
{
    pf_error error = { 0 };
    assert_ok(pf_test_team_create(n_threads, &r->team, &error), error);
    static const pf_topology machine = { .n_cores = 1, .n_cpus = 1, .l3_bytes = 1, .memory_bytes = (size_t)1 << 40 };
    const pf_model_options options = {
        .dtype = dtype, .head = PF_HEAD_FULL, .isa = isa, .team = r->team, .machine = &machine
    };
    assert_ok(pf_model_load(directory, &options, &r->model, &error), error);
    const pf_context_config config = { .max_tokens = N_TEXT,
                                       .max_sequences = MAX_SEQUENCES,
                                       .max_rows = N_TEXT,
                                       .max_logit_rows = N_TEXT,
                                       .kv_type = pf_context_default_kv_type(r->model) };
    assert_ok(pf_context_create(r->model, r->team, &config, &r->context, &error), error);
    r->kv = pf_context_kv(r->context);
    for (int32_t i = 0; i < N_TEXT; i++) {
        r->text[i] = (i * 31 + i * i % 11) % N_VOCAB;
        r->other[i] = (i * 17 + i * i % 13) % N_VOCAB;
    }
}

static void tear_down(rig *r)
{
    pf_context_destroy(r->context);
    pf_model_release(r->model);
    pf_team_destroy(r->team);
}

static pf_kv_seq acquire(const rig *r)
{
    pf_kv_seq seq;
    assert_int_equal(pf_kv_acquire(r->kv, &seq), PF_OK);
    return seq;
}

/* Logits [i, N_VOCAB) of the last pass are those behind so many tokens of the text and one more. */
static void assert_plain(const rig *r, int32_t i, int32_t position, const char *how)
{
    if (memcmp(pf_context_logits(r->context, i), r->plain[position], sizeof *r->plain) != 0)
        fail_msg("%s, %s, %s on %d threads: position %d", how, pf_isa_name(pf_model_kernels(r->model)->isa),
                 pf_dtype_name(pf_model_dtype(r->model)), pf_team_size(r->team), position);
}

/* The text in passes that end at ends [n], with the logits of all rows of each or of the last few. */
static void compare_cut(const rig *r, const int32_t *ends, size_t n, int32_t most_logits)
{
    const pf_kv_seq seq = acquire(r);
    int32_t at = 0;
    for (size_t pass = 0; pass < n; at = ends[pass++]) {
        const int32_t n_rows = ends[pass] - at, n_logits = n_rows < most_logits ? n_rows : most_logits;
        const pf_span span = { seq, r->text + at, n_rows, n_logits, NULL, 0 };
        assert_int_equal(pf_context_forward(r->context, &span, 1), PF_OK);
        for (int32_t i = 0; i < n_logits; i++) assert_plain(r, i, ends[pass] - n_logits + i, "cut");
    }
    pf_kv_release(r->kv, seq);
}

/* Another text before it in the pass, and a tree of two chains whose rows take turns. */
static void compare_in_company(const rig *r)
{
    enum { N_OTHER = 211, N_FIRST = 190, N_TREE = 333 };
    const pf_kv_seq other = acquire(r), seq = acquire(r);
    const pf_span first[] = { { other, r->other, N_OTHER, 1, NULL, 0 }, { seq, r->text, N_FIRST, N_FIRST, NULL, 0 } };
    assert_int_equal(pf_context_forward(r->context, first, 2), PF_OK);
    for (int32_t i = 0; i < N_FIRST; i++) assert_plain(r, 1 + i, i, "beside another");

    int32_t tokens[N_TREE], parents[N_TREE];
    for (int32_t i = 0; i < N_TREE; i++) {
        tokens[i] = i % 2 == 0 ? r->text[N_FIRST + i / 2] : r->other[i];
        parents[i] = i < 2 ? -1 : i - 2;
    }
    const pf_span then[] = { { other, r->other, 33, 2, NULL, 0 }, { seq, tokens, N_TREE, N_TREE, parents, 0 } };
    assert_int_equal(pf_context_forward(r->context, then, 2), PF_OK);
    for (int32_t i = 0; i < N_TREE; i += 2) assert_plain(r, 2 + i, N_FIRST + i / 2, "in a tree");
    pf_kv_release(r->kv, seq);
    pf_kv_release(r->kv, other);
}

static void make_plain(rig *r)
{
    const pf_kv_seq seq = acquire(r);
    r->plain = malloc(N_TEXT * sizeof *r->plain);
    assert_non_null(r->plain);
    for (int32_t i = 0; i < N_TEXT; i++) {
        const pf_span span = { seq, r->text + i, 1, 1, NULL, 0 };
        assert_int_equal(pf_context_forward(r->context, &span, 1), PF_OK);
        memcpy(r->plain[i], pf_context_logits(r->context, 0), sizeof *r->plain);
    }
    pf_kv_release(r->kv, seq);
}

static void compare_all(pf_isa isa, pf_dtype dtype)
{
    static const int32_t n_threads[] = { 1, 2, 5, 8 };
    static const int32_t whole[] = { N_TEXT }, parts[] = { 161, 418, 419, 424, N_TEXT };
    rig r = { 0 };
    set_up(&r, isa, dtype, 1);
    make_plain(&r);
    tear_down(&r);
    for (size_t i = 0; i < PF_COUNT(n_threads); i++) {
        set_up(&r, isa, dtype, n_threads[i]);
        compare_cut(&r, whole, PF_COUNT(whole), N_TEXT);
        compare_cut(&r, parts, PF_COUNT(parts), 3);
        compare_in_company(&r);
        tear_down(&r);
    }
    free(r.plain);
}

static void logits_of_long_passes_equal_one_token_a_pass_on_any_number_of_threads(void **state)
{
    (void)state;
    static const pf_dtype dtypes[] = { PF_DTYPE_F32, PF_DTYPE_BF16, PF_DTYPE_INT8, PF_DTYPE_INT4 };
    const pf_isa best = pf_cpu_best_isa();
    pf_tiny_model_create(&WIDE, directory);
    for (size_t d = 0; d < PF_COUNT(dtypes); d++) {
        compare_all(best, dtypes[d]);
        if (best == PF_ISA_AMX && dtypes[d] != PF_DTYPE_F32) compare_all(PF_ISA_AVX512BF16, dtypes[d]);
    }
    pf_tiny_model_remove(directory);
}

static void logits_of_long_passes_do_not_depend_on_threads_where_heads_divide_evenly(void **state)
{
    (void)state;
    pf_tiny_model_create(&PARTED, directory);
    compare_all(pf_cpu_best_isa(), PF_DTYPE_BF16);
    compare_all(pf_cpu_best_isa(), PF_DTYPE_INT8);
    pf_tiny_model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_of_long_passes_equal_one_token_a_pass_on_any_number_of_threads),
        cmocka_unit_test(logits_of_long_passes_do_not_depend_on_threads_where_heads_divide_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
