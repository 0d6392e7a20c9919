#include "tests/support/backend_claims.h"

#include <stdlib.h>

#include "tests/support/test.h"

int32_t claim_token(const pf_forward_backend *b, int32_t text, int32_t i)
{
    return (i * 31 + text * 17 + i * i % 11) % b->limits.n_vocab;
}

static void make_text(const pf_forward_backend *b, int32_t text, int32_t tokens[CLAIM_TEXT])
{
    for (int32_t i = 0; i < CLAIM_TEXT; i++) tokens[i] = claim_token(b, text, i);
}

static int64_t acquire(const pf_forward_backend *b)
{
    int64_t sequence;
    assert_status(pf_forward_acquire(b, &sequence), PF_OK);
    return sequence;
}

static float *new_logits(const pf_forward_backend *b)
{
    float *logits = calloc((size_t)CLAIM_TEXT * (size_t)b->limits.n_vocab, sizeof *logits);
    assert_non_null(logits);
    return logits;
}

static float *row_of(const pf_forward_backend *b, float *logits, int32_t row)
{
    return logits + (size_t)row * (size_t)b->limits.n_vocab;
}

/* Rows [first, first + n) of the last pass. */
static void take(const pf_forward_backend *b, int32_t first, int32_t n, float *out)
{
    for (int32_t i = 0; i < n; i++)
        memcpy(row_of(b, out, i), pf_forward_logits(b, first + i), (size_t)b->limits.n_vocab * sizeof *out);
}

/* Tokens [begin, end) in one pass, the logits of all rows to their places in `logits`. */
static void feed(const pf_forward_backend *b, int64_t sequence, const int32_t *tokens, int32_t begin, int32_t end,
                 float *logits)
{
    const pf_span span = { sequence, tokens + begin, end - begin, end - begin, NULL, 0 };
    if (begin == end) return;
    assert_status(pf_forward_run(b, &span, 1), PF_OK);
    take(b, 0, end - begin, row_of(b, logits, begin));
}

/* All from `begin` on, in passes of the most rows. */
static void feed_all(const pf_forward_backend *b, int64_t sequence, const int32_t *tokens, int32_t begin, float *logits)
{
    for (int32_t end; begin < CLAIM_TEXT; begin = end) {
        end = begin + CLAIM_ROWS < CLAIM_TEXT ? begin + CLAIM_ROWS : CLAIM_TEXT;
        feed(b, sequence, tokens, begin, end, logits);
    }
}

static void assert_same(const pf_forward_backend *b, const float *a, const float *expected, int32_t n, const char *how)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t v = 0; v < b->limits.n_vocab; v++) {
            const size_t at = (size_t)i * (size_t)b->limits.n_vocab + (size_t)v;
            if (memcmp(&a[at], &expected[at], sizeof *a) != 0)
                fail_msg("%s: position %d, token %d: %.9g, expected %.9g", how, i, v, (double)a[at],
                         (double)expected[at]);
        }
}

float *claim_plain_logits(const pf_forward_backend *b)
{
    int32_t tokens[CLAIM_TEXT];
    make_text(b, 0, tokens);
    float *logits = new_logits(b);
    const int64_t sequence = acquire(b);
    for (int32_t i = 0; i < CLAIM_TEXT; i++) feed(b, sequence, tokens, i, i + 1, logits);
    pf_forward_release(b, sequence);
    return logits;
}

/* ---- how a prompt is cut, and what runs beside it ----------------------------------------------------------------- */

static void the_cut_of_a_prompt_changes_no_bit(const pf_forward_backend *b, const float *plain)
{
    static const int32_t cuts[][2] = { { 24, 21 }, { 11, 13 }, { 3, 7 } };
    int32_t tokens[CLAIM_TEXT];
    make_text(b, 0, tokens);
    float *logits = new_logits(b);
    for (size_t i = 0; i < PF_COUNT(cuts); i++) {
        const int64_t sequence = acquire(b);
        for (int32_t at = 0, n = cuts[i][0]; at < CLAIM_TEXT; at += n, n = cuts[i][1]) {
            if (n > CLAIM_TEXT - at) n = CLAIM_TEXT - at;
            feed(b, sequence, tokens, at, at + n, logits);
        }
        assert_same(b, logits, plain, CLAIM_TEXT, "a cut prompt");
        pf_forward_release(b, sequence);
    }
    free(logits);
}

