/* Evaluates expressions. */
#include <math.h>
#include <string.h>

#include "jinja/jinja.h"
#include "jinja/rendering.h"

static pf_jinja_value nothing(void)
{
    return pf_jinja_undefined(PF_JINJA_TEXT(""));
}

/* Using an undefined value as if it were one. */
static pf_jinja_value fail_undefined(pf_jinja_run *run, const pf_jinja_value *v)
{
    const pf_jinja_text name = v->as.text;
    pf_jinja_fail(run->heap, PF_INVALID, "\"%.*s\" is undefined", (int)(name.n < 60 ? name.n : 60),
                  name.n > 0 ? name.data : "");
    return nothing();
}

/* ---- names and fields ---------------------------------------------------------------------------------------------- */

pf_jinja_value *pf_jinja_look_up(pf_jinja_run *run, pf_jinja_text name)
{
    for (pf_jinja_scope *scope = run->scope; scope != NULL && pf_jinja_step(run->heap, 1); scope = scope->around) {
        pf_jinja_value *found = pf_jinja_get_text(run->heap, &scope->names, name);
        if (found != NULL) return found;
    }
    return NULL;
}

static pf_jinja_value value_of_name(pf_jinja_run *run, pf_jinja_text name)
{
    const pf_jinja_value *found = pf_jinja_look_up(run, name);
    return found != NULL ? *found : pf_jinja_global(run, name);
}

pf_jinja_value pf_jinja_field(pf_jinja_run *run, const pf_jinja_value *of, pf_jinja_text name)
{
    if (of->kind == PF_JINJA_UNDEFINED) return fail_undefined(run, of);
    const pf_jinja_value method = pf_jinja_method(run, of, name);
    if (method.kind != PF_JINJA_UNDEFINED) return method;
    if (!pf_jinja_is_mapping(of)) return pf_jinja_undefined(name);
    const pf_jinja_value *found = pf_jinja_get_text(run->heap, of, name);
    return found != NULL ? *found : pf_jinja_undefined(name);
}

static pf_jinja_value character_at(pf_jinja_run *run, pf_jinja_text text, int64_t i)
{
    const size_t n = pf_jinja_characters(run->heap, text);
    if (!pf_jinja_step(run->heap, text.n / 16)) return nothing();
    if (i < 0) i += (int64_t)n;
    if (i < 0 || (uint64_t)i >= n) return nothing();
    const size_t begin = pf_jinja_byte_of(run->heap, text, (size_t)i),
                 end = pf_jinja_byte_of(run->heap, text, (size_t)i + 1);
    return pf_jinja_string((pf_jinja_text){ text.data + begin, end - begin });
}

pf_jinja_value pf_jinja_item(pf_jinja_run *run, const pf_jinja_value *of, const pf_jinja_value *key)
{
    if (of->kind == PF_JINJA_UNDEFINED) return fail_undefined(run, of);
    const bool is_index = key->kind == PF_JINJA_INT || key->kind == PF_JINJA_BOOL;
    if (pf_jinja_is_mapping(of)) {
        const pf_jinja_value *found = pf_jinja_get(run->heap, of, key);
        if (found != NULL) return *found;
    } else if (pf_jinja_is_sequence(of) && is_index) {
        const int64_t n = (int64_t)of->as.list->n, i = pf_jinja_integer_of(key);
        const int64_t at = i < 0 ? i + n : i;
        return at >= 0 && at < n ? of->as.list->items[at] : nothing();
    } else if (of->kind == PF_JINJA_STRING && is_index) {
        return character_at(run, of->as.text, pf_jinja_integer_of(key));
    }
    if (key->kind != PF_JINJA_STRING) return nothing();
    const pf_jinja_value method = pf_jinja_method(run, of, key->as.text);
    return method.kind != PF_JINJA_UNDEFINED ? method : pf_jinja_undefined(key->as.text);
}

