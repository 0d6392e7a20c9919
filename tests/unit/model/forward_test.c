/*
 * Row invariance, the promise that everything above rests on: a token's logits are a function of the tokens before it.
 * Each test computes the logits of one text plainly, one token a pass on one thread, and then in another way, and
 * compares bits.
 */
#include <math.h>
#include <stdlib.h>

#include "kernels/gemm/onednn/gemm_onednn.h"
#include "model/forward/pass.h"
#include "tests/support/alloc_count.h"
#include "tests/support/forward_rig.h"
#include "tests/support/resident.h"
#include "tests/support/test.h"
#include "tests/support/threading.h"
#include "tests/support/tiny_model.h"

enum { MOST_THREADS = 8 };

static char directory[PF_TINY_PATH];

/* The shape has odd sizes everywhere: nothing is a multiple of a tile, a panel or a register. */
static const pf_tiny_model ODD = {
    .hidden = 72, .layers = 2, .heads = 6, .kv_heads = 3, .head_dim = 20, .intermediate = 100, .vocab = 97, .seed = 5
};
static const pf_tiny_model MQA = { .hidden = 64,
                                   .layers = 2,
                                   .heads = 4,
                                   .kv_heads = 1,
                                   .head_dim = 16,
                                   .intermediate = 96,
                                   .vocab = 130,
                                   .tied = true,
                                   .attention_bias = true,
                                   .mlp_bias = true,
                                   .seed = 6 };

/* Heads that part evenly over two members, in whole panels, and do not over three. */
static const pf_tiny_model PARTED = {
    .hidden = 72, .layers = 2, .heads = 4, .kv_heads = 2, .head_dim = 32, .intermediate = 100, .vocab = 97, .seed = 8
};

static void set_up_with(rig *r, pf_model_options options, int32_t n_threads)
{
    rig_open(r, directory, options, n_threads);
}

static void set_up_acting(rig *r, pf_isa isa, pf_dtype dtype, pf_activations activations, int32_t n_threads)
{
    set_up_with(r, (pf_model_options){ .dtype = dtype, .activations = activations, .isa = isa }, n_threads);
}

static void set_up(rig *r, pf_isa isa, pf_dtype dtype, int32_t n_threads)
{
    set_up_acting(r, isa, dtype, PF_ACTIVATIONS_AUTO, n_threads);
}

/* Let passes be run by fewer members than all, down to one; may_back_off: because others compute on their cores, too. */
static void let_fewer_run(rig *r, bool may_back_off)
{
    pf_error error = { 0 };
    pf_context_config config = *pf_context_get_config(r->context);
    config.fewest_members = 1;
    config.may_back_off = may_back_off;
    pf_context_destroy(r->context);
    if (pf_context_create(r->model, r->team, &config, &r->context, &error) != PF_OK) fail_msg("%s", error.text);
    r->kv = pf_context_kv(r->context);
}

/* All later passes run on the threads of one level. */
static void stay_on(rig *r, int32_t level)
{
    pf_thread_count *count = &r->context->thread_count;
    count->trial.level = 0;
    count->trial.until_trial = INT32_MAX;
    count->of_few = count->of_many =
        (pf_backoff){ .state = PF_BACKOFF_HELD, .best = level, .level = level, .held_left = INT32_MAX };
}

/* Run a claim for both arithmetics; on every instruction set of this machine, with several threads on the best one, since
 * how they share does not depend on it. `plain` is one thread's. */
static void for_arithmetics_of(const pf_tiny_model *shape, int32_t n_threads, void (*claim)(rig *r, const float *plain))
{
    const pf_isa best = pf_cpu_best_isa();
    const pf_dtype dtypes[] = { PF_DTYPE_F32, PF_DTYPE_BF16 };
    pf_tiny_model_create(shape, directory);
    for (int isa = n_threads > 1 ? (int)best : 0; isa <= (int)best; isa++) {
        for (size_t d = 0; d < 2; d++) {
            rig one, r;
            set_up(&one, (pf_isa)isa, dtypes[d], 1);
            float *plain = plain_logits(&one);
            tear_down(&one);
            set_up(&r, (pf_isa)isa, dtypes[d], n_threads);
            claim(&r, plain);
            tear_down(&r);
            free(plain);
        }
    }
    pf_tiny_model_remove(directory);
}

