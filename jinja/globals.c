/* Functions that every template has. */
#include <string.h>
#include <time.h>

#include "jinja/rendering.h"

#define FUNCTION(name) \
    static pf_jinja_value name(pf_jinja_run *run, const pf_jinja_value *self, const pf_jinja_arguments *args)

FUNCTION(raise_exception)
{
    const pf_jinja_value *message = pf_jinja_argument(args, 0, "message");
    const pf_jinja_text text = message != NULL ? pf_jinja_str(run->heap, message) : PF_JINJA_TEXT("");
    (void)self;
    pf_jinja_fail(run->heap, PF_INVALID, "the template refuses its input: %.*s", (int)(text.n < 180 ? text.n : 180),
                  text.n > 0 ? text.data : "");
    return pf_jinja_none();
}

FUNCTION(strftime_now)
{
    const pf_jinja_value *format = pf_jinja_argument(args, 0, "format");
    char pattern[128] = "", out[512];
    struct tm now;
    const time_t seconds = time(NULL);
    (void)self;
    if (format == NULL || format->kind != PF_JINJA_STRING || format->as.text.n >= sizeof pattern) {
        pf_jinja_fail(run->heap, PF_INVALID, "strftime_now() takes a format of at most %zu bytes", sizeof pattern - 1);
        return pf_jinja_none();
    }
    memcpy(pattern, format->as.text.data, format->as.text.n);
    const size_t n = localtime_r(&seconds, &now) != NULL ? strftime(out, sizeof out, pattern, &now) : 0;
    pf_jinja_builder b = { .n = 0 };
    pf_jinja_add(run->heap, &b, out, n);
    return pf_jinja_string((pf_jinja_text){ b.data, b.n });
}

FUNCTION(range)
{
    enum { LONGEST = 100000 };
    int64_t bounds[3] = { 0, 0, 1 };
    (void)self;
    for (size_t i = 0; i < args->n && i < 3; i++)
        bounds[i] = pf_jinja_is_number(&args->items[i]) ? pf_jinja_integer_of(&args->items[i]) : 0;
    const int64_t begin = args->n > 1 ? bounds[0] : 0, end = args->n > 1 ? bounds[1] : bounds[0], step = bounds[2];
    pf_jinja_value list = pf_jinja_new_list(run->heap, PF_JINJA_LIST);
    if (args->n == 0 || step == 0 || step < -INT32_MAX || step > INT32_MAX || begin > INT32_MAX || begin < -INT32_MAX) {
        pf_jinja_fail(run->heap, PF_INVALID, "range() takes an end, or a begin, an end and a step that is not 0");
        return list;
    }
    for (int64_t i = begin; pf_jinja_is_well(run->heap) && (step > 0 ? i < end : i > end); i += step) {
        if (list.as.list->n == LONGEST)
            pf_jinja_fail(run->heap, PF_LIMIT, "range() has more than %d items, the most in Jinja's sandbox", LONGEST);
        pf_jinja_push(run->heap, &list, pf_jinja_int(i));
    }
    return list;
}

/* Of a dictionary, or of keyword arguments. */
static pf_jinja_value new_fields(pf_jinja_run *run, pf_jinja_kind kind, const pf_jinja_arguments *args)
{
    pf_jinja_value dict = pf_jinja_new_dict(run->heap, kind);
    const pf_jinja_value *from = args->n > 0 ? &args->items[0] : NULL;
    for (size_t i = 0; from != NULL && pf_jinja_is_mapping(from) && pf_jinja_is_well(run->heap) && i < from->as.dict->n;
         i++)
        pf_jinja_put(run->heap, &dict, from->as.dict->keys[i], from->as.dict->values[i]);
    for (size_t i = 0; pf_jinja_is_well(run->heap) && i < args->n_named; i++)
        pf_jinja_put(run->heap, &dict, pf_jinja_string(args->names[i]), args->named[i]);
    return dict;
}
FUNCTION(namespace)
{
    (void)self;
    return new_fields(run, PF_JINJA_NAMESPACE, args);
}
FUNCTION(dict)
{
    (void)self;
    return new_fields(run, PF_JINJA_DICT, args);
}

/* joiner(", "): nothing at the first call, then the text. */
FUNCTION(join_next)
{
    pf_jinja_value state = *self;
    const pf_jinja_text used = PF_JINJA_TEXT("used");
    const pf_jinja_value *between = pf_jinja_get_text(run->heap, self, PF_JINJA_TEXT("between"));
    const bool is_first = pf_jinja_get_text(run->heap, self, used) == NULL;
    (void)args;
    pf_jinja_put(run->heap, &state, pf_jinja_string(used), pf_jinja_bool(true));
    return is_first || between == NULL ? pf_jinja_string(PF_JINJA_TEXT("")) : *between;
}
FUNCTION(joiner)
{
    const pf_jinja_value *between = pf_jinja_argument(args, 0, "sep");
    pf_jinja_value state = pf_jinja_new_dict(run->heap, PF_JINJA_NAMESPACE);
    (void)self;
    if (!pf_jinja_is_well(run->heap)) return pf_jinja_none();
    pf_jinja_put(run->heap, &state, pf_jinja_string(PF_JINJA_TEXT("between")),
                 between != NULL ? *between : pf_jinja_string(PF_JINJA_TEXT(", ")));
    return pf_jinja_new_callable(run, join_next, state);
}

pf_jinja_value pf_jinja_global(pf_jinja_run *run, pf_jinja_text name)
{
    static const struct {
        const char *name;
        pf_jinja_function *function;
    } functions[] = {
        { "raise_exception", raise_exception },
        { "strftime_now", strftime_now },
        { "range", range },
        { "namespace", namespace },
        { "dict", dict },
        { "joiner", joiner },
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (pf_jinja_text_is(name, functions[i].name))
            return pf_jinja_new_callable(run, functions[i].function, pf_jinja_none());
    return pf_jinja_undefined(name);
}