static void sequences_beside_it_change_no_bit(const pf_forward_backend *b, const float *plain)
{
    enum { N = 4 };
    int32_t tokens[N][CLAIM_TEXT], at[N] = { 0 };
    int64_t sequences[N];
    for (int32_t s = 0; s < N; s++) {
        make_text(b, s, tokens[s]);
        sequences[s] = acquire(b);
    }
    float *logits = new_logits(b);
    for (int32_t round = 0; at[0] < CLAIM_TEXT; round++) {
        pf_span spans[N];
        int32_t n_spans = 0, first = 0, mine = -1, n_mine = 0;
        for (int32_t i = 0; i < N; i++) {
            const int32_t s = (i + round) % N, left = CLAIM_TEXT - at[s], wanted = 1 + (round * 5 + s * 3) % 6;
            const int32_t n = wanted < left ? wanted : left, n_logits = s == 0 ? n : n / 2;
            if (n == 0) continue;
            if (s == 0) mine = first, n_mine = n;
            first += n_logits;
            spans[n_spans++] = (pf_span){ sequences[s], tokens[s] + at[s], n, n_logits, NULL, 0 };
            at[s] += n;
        }
        assert_status(pf_forward_run(b, spans, n_spans), PF_OK);
        take(b, mine, n_mine, row_of(b, logits, at[0] - n_mine));
    }
    assert_same(b, logits, plain, CLAIM_TEXT, "in company");
    for (int32_t s = 0; s < N; s++) pf_forward_release(b, sequences[s]);
    free(logits);
}

/* ---- rollback ----------------------------------------------------------------------------------------------------- */

static void a_rollback_leaves_no_trace(const pf_forward_backend *b, const float *plain)
{
    int32_t tokens[CLAIM_TEXT], other[CLAIM_TEXT];
    make_text(b, 0, tokens);
    make_text(b, 3, other);
    float *logits = new_logits(b), *scrap = new_logits(b);
    const int64_t sequence = acquire(b);
    for (int32_t at = 0; at < CLAIM_TEXT; at += 5) {
        feed(b, sequence, tokens, at, at + 5, logits);
        feed(b, sequence, other, 0, 1 + at % 19, scrap);
        assert_int_equal(pf_forward_reachable(b, sequence, at + 5), at + 5);
        assert_status(pf_forward_truncate(b, sequence, at + 5), PF_OK);
    }
    assert_same(b, logits, plain, CLAIM_TEXT, "after rollbacks");
    pf_forward_release(b, sequence);
    free(scrap);
    free(logits);
}

static void a_fork_goes_on_as_its_parent_would_have(const pf_forward_backend *b, const float *plain)
{
    int32_t tokens[CLAIM_TEXT], other[CLAIM_TEXT];
    make_text(b, 0, tokens);
    make_text(b, 3, other);
    float *logits = new_logits(b), *scrap = new_logits(b);
    int64_t sequence = acquire(b);
    for (int32_t at = 0; at < CLAIM_TEXT; at += 15) { /* the parent strays, the child goes on */
        int64_t child;
        assert_status(pf_forward_fork(b, sequence, at, &child), PF_OK);
        assert_status(pf_forward_truncate(b, sequence, at), PF_OK);
        feed(b, sequence, other, 0, 9, scrap);
        feed(b, child, tokens, at, at + 15, logits);
        pf_forward_release(b, sequence);
        sequence = child;
    }
    assert_same(b, logits, plain, CLAIM_TEXT, "through forks");
    pf_forward_release(b, sequence);
    free(scrap);
    free(logits);
}

/* ---- trees -------------------------------------------------------------------------------------------------------- */

enum { TREE = 16 };

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
static void path_logits(const pf_forward_backend *b, int64_t sequence, int32_t length, const tree *t, int32_t row,
                        float *out)
{
    int32_t path[TREE], n = 0;
    int64_t fork;
    for (int32_t up = row; up >= 0; up = t->parents[up]) n++;
    for (int32_t up = row, i = n; up >= 0; up = t->parents[up]) path[--i] = t->tokens[up];
    assert_status(pf_forward_fork(b, sequence, length, &fork), PF_OK);
    const pf_span chain = { fork, path, n, 1, NULL, 0 };
    assert_status(pf_forward_run(b, &chain, 1), PF_OK);
    take(b, 0, 1, out);
    pf_forward_release(b, fork);
}

/* A tree behind `length` tokens of the text, another sequence beside it; then its true path is kept, and the text goes on. A fork
 * that has the whole tree shares the pages in which rows move. */