static void for_all_arithmetics(int32_t n_threads, void (*claim)(rig *r, const float *plain))
{
    for_arithmetics_of(&ODD, n_threads, claim);
    for_arithmetics_of(&MQA, n_threads, claim);
}

/* ---- row invariance -------------------------------------------------------------------------------------------- */

static void logits_do_not_depend_on_how_the_prompt_is_cut(void **state)
{
    (void)state;
    for_all_arithmetics(1, compare_cuts);
}

static void compare_decode(rig *r, const float *plain)
{
    compare_cut(r, plain, 55, 1);
}

static void logits_do_not_depend_on_the_number_of_threads(void **state)
{
    (void)state;
    for_all_arithmetics(2, compare_cuts);
    for_all_arithmetics(2, compare_decode);
    for_all_arithmetics(3, compare_cuts);
}

/* The first passes are a trial: by all members, by half of them and so on down to one, in one sequence. */
static void compare_thread_counts(rig *r, const float *plain)
{
    const int32_t n_threads = pf_team_size(r->team);
    int32_t tokens[RIG_TEXT], n_passes[MOST_THREADS + 1] = { 0 };
    let_fewer_run(r, false); /* a backoff would keep passes from the trial */
    make_text(r, 0, tokens);
    float *logits = new_logits(r);
    const pf_kv_seq seq = acquire(r);
    for (int32_t i = 0; i < RIG_TEXT; i++) {
        n_passes[pf_thread_count_next(&r->context->thread_count, 1)]++;
        feed(r, seq, tokens, i, i + 1, logits + (size_t)i * (size_t)r->n_vocab);
    }
    for (int32_t n = 1; n <= n_threads; n *= 2) assert_true(n_passes[n] >= PF_TRIAL_SAMPLES);
    assert_same_logits(r, logits, plain, 0, RIG_TEXT, "by all members, and by fewer");
    pf_kv_release(r->kv, seq);
    free(logits);
}

/* On the threads of each level. */
static void compare_levels(rig *r, const float *plain)
{
    let_fewer_run(r, true);
    for (int32_t level = 0; level < r->context->thread_count.trial.n_levels; level++) {
        stay_on(r, level);
        compare_cut(r, plain, 33, 1);
        compare_cut(r, plain, 14, 15);
        compare_cut(r, plain, 40, 7);
    }
}

static void logits_do_not_depend_on_the_number_of_active_threads(void **state)
{
    (void)state;
    for_all_arithmetics(2, compare_thread_counts);
    for_all_arithmetics(MOST_THREADS, compare_thread_counts);
    for_arithmetics_of(&PARTED, 4, compare_levels); /* heads are apart where two run it, or one */
    for_all_arithmetics(5, compare_levels);
    for_all_arithmetics(MOST_THREADS, compare_levels);
}

/* Every format with everything that it may be multiplied with, on every instruction set: one token a pass on one thread
 * against passes of many rows on one and on two. */
static void logits_of_every_format_depend_neither_on_cuts_nor_on_threads(void **state)
{
    (void)state;
    const pf_isa best = pf_cpu_best_isa();
    pf_tiny_model_create(&ODD, directory);
    for (int isa = 0; isa <= (int)best; isa++)
        for (int f = PF_FORMAT_BF16_12; f < PF_N_FORMATS; f++)
            for (int act = 0; act < PF_N_ACTS; act++) {
                if (!pf_format_takes((pf_format)f, (pf_act)act)) continue;
                const pf_dtype dtype = pf_dtype_of((pf_format)f);
                const pf_activations activations = (pf_activations)(PF_ACTIVATIONS_ACTS + act);
                rig r;
                set_up_acting(&r, (pf_isa)isa, dtype, activations, 1);
                float *plain = plain_logits(&r);
                compare_cut(&r, plain, RIG_TEXT, 1);
                compare_cut(&r, plain, 33, 17);
                tear_down(&r);
                set_up_acting(&r, (pf_isa)isa, dtype, activations, 2);
                compare_cut(&r, plain, 41, 3);
                compare_cut(&r, plain, 8, 8);
                tear_down(&r);
                free(plain);
            }
    pf_tiny_model_remove(directory);
}

