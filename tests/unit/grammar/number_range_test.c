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

typedef pf_status (*writer)(const pf_number_range *, const char *, pf_bytes *, int32_t *, pf_bytes *);

static side open_side(const pf_number_range *range, writer write)
{
    side s = { .order = rig_order() };
    pf_bytes out = { 0 }, rules = { 0 };
    pf_error error = { 0 };
    int32_t n_rules;
    assert_int_equal(pf_bytes_append(&out, "root ::= ", 9), PF_OK);
    assert_int_equal(write(range, "n", &rules, &n_rules, &out), PF_OK);
    assert_int_equal(pf_bytes_append(&out, "\n", 1), PF_OK);
    assert_int_equal(pf_bytes_append(&out, rules.data ? rules.data : "", rules.n), PF_OK);
    pf_bytes_clear(&rules);
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
                const pf_number_range range = {
                    .least = bounds[i], .most = bounds[j], .above_least = open & 1, .below_most = open & 2
                };
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
        { .least = 5, .most = 5, .above_least = true },
        { .least = 5, .most = 6, .above_least = true, .below_most = true },
        { .least = 6, .most = 5 },
        { .most = 0, .below_most = true },
        { .least = 8, .most = 13, .multiple = 7, .below_most = true, .above_least = true },
        { .least = 1, .most = 9, .n_decimals = 1, .multiple = 10 },
    };
    for (size_t i = 0; i < PF_COUNT(ranges); i++) {
        pf_bytes out = { 0 }, rules = { 0 };
        int32_t n;
        assert_int_equal(pf_number_range_write_integers(&ranges[i], "n", &rules, &n, &out), PF_INVALID);
        assert_int_equal(out.n, 0);
        assert_int_equal(pf_number_range_write_numbers(&ranges[i], "n", &rules, &n, &out),
                         i == 1 ? PF_OK : PF_INVALID); /* 5.5 */
        pf_bytes_clear(&out);
    }
}

static void multiples_fit_where_they_are_between_the_bounds(void **state)
{
    (void)state;
    static const int64_t multiples[] = { 1, 2, 3, 7, 10, 12, 25, 60, 100 };
    static const int64_t bounds[][2] = { { -1000, 1000 }, { 0, 999 }, { -130, -7 }, { 95, 1205 } };
    for (size_t i = 0; i < PF_COUNT(multiples); i++)
        for (size_t j = 0; j < PF_COUNT(bounds); j++) {
            const pf_number_range range = { .least = bounds[j][0], .most = bounds[j][1], .multiple = multiples[i] };
            side s = open_side(&range, pf_number_range_write_integers);
            for (int32_t x = -1300; x <= 1300; x++) {
                char text[24];
                snprintf(text, sizeof text, "%d", x);
                if (fits(&s, text) != (x >= range.least && x <= range.most && x % range.multiple == 0))
                    fail_msg("%d as a multiple of %" PRId64, x, range.multiple);
            }
            close_side(&s);
        }
}

static void multiples_without_bounds_have_up_to_18_digits(void **state)
{
    (void)state;
    for (int64_t multiple = 1; multiple <= 60; multiple++) {
        const pf_number_range range = { -PF_NUMBER_RANGE_MOST, PF_NUMBER_RANGE_MOST, .multiple = multiple };
        const int64_t large = PF_NUMBER_RANGE_MOST / multiple * multiple;
        char text[24];
        side s = open_side(&range, pf_number_range_write_integers);
        snprintf(text, sizeof text, "%" PRId64, large);
        assert_true(fits(&s, text) && fits(&s, "0"));
        snprintf(text, sizeof text, "%" PRId64, -large);
        assert_true(fits(&s, text));
        snprintf(text, sizeof text, "%" PRId64, large - 1);
        assert_int_equal(fits(&s, text), multiple == 1);
        close_side(&s);
    }
}