static void check_tree(const pf_forward_backend *b, const float *plain, int32_t length, bool is_shared)
{
    int32_t tokens[CLAIM_TEXT], other[CLAIM_TEXT];
    make_text(b, 0, tokens);
    make_text(b, 3, other);
    float *logits = new_logits(b), *got = new_logits(b), *expected = new_logits(b);
    const tree t = make_tree(tokens + length, b->limits.n_vocab);
    const int64_t beside = acquire(b), sequence = acquire(b);
    int64_t fork = -1;
    feed(b, sequence, tokens, 0, length / 2, logits);
    feed(b, sequence, tokens, length / 2, length, logits);
    const pf_span spans[] = { { beside, other, 7, 3, NULL, 0 }, { sequence, t.tokens, TREE, TREE, t.parents, 0 } };
    assert_status(pf_forward_run(b, spans, 2), PF_OK);
    take(b, 3, TREE, got);
    for (int32_t i = 0; i < t.n_truth; i++)
        memcpy(row_of(b, logits, length + i), row_of(b, got, t.truth[i]), (size_t)b->limits.n_vocab * sizeof *got);
    for (int32_t i = 0; i < TREE; i++) path_logits(b, sequence, length, &t, i, row_of(b, expected, i));
    assert_same(b, got, expected, TREE, "in a tree");

    if (is_shared) assert_status(pf_forward_fork(b, sequence, length + TREE, &fork), PF_OK);
    assert_status(pf_forward_keep(b, sequence, length, t.truth, t.n_truth), PF_OK);
    if (is_shared) pf_forward_release(b, fork);
    assert_int_equal(pf_forward_length(b, sequence), length + t.n_truth);
    feed_all(b, sequence, tokens, length + t.n_truth, logits);
    assert_same(b, logits, plain, CLAIM_TEXT, "through a tree of which a path was kept");
    pf_forward_release(b, sequence);
    pf_forward_release(b, beside);
    free(expected);
    free(got);
    free(logits);
}

static void a_row_of_a_tree_has_the_logits_of_its_path(const pf_forward_backend *b, const float *plain)
{
    static const int32_t lengths[] = { 0, 13, 29 };
    for (size_t i = 0; i < PF_COUNT(lengths); i++) check_tree(b, plain, lengths[i], i % 2 == 1);
}

/* ---- passes that follow each other --------------------------------------------------------------------------------- */

/* Extends a sequence and reads no row. */
static void extend(const pf_forward_backend *b, int64_t sequence, const int32_t *tokens, int32_t n)
{
    const pf_span span = { .sequence = sequence, .tokens = tokens, .n_tokens = n };
    assert_status(pf_forward_run(b, &span, 1), PF_OK);
}

/* Pieces of two sequences, forks that copy pages, a tree of which a path is kept: no row is read until the end. */
static void passes_that_are_not_read_change_no_bit(const pf_forward_backend *b, const float *plain)
{
    enum { PIECE = 7, LENGTH = 4 * PIECE };
    int32_t tokens[CLAIM_TEXT], other[CLAIM_TEXT];
    make_text(b, 0, tokens);
    make_text(b, 3, other);
    float *logits = new_logits(b);
    const int64_t sequence = acquire(b), beside = acquire(b);
    for (int32_t at = 0; at < LENGTH; at += PIECE) {
        int64_t fork;
        extend(b, sequence, tokens + at, PIECE);
        assert_status(pf_forward_fork(b, sequence, at + PIECE - 1, &fork), PF_OK);
        extend(b, fork, other + at, PIECE - 1);
        pf_forward_release(b, fork);
        extend(b, beside, other + at, PIECE);
    }
    const tree t = make_tree(tokens + LENGTH, b->limits.n_vocab);
    const pf_span span = { .sequence = sequence, .tokens = t.tokens, .n_tokens = TREE, .parents = t.parents };
    assert_status(pf_forward_run(b, &span, 1), PF_OK);
    assert_status(pf_forward_keep(b, sequence, LENGTH, t.truth, t.n_truth), PF_OK);
    extend(b, beside, other + LENGTH, PIECE);
    const int32_t first = LENGTH + t.n_truth;
    feed_all(b, sequence, tokens, first, logits);
    assert_same(b, row_of(b, logits, first), plain + (size_t)first * (size_t)b->limits.n_vocab, CLAIM_TEXT - first,
                "behind passes that were not read");
    pf_forward_release(b, sequence);
    pf_forward_release(b, beside);
    free(logits);
}

/* ---- tokens alone, and refusals ----------------------------------------------------------------------------------- */