/* So wide that two members take panels of gate and up, and of down, in pieces (forward.c). Not by an emulated AMX, which
 * would take a while. */
static void logits_do_not_depend_on_which_thread_takes_which_panels(void **state)
{
    (void)state;
    static const pf_dtype dtypes[] = { PF_DTYPE_F32, PF_DTYPE_BF16, PF_DTYPE_INT8, PF_DTYPE_INT4 };
    const pf_isa isa = pf_cpu_best_isa() == PF_ISA_AMX ? PF_ISA_AVX512BF16 : pf_cpu_best_isa();
    pf_tiny_model_create(&(pf_tiny_model){ .hidden = 256, .layers = 1, .intermediate = 16000, .seed = 9 }, directory);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        rig one, two;
        set_up(&one, isa, dtypes[d], 1);
        float *plain = plain_logits(&one);
        tear_down(&one);
        set_up(&two, isa, dtypes[d], 2);
        for (int i = 0; i < 3; i++) compare_cut(&two, plain, RIG_TEXT, 1);
        tear_down(&two);
        free(plain);
    }
    pf_tiny_model_remove(directory);
}

/* ---- another library's products --------------------------------------------------------------------------------- */

/* The logits of a pass of many rows and then of passes of few are `plain` but for the rounding of sums in another order:
 * root mean squares, of all that differs and of all. */
static void compare_within(rig *r, const float *plain, double tolerance)
{
    int32_t tokens[RIG_TEXT];
    make_text(r, 0, tokens);
    float *logits = new_logits(r);
    const pf_kv_seq seq = acquire(r);
    for (int32_t at = 0, n = 40; at < RIG_TEXT; at += n, n = 1 + at % 7) {
        if (n > RIG_TEXT - at) n = RIG_TEXT - at;
        feed(r, seq, tokens, at, at + n, logits + (size_t)at * (size_t)r->n_vocab);
    }
    for (int32_t i = 0; i < RIG_TEXT; i++) {
        double different = 0.0, all = 0.0;
        for (int32_t v = 0; v < r->n_vocab; v++) {
            const double ours = (double)plain[(size_t)i * (size_t)r->n_vocab + (size_t)v];
            const double theirs = (double)logits[(size_t)i * (size_t)r->n_vocab + (size_t)v];
            different += (theirs - ours) * (theirs - ours);
            all += ours * ours;
        }
        if (!(sqrt(different / all) <= tolerance))
            fail_msg("%s on %d threads, position %d: off by %.2g of the logits, at most %.2g expected",
                     pf_dtype_name(pf_model_dtype(r->model)), pf_team_size(r->team), i, sqrt(different / all),
                     tolerance);
    }
    pf_kv_release(r->kv, seq);
    free(logits);
}

static void onednn_logits_equal_our_own_within_rounding_on_any_number_of_threads(void **state)
{
    (void)state;
    int32_t n_products = 0;
    pf_tiny_model_create(&PARTED, directory);
    for (int i = 0; i < PF_N_FORMATS * (int)PF_N_ACTS; i++) {
        const pf_format f = (pf_format)(i / PF_N_ACTS);
        const pf_act act = (pf_act)(i % PF_N_ACTS);
        if (pf_onednn_check(f, act, NULL) != PF_OK) continue;
        n_products++;
        const bool widened = pf_format_get(f)->bits < 16 && act == PF_ACT_BF16; /* weights rounded here, not there */
        const double tolerance = f == PF_FORMAT_F32 ? 1e-5 : widened ? 0.04 : 0.02;
        pf_model_options options = { .dtype = pf_dtype_of(f),
                                     .activations = (pf_activations)(PF_ACTIVATIONS_ACTS + (int)act),
                                     .isa = pf_cpu_best_isa() };
        rig r;
        set_up_with(&r, options, 1);
        float *plain = plain_logits(&r);
        tear_down(&r);
        options.backend = PF_BACKEND_ONEDNN;
        for (int32_t n_threads = 1; n_threads <= 4; n_threads++) {
            set_up_with(&r, options, n_threads);
            let_fewer_run(&r, true);
            for (int32_t level = 0; level < r.context->thread_count.trial.n_levels; level++) {
                stay_on(&r, level);
                compare_within(&r, plain, tolerance);
            }
            tear_down(&r);
        }
        free(plain);
    }
    pf_tiny_model_remove(directory);
    if (n_products == 0) skip();
}

