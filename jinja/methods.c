/* Methods of texts, lists and dictionaries: Python's, those that change nothing. */
#include <string.h>
#include <utf8proc.h>

#include "jinja/rendering.h"

static pf_jinja_value fail_argument(pf_jinja_run *run, const char *method, const char *expected)
{
    pf_jinja_fail(run->heap, PF_INVALID, "%s() takes %s", method, expected);
    return pf_jinja_none();
}

/* A text argument in *out; false, and a failure: it is none. */
static bool text_argument(pf_jinja_run *run, const pf_jinja_arguments *args, size_t i, const char *name,
                          const char *method, pf_jinja_text *out)
{
    const pf_jinja_value *v = pf_jinja_argument(args, i, name);
    if (v != NULL && v->kind == PF_JINJA_STRING) {
        *out = v->as.text;
        return true;
    }
    fail_argument(run, method, "a text");
    return false;
}

/* ---- texts ----------------------------------------------------------------------------------------------------------- */

#define METHOD(name) \
    static pf_jinja_value name(pf_jinja_run *run, const pf_jinja_value *self, const pf_jinja_arguments *args)

static pf_jinja_value stripped(pf_jinja_run *run, const pf_jinja_value *self, const pf_jinja_arguments *args, bool left,
                               bool right)
{
    return pf_jinja_string(pf_jinja_strip(run->heap, self->as.text, pf_jinja_argument(args, 0, "chars"), left, right));
}
METHOD(strip)
{
    return stripped(run, self, args, true, true);
}
METHOD(lstrip)
{
    return stripped(run, self, args, true, false);
}
METHOD(rstrip)
{
    return stripped(run, self, args, false, true);
}

static pf_jinja_value cased(pf_jinja_run *run, const pf_jinja_value *self, pf_jinja_case wanted)
{
    return pf_jinja_string(pf_jinja_cased(run->heap, self->as.text, wanted));
}
METHOD(upper)
{
    (void)args;
    return cased(run, self, PF_JINJA_CASE_UPPER);
}
METHOD(lower)
{
    (void)args;
    return cased(run, self, PF_JINJA_CASE_LOWER);
}
METHOD(capitalize)
{
    (void)args;
    return cased(run, self, PF_JINJA_CASE_CAPITAL);
}
METHOD(title)
{
    (void)args;
    return cased(run, self, PF_JINJA_CASE_TITLE);
}

/* Whether a text begins, or ends, with another one, or with one of a tuple. */
static pf_jinja_value has_end(pf_jinja_run *run, pf_jinja_text text, const pf_jinja_arguments *args, bool at_end)
{
    const pf_jinja_value *v = pf_jinja_argument(args, 0, at_end ? "suffix" : "prefix");
    if (v == NULL || (v->kind != PF_JINJA_STRING && v->kind != PF_JINJA_TUPLE))
        return fail_argument(run, at_end ? "endswith" : "startswith", "a text or a tuple of texts");
    const size_t n = v->kind == PF_JINJA_STRING ? 1 : v->as.list->n;
    for (size_t i = 0; i < n; i++) {
        const pf_jinja_value *one = v->kind == PF_JINJA_STRING ? v : &v->as.list->items[i];
        if (one->kind != PF_JINJA_STRING || one->as.text.n > text.n) continue;
        const size_t from = at_end ? text.n - one->as.text.n : 0;
        if (pf_jinja_texts_equal((pf_jinja_text){ text.data + from, one->as.text.n }, one->as.text))
            return pf_jinja_bool(true);
    }
    return pf_jinja_bool(false);
}
METHOD(startswith)
{
    return has_end(run, self->as.text, args, false);
}
METHOD(endswith)
{
    return has_end(run, self->as.text, args, true);
}

METHOD(removeprefix)
{
    pf_jinja_text part, text = self->as.text;
    if (!text_argument(run, args, 0, "prefix", "removeprefix", &part)) return pf_jinja_none();
    const bool has = part.n <= text.n && pf_jinja_texts_equal((pf_jinja_text){ text.data, part.n }, part);
    return has ? pf_jinja_string((pf_jinja_text){ text.data + part.n, text.n - part.n }) : *self;
}
METHOD(removesuffix)
{
    pf_jinja_text part, text = self->as.text;
    if (!text_argument(run, args, 0, "suffix", "removesuffix", &part)) return pf_jinja_none();
    if (part.n > text.n) return *self;
    const bool has = pf_jinja_texts_equal((pf_jinja_text){ text.data + text.n - part.n, part.n }, part);
    return has ? pf_jinja_string((pf_jinja_text){ text.data, text.n - part.n }) : *self;
}