/* value: in hundredths. */
static bool is_multiple(const pf_number_range *range, int64_t value, int64_t unit)
{
    const int64_t scaled = range->n_decimals == 2 ? value : value / 10;
    const bool is_exact = range->n_decimals == 2 || value % 10 == 0;
    const bool above = range->above_least ? value > range->least * unit : value >= range->least * unit,
               below = range->below_most ? value < range->most * unit : value <= range->most * unit;
    return above && below && (range->multiple == 0 || (is_exact && scaled % range->multiple == 0));
}

static void fractions_fit_between_bounds_with_decimals(void **state)
{
    (void)state;
    static const pf_number_range ranges[] = {
        { 5, 25, .n_decimals = 1 },
        { -125, 1050, .n_decimals = 2 },
        { -125, 1050, .above_least = true, .below_most = true, .n_decimals = 2 },
        { -5, 5, .above_least = true, .n_decimals = 2 },
        { -1300, 1300, .n_decimals = 2, .multiple = 25 },
        { -130, 130, .n_decimals = 1, .multiple = 5 },
        { -1300, 1300, .n_decimals = 2, .multiple = 1 },
        { 7, 1201, .n_decimals = 2, .multiple = 120 },
    };
    for (size_t i = 0; i < PF_COUNT(ranges); i++) {
        const pf_number_range *range = &ranges[i];
        const int64_t unit = range->n_decimals == 2 ? 1 : 10;
        side s = open_side(range, pf_number_range_write_numbers);
        for (int32_t x = -1400; x <= 1400; x++) {
            const bool is_in = is_multiple(range, x, unit);
            char text[24];
            if (x == 0) continue; /* -0.00 is not made */
            snprintf(text, sizeof text, "%.2f", x / 100.0);
            if (fits(&s, text) != (is_in && (range->multiple == 0 || unit == 1))) fail_msg("%s, range %zu", text, i);
            snprintf(text, sizeof text, "%.1f", x / 100.0);
            if (x % 10 == 0 && fits(&s, text) != is_in) fail_msg("%s, range %zu", text, i);
            snprintf(text, sizeof text, "%d", x / 100);
            if (x % 100 == 0 && fits(&s, text) != is_in) fail_msg("%s, range %zu", text, i);
        }
        close_side(&s);
    }
}

static void digits_behind_those_of_a_bound_fit_between_bounds(void **state)
{
    (void)state;
    const pf_number_range range = { 5, 25, .below_most = true, .n_decimals = 1 };
    side s = open_side(&range, pf_number_range_write_numbers);
    assert_true(fits(&s, "0.5") && fits(&s, "0.5000") && fits(&s, "0.51") && fits(&s, "2.4999") && fits(&s, "1"));
    assert_false(fits(&s, "0.4999") || fits(&s, "2.5") || fits(&s, "2.50") || fits(&s, "0") || fits(&s, "3"));
    close_side(&s);
}

static void a_multiple_that_needs_too_many_rules_is_refused(void **state)
{
    (void)state;
    const pf_number_range range = { -PF_NUMBER_RANGE_MOST, PF_NUMBER_RANGE_MOST, .multiple = 999983 };
    pf_bytes out = { 0 }, rules = { 0 };
    int32_t n;
    assert_int_equal(pf_number_range_write_integers(&range, "n", &rules, &n, &out), PF_LIMIT);
    pf_bytes_clear(&rules);
    pf_bytes_clear(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_fit_where_they_are_between_the_bounds),
        cmocka_unit_test(a_bound_that_is_left_out_does_not_fit),
        cmocka_unit_test(without_a_bound_numbers_have_up_to_18_digits),
        cmocka_unit_test(numbers_with_fractions_fit_where_they_are_between_the_bounds),
        cmocka_unit_test(a_range_that_holds_no_number_is_refused),
        cmocka_unit_test(multiples_fit_where_they_are_between_the_bounds),
        cmocka_unit_test(multiples_without_bounds_have_up_to_18_digits),
        cmocka_unit_test(fractions_fit_between_bounds_with_decimals),
        cmocka_unit_test(digits_behind_those_of_a_bound_fit_between_bounds),
        cmocka_unit_test(a_multiple_that_needs_too_many_rules_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
