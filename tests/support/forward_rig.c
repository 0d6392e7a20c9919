#include "tests/support/forward_rig.h"

#include <stdlib.h>

#include "tests/support/threading.h"

void rig_open(rig *r, const char *directory, pf_model_options options, int32_t n_threads)
{
    pf_error error = { 0 };
    *r = (rig){ 0 };
    if (pf_test_team_create(n_threads, &r->team, &error) != PF_OK) fail_msg("%s", error.text);
    options.team = r->team;
    if (pf_model_load(directory, &options, &r->model, &error) != PF_OK) fail_msg("%s", error.text);
    const pf_context_config config = { .max_tokens = RIG_TOKENS,
                                       .max_sequences = RIG_SEQUENCES,
                                       .max_rows = RIG_ROWS,
                                       .max_logit_rows = RIG_ROWS,
                                       .kv_type = pf_context_default_kv_type(r->model) };
    if (pf_context_create(r->model, r->team, &config, &r->context, &error) != PF_OK) fail_msg("%s", error.text);
    r->kv = pf_context_kv(r->context);
    r->n_vocab = pf_context_n_vocab(r->context);
}

void tear_down(rig *r)
{
    pf_context_destroy(r->context);
    pf_model_release(r->model);
    pf_team_destroy(r->team);
}

int32_t text_token(const rig *r, int32_t text, int32_t i)
{
    return (i * 31 + text * 17 + i * i % 11) % r->n_vocab;
}

void make_text(const rig *r, int32_t text, int32_t tokens[RIG_TEXT])
{
    for (int32_t i = 0; i < RIG_TEXT; i++) tokens[i] = text_token(r, text, i);
}

pf_kv_seq acquire(const rig *r)
{
    pf_kv_seq seq;
    assert_int_equal(pf_kv_acquire(r->kv, &seq), PF_OK);
    return seq;
}

/* Feed tokens [begin, end) in one pass, and copy the logits of all its rows to out [end - begin, n_vocab]. */
void feed(rig *r, pf_kv_seq seq, const int32_t *tokens, int32_t begin, int32_t end, float *out)
{
    const pf_span span = { seq, tokens + begin, end - begin, end - begin, NULL, 0 };
    assert_int_equal(pf_context_forward(r->context, &span, 1), PF_OK);
    for (int32_t i = 0; i < end - begin; i++)
        memcpy(out + (size_t)i * (size_t)r->n_vocab, pf_context_logits(r->context, i),
               (size_t)r->n_vocab * sizeof *out);
}

float *new_logits(const rig *r)
{
    float *logits = malloc((size_t)RIG_TEXT * (size_t)r->n_vocab * sizeof *logits);
    assert_non_null(logits);
    return logits;
}

void assert_same_logits(const rig *r, const float *a, const float *b, int32_t begin, int32_t end, const char *how)
{
    for (int32_t i = begin; i < end; i++)
        for (int32_t v = 0; v < r->n_vocab; v++) {
            const size_t at = (size_t)i * (size_t)r->n_vocab + (size_t)v;
            if (memcmp(&a[at], &b[at], sizeof *a) != 0)
                fail_msg("%s, %s, %s times %s: position %d, token %d: %.9g and %.9g", how,
                         pf_isa_name(pf_model_kernels(r->model)->isa), pf_dtype_name(pf_model_dtype(r->model)),
                         pf_act_name(pf_model_act(r->model)), i, v, (double)a[at], (double)b[at]);
        }
}

/* Of text 0, one token a pass. */
float *plain_logits(rig *r)
{
    int32_t tokens[RIG_TEXT];
    make_text(r, 0, tokens);
    float *logits = new_logits(r);
    const pf_kv_seq seq = acquire(r);
    for (int32_t i = 0; i < RIG_TEXT; i++) feed(r, seq, tokens, i, i + 1, logits + (size_t)i * (size_t)r->n_vocab);
    pf_kv_release(r->kv, seq);
    return logits;
}