/* The last place of `part` below `end`; text.n: nowhere. */
static size_t find_last(pf_jinja_run *run, pf_jinja_text text, pf_jinja_text part, size_t end)
{
    if (part.n > end) return text.n;
    for (size_t at = end - part.n + 1; at-- > 0 && pf_jinja_step(run->heap, 1 + part.n / 64);)
        if (memcmp(text.data + at, part.data, part.n) == 0) return at;
    return text.n;
}

static void push_text(pf_jinja_run *run, pf_jinja_value *list, pf_jinja_text text, size_t begin, size_t end)
{
    pf_jinja_push(run->heap, list, pf_jinja_string((pf_jinja_text){ text.data + begin, end - begin }));
}

/* At runs of white space. */
static pf_jinja_value split_at_space(pf_jinja_run *run, pf_jinja_text text, int64_t most)
{
    pf_jinja_value list = pf_jinja_new_list(run->heap, PF_JINJA_LIST);
    for (int64_t i = 0; pf_jinja_step(run->heap, 1); i++) {
        text = pf_jinja_strip(run->heap, text, NULL, true, false);
        if (text.n == 0) break;
        if (most >= 0 && i == most) {
            const pf_jinja_text rest = pf_jinja_strip(run->heap, text, NULL, false, true);
            push_text(run, &list, rest, 0, rest.n);
            break;
        }
        size_t end = 0;
        for (; end < text.n && pf_jinja_step(run->heap, 1);) {
            const size_t n = pf_jinja_byte_of(run->heap, (pf_jinja_text){ text.data + end, text.n - end }, 1);
            if (pf_jinja_strip(run->heap, (pf_jinja_text){ text.data + end, n }, NULL, true, false).n == 0) break;
            end += n;
        }
        push_text(run, &list, text, 0, end);
        text.data += end;
        text.n -= end;
    }
    return list;
}

METHOD(split)
{
    const pf_jinja_value *by = pf_jinja_argument(args, 0, "sep");
    const int64_t most = pf_jinja_integer_argument(args, 1, "maxsplit", -1);
    pf_jinja_text text = self->as.text;
    if (by == NULL || by->kind == PF_JINJA_NONE) return split_at_space(run, text, most);
    if (by->kind != PF_JINJA_STRING || by->as.text.n == 0)
        return fail_argument(run, "split", "a text that is not empty");
    pf_jinja_value list = pf_jinja_new_list(run->heap, PF_JINJA_LIST);
    size_t at = 0;
    for (int64_t i = 0; (most < 0 || i < most) && pf_jinja_step(run->heap, 1); i++) {
        const size_t found = pf_jinja_find(run->heap, text, by->as.text, at);
        if (found >= text.n) break;
        push_text(run, &list, text, at, found);
        at = found + by->as.text.n;
    }
    push_text(run, &list, text, at, text.n);
    return list;
}

METHOD(rsplit)
{
    const pf_jinja_value *by = pf_jinja_argument(args, 0, "sep");
    const int64_t most = pf_jinja_integer_argument(args, 1, "maxsplit", -1);
    if (most < 0 || by == NULL || by->kind != PF_JINJA_STRING || by->as.text.n == 0) return split(run, self, args);
    const pf_jinja_text text = self->as.text;
    pf_jinja_value backwards = pf_jinja_new_list(run->heap, PF_JINJA_LIST), list = backwards;
    size_t end = text.n;
    for (int64_t i = 0; i < most && pf_jinja_step(run->heap, 1); i++) {
        const size_t found = find_last(run, text, by->as.text, end);
        if (found >= text.n) break;
        push_text(run, &backwards, text, found + by->as.text.n, end);
        end = found;
    }
    push_text(run, &backwards, text, 0, end);
    if (!pf_jinja_is_well(run->heap)) return backwards;
    list = pf_jinja_new_list(run->heap, PF_JINJA_LIST);
    for (size_t i = backwards.as.list->n; pf_jinja_is_well(run->heap) && i-- > 0;)
        pf_jinja_push(run->heap, &list, backwards.as.list->items[i]);
    return list;
}