/* ---- sequences side by side -------------------------------------------------------------------------------------- */

static void logits_of_a_screened_head_depend_neither_on_cuts_nor_on_threads(void **state)
{
    (void)state;
    const pf_tiny_model shapes[] = { ODD, MQA };
    static const pf_dtype dtypes[] = { PF_DTYPE_BF16, PF_DTYPE_INT8, PF_DTYPE_INT4 };
    for (size_t s = 0; s < 2; s++) {
        pf_tiny_model_create(&shapes[s], directory);
        for (int isa = 0; isa <= (int)pf_cpu_best_isa(); isa++)
            for (size_t d = 0; d < 3; d++) {
                const pf_model_options options = { .dtype = dtypes[d], .head = PF_HEAD_SCREENED, .isa = (pf_isa)isa };
                rig r;
                set_up_with(&r, options, 1);
                float *plain = plain_logits(&r);
                compare_cuts(&r, plain);
                compare_in_company(&r, plain);
                tear_down(&r);
                set_up_with(&r, options, 2);
                compare_cuts(&r, plain);
                tear_down(&r);
                free(plain);
            }
        pf_tiny_model_remove(directory);
    }
}

static void logits_do_not_depend_on_other_sequences_in_the_pass(void **state)
{
    (void)state;
    for_all_arithmetics(1, compare_in_company);
    for_all_arithmetics(2, compare_in_company);
}

static void logits_after_rollback_and_fork_equal_a_straight_run(void **state)
{
    (void)state;
    for_all_arithmetics(1, compare_after_detours);
    for_all_arithmetics(2, compare_after_detours);
}

/* ---- draft trees ----------------------------------------------------------------------------------------------- */

static void logits_in_a_tree_equal_the_chain_of_each_path(void **state)
{
    (void)state;
    for_all_arithmetics(1, compare_trees);
    for_all_arithmetics(2, compare_trees);
}

/* The negative control of all the above: another token somewhere before changes the logits, another one after does not. */
static void logits_depend_on_every_token_before_and_on_none_after(void **state)
{
    (void)state;
    pf_tiny_model_create(&ODD, directory);
    rig r;
    set_up(&r, pf_cpu_best_isa(), PF_DTYPE_F32, 1);
    float *plain = plain_logits(&r), *logits = new_logits(&r);
    const size_t row_bytes = (size_t)r.n_vocab * sizeof *plain;
    for (int32_t changed = 0; changed < RIG_TEXT; changed += 12) {
        int32_t tokens[RIG_TEXT];
        make_text(&r, 0, tokens);
        tokens[changed] = (tokens[changed] + 1) % r.n_vocab;
        const pf_kv_seq seq = acquire(&r);
        feed(&r, seq, tokens, 0, RIG_TEXT, logits);
        pf_kv_release(r.kv, seq);
        for (int32_t i = 0; i < RIG_TEXT; i++) {
            const size_t at = (size_t)i * (size_t)r.n_vocab;
            assert_int_equal(memcmp(logits + at, plain + at, row_bytes) != 0, i >= changed);
        }
    }
    free(logits);
    free(plain);
    tear_down(&r);
    pf_tiny_model_remove(directory);
}

static void prefill_in_chunks_gives_the_logits_of_the_last_row(void **state)
{
    (void)state;
    pf_tiny_model_create(&ODD, directory);
    rig r;
    set_up(&r, pf_cpu_best_isa(), PF_DTYPE_BF16, 2);
    int32_t tokens[2 * RIG_TEXT];
    make_text(&r, 0, tokens);
    make_text(&r, 1, tokens + RIG_TEXT);
    const pf_kv_seq a = acquire(&r), b = acquire(&r);
    float *logits = new_logits(&r);
    feed(&r, a, tokens, 0, RIG_TEXT, logits);
    feed(&r, a, tokens, RIG_TEXT, 2 * RIG_TEXT, logits);
    assert_int_equal(pf_context_prefill(r.context, b, tokens, 2 * RIG_TEXT, true), PF_OK); /* 150 rows, 80 a pass */
    assert_int_equal(pf_kv_length(r.kv, b), 2 * RIG_TEXT);
    assert_memory_equal(pf_context_logits(r.context, 0), logits + (size_t)(RIG_TEXT - 1) * (size_t)r.n_vocab,
                        (size_t)r.n_vocab * sizeof *logits);
    free(logits);
    tear_down(&r);
    pf_tiny_model_remove(directory);
}

