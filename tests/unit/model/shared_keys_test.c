/* Members that share the keys of an item, few rows behind many positions: the bits of one thread, which shares none. */
#include <stdlib.h>

#include "model/forward/pass.h"
#include "tests/support/test.h"
#include "tests/support/threading.h"
#include "tests/support/tiny_model.h"

enum { CONTEXT = 4180, AT_ONCE = 110, N_ROWS = 9, N_PASSES = 4, MAX_TOKENS = 4300, MAX_SEQUENCES = 2 };

static char directory[PF_TINY_PATH];

/* Four heads of one key head, and of two. */
static const pf_tiny_model SHAPES[] = {
    { .hidden = 64,
      .layers = 2,
      .heads = 4,
      .kv_heads = 1,
      .head_dim = 16,
      .intermediate = 96,
      .vocab = 90,
      .max_position = MAX_TOKENS,
      .seed = 6 },
    { .hidden = 72,
      .layers = 2,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 20,
      .intermediate = 50,
      .vocab = 97,
      .max_position = MAX_TOKENS,
      .seed = 8 },
};

typedef struct {
    pf_team *team;
    pf_model *model;
    pf_context *context;
    int32_t n_vocab;
} rig;

static void set_up(rig *r, pf_isa isa, pf_dtype dtype, int32_t n_threads)
{
    pf_error error = { 0 };
    *r = (rig){ 0 };
    if (pf_test_team_create(n_threads, &r->team, &error) != PF_OK) fail_msg("%s", error.text);
    const pf_model_options options = { .dtype = dtype, .isa = isa, .team = r->team };
    if (pf_model_load(directory, &options, &r->model, &error) != PF_OK) fail_msg("%s", error.text);
    const pf_context_config config = { .max_tokens = MAX_TOKENS,
                                       .max_sequences = MAX_SEQUENCES,
                                       .max_rows = AT_ONCE,
                                       .max_logit_rows = N_ROWS,
                                       .kv_type = pf_context_default_kv_type(r->model) };
    if (pf_context_create(r->model, r->team, &config, &r->context, &error) != PF_OK) fail_msg("%s", error.text);
    r->n_vocab = pf_context_n_vocab(r->context);
}

static void tear_down(rig *r)
{
    pf_context_destroy(r->context);
    pf_model_release(r->model);
    pf_team_destroy(r->team);
}

static pf_kv_seq read_context(rig *r)
{
    pf_kv_seq seq;
    int32_t tokens[CONTEXT];
    assert_int_equal(pf_kv_acquire(pf_context_kv(r->context), &seq), PF_OK);
    for (int32_t i = 0; i < CONTEXT; i++) tokens[i] = (i * 31 + i * i % 11) % r->n_vocab;
    for (int32_t i = 0; i < CONTEXT; i += AT_ONCE) {
        const pf_span span = { seq, tokens + i, AT_ONCE, 0, NULL, 0 };
        assert_int_equal(pf_context_forward(r->context, &span, 1), PF_OK);
    }
    return seq;
}

/* Logits of the rows of some passes behind the context, each of which is forgotten again: one row, several, and a tree.
 * [N_PASSES, N_ROWS, n_vocab] */
static float *logits_behind(rig *r, pf_kv_seq seq)
{
    static const int32_t n_rows[N_PASSES] = { 1, 5, N_ROWS, N_ROWS }, parents[N_ROWS] = { -1, 0, 1, 1, -1, 4, 2, 0, 7 };
    const size_t row = (size_t)r->n_vocab;
    float *logits = calloc((size_t)N_PASSES * N_ROWS * row, sizeof *logits);
    int32_t tokens[N_ROWS];
    assert_non_null(logits);
    for (int32_t i = 0; i < N_ROWS; i++) tokens[i] = (i * 7 + 3) % r->n_vocab;
    for (int32_t p = 0; p < N_PASSES; p++) {
        const bool is_tree = p == N_PASSES - 1;
        const pf_span span = { seq, tokens, n_rows[p], n_rows[p], is_tree ? parents : NULL, 0 };
        assert_int_equal(pf_context_forward(r->context, &span, 1), PF_OK);
        for (int32_t i = 0; i < n_rows[p]; i++)
            memcpy(logits + (size_t)(p * N_ROWS + i) * row, pf_context_logits(r->context, i), row * sizeof *logits);
        assert_int_equal(pf_kv_truncate(pf_context_kv(r->context), seq, CONTEXT), PF_OK);
    }
    return logits;
}

/* Of keys that were never written. */
static void mark_parts(rig *r)
{
    memset(r->context->attention_parts, 0xFF, r->context->n_attention_parts * sizeof(float));
}

static bool has_parts(const rig *r)
{
    uint32_t first = UINT32_MAX;
    memcpy(&first, r->context->attention_parts, sizeof first);
    return first != UINT32_MAX;
}

static void compare(pf_isa isa, pf_dtype dtype, int32_t n_kv_heads)
{
    rig one;
    set_up(&one, isa, dtype, 1);
    assert_int_equal(one.context->n_attention_parts, 0);
    float *expected = logits_behind(&one, read_context(&one));
    const size_t n = (size_t)N_PASSES * N_ROWS * (size_t)one.n_vocab;
    tear_down(&one);
    for (int32_t n_threads = 2; n_threads <= 6; n_threads++) {
        rig r;
        set_up(&r, isa, dtype, n_threads);
        assert_int_equal(r.context->n_attention_parts != 0, n_threads > n_kv_heads);
        const pf_kv_seq seq = read_context(&r);
        if (r.context->n_attention_parts > 0) mark_parts(&r);
        float *logits = logits_behind(&r, seq);
        if (n_threads > 2 * n_kv_heads) assert_true(has_parts(&r)); /* with fewer it does not pay */
        if (memcmp(logits, expected, n * sizeof *logits) != 0)
            fail_msg("%s, %s, %d key heads on %d threads: not the bits of one thread", pf_isa_name(isa),
                     pf_dtype_name(dtype), n_kv_heads, n_threads);
        free(logits);
        tear_down(&r);
    }
    free(expected);
}

static void logits_after_many_positions_do_not_depend_on_which_threads_share_the_keys(void **state)
{
    (void)state;
    const pf_isa best = pf_cpu_best_isa();
    for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++) {
        pf_tiny_model_create(&SHAPES[s], directory);
        compare(best, s == 0 ? PF_DTYPE_F32 : PF_DTYPE_BF16, SHAPES[s].kv_heads);
        pf_tiny_model_remove(directory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_after_many_positions_do_not_depend_on_which_threads_share_the_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