METHOD(splitlines)
{
    const pf_jinja_value *keeps = pf_jinja_argument(args, 0, "keepends");
    const bool keeps_ends = keeps != NULL && pf_jinja_is_true(keeps);
    const pf_jinja_text text = self->as.text;
    pf_jinja_value list = pf_jinja_new_list(run->heap, PF_JINJA_LIST);
    for (size_t at = 0; at < text.n && pf_jinja_step(run->heap, 1);) {
        size_t end = at;
        while (end < text.n && text.data[end] != '\n' && text.data[end] != '\r') end++;
        size_t next = end < text.n ? end + 1 : end;
        if (next < text.n && text.data[end] == '\r' && text.data[next] == '\n') next++;
        push_text(run, &list, text, at, keeps_ends ? next : end);
        at = next;
    }
    return list;
}

METHOD(replace)
{
    pf_jinja_text from, to;
    if (!text_argument(run, args, 0, "old", "replace", &from)) return pf_jinja_none();
    if (!text_argument(run, args, 1, "new", "replace", &to)) return pf_jinja_none();
    return pf_jinja_string(
        pf_jinja_replace(run->heap, self->as.text, from, to, pf_jinja_integer_argument(args, 2, "count", -1)));
}

static int64_t character_of(pf_jinja_run *run, pf_jinja_text text, size_t at)
{
    return at >= text.n ? -1 : (int64_t)pf_jinja_characters(run->heap, (pf_jinja_text){ text.data, at });
}
METHOD(find)
{
    pf_jinja_text part;
    if (!text_argument(run, args, 0, "sub", "find", &part)) return pf_jinja_none();
    if (part.n == 0) return pf_jinja_int(0);
    const int64_t from = pf_jinja_integer_argument(args, 1, "start", 0);
    const size_t begin = pf_jinja_byte_of(run->heap, self->as.text, from > 0 ? (size_t)from : 0);
    return pf_jinja_int(character_of(run, self->as.text, pf_jinja_find(run->heap, self->as.text, part, begin)));
}
METHOD(rfind)
{
    pf_jinja_text part;
    if (!text_argument(run, args, 0, "sub", "rfind", &part)) return pf_jinja_none();
    if (part.n == 0) return pf_jinja_int((int64_t)pf_jinja_characters(run->heap, self->as.text));
    return pf_jinja_int(character_of(run, self->as.text, find_last(run, self->as.text, part, self->as.text.n)));
}
METHOD(text_index)
{
    const pf_jinja_value found = find(run, self, args);
    if (found.kind == PF_JINJA_INT && found.as.integer < 0)
        pf_jinja_fail(run->heap, PF_INVALID, "index(): the text is not there");
    return found;
}
METHOD(text_count)
{
    pf_jinja_text part;
    int64_t n = 0;
    if (!text_argument(run, args, 0, "sub", "count", &part)) return pf_jinja_none();
    if (part.n == 0) return pf_jinja_int((int64_t)pf_jinja_characters(run->heap, self->as.text) + 1);
    for (size_t at = 0; pf_jinja_step(run->heap, 1); n++) {
        const size_t found = pf_jinja_find(run->heap, self->as.text, part, at);
        if (found >= self->as.text.n) break;
        at = found + part.n;
    }
    return pf_jinja_int(n);
}

METHOD(join)
{
    const pf_jinja_value *list = pf_jinja_argument(args, 0, "iterable");
    if (list == NULL) return fail_argument(run, "join", "a list");
    const pf_jinja_value items = pf_jinja_items(run, list);
    pf_jinja_builder b = { .n = 0 };
    for (size_t i = 0; pf_jinja_is_well(run->heap) && i < items.as.list->n; i++) {
        const pf_jinja_value *item = &items.as.list->items[i];
        if (item->kind != PF_JINJA_STRING) return fail_argument(run, "join", "a list of texts");
        if (i > 0) pf_jinja_add(run->heap, &b, self->as.text.data, self->as.text.n);
        pf_jinja_add(run->heap, &b, item->as.text.data, item->as.text.n);
    }
    return pf_jinja_string((pf_jinja_text){ b.data, b.n });
}

METHOD(zfill)
{
    const int64_t width = pf_jinja_integer_argument(args, 0, "width", 0);
    const pf_jinja_text text = self->as.text;
    const bool has_sign = text.n > 0 && (text.data[0] == '-' || text.data[0] == '+');
    pf_jinja_builder b = { .n = 0 };
    pf_jinja_add(run->heap, &b, text.data, has_sign);
    for (int64_t i = (int64_t)pf_jinja_characters(run->heap, text); i < width && pf_jinja_step(run->heap, 1); i++)
        pf_jinja_add(run->heap, &b, "0", 1);
    pf_jinja_add(run->heap, &b, text.data + has_sign, text.n - has_sign);
    return pf_jinja_string((pf_jinja_text){ b.data, b.n });
}