/* ---- slices ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    int64_t begin, end, step;
} slice;

/* As Python's slice.indices(n). False: a bound is no integer, or the step is 0. */
static bool resolve_slice(pf_jinja_run *run, const pf_jinja_node *node, int64_t n, slice *out)
{
    const pf_jinja_node *const parts[] = { node->b, node->c, node->d };
    bool given[3];
    int64_t values[3] = { 0 };
    for (int i = 0; i < 3; i++) {
        const pf_jinja_value v = parts[i] != NULL ? pf_jinja_evaluate(run, parts[i]) : pf_jinja_none();
        given[i] = v.kind != PF_JINJA_NONE;
        if (!given[i]) continue;
        if (v.kind != PF_JINJA_INT && v.kind != PF_JINJA_BOOL) {
            pf_jinja_fail(run->heap, PF_INVALID, "a bound of a slice is no integer");
            return false;
        }
        values[i] = pf_jinja_integer_of(&v);
    }
    const int64_t step = given[2] ? values[2] : 1;
    if (step == 0 || step < -INT32_MAX || step > INT32_MAX) {
        pf_jinja_fail(run->heap, PF_INVALID, "the step of a slice is %lld", (long long)step);
        return false;
    }
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    for (int i = 0; i < 2; i++) {
        if (!given[i])
            values[i] = (i == 0) == (step > 0) ? low : high;
        else if (values[i] < 0)
            values[i] = values[i] < -n ? low : values[i] + n;
        else if (values[i] > high)
            values[i] = high;
    }
    *out = (slice){ values[0], values[1], step };
    return pf_jinja_is_well(run->heap);
}

static pf_jinja_value slice_text(pf_jinja_run *run, pf_jinja_text text, const slice *s)
{
    if (s->step == 1) {
        if (s->end <= s->begin) return pf_jinja_string(PF_JINJA_TEXT(""));
        const size_t begin = pf_jinja_byte_of(run->heap, text, (size_t)s->begin),
                     end = pf_jinja_byte_of(run->heap, text, (size_t)s->end);
        return pf_jinja_string((pf_jinja_text){ text.data + begin, end - begin });
    }
    pf_jinja_builder b = { .n = 0 };
    for (int64_t i = s->begin; s->step > 0 ? i < s->end : i > s->end; i += s->step) {
        const pf_jinja_value c = character_at(run, text, i);
        if (c.kind != PF_JINJA_STRING) break;
        pf_jinja_add(run->heap, &b, c.as.text.data, c.as.text.n);
    }
    return pf_jinja_string((pf_jinja_text){ b.data, b.n });
}

static pf_jinja_value evaluate_slice(pf_jinja_run *run, const pf_jinja_node *node)
{
    const pf_jinja_value of = pf_jinja_evaluate(run, node->a);
    slice s;
    if (of.kind == PF_JINJA_STRING) {
        if (!pf_jinja_step(run->heap, of.as.text.n / 16)) return nothing();
        return resolve_slice(run, node, (int64_t)pf_jinja_characters(run->heap, of.as.text), &s)
                   ? slice_text(run, of.as.text, &s)
                   : nothing();
    }
    if (of.kind == PF_JINJA_UNDEFINED) return fail_undefined(run, &of);
    if (!pf_jinja_is_sequence(&of)) {
        PF_JINJA_FAIL_KIND(run, &of, "has no slices");
        return nothing();
    }
    if (!resolve_slice(run, node, (int64_t)of.as.list->n, &s)) return nothing();
    pf_jinja_value list = pf_jinja_new_list(run->heap, of.kind);
    for (int64_t i = s.begin; pf_jinja_is_well(run->heap) && (s.step > 0 ? i < s.end : i > s.end); i += s.step)
        pf_jinja_push(run->heap, &list, of.as.list->items[i]);
    return list;
}

/* ---- arithmetic ------------------------------------------------------------------------------------------------------ */

