/* Which tokens a grammar lets follow a text, over a vocabulary of bytes: along a text, behind paths, at its end, and after a step back. */
#include "tests/support/small_tokenizer.h"
#include "tests/support/test.h"

#include <string.h>

#include "serve/constraint.h"

enum { N_IDS = 259, AB = 256, END = 257, MARK = 258, WORDS = (N_IDS + 31) / 32 };

static const int32_t ends[] = { END };

/* Two special tokens, of which the second is shown; "ab" is a token. */
static pf_tokenizer *open_vocabulary(void)
{
    static const char special[] =
        "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}";
    char top[512];
    snprintf(top, sizeof top,
             "\"added_tokens\": [{\"id\": 257, \"content\": \"<end>\", %s, {\"id\": 258, \"content\": \"<m>\", %s],",
             special, special);
    return open_parts((parts){ .top = top, .vocab = ",\"ab\":256", .merges = "\"a b\"" });
}

typedef struct {
    pf_tokenizer *tokenizer;
    pf_token_order order;
    pf_grammar *grammar;
    pf_constraint *constraint;
} rig;

/* The constraint borrows the order of *r. */
static void open_rig(rig *r, const char *grammar)
{
    static const int32_t shown[] = { MARK };
    *r = (rig){ .tokenizer = open_vocabulary() };
    pf_error error = { 0 };
    assert_int_equal(pf_constraint_order(r->tokenizer, N_IDS, shown, 1, &r->order), PF_OK);
    assert_ok(pf_grammar_parse(grammar, strlen(grammar), &r->grammar, &error), error);
    assert_int_equal(pf_constraint_create(r->grammar, &r->order, ends, 1, &r->constraint), PF_OK);
}

static void close_rig(rig *r)
{
    pf_constraint_destroy(r->constraint);
    pf_grammar_close(r->grammar);
    pf_token_order_clear(&r->order);
    pf_tokenizer_close(r->tokenizer);
}

/* Exactly these ids, -1 ends them, may follow the text and the path. */
static void expect(const rig *r, const char *text, const char *path, const int32_t *wanted)
{
    int32_t ids[2][64];
    uint32_t mask[WORDS] = { 0 };
    const int32_t n_text = (int32_t)strlen(text), n_path = (int32_t)strlen(path);
    for (int32_t i = 0; i < n_text; i++) ids[0][i] = text[i] == '#' ? AB : (uint8_t)text[i];
    for (int32_t i = 0; i < n_path; i++) ids[1][i] = path[i] == '#' ? AB : (uint8_t)path[i];
    pf_constraint_allow(r->constraint, ids[0], n_text, ids[1], n_path, mask, N_IDS);
    for (int32_t id = 0; id < N_IDS; id++) {
        bool is_wanted = false;
        for (const int32_t *w = wanted; *w >= 0; w++) is_wanted = is_wanted || *w == id;
        if ((mask[id / 32] >> (id % 32) & 1u) != is_wanted)
            fail_msg("behind \"%s\" and \"%s\": token %d", text, path, id);
    }
}

#define EXPECT(r, text, path, ...) expect(r, text, path, (const int32_t[]){ __VA_ARGS__, -1 })

static void tokens_that_go_on_in_the_grammar_are_allowed(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, "root ::= \"ab\" [xy]");
    EXPECT(&r, "", "", 'a', AB);
    EXPECT(&r, "a", "", 'b');
    EXPECT(&r, "#", "", 'x', 'y');
    EXPECT(&r, "ab", "", 'x', 'y');
    close_rig(&r);
}

static void a_text_may_end_where_the_grammar_does_and_nowhere_else(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, "root ::= \"a\" \"b\"?");
    EXPECT(&r, "a", "", 'b', END);
    EXPECT(&r, "ab", "", END);
    EXPECT(&r, "x", "", -1); /* it has left the grammar: nothing is allowed */
    close_rig(&r);
}