/* Behind a hypervisor a first token would else wait for milliseconds. */
static void the_memory_of_a_first_pass_is_touched_at_creation(void **state)
{
    (void)state;
    needs_populating();
    pf_tiny_model_create(&ODD, directory);
    rig r;
    set_up(&r, PF_ISA_SCALAR, PF_DTYPE_F32, 2);
    const pf_context *c = r.context;
    const void *written[] = { c->x.data,        c->qkv.data, c->attended.data, c->gate.data,      c->up.data,
                              c->gated_columns, c->input,    c->logits.data,   c->members[1].gemm };
    for (size_t i = 0; i < PF_COUNT(written); i++)
        if (written[i] && !is_resident(written[i])) fail_msg("buffer %zu is not there", i);
    const pf_kv_seq seq = acquire(&r);
    assert_int_equal(pf_kv_extend(r.kv, seq, 1), PF_OK);
    for (int32_t layer = 0; layer < ODD.layers; layer++) {
        const pf_kv_view view = pf_kv_layer(r.kv, seq, layer);
        assert_true(is_resident(view.key_pages[0]) && is_resident(view.value_pages[0]));
    }
    tear_down(&r);
    pf_tiny_model_remove(directory);
}

static void a_pass_allocates_nothing(void **state)
{
    (void)state;
    pf_tiny_model_create(&ODD, directory);
    rig r;
    pf_alloc_count_reset();
    set_up(&r, pf_cpu_best_isa(), PF_DTYPE_BF16, 2);
    assert_true(pf_alloc_count() > 0); /* what is made before is counted */
    int32_t tokens[RIG_TEXT];
    make_text(&r, 0, tokens);
    const pf_kv_seq seq = acquire(&r);
    pf_alloc_count_reset();
    assert_int_equal(pf_context_prefill(r.context, seq, tokens, RIG_TEXT, true), PF_OK);
    for (int32_t i = 0; i < 40; i++) {
        const pf_span span = { seq, tokens + i, 1 + i % 3, 1, NULL, 0 };
        assert_int_equal(pf_context_forward(r.context, &span, 1), PF_OK);
        assert_int_equal(pf_kv_truncate(r.kv, seq, RIG_TEXT + i), PF_OK);
    }
    assert_int_equal(pf_alloc_count(), 0);
    tear_down(&r);
    pf_tiny_model_remove(directory);
}

/* ---- refusals -------------------------------------------------------------------------------------------------- */

enum { N_FED = 40 };

/* Two sequences, of which `a` has its first N_FED tokens, and the logits that a plain run gives. */
typedef struct {
    rig rig;
    float *plain, *logits; /* [RIG_TEXT, n_vocab] */
    int32_t tokens[RIG_TEXT], zeros[RIG_ROWS + 1];
    pf_kv_seq a, b;
} refusals;

static void open_refusals(refusals *f)
{
    pf_tiny_model_create(&ODD, directory);
    *f = (refusals){ 0 };
    rig *r = &f->rig;
    set_up(r, pf_cpu_best_isa(), PF_DTYPE_F32, 1);
    f->plain = plain_logits(r);
    f->logits = new_logits(r);
    make_text(r, 0, f->tokens);
    f->a = acquire(r);
    f->b = acquire(r);
    feed(r, f->a, f->tokens, 0, N_FED, f->logits);
}

/* Once all refusals are over, `a` goes on as if nothing had been asked. */
static void close_refusals(refusals *f)
{
    rig *r = &f->rig;
    feed(r, f->a, f->tokens, N_FED, RIG_TEXT, f->logits + (size_t)N_FED * (size_t)r->n_vocab);
    assert_same_logits(r, f->logits, f->plain, 0, RIG_TEXT, "after refusals");
    free(f->logits);
    free(f->plain);
    tear_down(r);
    pf_tiny_model_remove(directory);
}