static pf_jinja_value join_lists(pf_jinja_run *run, const pf_jinja_value *a, const pf_jinja_value *b)
{
    pf_jinja_value list = pf_jinja_new_list(run->heap, a->kind);
    for (size_t i = 0; pf_jinja_is_well(run->heap) && i < a->as.list->n; i++)
        pf_jinja_push(run->heap, &list, a->as.list->items[i]);
    for (size_t i = 0; pf_jinja_is_well(run->heap) && i < b->as.list->n; i++)
        pf_jinja_push(run->heap, &list, b->as.list->items[i]);
    return list;
}

static pf_jinja_value join_texts(pf_jinja_run *run, pf_jinja_text a, pf_jinja_text b)
{
    pf_jinja_builder joined = { .n = 0 };
    pf_jinja_add(run->heap, &joined, a.data, a.n);
    pf_jinja_add(run->heap, &joined, b.data, b.n);
    return pf_jinja_string((pf_jinja_text){ joined.data, joined.n });
}

/* A text or a list n times. */
static pf_jinja_value repeat(pf_jinja_run *run, const pf_jinja_value *of, int64_t n)
{
    pf_jinja_builder text = { .n = 0 };
    if (of->kind == PF_JINJA_STRING) {
        for (int64_t i = 0; i < n && pf_jinja_step(run->heap, 1); i++)
            pf_jinja_add(run->heap, &text, of->as.text.data, of->as.text.n);
        return pf_jinja_string((pf_jinja_text){ text.data, text.n });
    }
    pf_jinja_value list = pf_jinja_new_list(run->heap, of->kind);
    for (int64_t i = 0; i < n && pf_jinja_step(run->heap, 1); i++)
        for (size_t k = 0; pf_jinja_is_well(run->heap) && k < of->as.list->n; k++)
            pf_jinja_push(run->heap, &list, of->as.list->items[k]);
    return list;
}

static pf_jinja_value fail_overflow(pf_jinja_run *run)
{
    pf_jinja_fail(run->heap, PF_LIMIT, "a number is beyond 64 bits");
    return nothing();
}

static pf_jinja_value fail_zero(pf_jinja_run *run)
{
    pf_jinja_fail(run->heap, PF_INVALID, "division by zero");
    return nothing();
}

static pf_jinja_value power(pf_jinja_run *run, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    if (exponent < 0) return pf_jinja_real(pow((double)base, (double)exponent));
    for (int64_t i = 0; i < exponent && result != 0 && pf_jinja_step(run->heap, 1); i++) {
        if (__builtin_mul_overflow(result, base, &result)) return fail_overflow(run);
        if (base == 1) break;
        if (base == -1) return pf_jinja_int(exponent % 2 == 0 ? 1 : -1);
    }
    return pf_jinja_int(result);
}

/* Rounds towards minus infinity, and the remainder has the divisor's sign, as in Python. */
static pf_jinja_value divide_integers(pf_jinja_run *run, bool wants_remainder, int64_t x, int64_t y)
{
    if (y == 0) return fail_zero(run);
    if (y == -1) {
        int64_t negative;
        if (wants_remainder) return pf_jinja_int(0);
        return __builtin_sub_overflow((int64_t)0, x, &negative) ? fail_overflow(run) : pf_jinja_int(negative);
    }
    const bool differs = x % y != 0 && (x % y < 0) != (y < 0);
    return pf_jinja_int(wants_remainder ? x % y + (differs ? y : 0) : x / y - differs);
}

static pf_jinja_value arithmetic_of_integers(pf_jinja_run *run, pf_jinja_text op, int64_t x, int64_t y)
{
    int64_t result = 0;
    bool overflows = false;
    if (pf_jinja_text_is(op, "//")) return divide_integers(run, false, x, y);
    if (pf_jinja_text_is(op, "**")) return power(run, x, y);
    switch (op.data[0]) {
    case '+': overflows = __builtin_add_overflow(x, y, &result); break;
    case '-': overflows = __builtin_sub_overflow(x, y, &result); break;
    case '*': overflows = __builtin_mul_overflow(x, y, &result); break;
    case '%': return divide_integers(run, true, x, y);
    default: return y == 0 ? fail_zero(run) : pf_jinja_real((double)x / (double)y);
    }
    return overflows ? fail_overflow(run) : pf_jinja_int(result);
}

