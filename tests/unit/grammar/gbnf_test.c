/* Tests the notation of grammars: what a text must be to fit, and what is refused with a sentence. */
#include "tests/unit/grammar/grammar_rig.h"

static void literals_and_alternatives(void **state)
{
    (void)state;
    const char *g = "root ::= \"a\" \"b\" | \"c\\n\\x41\\u00e9\" # two\n";
    assert_fits(g, "ab");
    assert_fits(g, "c\nA\xc3\xa9");
    assert_dead(g, "ac");
    assert_unfit(g, "a");
    assert_dead(g, "abc");
    assert_fits("root ::= \"\"", "");
}

static void classes_are_of_characters(void **state)
{
    (void)state;
    const char *g = "root ::= [a-c\\]\xc3\xa9-\xe2\x82\xac] [^x\\n] .";
    assert_fits(g, "b\xf0\x9f\x98\x80z");
    assert_fits(g, "\xc3\xa9yz");
    assert_fits(g, "\xe2\x82\xac]\n");
    assert_fits(g, "]--");
    assert_dead(g, "d");
    assert_dead(g, "\xc3\xa8");
    assert_dead(g, "ax");
    assert_dead(g, "\xe2\x82\xad");
    assert_dead(g, "a\xed\xa0\x80"); /* a surrogate */
    assert_dead(g, "a\xff");
}

static void counts_repeat_a_part(void **state)
{
    (void)state;
    static const struct {
        const char *grammar;
        int32_t least, most;
    } cases[] = { { "root ::= \"a\"*", 0, 99 },    { "root ::= \"a\"+", 1, 99 },
                  { "root ::= \"a\"?", 0, 1 },     { "root ::= \"a\"{3}", 3, 3 },
                  { "root ::= \"a\"{2,}", 2, 99 }, { "root ::= (\"a\" | \"\"){2,4}", 0, 4 },
                  { "root ::= \"a\"{0,2}", 0, 2 }, { "root ::= (\"a\"{2}){2}", 4, 4 },
                  { "root ::= (\"a\"?)*", 0, 99 } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        for (int32_t n = 0; n < 8; n++) {
            char text[16] = "";
            for (int32_t k = 0; k < n; k++) strcat(text, "a");
            if (n >= cases[i].least && n <= cases[i].most)
                assert_fits(cases[i].grammar, text);
            else
                assert_unfit(cases[i].grammar, text);
        }
    }
}

static void rules_call_each_other_and_themselves(void **state)
{
    (void)state;
    const char *g = "root ::= sum\nsum ::= value (\"+\" value)*\n"
                    "value ::= [0-9]+ |\n  \"(\" sum \")\"\n";
    assert_fits(g, "1+(2+(3)+45)+6");
    assert_unfit(g, "(1+(2)");
    assert_dead(g, "1)");
    assert_dead(g, "(1+2))");
}

static void a_list_at_the_end_of_a_rule_keeps_the_stack_flat(void **state)
{
    (void)state;
    static char text[4 * PF_MATCHER_MAX_DEPTH];
    memset(text, 'a', sizeof text - 1);
    assert_fits("root ::= \"a\" root | \"\"", text);
    assert_dead("root ::= \"a\" root \"b\" | \"\"", text); /* deeper than a stack may be */
}

static void what_is_no_grammar_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *grammar, *says;
    } cases[] = {
        { "", "no rule root" },
        { "a ::= \"x\"", "no rule root" },
        { "root ::= b", "no rule b" },
        { "root ::= \"x", "line 1" },
        { "root ::= [a", "line 1" },
        { "root ::= []", "a class that has a character" },
        { "root ::= [b-a]", "range" },
        { "root ::= (\"a\"", "the end of a group" },
        { "root ::= \"a\")", "another rule" },
        { "root = \"a\"", "::=" },
        { "root ::= \"\\q\"", "an escape" },
        { "root ::= \"\\ud800\"", "the number of a character" },
        { "root ::= \"\xff\"", "UTF-8" },
        { "root ::= \"a\"{2,1}", "a count" },
        { "root ::= \"a\"{99999}", "more than 4096 times" },
        { "root ::= ((((\"a\"{99}){99}){99}){99})", "more than 65536 states" },
        { "root ::= \"a\"\nroot ::= \"b\"", "twice" },
        { "root ::= root \"a\" | \"b\"", "left recursion" },
        { "root ::= a\na ::= \"\" b\nb ::= c? a \"x\"\nc ::= \"c\"", "left recursion" },
        { "root ::= \"a\"\n\n?", "line 3" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_grammar *grammar = NULL;
        pf_error error = { 0 };
        if (pf_grammar_parse(cases[i].grammar, strlen(cases[i].grammar), &grammar, &error) == PF_OK)
            fail_msg("taken: %s", cases[i].grammar);
        if (!strstr(error.text, cases[i].says)) fail_msg("%s: %s", cases[i].grammar, error.text);
    }
    static char deep[400];
    strcpy(deep, "root ::= ");
    for (int32_t i = 0; i < 100; i++) strcat(deep, "(");
    pf_grammar *grammar = NULL;
    pf_error error = { 0 };
    assert_int_equal(pf_grammar_parse(deep, strlen(deep), &grammar, &error), PF_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_and_alternatives),
        cmocka_unit_test(classes_are_of_characters),
        cmocka_unit_test(counts_repeat_a_part),
        cmocka_unit_test(rules_call_each_other_and_themselves),
        cmocka_unit_test(a_list_at_the_end_of_a_rule_keeps_the_stack_flat),
        cmocka_unit_test(what_is_no_grammar_is_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