static int32_t argmax(const float *row, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

static void the_best_token_is_that_of_the_logits(const pf_forward_backend *b, const float *plain)
{
    int32_t tokens[CLAIM_TEXT];
    make_text(b, 0, tokens);
    const int32_t n_vocab = b->limits.n_vocab, few = n_vocab / 2;
    const int64_t sequence = acquire(b);
    const pf_span spans[] = { { sequence, tokens, 20, 20, NULL, n_vocab },
                              { sequence, tokens + 20, 15, 7, NULL, few },
                              { sequence, tokens + 35, 10, 10, NULL, 0 } };
    for (int32_t s = 0, at = 0; s < 3; at += spans[s++].n_tokens) {
        const int32_t n = spans[s].best_of > 0 ? spans[s].best_of : n_vocab;
        assert_status(pf_forward_run(b, &spans[s], 1), PF_OK);
        for (int32_t i = 0; i < spans[s].n_logits; i++) {
            const int32_t position = at + spans[s].n_tokens - spans[s].n_logits + i;
            assert_int_equal(pf_forward_best(b, i, n), argmax(plain + (size_t)position * (size_t)n_vocab, n));
            assert_int_equal(pf_forward_find_invalid(b, i, n), -1);
        }
    }
    pf_forward_release(b, sequence);
}

static void a_refused_pass_changes_nothing(const pf_forward_backend *b, const float *plain)
{
    int32_t tokens[CLAIM_TEXT], bad[3] = { 1, 2, b->limits.n_vocab };
    static const int32_t no_tree[3] = { -1, 1, 0 };
    make_text(b, 0, tokens);
    float *logits = new_logits(b);
    const int64_t sequence = acquire(b), released = acquire(b);
    pf_forward_release(b, released);
    feed(b, sequence, tokens, 0, 22, logits);
    const pf_span refused[] = { { sequence, bad, 3, 1, NULL, 0 },
                                { sequence, tokens, 3, 1, no_tree, 0 },
                                { sequence, tokens, 0, 0, NULL, 0 },
                                { sequence, tokens, 3, 4, NULL, 0 },
                                { released, tokens, 3, 1, NULL, 0 },
                                { sequence, tokens, 3, 1, NULL, bad[2] + 1 },
                                { sequence, tokens, b->limits.max_rows + 1, 1, NULL, 0 } };
    for (size_t i = 0; i < PF_COUNT(refused); i++) {
        if (i + 1 == PF_COUNT(refused) && b->limits.max_rows >= CLAIM_TEXT) continue; /* not so many tokens */
        assert_status(pf_forward_run(b, &refused[i], 1), PF_INVALID);
        assert_int_equal(pf_forward_length(b, sequence), 22);
    }
    const pf_span twice[] = { { sequence, tokens + 22, 1, 1, NULL, 0 }, { sequence, tokens + 23, 1, 1, NULL, 0 } };
    assert_status(pf_forward_run(b, twice, 2), PF_INVALID);
    assert_status(pf_forward_truncate(b, sequence, 23), PF_INVALID);
    feed_all(b, sequence, tokens, 22, logits);
    assert_same(b, logits, plain, CLAIM_TEXT, "after refused passes");
    pf_forward_release(b, sequence);
    free(logits);
}

static void a_full_cache_changes_nothing(const pf_forward_backend *b, const float *plain)
{
    int32_t tokens[CLAIM_TEXT];
    int64_t others[CLAIM_SEQUENCES];
    int32_t n = 0;
    make_text(b, 0, tokens);
    float *logits = new_logits(b);
    const int64_t sequence = acquire(b);
    feed(b, sequence, tokens, 0, 20, logits);
    while (n < CLAIM_SEQUENCES && pf_forward_acquire(b, &others[n]) == PF_OK) n++;
    int64_t one_more;
    if (n < CLAIM_SEQUENCES) assert_status(pf_forward_acquire(b, &one_more), PF_LIMIT);
    bool is_full = false;
    for (int32_t i = 0; i < n; i++) {
        const pf_span span = { others[i], tokens, 24, 0, NULL, 0 };
        pf_status status;
        while ((status = pf_forward_run(b, &span, 1)) == PF_OK) {}
        assert_int_equal(status, PF_LIMIT);
        is_full = true;
    }
    assert_true(is_full);
    for (int32_t i = 0; i < n; i++) pf_forward_release(b, others[i]);
    feed_all(b, sequence, tokens, 20, logits);
    assert_same(b, logits, plain, CLAIM_TEXT, "after a full cache");
    pf_forward_release(b, sequence);
    free(logits);
}

const backend_claim backend_claims[] = {
    { "the cut of a prompt", the_cut_of_a_prompt_changes_no_bit },
    { "company", sequences_beside_it_change_no_bit },
    { "rollback", a_rollback_leaves_no_trace },
    { "forks", a_fork_goes_on_as_its_parent_would_have },
    { "trees", a_row_of_a_tree_has_the_logits_of_its_path },
    { "passes that are not read", passes_that_are_not_read_change_no_bit },
    { "the best token", the_best_token_is_that_of_the_logits },
    { "refusals", a_refused_pass_changes_nothing },
    { "a full cache", a_full_cache_changes_nothing },
};
const int32_t n_backend_claims = PF_COUNT(backend_claims);