static pf_jinja_value arithmetic_of_reals(pf_jinja_run *run, pf_jinja_text op, double x, double y)
{
    const bool divides = op.data[0] == '/' || op.data[0] == '%';
    if (divides && y == 0.0) return fail_zero(run);
    if (pf_jinja_text_is(op, "//")) return pf_jinja_real(floor(x / y));
    if (pf_jinja_text_is(op, "**")) return pf_jinja_real(pow(x, y));
    switch (op.data[0]) {
    case '+': return pf_jinja_real(x + y);
    case '-': return pf_jinja_real(x - y);
    case '*': return pf_jinja_real(x * y);
    case '%': return pf_jinja_real(x - floor(x / y) * y);
    default: return pf_jinja_real(x / y);
    }
}

pf_jinja_value pf_jinja_arithmetic(pf_jinja_run *run, pf_jinja_text op, const pf_jinja_value *a,
                                   const pf_jinja_value *b)
{
    const bool is_sum = pf_jinja_text_is(op, "+"), is_product = pf_jinja_text_is(op, "*");
    if (!pf_jinja_is_well(run->heap)) return nothing();
    if (pf_jinja_text_is(op, "~")) return join_texts(run, pf_jinja_str(run->heap, a), pf_jinja_str(run->heap, b));
    if (a->kind == PF_JINJA_UNDEFINED) return fail_undefined(run, a);
    if (b->kind == PF_JINJA_UNDEFINED) return fail_undefined(run, b);
    if (pf_jinja_is_number(a) && pf_jinja_is_number(b))
        return a->kind == PF_JINJA_FLOAT || b->kind == PF_JINJA_FLOAT
                   ? arithmetic_of_reals(run, op, pf_jinja_real_of(a), pf_jinja_real_of(b))
                   : arithmetic_of_integers(run, op, pf_jinja_integer_of(a), pf_jinja_integer_of(b));
    if (is_sum && a->kind == PF_JINJA_STRING && b->kind == PF_JINJA_STRING)
        return join_texts(run, a->as.text, b->as.text);
    if (is_sum && pf_jinja_is_sequence(a) && a->kind == b->kind) return join_lists(run, a, b);
    const bool a_repeats = a->kind == PF_JINJA_STRING || pf_jinja_is_sequence(a);
    const bool b_repeats = b->kind == PF_JINJA_STRING || pf_jinja_is_sequence(b);
    if (is_product && a_repeats && b->kind == PF_JINJA_INT) return repeat(run, a, b->as.integer);
    if (is_product && b_repeats && a->kind == PF_JINJA_INT) return repeat(run, b, a->as.integer);
    if (pf_jinja_text_is(op, "%") && a->kind == PF_JINJA_STRING) {
        const pf_jinja_arguments args = { .items = b->kind == PF_JINJA_TUPLE ? b->as.list->items
                                                                             : (pf_jinja_value *)(uintptr_t)b,
                                          .n = b->kind == PF_JINJA_TUPLE ? b->as.list->n : 1 };
        return pf_jinja_filter(run, PF_JINJA_TEXT("format"), a, &args);
    }
    pf_jinja_fail(run->heap, PF_INVALID, "'%s' %.*s '%s' has no meaning", pf_jinja_kind_name(a->kind), (int)op.n,
                  op.data, pf_jinja_kind_name(b->kind));
    return nothing();
}