static void a_text_that_goes_back_is_followed_from_there(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, "root ::= \"a\" (\"x\" \"1\" | \"y\" \"2\")");
    EXPECT(&r, "ax", "", '1');
    EXPECT(&r, "ay", "", '2');
    EXPECT(&r, "a", "", 'x', 'y');
    EXPECT(&r, "ax1", "", END);
    close_rig(&r);
}

static void a_path_is_looked_at_and_not_kept(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, "root ::= \"a\" (\"x\" \"1\" | \"y\" \"2\")");
    EXPECT(&r, "a", "x", '1');
    EXPECT(&r, "a", "y2", END);
    EXPECT(&r, "a", "", 'x', 'y');
    uint32_t mask[WORDS] = { 0 };
    const int32_t text[] = { 'a' }, path[] = { 'q' };
    pf_constraint_allow(r.constraint, text, 1, path, 1, mask, N_IDS);
    for (int32_t id = 0; id < N_IDS; id++)
        assert_true(mask[id / 32] >> (id % 32) & 1u); /* a proposal that is refused in any case */
    close_rig(&r);
}

static void special_tokens_have_a_text_only_where_they_are_shown(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, "root ::= \"<m>\" | \"<end>\"");
    EXPECT(&r, "", "", '<', MARK);
    close_rig(&r);
}

/* More tokens than room was made for at first. */
static void a_long_text_is_followed(void **state)
{
    (void)state;
    enum { N = 1000 };
    static int32_t text[N];
    rig r;
    open_rig(&r, "root ::= \"a\"*");
    for (int32_t i = 0; i < N; i++) text[i] = 'a';
    uint32_t mask[WORDS] = { 0 };
    pf_constraint_allow(r.constraint, text, N, NULL, 0, mask, N_IDS);
    assert_true(mask['a' / 32] >> ('a' % 32) & 1u);
    assert_true(mask[END / 32] >> (END % 32) & 1u);
    assert_false(mask['b' / 32] >> ('b' % 32) & 1u);
    close_rig(&r);
}

/* A mask of fewer ids than the vocabulary has: nothing is written behind it. */
static void a_mask_of_fewer_ids_is_not_overrun(void **state)
{
    (void)state;
    enum { FEW = 100 };
    rig r;
    open_rig(&r, "root ::= [\\x00-\\xff]*");
    uint32_t mask[4 + 1] = { [4] = 0xdeadbeef };
    pf_constraint_allow(r.constraint, NULL, 0, NULL, 0, mask, FEW);
    assert_true(mask[0] & 1u << 10);
    assert_int_equal(mask[3] >> (FEW % 32), 0);
    assert_true(mask[4] == 0xdeadbeef);
    close_rig(&r);
}

static void a_grammar_that_no_text_fits_is_refused(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, "root ::= \"a\"");
    pf_grammar *none = NULL;
    pf_constraint *constraint = NULL;
    pf_error error = { 0 };
    static const char source[] = "root ::= [^\\x00-\\U0010ffff]";
    assert_ok(pf_grammar_parse(source, strlen(source), &none, &error), error);
    assert_int_equal(pf_constraint_create(none, &r.order, ends, 1, &constraint), PF_FORMAT);
    assert_null(constraint);
    pf_constraint_destroy(NULL);
    pf_grammar_close(none);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_that_go_on_in_the_grammar_are_allowed),
        cmocka_unit_test(a_text_may_end_where_the_grammar_does_and_nowhere_else),
        cmocka_unit_test(a_text_that_goes_back_is_followed_from_there),
        cmocka_unit_test(a_path_is_looked_at_and_not_kept),
        cmocka_unit_test(special_tokens_have_a_text_only_where_they_are_shown),
        cmocka_unit_test(a_long_text_is_followed),
        cmocka_unit_test(a_mask_of_fewer_ids_is_not_overrun),
        cmocka_unit_test(a_grammar_that_no_text_fits_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
