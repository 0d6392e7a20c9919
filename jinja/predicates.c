/* Tests: what stands behind "is". Source: Jinja 2, tests.py. */
#include "jinja/rendering.h"

typedef bool predicate(pf_jinja_run *run, const pf_jinja_value *of, const pf_jinja_value *argument);

#define PREDICATE(name) static bool name(pf_jinja_run *run, const pf_jinja_value *of, const pf_jinja_value *argument)
#define OF_KIND(name, condition) \
    PREDICATE(name)              \
    {                            \
        (void)run;               \
        (void)argument;          \
        return (condition);      \
    }

OF_KIND(is_defined, of->kind != PF_JINJA_UNDEFINED)
OF_KIND(is_undefined, of->kind == PF_JINJA_UNDEFINED)
OF_KIND(is_none, of->kind == PF_JINJA_NONE)
OF_KIND(is_string, of->kind == PF_JINJA_STRING)
OF_KIND(is_number, pf_jinja_is_number(of))
OF_KIND(is_integer, of->kind == PF_JINJA_INT)
OF_KIND(is_float, of->kind == PF_JINJA_FLOAT)
OF_KIND(is_boolean, of->kind == PF_JINJA_BOOL)
OF_KIND(is_true, of->kind == PF_JINJA_BOOL && of->as.boolean)
OF_KIND(is_false, of->kind == PF_JINJA_BOOL && !of->as.boolean)
OF_KIND(is_mapping, pf_jinja_is_mapping(of) && of->kind == PF_JINJA_DICT)
OF_KIND(is_sequence, pf_jinja_is_sequence(of) || of->kind == PF_JINJA_DICT || of->kind == PF_JINJA_STRING ||
                         of->kind == PF_JINJA_UNDEFINED)
OF_KIND(is_iterable, is_sequence(run, of, argument))
OF_KIND(is_callable, of->kind == PF_JINJA_CALLABLE)

/* The remainder of a whole number; false, and a failure: it is none. */
static bool remainder_of(pf_jinja_run *run, const pf_jinja_value *of, int64_t by, int64_t *out)
{
    *out = 0;
    if (of->kind != PF_JINJA_INT && of->kind != PF_JINJA_BOOL) {
        PF_JINJA_FAIL_KIND(run, of, "is no whole number");
        return false;
    }
    if (by == 0) {
        pf_jinja_fail(run->heap, PF_INVALID, "division by zero");
        return false;
    }
    *out = by == -1 ? 0 : pf_jinja_integer_of(of) % by;
    return true;
}
PREDICATE(is_odd)
{
    int64_t rest;
    (void)argument;
    return remainder_of(run, of, 2, &rest) && rest != 0;
}
PREDICATE(is_even)
{
    int64_t rest;
    (void)argument;
    return remainder_of(run, of, 2, &rest) && rest == 0;
}
PREDICATE(is_divisible)
{
    int64_t rest;
    const int64_t by = argument != NULL && pf_jinja_is_number(argument) ? pf_jinja_integer_of(argument) : 0;
    return remainder_of(run, of, by, &rest) && rest == 0;
}

PREDICATE(is_equal)
{
    return argument != NULL && pf_jinja_equal(run->heap, of, argument);
}
PREDICATE(is_not_equal)
{
    return !is_equal(run, of, argument);
}
PREDICATE(is_same)
{
    return argument != NULL && argument->kind == of->kind && pf_jinja_equal(run->heap, of, argument);
}

static bool is_less(pf_jinja_run *run, const pf_jinja_value *a, const pf_jinja_value *b)
{
    bool less = false;
    if (a == NULL || b == NULL || !pf_jinja_less(run->heap, a, b, &less))
        pf_jinja_fail(run->heap, PF_INVALID, "the values of a test cannot be compared");
    return less;
}
PREDICATE(is_below)
{
    return is_less(run, of, argument);
}
PREDICATE(is_above)
{
    return is_less(run, argument, of);
}
PREDICATE(is_at_most)
{
    return is_less(run, of, argument) || is_equal(run, of, argument);
}
PREDICATE(is_at_least)
{
    return is_less(run, argument, of) || is_equal(run, of, argument);
}
PREDICATE(is_in)
{
    return argument != NULL && pf_jinja_contains(run, argument, of);
}

PREDICATE(is_upper)
{
    (void)argument;
    return pf_jinja_is_cased(run->heap, pf_jinja_str(run->heap, of), PF_JINJA_CASE_UPPER);
}
PREDICATE(is_lower)
{
    (void)argument;
    return pf_jinja_is_cased(run->heap, pf_jinja_str(run->heap, of), PF_JINJA_CASE_LOWER);
}

bool pf_jinja_test(pf_jinja_run *run, pf_jinja_text name, const pf_jinja_value *of, const pf_jinja_arguments *args)
{
    static const struct {
        const char *name;
        predicate *holds;
    } tests[] = {
        { "defined", is_defined },
        { "undefined", is_undefined },
        { "none", is_none },
        { "string", is_string },
        { "number", is_number },
        { "integer", is_integer },
        { "float", is_float },
        { "boolean", is_boolean },
        { "true", is_true },
        { "false", is_false },
        { "mapping", is_mapping },
        { "sequence", is_sequence },
        { "iterable", is_iterable },
        { "callable", is_callable },
        { "odd", is_odd },
        { "even", is_even },
        { "divisibleby", is_divisible },
        { "eq", is_equal },
        { "equalto", is_equal },
        { "==", is_equal },
        { "ne", is_not_equal },
        { "!=", is_not_equal },
        { "sameas", is_same },
        { "lt", is_below },
        { "lessthan", is_below },
        { "<", is_below },
        { "gt", is_above },
        { "greaterthan", is_above },
        { ">", is_above },
        { "le", is_at_most },
        { "<=", is_at_most },
        { "ge", is_at_least },
        { ">=", is_at_least },
        { "in", is_in },
        { "upper", is_upper },
        { "lower", is_lower },
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (pf_jinja_text_is(name, tests[i].name)) return tests[i].holds(run, of, args->n > 0 ? args->items : NULL);
    pf_jinja_fail(run->heap, PF_UNSUPPORTED, "the test \"%.*s\" is not known", (int)(name.n < 60 ? name.n : 60),
                  name.data);
    return false;
}