static pf_jinja_value evaluate_sign(pf_jinja_run *run, const pf_jinja_node *node)
{
    const pf_jinja_value v = pf_jinja_evaluate(run, node->a), zero = pf_jinja_int(0);
    if (!pf_jinja_is_number(&v)) {
        PF_JINJA_FAIL_KIND(run, &v, "has no sign");
        return nothing();
    }
    if (v.kind == PF_JINJA_FLOAT) return pf_jinja_real(node->kind == PF_JINJA_NODE_NEGATIVE ? -v.as.real : v.as.real);
    return pf_jinja_arithmetic(run, node->kind == PF_JINJA_NODE_NEGATIVE ? PF_JINJA_TEXT("-") : PF_JINJA_TEXT("+"),
                               &zero, &v);
}

/* ---- comparisons ----------------------------------------------------------------------------------------------------- */

bool pf_jinja_contains(pf_jinja_run *run, const pf_jinja_value *of, const pf_jinja_value *item)
{
    switch (of->kind) {
    case PF_JINJA_STRING:
        if (item->kind == PF_JINJA_STRING)
            return item->as.text.n == 0 || pf_jinja_find(run->heap, of->as.text, item->as.text, 0) < of->as.text.n;
        PF_JINJA_FAIL_KIND(run, item, "cannot be in a text");
        return false;
    case PF_JINJA_LIST:
    case PF_JINJA_TUPLE:
        for (size_t i = 0; i < of->as.list->n && pf_jinja_step(run->heap, 1); i++)
            if (pf_jinja_equal(run->heap, &of->as.list->items[i], item)) return true;
        return false;
    case PF_JINJA_DICT:
    case PF_JINJA_NAMESPACE: return pf_jinja_get(run->heap, of, item) != NULL;
    case PF_JINJA_UNDEFINED: return false;
    default: PF_JINJA_FAIL_KIND(run, of, "holds nothing that could be in it"); return false;
    }
}

static bool compare(pf_jinja_run *run, pf_jinja_text op, const pf_jinja_value *a, const pf_jinja_value *b)
{
    if (pf_jinja_text_is(op, "==")) return pf_jinja_equal(run->heap, a, b);
    if (pf_jinja_text_is(op, "!=")) return !pf_jinja_equal(run->heap, a, b);
    if (pf_jinja_text_is(op, "in")) return pf_jinja_contains(run, b, a);
    if (pf_jinja_text_is(op, "not in")) return !pf_jinja_contains(run, b, a);
    const bool is_swapped = op.data[0] == '>', with_equal = op.n == 2;
    bool less;
    if (!pf_jinja_less(run->heap, is_swapped ? b : a, is_swapped ? a : b, &less)) {
        pf_jinja_fail(run->heap, PF_INVALID, "'%s' and '%s' cannot be compared by %.*s", pf_jinja_kind_name(a->kind),
                      pf_jinja_kind_name(b->kind), (int)op.n, op.data);
        return false;
    }
    return less || (with_equal && pf_jinja_equal(run->heap, a, b));
}

static pf_jinja_value evaluate_comparison(pf_jinja_run *run, const pf_jinja_node *node)
{
    pf_jinja_value left = pf_jinja_evaluate(run, node->a);
    for (const pf_jinja_node *next = node->items; next != NULL && pf_jinja_is_well(run->heap); next = next->next) {
        const pf_jinja_value right = pf_jinja_evaluate(run, next->b);
        if (!compare(run, next->text, &left, &right)) return pf_jinja_bool(false);
        left = right;
    }
    return pf_jinja_bool(true);
}

/* ---- calls ----------------------------------------------------------------------------------------------------------- */

const pf_jinja_value *pf_jinja_argument(const pf_jinja_arguments *args, size_t position, const char *name)
{
    if (position < args->n) return &args->items[position];
    for (size_t i = 0; i < args->n_named; i++)
        if (pf_jinja_text_is(args->names[i], name)) return &args->named[i];
    return NULL;
}