/* A text in a field of `width` characters: at its left (side -1), at its right (1), or in its middle. */
static pf_jinja_value pad(pf_jinja_run *run, const pf_jinja_value *self, const pf_jinja_arguments *args, int side)
{
    const int64_t width = pf_jinja_integer_argument(args, 0, "width", 0);
    const pf_jinja_value *given = pf_jinja_argument(args, 1, "fillchar");
    const pf_jinja_text fill = given != NULL && given->kind == PF_JINJA_STRING ? given->as.text : PF_JINJA_TEXT(" ");
    const int64_t missing = width - (int64_t)pf_jinja_characters(run->heap, self->as.text);
    if (pf_jinja_characters(run->heap, fill) != 1) return fail_argument(run, "center", "a fill of one character");
    if (missing <= 0) return *self;
    const int64_t left = side < 0 ? 0 : side > 0 ? missing : missing / 2 + (missing & width & 1);
    pf_jinja_builder b = { .n = 0 };
    for (int64_t i = 0; i <= missing && pf_jinja_step(run->heap, 1); i++) {
        if (i == left) pf_jinja_add(run->heap, &b, self->as.text.data, self->as.text.n);
        if (i < missing) pf_jinja_add(run->heap, &b, fill.data, fill.n);
    }
    return pf_jinja_string((pf_jinja_text){ b.data, b.n });
}
METHOD(ljust)
{
    return pad(run, self, args, -1);
}
METHOD(center)
{
    return pad(run, self, args, 0);
}
METHOD(rjust)
{
    return pad(run, self, args, 1);
}

/* ("before", part, "behind"); where `part` is nowhere, all is before it, or behind. */
static pf_jinja_value cut(pf_jinja_run *run, const pf_jinja_value *self, const pf_jinja_arguments *args, bool last)
{
    pf_jinja_text part, text = self->as.text;
    if (!text_argument(run, args, 0, "sep", "partition", &part)) return pf_jinja_none();
    if (part.n == 0) return fail_argument(run, "partition", "a text that is not empty");
    pf_jinja_value list = pf_jinja_new_list(run->heap, PF_JINJA_TUPLE);
    const size_t at = last ? find_last(run, text, part, text.n) : pf_jinja_find(run->heap, text, part, 0);
    if (!pf_jinja_is_well(run->heap)) return list;
    const bool found = at < text.n;
    const size_t begin = found ? at : last ? 0 : text.n, end = found ? at + part.n : begin;
    push_text(run, &list, text, 0, begin);
    push_text(run, &list, text, begin, end);
    push_text(run, &list, text, end, text.n);
    return list;
}
METHOD(partition)
{
    return cut(run, self, args, false);
}
METHOD(rpartition)
{
    return cut(run, self, args, true);
}

/* What a field of str.format() names: "", a number, or a keyword. NULL: nothing, and a failure. */
static const pf_jinja_value *field_of(pf_jinja_run *run, const pf_jinja_arguments *args, pf_jinja_text name,
                                      size_t *next)
{
    size_t index = 0, n_digits = 0;
    while (n_digits < name.n && n_digits < 6 && name.data[n_digits] >= '0' && name.data[n_digits] <= '9')
        index = index * 10 + (size_t)(name.data[n_digits++] - '0');
    for (size_t i = 0; name.n > 0 && i < args->n_named; i++)
        if (pf_jinja_texts_equal(args->names[i], name)) return &args->named[i];
    if (n_digits == name.n) {
        if (name.n == 0) index = (*next)++;
        if (index < args->n) return &args->items[index];
    }
    fail_argument(run, "format", "as many values as its fields name, each a number or a name alone");
    return NULL;
}
METHOD(format)
{
    const pf_jinja_text text = self->as.text;
    pf_jinja_builder b = { .n = 0 };
    size_t next = 0;
    for (size_t i = 0; i < text.n && pf_jinja_step(run->heap, 1); i++) {
        const char c = text.data[i];
        const bool is_brace = c == '{' || c == '}';
        const bool is_twice = is_brace && i + 1 < text.n && text.data[i + 1] == c;
        if (!is_brace || is_twice) {
            pf_jinja_add(run->heap, &b, &c, 1);
            i += is_twice;
            continue;
        }
        const size_t end = pf_jinja_find(run->heap, text, PF_JINJA_TEXT("}"), i);
        if (c == '}' || end >= text.n) return fail_argument(run, "format", "braces that are closed, or written twice");
        const pf_jinja_value *v = field_of(run, args, (pf_jinja_text){ text.data + i + 1, end - i - 1 }, &next);
        if (v == NULL) break;
        const pf_jinja_text shown = pf_jinja_str(run->heap, v);
        pf_jinja_add(run->heap, &b, shown.data, shown.n);
        i = end;
    }
    return pf_jinja_string((pf_jinja_text){ b.data, b.n });
}

