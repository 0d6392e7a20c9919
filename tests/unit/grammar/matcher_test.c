/* Tests the sets of allowed tokens against the definition, one advance for each token, and the bounds. */
#include "tests/unit/grammar/grammar_rig.h"

typedef struct {
    pf_grammar *grammar;
    pf_matcher *matcher;
    pf_token_order order;
} rig;

static void open_rig(rig *r, const char *source)
{
    pf_error error = { 0 };
    *r = (rig){ .order = rig_order() };
    assert_ok(pf_grammar_parse(source, strlen(source), &r->grammar, &error), error);
    assert_int_equal(pf_matcher_create(r->grammar, &r->order, &r->matcher), PF_OK);
}

static void close_rig(rig *r)
{
    pf_matcher_destroy(r->matcher);
    pf_grammar_close(r->grammar);
    pf_token_order_clear(&r->order);
}

static bool is_set(const uint32_t *words, int32_t id)
{
    return words[id / 32] >> (id % 32) & 1;
}

static const char json[] = "root ::= object\n"
                           "object ::= \"{\" (pair (\",\" pair)*)? \"}\"\n"
                           "pair ::= string \":\" value\n"
                           "string ::= \"\\\"\" ([^\"\\\\] | \"\\\\\" .)* \"\\\"\"\n"
                           "value ::= object | string | \"true\" | \"tau\" | [0-9]+\n";

static void allowed_tokens_are_those_that_advance(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, json);
    static const char text[] = "{\"ab\xc3\xa9\":true,\"x\":{\"y\":12},\"\":\"\\\"\"}";
    int32_t at = 0;
    for (size_t i = 0; i < sizeof text; i++) {
        const uint32_t *words = pf_matcher_allowed(r.matcher, at);
        assert_non_null(words);
        int32_t n = 0;
        for (int32_t id = 0; id < N_RIG_IDS; id++) {
            const bool advances = pf_matcher_advance(r.matcher, at, id) >= 0;
            words = pf_matcher_allowed(r.matcher, at);
            if (is_set(words, id) != advances) fail_msg("%zu: token %d", i, id);
            n += advances;
        }
        assert_true(n > 0 || pf_matcher_accepts(r.matcher, at));
        if (text[i]) at = pf_matcher_step(r.matcher, at, (uint8_t)text[i]);
    }
    assert_true(pf_matcher_accepts(r.matcher, at));
    assert_int_equal(pf_matcher_advance(r.matcher, 0, N_RIG_IDS - 1), PF_MATCHER_DEAD); /* no text */
    assert_int_equal(pf_matcher_advance(r.matcher, 0, N_RIG_IDS), PF_MATCHER_DEAD);
    assert_int_equal(pf_matcher_advance(r.matcher, PF_MATCHER_DEAD, 'a'), PF_MATCHER_DEAD);
    close_rig(&r);
}

static void the_same_stacks_are_the_same_state(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, json);
    const int32_t a = run_text(r.matcher, "{\"a\":12,\"b\":", 12), b = run_text(r.matcher, "{\"\":true,\"\":", 12);
    assert_true(a >= 0 && a == b);
    assert_true(run_text(r.matcher, "{\"a\":{\"b\":", 10) != a);
    close_rig(&r);
}

/* More sets than are remembered: they are made again. */
static void forgotten_sets_are_made_again(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, "root ::= \"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\"");
    for (int32_t round = 0; round < 2; round++) {
        int32_t at = 0;
        for (int32_t i = 0; i < 52; i++) {
            const uint32_t *words = pf_matcher_allowed(r.matcher, at);
            for (int32_t c = 0; c < N_BYTES; c++) assert_int_equal(is_set(words, c), c == 'a' + i % 26);
            assert_int_equal(is_set(words, N_BYTES + 1), i % 26 == 0); /* abc */
            at = pf_matcher_advance(r.matcher, at, 'a' + i % 26);
        }
    }
    close_rig(&r);
}

static void bounds_end_a_match_with_a_status(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, "root ::= \"a\" root \"x\" | \"b\" root \"y\" | \"c\""); /* each text has stacks of its own */
    char text[400];
    pf_status status = PF_OK;
    for (uint32_t seed = 1; status == PF_OK && seed < 1000; seed++) {
        uint32_t bits = seed * 2654435761u;
        for (size_t i = 0; i < sizeof text; i++) {
            bits = bits * 1664525u + 1013904223u;
            text[i] = bits >> 31 ? 'a' : 'b';
        }
        (void)run_text(r.matcher, text, sizeof text);
        status = pf_matcher_status(r.matcher);
    }
    assert_int_equal(status, PF_LIMIT);
    assert_null(pf_matcher_allowed(r.matcher, 0));
    close_rig(&r);
}

static void a_grammar_without_a_text_is_refused(void **state)
{
    (void)state;
    pf_grammar *grammar = NULL;
    pf_matcher *matcher = NULL;
    pf_error error = { 0 };
    pf_token_order order = rig_order();
    const char *source = "root ::= [^\\x00-\\U0010ffff]";
    assert_ok(pf_grammar_parse(source, strlen(source), &grammar, &error), error);
    assert_int_equal(pf_matcher_create(grammar, &order, &matcher), PF_FORMAT);
    pf_grammar_close(grammar);
    pf_token_order_clear(&order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allowed_tokens_are_those_that_advance), cmocka_unit_test(the_same_stacks_are_the_same_state),
        cmocka_unit_test(forgotten_sets_are_made_again),         cmocka_unit_test(bounds_end_a_match_with_a_status),
        cmocka_unit_test(a_grammar_without_a_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