/* A pass of `head` tokens, then passes of `step`. */
void compare_cut(rig *r, const float *plain, int32_t head, int32_t step)
{
    int32_t tokens[RIG_TEXT];
    make_text(r, 0, tokens);
    float *logits = new_logits(r);
    const pf_kv_seq seq = acquire(r);
    for (int32_t at = 0, n = head; at < RIG_TEXT; at += n, n = step) {
        if (n > RIG_TEXT - at) n = RIG_TEXT - at;
        feed(r, seq, tokens, at, at + n, logits + (size_t)at * (size_t)r->n_vocab);
    }
    char how[96];
    snprintf(how, sizeof how, "%d tokens, then %d a pass, on %d threads", head, step, pf_team_size(r->team));
    assert_same_logits(r, logits, plain, 0, RIG_TEXT, how);
    pf_kv_release(r->kv, seq);
    free(logits);
}

void compare_cuts(rig *r, const float *plain)
{
    compare_cut(r, plain, RIG_TEXT, 1);
    compare_cut(r, plain, 33, 33);
    compare_cut(r, plain, 14, 15);
    compare_cut(r, plain, 40, 7);
    compare_cut(r, plain, 65, 2);
}

/* Four sequences side by side, in spans of changing sizes, the text in question somewhere among them. */
void compare_in_company(rig *r, const float *plain)
{
    enum { N = 4 };
    int32_t tokens[N][RIG_TEXT], at[N] = { 0 };
    pf_kv_seq seqs[N];
    for (int32_t s = 0; s < N; s++) {
        make_text(r, s, tokens[s]);
        seqs[s] = acquire(r);
    }
    float *logits = new_logits(r);
    for (int32_t round = 0; at[0] < RIG_TEXT; round++) {
        pf_span spans[N];
        int32_t n_spans = 0, first_logit = 0, mine = -1;
        for (int32_t i = 0; i < N; i++) {
            const int32_t s = (i + round) % N, left = RIG_TEXT - at[s], want = 1 + (round * 5 + s * 3) % 9;
            const int32_t n = want < left ? want : left;
            if (n == 0) continue;
            if (s == 0) mine = first_logit;
            const int32_t n_logits = s == 0 ? n : n / 2;
            first_logit += n_logits;
            spans[n_spans++] = (pf_span){ seqs[s], tokens[s] + at[s], n, n_logits, NULL, 0 };
        }
        assert_int_equal(pf_context_forward(r->context, spans, n_spans), PF_OK);
        for (int32_t i = 0; i < n_spans; i++)
            for (int32_t s = 0; s < N; s++) {
                if (spans[i].sequence != seqs[s]) continue;
                for (int32_t t = 0; s == 0 && t < spans[i].n_tokens; t++)
                    memcpy(logits + (size_t)(at[0] + t) * (size_t)r->n_vocab, pf_context_logits(r->context, mine + t),
                           (size_t)r->n_vocab * sizeof *logits);
                at[s] += spans[i].n_tokens;
            }
    }
    assert_same_logits(r, logits, plain, 0, RIG_TEXT, "in company");
    for (int32_t s = 0; s < N; s++) pf_kv_release(r->kv, seqs[s]);
    free(logits);
}

/* Go astray at several points, roll back, go on; then the same through forks. */
void compare_after_detours(rig *r, const float *plain)
{
    int32_t tokens[RIG_TEXT], other[RIG_TEXT];
    make_text(r, 0, tokens);
    make_text(r, 3, other);
    float *logits = new_logits(r), *scrap = new_logits(r);
    pf_kv_seq seq = acquire(r);
    for (int32_t at = 0; at < RIG_TEXT; at += 5) {
        feed(r, seq, tokens, at, at + 5, logits + (size_t)at * (size_t)r->n_vocab);
        feed(r, seq, other, 0, 1 + at % 23, scrap);
        assert_int_equal(pf_kv_truncate(r->kv, seq, at + 5), PF_OK);
    }
    assert_same_logits(r, logits, plain, 0, RIG_TEXT, "after rollbacks");

    for (int32_t at = 0; at < RIG_TEXT; at += 15) { /* a fork at every cut; the parent strays, the child goes on */
        pf_kv_seq child;
        assert_int_equal(pf_kv_fork(r->kv, seq, at, &child), PF_OK);
        assert_int_equal(pf_kv_truncate(r->kv, seq, at), PF_OK);
        feed(r, seq, other, 0, 9, scrap);
        feed(r, child, tokens, at, at + 15, logits + (size_t)at * (size_t)r->n_vocab);
        pf_kv_release(r->kv, seq);
        seq = child;
    }
    assert_same_logits(r, logits, plain, 0, RIG_TEXT, "through forks");
    pf_kv_release(r->kv, seq);
    free(scrap);
    free(logits);
}

