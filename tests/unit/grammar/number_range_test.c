/* The numbers between two bounds: exactly those fit. */
#include "tests/unit/grammar/grammar_rig.h"

#include <inttypes.h>

#include "grammar/number_range.h"

/* Follows many texts through one grammar. */
typedef struct {
    pf_grammar *grammar;
    pf_matcher *matcher;
    pf_token_order order;
} side;

static side open_side(const pf_number_range *range, pf_status (*write)(const pf_number_range *, pf_bytes *))
{
    side s = { .order = rig_order() };
    pf_bytes out = { 0 };
    pf_error error = { 0 };
    assert_int_equal(pf_bytes_append(&out, "root ::= ", 9), PF_OK);
    assert_int_equal(write(range, &out), PF_OK);
    assert_ok(pf_grammar_parse(out.data, out.n, &s.grammar, &error), error);
    assert_int_equal(pf_matcher_create(s.grammar, &s.order, &s.matcher), PF_OK);
    pf_bytes_clear(&out);
    return s;
}

static void close_side(side *s)
{
    pf_matcher_destroy(s->matcher);
    pf_grammar_close(s->grammar);
    pf_token_order_clear(&s->order);
}

static bool fits(const side *s, const char *text)
{
    return pf_matcher_accepts(s->matcher, run_text(s->matcher, text, strlen(text)));
}

static void whole_numbers_fit_where_they_are_between_the_bounds(void **state)
{
    (void)state;
    static const int64_t bounds[] = { -1234, -100, -99, -10, -1, 0, 1, 7, 9, 10, 19, 20, 99, 100, 255, 1000, 1001 };
    for (size_t i = 0; i < PF_COUNT(bounds); i++)
        for (size_t j = i; j < PF_COUNT(bounds); j++) {
            const pf_number_range range = { .least = bounds[i], .most = bounds[j] };
            side s = open_side(&range, pf_number_range_write_integers);
            for (int32_t x = -1300; x <= 1300; x++) {
                char text[24];
                snprintf(text, sizeof text, "%d", x);
                if (fits(&s, text) != (x >= range.least && x <= range.most))
                    fail_msg("%d of %" PRId64 " to %" PRId64, x, range.least, range.most);
            }
            assert_false(fits(&s, "007") || fits(&s, "-0") || fits(&s, "5.0") || fits(&s, ""));
            close_side(&s);
        }
}

static void a_bound_that_is_left_out_does_not_fit(void **state)
{
    (void)state;
    const pf_number_range range = { .least = -5, .most = 10, .above_least = true, .below_most = true };
    side s = open_side(&range, pf_number_range_write_integers);
    assert_true(fits(&s, "-4") && fits(&s, "9") && fits(&s, "0"));
    assert_false(fits(&s, "-5") || fits(&s, "10"));
    close_side(&s);
}

static void without_a_bound_numbers_have_up_to_18_digits(void **state)
{
    (void)state;
    const pf_number_range range = { .least = 42, .most = PF_NUMBER_RANGE_MOST };
    side s = open_side(&range, pf_number_range_write_integers);
    assert_true(fits(&s, "42") && fits(&s, "999999999999999999"));
    assert_false(fits(&s, "41") || fits(&s, "1000000000000000000") || fits(&s, "-50"));
    close_side(&s);
}

static void numbers_with_fractions_fit_where_they_are_between_the_bounds(void **state)
{
    (void)state;
    static const int64_t bounds[] = { -12, -10, -1, 0, 1, 2, 10 };
    for (size_t i = 0; i < PF_COUNT(bounds); i++)
        for (size_t j = i; j < PF_COUNT(bounds); j++)
            for (int32_t open = 0; open < 4; open++) {
                const pf_number_range range = { bounds[i], bounds[j], open & 1, open & 2 };
                if (i == j && open != 0) continue;
                side s = open_side(&range, pf_number_range_write_numbers);
                for (int32_t x = -1300; x <= 1300; x += 5) {
                    char text[24];
                    const double value = x / 100.0;
                    const bool is_in = (open & 1 ? value > (double)range.least : value >= (double)range.least) &&
                                       (open & 2 ? value < (double)range.most : value <= (double)range.most);
                    snprintf(text, sizeof text, "%.2f", value);
                    if (x == 0 && is_in) continue; /* -0.00 is not made, 0.00 is looked at below */
                    if (fits(&s, text) != is_in)
                        fail_msg("%s of %" PRId64 " to %" PRId64 ", %d", text, range.least, range.most, open);
                }
                close_side(&s);
            }
    const pf_number_range range = { .least = 0, .most = 1 };
    side s = open_side(&range, pf_number_range_write_numbers);
    assert_true(fits(&s, "0") && fits(&s, "0.0") && fits(&s, "1.000") && fits(&s, "0.999"));
    assert_false(fits(&s, "1.001") || fits(&s, "-0.5") || fits(&s, "1.") || fits(&s, "1e3"));
    close_side(&s);
}

static void a_range_that_holds_no_number_is_refused(void **state)
{
    (void)state;
    static const pf_number_range ranges[] = {
        { 5, 5, true, false }, { 5, 6, true, true }, { 6, 5, false, false }, { 0, 0, false, true }
    };
    for (size_t i = 0; i < PF_COUNT(ranges); i++) {
        pf_bytes out = { 0 };
        assert_int_equal(pf_number_range_write_integers(&ranges[i], &out), PF_INVALID);
        assert_int_equal(out.n, 0);
        assert_int_equal(pf_number_range_write_numbers(&ranges[i], &out), i == 1 ? PF_OK : PF_INVALID); /* 5.5 */
        pf_bytes_clear(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_fit_where_they_are_between_the_bounds),
        cmocka_unit_test(a_bound_that_is_left_out_does_not_fit),
        cmocka_unit_test(without_a_bound_numbers_have_up_to_18_digits),
        cmocka_unit_test(numbers_with_fractions_fit_where_they_are_between_the_bounds),
        cmocka_unit_test(a_range_that_holds_no_number_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