int64_t pf_jinja_integer_argument(const pf_jinja_arguments *args, size_t position, const char *name, int64_t otherwise)
{
    const pf_jinja_value *v = pf_jinja_argument(args, position, name);
    return v != NULL && pf_jinja_is_number(v) ? pf_jinja_integer_of(v) : otherwise;
}

static size_t count(const pf_jinja_node *list)
{
    size_t n = 0;
    for (; list != NULL; list = list->next) n++;
    return n;
}

pf_jinja_arguments pf_jinja_arguments_of(pf_jinja_run *run, const pf_jinja_node *node)
{
    pf_jinja_arguments args = { .n = 0 };
    const size_t n = count(node->items), n_named = count(node->keywords);
    args.items = pf_jinja_take(run->heap, n, sizeof *args.items);
    args.names = pf_jinja_take(run->heap, n_named, sizeof *args.names);
    args.named = pf_jinja_take(run->heap, n_named, sizeof *args.named);
    if (!pf_jinja_is_well(run->heap)) return args;
    for (const pf_jinja_node *item = node->items; item != NULL; item = item->next)
        args.items[args.n++] = pf_jinja_evaluate(run, item);
    for (const pf_jinja_node *keyword = node->keywords; keyword != NULL; keyword = keyword->next) {
        args.names[args.n_named] = keyword->text;
        args.named[args.n_named++] = pf_jinja_evaluate(run, keyword->a);
    }
    return args;
}

pf_jinja_value pf_jinja_new_callable(pf_jinja_run *run, pf_jinja_function *function, pf_jinja_value self)
{
    pf_jinja_callable *called = pf_jinja_take(run->heap, 1, sizeof *called);
    if (called == NULL) return nothing();
    *called = (pf_jinja_callable){ .function = function, .self = self };
    return (pf_jinja_value){ PF_JINJA_CALLABLE, { .called = called } };
}

pf_jinja_value pf_jinja_call(pf_jinja_run *run, const pf_jinja_value *callee, const pf_jinja_arguments *args)
{
    if (!pf_jinja_is_well(run->heap)) return nothing();
    if (callee->kind == PF_JINJA_UNDEFINED) return fail_undefined(run, callee);
    if (callee->kind == PF_JINJA_NAMESPACE) {
        const pf_jinja_value *loop = pf_jinja_get_text(run->heap, callee, PF_JINJA_LOOP_CALL);
        if (loop != NULL) callee = loop;
    }
    if (callee->kind != PF_JINJA_CALLABLE) {
        PF_JINJA_FAIL_KIND(run, callee, "cannot be called");
        return nothing();
    }
    const pf_jinja_callable *called = callee->as.called;
    return called->function != NULL ? called->function(run, &called->self, args)
                                    : pf_jinja_call_macro(run, called, args);
}

/* ---- all expressions ------------------------------------------------------------------------------------------------- */

static pf_jinja_value evaluate_items(pf_jinja_run *run, const pf_jinja_node *node)
{
    pf_jinja_value list =
        pf_jinja_new_list(run->heap, node->kind == PF_JINJA_NODE_LIST ? PF_JINJA_LIST : PF_JINJA_TUPLE);
    for (const pf_jinja_node *item = node->items; item != NULL && pf_jinja_is_well(run->heap); item = item->next)
        pf_jinja_push(run->heap, &list, pf_jinja_evaluate(run, item));
    return list;
}

static pf_jinja_value evaluate_dict(pf_jinja_run *run, const pf_jinja_node *node)
{
    pf_jinja_value dict = pf_jinja_new_dict(run->heap, PF_JINJA_DICT);
    for (const pf_jinja_node *key = node->items; key != NULL && key->next != NULL && pf_jinja_is_well(run->heap);
         key = key->next->next) {
        const pf_jinja_value k = pf_jinja_evaluate(run, key), v = pf_jinja_evaluate(run, key->next);
        pf_jinja_put(run->heap, &dict, k, v);
    }
    return dict;
}

