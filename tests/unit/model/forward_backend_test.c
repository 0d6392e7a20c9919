/* The CPU context as a forward backend, and spans gathered into passes. */
#include "model/backend/cpu_backend.h"

#include <stdio.h>

#include "model/backend/span_batch.h"
#include "tests/support/test.h"
#include "tests/support/tiny_side.h"

enum { V = 128, N = 6 };

static const pf_tiny_model MODEL = { .seed = 41 };
static const int32_t TOKENS[N] = { 9, 8, 7, 6, 5, 4 };

static void run_tokens(const pf_forward_backend *b, int64_t sequence, const int32_t *tokens, int32_t n)
{
    const pf_span span = { .sequence = sequence, .tokens = tokens, .n_tokens = n, .n_logits = 1 };
    assert_status(pf_forward_run(b, &span, 1), PF_OK);
}

static void a_fork_goes_on_from_its_prefix_as_the_whole_sequence_does(void **state)
{
    (void)state;
    pf_tiny_side side = pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ .max_sequences = 2 });
    const pf_forward_backend b = pf_cpu_backend(side.context);
    assert_int_equal(b.limits.n_vocab, V);
    assert_int_equal(b.limits.max_sequences, 2);
    int64_t whole, fork;
    float expected[V];
    assert_status(pf_forward_acquire(&b, &whole), PF_OK);
    run_tokens(&b, whole, TOKENS, N);
    memcpy(expected, pf_forward_logits(&b, 0), sizeof expected);
    assert_status(pf_forward_fork(&b, whole, N - 2, &fork), PF_OK);
    assert_int_equal(pf_forward_length(&b, fork), N - 2);
    run_tokens(&b, fork, TOKENS + N - 2, 2);
    assert_memory_equal(pf_forward_logits(&b, 0), expected, sizeof expected);
    assert_int_equal(pf_forward_best(&b, 0, V), b.kernels->argmax(expected, V));
    int64_t third;
    assert_int_equal(pf_forward_acquire(&b, &third), PF_LIMIT);
    pf_forward_release(&b, fork);
    assert_status(pf_forward_truncate(&b, whole, N - 1), PF_OK);
    run_tokens(&b, whole, TOKENS + N - 1, 1);
    assert_memory_equal(pf_forward_logits(&b, 0), expected, sizeof expected);
    pf_tiny_side_close(&side);
}

static void what_new_tokens_share_with_the_held_ones_stays(void **state)
{
    (void)state;
    pf_tiny_side side = pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ .max_sequences = 1 });
    const pf_forward_backend b = pf_cpu_backend(side.context);
    int64_t sequence;
    assert_status(pf_forward_acquire(&b, &sequence), PF_OK);
    run_tokens(&b, sequence, TOKENS, 4); /* of six tokens, four are held */
    const int32_t other[] = { 7, 6, 5 }, wrong[] = { 7, 9 };
    assert_int_equal(pf_forward_count_shared(&b, sequence, TOKENS, 0, TOKENS, N), 4);
    assert_int_equal(pf_forward_count_shared(&b, sequence, TOKENS, 0, TOKENS, 3), 3);
    assert_int_equal(pf_forward_count_shared(&b, sequence, TOKENS, 2, other, 3), 4);
    assert_int_equal(pf_forward_count_shared(&b, sequence, TOKENS, 2, wrong, 2), 3);
    assert_int_equal(pf_forward_count_shared(&b, sequence, TOKENS, 2, NULL, 0), 2);
    assert_int_equal(pf_forward_count_shared(&b, sequence, TOKENS, 5, other, 3), 4);
    pf_tiny_side_close(&side);
}

/* ---- passes ---------------------------------------------------------------------------------------------------- */

/* Passes that fail where the span of sequence `bad` is among them. */
typedef struct {
    int64_t bad;
    char log[128];
} passes;

static void note(passes *p, const char *what, int32_t number)
{
    const size_t n = strlen(p->log);
    snprintf(p->log + n, sizeof p->log - n, "%s%d ", what, number);
}

static pf_status run(void *user, const pf_span *spans, int32_t n)
{
    passes *p = user;
    note(p, "run", n);
    for (int32_t i = 0; i < n; i++)
        if (spans[i].sequence == p->bad) return PF_LIMIT;
    return PF_OK;
}

static void use(void *user, const int32_t *owners, int32_t n, pf_status status)
{
    for (int32_t i = 0; i < n; i++) note(user, status == PF_OK ? "use" : "bad", owners[i]);
}

static void gather(passes *p, int32_t n)
{
    const pf_forward_limits limits = { .max_rows = 10, .max_logit_rows = 5 };
    pf_span spans[8];
    int32_t owners[8];
    pf_span_batch batch = { .spans = spans, .owners = owners };
    const pf_span_pass pass = { .run = run, .use = use, .user = p };
    for (int32_t i = 0; i < n; i++) {
        const pf_span span = { .sequence = i, .n_tokens = 4, .n_logits = 1 };
        if (pf_span_batch_add(&batch, &limits, &span, i)) continue;
        pf_span_batch_run(&batch, &pass);
        assert_true(pf_span_batch_add(&batch, &limits, &span, i));
    }
    pf_span_batch_run(&batch, &pass);
    pf_span_batch_run(&batch, &pass); /* empty: nothing */
}

static void spans_are_run_in_passes_that_the_limits_allow(void **state)
{
    (void)state;
    passes p = { .bad = -1 };
    gather(&p, 5);
    assert_string_equal(p.log, "run2 use0 use1 run2 use2 use3 run1 use4 ");
    const pf_forward_limits limits = { .max_rows = 10, .max_logit_rows = 5 };
    pf_span spans[2];
    int32_t owners[2];
    pf_span_batch batch = { .spans = spans, .owners = owners };
    assert_true(pf_span_batch_add(&batch, &limits, &(pf_span){ .n_tokens = 3, .n_logits = 3 }, 0));
    assert_false(pf_span_batch_add(&batch, &limits, &(pf_span){ .n_tokens = 3, .n_logits = 3 }, 1));
}

static void after_a_pass_that_fails_each_span_is_run_by_itself_and_the_bad_one_fails_alone(void **state)
{
    (void)state;
    passes p = { .bad = 1 };
    gather(&p, 3);
    assert_string_equal(p.log, "run2 run1 use0 run1 bad1 run1 use2 ");
    passes alone = { .bad = 2 }; /* in a pass of its own: it is not run again */
    gather(&alone, 3);
    assert_string_equal(alone.log, "run2 use0 use1 run1 bad2 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fork_goes_on_from_its_prefix_as_the_whole_sequence_does),
        cmocka_unit_test(what_new_tokens_share_with_the_held_ones_stays),
        cmocka_unit_test(spans_are_run_in_passes_that_the_limits_allow),
        cmocka_unit_test(after_a_pass_that_fails_each_span_is_run_by_itself_and_the_bad_one_fails_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