/* Whether all characters, of one at least, are of a class. */
typedef bool class_fn(int32_t code);

static bool is_digit(int32_t code)
{
    return utf8proc_category(code) == UTF8PROC_CATEGORY_ND;
}
static bool is_letter(int32_t code)
{
    const utf8proc_category_t c = utf8proc_category(code);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}
static bool is_letter_or_digit(int32_t code)
{
    return is_letter(code) || is_digit(code);
}

static pf_jinja_value all_are(pf_jinja_run *run, pf_jinja_text text, class_fn *is)
{
    for (size_t at = 0; at < text.n && pf_jinja_step(run->heap, 1);) {
        utf8proc_int32_t code;
        const utf8proc_ssize_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)text.data + at, (utf8proc_ssize_t)(text.n - at), &code);
        if (n <= 0 || !is(code)) return pf_jinja_bool(false);
        at += (size_t)n;
    }
    return pf_jinja_bool(text.n > 0);
}
METHOD(text_is_digit)
{
    (void)args;
    return all_are(run, self->as.text, is_digit);
}
METHOD(text_is_alpha)
{
    (void)args;
    return all_are(run, self->as.text, is_letter);
}
METHOD(text_is_alnum)
{
    (void)args;
    return all_are(run, self->as.text, is_letter_or_digit);
}
METHOD(text_is_space)
{
    (void)args;
    return pf_jinja_bool(self->as.text.n > 0 && pf_jinja_strip(run->heap, self->as.text, NULL, true, false).n == 0);
}
METHOD(text_is_upper)
{
    (void)args;
    return pf_jinja_bool(pf_jinja_is_cased(run->heap, self->as.text, PF_JINJA_CASE_UPPER));
}
METHOD(text_is_lower)
{
    (void)args;
    return pf_jinja_bool(pf_jinja_is_cased(run->heap, self->as.text, PF_JINJA_CASE_LOWER));
}

/* ---- lists and dictionaries ------------------------------------------------------------------------------------------ */

METHOD(list_count)
{
    const pf_jinja_value *item = pf_jinja_argument(args, 0, "value");
    int64_t n = 0;
    for (size_t i = 0; item != NULL && i < self->as.list->n && pf_jinja_step(run->heap, 1); i++)
        n += pf_jinja_equal(run->heap, &self->as.list->items[i], item);
    return pf_jinja_int(n);
}
METHOD(list_index)
{
    const pf_jinja_value *item = pf_jinja_argument(args, 0, "value");
    for (size_t i = 0; item != NULL && i < self->as.list->n && pf_jinja_step(run->heap, 1); i++)
        if (pf_jinja_equal(run->heap, &self->as.list->items[i], item)) return pf_jinja_int((int64_t)i);
    pf_jinja_fail(run->heap, PF_INVALID, "index(): the value is not in the list");
    return pf_jinja_none();
}

METHOD(keys)
{
    (void)args;
    return pf_jinja_items(run, self);
}
METHOD(values)
{
    (void)args;
    pf_jinja_value list = pf_jinja_new_list(run->heap, PF_JINJA_LIST);
    for (size_t i = 0; pf_jinja_is_well(run->heap) && i < self->as.dict->n; i++)
        pf_jinja_push(run->heap, &list, self->as.dict->values[i]);
    return list;
}
METHOD(items)
{
    (void)args;
    pf_jinja_value list = pf_jinja_new_list(run->heap, PF_JINJA_LIST);
    for (size_t i = 0; pf_jinja_is_well(run->heap) && i < self->as.dict->n; i++) {
        pf_jinja_value pair = pf_jinja_new_list(run->heap, PF_JINJA_TUPLE);
        if (!pf_jinja_is_well(run->heap)) break;
        pf_jinja_push(run->heap, &pair, self->as.dict->keys[i]);
        pf_jinja_push(run->heap, &pair, self->as.dict->values[i]);
        pf_jinja_push(run->heap, &list, pair);
    }
    return list;
}
METHOD(get)
{
    const pf_jinja_value *key = pf_jinja_argument(args, 0, "key"), *otherwise = pf_jinja_argument(args, 1, "default");
    if (key == NULL) return fail_argument(run, "get", "a key");
    const pf_jinja_value *found = pf_jinja_get(run->heap, self, key);
    return found != NULL ? *found : otherwise != NULL ? *otherwise : pf_jinja_none();
}
METHOD(copy)
{
    (void)args;
    (void)run;
    return *self;
}