static void a_refused_pass_leaves_everything_as_before(void **state)
{
    (void)state;
    refusals f;
    open_refusals(&f);
    rig *r = &f.rig;
    const pf_kv_seq a = f.a, b = f.b, gone = acquire(r);
    pf_kv_release(r->kv, gone);
    const size_t free_pages = pf_kv_free_pages(r->kv);

    const int32_t *tokens = f.tokens, negative = -1, beyond = r->n_vocab;
    const int32_t itself[] = { -1, 1 }, below[] = { -2, 0 };
    const pf_span refused[][2] = {
        { { b, tokens, 3, 1, NULL, 0 }, { a, &beyond, 1, 1, NULL, 0 } }, /* a token outside the vocabulary */
        { { b, tokens, 3, 1, NULL, 0 }, { a, &negative, 1, 1, NULL, 0 } },
        { { b, tokens, 3, 1, NULL, 0 }, { gone, tokens, 1, 1, NULL, 0 } },      /* a sequence that is not alive */
        { { b, tokens, 3, 1, NULL, 0 }, { b, tokens, 1, 1, NULL, 0 } },         /* one sequence twice */
        { { b, f.zeros, RIG_ROWS, 1, NULL, 0 }, { a, tokens, 1, 1, NULL, 0 } }, /* too many rows */
        { { b, tokens, 3, 1, NULL, 0 }, { a, tokens, 0, 0, NULL, 0 } },         /* no token */
        { { b, tokens, 3, 1, NULL, 0 }, { a, tokens, 1, 2, NULL, 0 } },         /* more logits than rows */
        { { b, tokens, 3, 1, NULL, 0 }, { a, tokens, 1, -1, NULL, 0 } },
        { { b, tokens, 3, 1, NULL, 0 }, { a, tokens, 2, 1, itself, 0 } }, /* a parent that is no row before */
        { { b, tokens, 3, 1, NULL, 0 }, { a, tokens, 2, 1, below, 0 } },
        { { b, tokens, 3, 1, NULL, 0 },
          { a, tokens, 1, 1, NULL, -1 } }, /* a best of less than none, of more than all */
        { { b, tokens, 3, 1, NULL, 0 }, { a, tokens, 1, 1, NULL, beyond + 1 } },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (pf_context_forward(r->context, refused[i], 2) != PF_INVALID) fail_msg("case %zu was not refused", i);
        assert_int_equal(pf_kv_length(r->kv, a), N_FED);
        assert_int_equal(pf_kv_length(r->kv, b), 0);
        assert_int_equal(pf_kv_free_pages(r->kv), free_pages);
    }
    close_refusals(&f);
}

static void a_pass_in_which_one_sequence_is_full_leaves_the_others_as_before(void **state)
{
    (void)state;
    refusals f;
    open_refusals(&f);
    rig *r = &f.rig;
    for (int32_t length = 0; length < RIG_TOKENS; length += RIG_ROWS)
        assert_int_equal(pf_context_prefill(r->context, f.b, f.zeros, RIG_ROWS, false), PF_OK);
    assert_int_equal(pf_kv_length(r->kv, f.b), RIG_TOKENS);
    const pf_span spans[] = { { f.a, f.tokens + N_FED, 20, 1, NULL, 0 }, { f.b, f.tokens, 1, 1, NULL, 0 } };
    assert_int_equal(pf_context_forward(r->context, spans, 2), PF_LIMIT);
    assert_int_equal(pf_kv_length(r->kv, f.a), N_FED);
    assert_int_equal(pf_kv_length(r->kv, f.b), RIG_TOKENS);
    close_refusals(&f);
}