static pf_jinja_value evaluate_named(pf_jinja_run *run, const pf_jinja_node *node)
{
    const pf_jinja_value of = pf_jinja_evaluate(run, node->a);
    const pf_jinja_arguments args = pf_jinja_arguments_of(run, node);
    run->heap->line = node->line;
    if (!pf_jinja_is_well(run->heap)) return nothing();
    return node->kind == PF_JINJA_NODE_FILTER ? pf_jinja_filter(run, node->text, &of, &args)
                                              : pf_jinja_bool(pf_jinja_test(run, node->text, &of, &args));
}

static pf_jinja_value evaluate_by_kind(pf_jinja_run *run, const pf_jinja_node *node)
{
    pf_jinja_value a, b;
    switch (node->kind) {
    case PF_JINJA_NODE_CONSTANT: return node->value;
    case PF_JINJA_NODE_NAME: return value_of_name(run, node->text);
    case PF_JINJA_NODE_LIST:
    case PF_JINJA_NODE_TUPLE: return evaluate_items(run, node);
    case PF_JINJA_NODE_DICT: return evaluate_dict(run, node);
    case PF_JINJA_NODE_FIELD: a = pf_jinja_evaluate(run, node->a); return pf_jinja_field(run, &a, node->text);
    case PF_JINJA_NODE_ITEM:
        a = pf_jinja_evaluate(run, node->a);
        b = pf_jinja_evaluate(run, node->b);
        return pf_jinja_item(run, &a, &b);
    case PF_JINJA_NODE_SLICE: return evaluate_slice(run, node);
    case PF_JINJA_NODE_CALL: {
        a = pf_jinja_evaluate(run, node->a);
        const pf_jinja_arguments args = pf_jinja_arguments_of(run, node);
        return pf_jinja_call(run, &a, &args);
    }
    case PF_JINJA_NODE_FILTER:
    case PF_JINJA_NODE_TEST: return evaluate_named(run, node);
    case PF_JINJA_NODE_NOT: a = pf_jinja_evaluate(run, node->a); return pf_jinja_bool(!pf_jinja_is_true(&a));
    case PF_JINJA_NODE_NEGATIVE:
    case PF_JINJA_NODE_POSITIVE: return evaluate_sign(run, node);
    case PF_JINJA_NODE_AND:
        a = pf_jinja_evaluate(run, node->a);
        return pf_jinja_is_true(&a) ? pf_jinja_evaluate(run, node->b) : a;
    case PF_JINJA_NODE_OR:
        a = pf_jinja_evaluate(run, node->a);
        return pf_jinja_is_true(&a) ? a : pf_jinja_evaluate(run, node->b);
    case PF_JINJA_NODE_BINARY:
        a = pf_jinja_evaluate(run, node->a);
        b = pf_jinja_evaluate(run, node->b);
        return pf_jinja_arithmetic(run, node->text, &a, &b);
    case PF_JINJA_NODE_COMPARE: return evaluate_comparison(run, node);
    case PF_JINJA_NODE_CONDITION:
        a = pf_jinja_evaluate(run, node->b);
        if (pf_jinja_is_true(&a)) return pf_jinja_evaluate(run, node->a);
        return node->c != NULL ? pf_jinja_evaluate(run, node->c) : nothing();
    default: return nothing();
    }
}

pf_jinja_value pf_jinja_evaluate(pf_jinja_run *run, const pf_jinja_node *node)
{
    pf_jinja_heap *heap = run->heap;
    pf_jinja_value value = nothing();
    if (node == NULL || !pf_jinja_step(heap, 1)) return value;
    heap->line = node->line;
    heap->depth++;
    if (heap->depth > PF_JINJA_MAX_DEPTH)
        pf_jinja_fail(heap, PF_LIMIT, "expressions and calls are nested more than %d deep", PF_JINJA_MAX_DEPTH);
    else
        value = evaluate_by_kind(run, node);
    heap->depth--;
    return pf_jinja_is_well(heap) ? value : nothing();
}