METHOD(refused)
{
    (void)args;
    PF_JINJA_FAIL_KIND(run, self, "does not change: a template sees its data only");
    return pf_jinja_none();
}

/* ---- by name --------------------------------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    pf_jinja_function *function;
} method;

static const method OF_TEXTS[] = {
    { "strip", strip },
    { "lstrip", lstrip },
    { "rstrip", rstrip },
    { "upper", upper },
    { "lower", lower },
    { "capitalize", capitalize },
    { "title", title },
    { "startswith", startswith },
    { "endswith", endswith },
    { "removeprefix", removeprefix },
    { "removesuffix", removesuffix },
    { "split", split },
    { "rsplit", rsplit },
    { "splitlines", splitlines },
    { "replace", replace },
    { "find", find },
    { "rfind", rfind },
    { "index", text_index },
    { "count", text_count },
    { "join", join },
    { "zfill", zfill },
    { "ljust", ljust },
    { "center", center },
    { "rjust", rjust },
    { "partition", partition },
    { "rpartition", rpartition },
    { "format", format },
    { "isdigit", text_is_digit },
    { "isnumeric", text_is_digit },
    { "isdecimal", text_is_digit },
    { "isalpha", text_is_alpha },
    { "isalnum", text_is_alnum },
    { "isspace", text_is_space },
    { "isupper", text_is_upper },
    { "islower", text_is_lower },
    { NULL, NULL },
};
static const method OF_LISTS[] = {
    { "count", list_count }, { "index", list_index }, { "copy", copy },     { "append", refused },
    { "insert", refused },   { "extend", refused },   { "pop", refused },   { "remove", refused },
    { "sort", refused },     { "reverse", refused },  { "clear", refused }, { NULL, NULL },
};
static const method OF_DICTS[] = {
    { "keys", keys },      { "values", values },      { "items", items }, { "get", get },
    { "copy", copy },      { "setdefault", refused }, { "pop", refused }, { "popitem", refused },
    { "update", refused }, { "clear", refused },      { NULL, NULL },
};
static const method NONE[] = { { NULL, NULL } };

pf_jinja_value pf_jinja_method(pf_jinja_run *run, const pf_jinja_value *self, pf_jinja_text name)
{
    const method *m = self->kind == PF_JINJA_STRING ? OF_TEXTS
                      : pf_jinja_is_sequence(self)  ? OF_LISTS
                      : self->kind == PF_JINJA_DICT ? OF_DICTS
                                                    : NONE;
    for (; m->name != NULL; m++)
        if (pf_jinja_text_is(name, m->name)) return pf_jinja_new_callable(run, m->function, *self);
    return pf_jinja_undefined(name);
}

pf_jinja_value pf_jinja_items(pf_jinja_run *run, const pf_jinja_value *of)
{
    pf_jinja_value list = pf_jinja_new_list(run->heap, PF_JINJA_LIST);
    if (!pf_jinja_is_well(run->heap)) return list;
    switch (of->kind) {
    case PF_JINJA_LIST:
    case PF_JINJA_TUPLE: (void)pf_jinja_step(run->heap, of->as.list->n); return *of; /* they are gone through */
    case PF_JINJA_UNDEFINED: return list;
    case PF_JINJA_DICT:
    case PF_JINJA_NAMESPACE:
        for (size_t i = 0; pf_jinja_is_well(run->heap) && i < of->as.dict->n; i++)
            pf_jinja_push(run->heap, &list, of->as.dict->keys[i]);
        return list;
    case PF_JINJA_STRING:
        for (size_t at = 0, n; at < of->as.text.n && pf_jinja_is_well(run->heap); at += n) {
            const pf_jinja_text rest = { of->as.text.data + at, of->as.text.n - at };
            n = pf_jinja_byte_of(run->heap, rest, 1);
            push_text(run, &list, rest, 0, n);
        }
        return list;
    default: PF_JINJA_FAIL_KIND(run, of, "cannot be looped over"); return list;
    }
}