static void a_prefill_that_stops_or_does_not_fit_leaves_everything_as_before(void **state)
{
    (void)state;
    refusals f;
    open_refusals(&f);
    rig *r = &f.rig;
    const volatile bool told = true;
    pf_stop stop = { .told = &told };
    pf_context_set_stop(r->context, &stop);
    const pf_span spans[] = { { f.a, f.tokens + N_FED, 20, 1, NULL, 0 }, { f.b, f.tokens, 3, 1, NULL, 0 } };
    assert_int_equal(pf_context_forward(r->context, spans, 2), PF_CANCELLED);
    assert_int_equal(pf_context_prefill(r->context, f.a, f.tokens, 20, true), PF_CANCELLED);
    assert_int_equal(pf_kv_length(r->kv, f.a), N_FED);
    assert_int_equal(pf_kv_length(r->kv, f.b), 0);
    pf_context_set_stop(r->context, NULL);
    assert_int_equal(pf_context_prefill(r->context, f.a, f.zeros, RIG_ROWS, true), PF_OK);
    assert_int_equal(pf_context_prefill(r->context, f.a, f.zeros, RIG_ROWS, true), PF_LIMIT);
    assert_int_equal(pf_kv_length(r->kv, f.a), N_FED + RIG_ROWS);
    assert_int_equal(pf_kv_truncate(r->kv, f.a, N_FED), PF_OK);
    f.zeros[RIG_ROWS] = r->n_vocab; /* in the second pass: the first is undone */
    assert_int_equal(pf_context_prefill(r->context, f.a, f.zeros, RIG_ROWS + 1, true), PF_INVALID);
    assert_int_equal(pf_kv_length(r->kv, f.a), N_FED);
    close_refusals(&f);
}

static void a_context_out_of_range_is_refused_with_a_sentence(void **state)
{
    (void)state;
    pf_tiny_model_create(&ODD, directory);
    rig r;
    set_up(&r, PF_ISA_SCALAR, PF_DTYPE_F32, 1);
    const pf_context_config good = { .max_sequences = 1, .max_rows = 8, .max_logit_rows = 8, .kv_type = PF_TYPE_F32 };
    struct {
        pf_context_config config;
        pf_status status;
        const char *says;
    } cases[] = { { good, PF_INVALID, "513" },      { good, PF_INVALID, "max_sequences" },
                  { good, PF_INVALID, "max_rows" }, { good, PF_INVALID, "logit_rows" },
                  { good, PF_INVALID, "KV type" },  { good, PF_LIMIT, "for 1 sequence of " } };
    cases[0].config.max_tokens = 513;
    cases[1].config.max_sequences = 0;
    cases[2].config.max_rows = 0;
    cases[3].config.max_logit_rows = 9;
    cases[4].config.kv_type = PF_TYPE_F16;
    cases[5].config.kv_budget_bytes = SIZE_MAX / 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pf_context *context = NULL;
        pf_error error = { 0 };
        assert_int_equal(pf_context_create(r.model, r.team, &cases[i].config, &context, &error), cases[i].status);
        assert_null(context);
        if (strstr(error.text, cases[i].says) == NULL) fail_msg("\"%s\" does not say %s", error.text, cases[i].says);
    }
    tear_down(&r);
    pf_tiny_model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_do_not_depend_on_how_the_prompt_is_cut),
        cmocka_unit_test(logits_do_not_depend_on_the_number_of_threads),
        cmocka_unit_test(logits_do_not_depend_on_the_number_of_active_threads),
        cmocka_unit_test(logits_of_every_format_depend_neither_on_cuts_nor_on_threads),
        cmocka_unit_test(logits_of_a_screened_head_depend_neither_on_cuts_nor_on_threads),
        cmocka_unit_test(logits_do_not_depend_on_which_thread_takes_which_panels),
        cmocka_unit_test(onednn_logits_equal_our_own_within_rounding_on_any_number_of_threads),
        cmocka_unit_test(logits_do_not_depend_on_other_sequences_in_the_pass),
        cmocka_unit_test(logits_after_rollback_and_fork_equal_a_straight_run),
        cmocka_unit_test(logits_in_a_tree_equal_the_chain_of_each_path),
        cmocka_unit_test(logits_depend_on_every_token_before_and_on_none_after),
        cmocka_unit_test(prefill_in_chunks_gives_the_logits_of_the_last_row),
        cmocka_unit_test(the_memory_of_a_first_pass_is_touched_at_creation),
        cmocka_unit_test(a_pass_allocates_nothing),
        cmocka_unit_test(a_refused_pass_leaves_everything_as_before),
        cmocka_unit_test(a_pass_in_which_one_sequence_is_full_leaves_the_others_as_before),
        cmocka_unit_test(a_prefill_that_stops_or_does_not_fit_leaves_everything_as_before),
        cmocka_unit_test(a_context_out_of_range_is_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