/* ---- draft trees ----------------------------------------------------------------------------------------------- */

enum { TREE = 30 };

typedef struct {
    int32_t tokens[TREE], parents[TREE];
    int32_t truth[TREE], n_truth; /* the rows that continue the text, one behind the other */
} tree;

static tree make_tree(const int32_t *continuation, int32_t n_vocab)
{
    tree t = { .n_truth = 0 };
    for (int32_t i = 0; i < TREE; i++) {
        const bool is_true = i * 7 % 5 < 2;
        t.tokens[i] = is_true ? continuation[t.n_truth] : (continuation[i % 9] + 1 + i) % n_vocab;
        t.parents[i] = !is_true ? (i * 13 + 5) % (i + 1) - 1 : t.n_truth > 0 ? t.truth[t.n_truth - 1] : -1;
        if (is_true) t.truth[t.n_truth++] = i;
    }
    return t;
}

/* The logits behind a row, by the chain of its path on a fork. */
static void path_logits(rig *r, pf_kv_seq seq, int32_t length, const tree *t, int32_t row, float *out)
{
    int32_t path[TREE], n = 0;
    for (int32_t up = row; up >= 0; up = t->parents[up]) path[n++] = t->tokens[up];
    for (int32_t i = 0; i < n / 2; i++) {
        const int32_t swapped = path[i];
        path[i] = path[n - 1 - i];
        path[n - 1 - i] = swapped;
    }
    pf_kv_seq fork;
    assert_int_equal(pf_kv_fork(r->kv, seq, length, &fork), PF_OK);
    const pf_span chain = { fork, path, n, 1, NULL, 0 };
    assert_int_equal(pf_context_forward(r->context, &chain, 1), PF_OK);
    memcpy(out, pf_context_logits(r->context, 0), (size_t)r->n_vocab * sizeof *out);
    pf_kv_release(r->kv, fork);
}

/* A tree behind `length` tokens of the text, another sequence beside it; then its true path is kept, and the text goes on. */
static void compare_tree(rig *r, const float *plain, int32_t length)
{
    int32_t tokens[RIG_TEXT], other[RIG_TEXT];
    make_text(r, 0, tokens);
    make_text(r, 3, other);
    const size_t row_floats = (size_t)r->n_vocab;
    float *logits = new_logits(r), *got = new_logits(r), *expected = new_logits(r);
    const tree t = make_tree(tokens + length, r->n_vocab);
    const pf_kv_seq beside = acquire(r), seq = acquire(r);
    if (length > 0) feed(r, seq, tokens, 0, length, logits);
    const pf_span spans[] = { { beside, other, 7, 3, NULL, 0 }, { seq, t.tokens, TREE, TREE, t.parents, 0 } };
    assert_int_equal(pf_context_forward(r->context, spans, 2), PF_OK);
    for (int32_t i = 0; i < TREE; i++)
        memcpy(got + (size_t)i * row_floats, pf_context_logits(r->context, 3 + i), row_floats * sizeof *got);
    for (int32_t i = 0; i < t.n_truth; i++)
        memcpy(logits + (size_t)(length + i) * row_floats, got + (size_t)t.truth[i] * row_floats,
               row_floats * sizeof *got);
    for (int32_t i = 0; i < TREE; i++) path_logits(r, seq, length, &t, i, expected + (size_t)i * row_floats);
    assert_same_logits(r, got, expected, 0, TREE, "in a tree");

    assert_int_equal(pf_kv_keep(r->kv, seq, length, t.truth, t.n_truth), PF_OK);
    const int32_t kept = length + t.n_truth;
    feed(r, seq, tokens, kept, RIG_TEXT, logits + (size_t)kept * row_floats);
    assert_same_logits(r, logits, plain, 0, RIG_TEXT, "through a tree of which a path was kept");
    pf_kv_release(r->kv, seq);
    pf_kv_release(r->kv, beside);
    free(expected);
    free(got);
    free(logits);
}

void compare_trees(rig *r, const float *plain)
{
    static const int32_t lengths[] = { 0, 13, 48, 61 }; /* the last one's paths go on into the next block of keys */
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) compare_tree(r, plain, lengths[i]);
}
