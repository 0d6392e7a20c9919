#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pattern/pattern.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/stop.h"
#include "tokenizer/unicode/character_bytes.h"
#include "tokenizer/unicode/newer_characters.h"
#include "tokenizer/pattern/regex_syntax.h"

enum {
    STEPS_AT_FIRST = 4096, /* step limit of a search; it grows eightfold on demand */
    SEARCHES_A_CLOCK_LOOK = 256,
    GROWTH_A_BYTE = 64, /* bytes that steps may add for each byte of a text, besides a MiB */
    /* Backtracking memory of a search: a repeated group takes some 24 bytes an iteration, and a text of megabytes can be
     * one match with an iteration for each letter. */
    MEMORY_BYTES = 256 << 20,
    FIRST_STACK_BYTES = 32 << 10,
};
static const uint64_t STEPS_ON_DEMAND = 100000000; /* largest step limit of a search, plus a hundred for each byte */
static const uint64_t DEADLINE_NS = 10000000000u;  /* of a text, plus ten microseconds for each byte */

struct pf_pattern {
    pcre2_code *code;     /* NULL: a literal text */
    pcre2_code *thorough; /* for texts with characters that PCRE2 may not know; NULL: equal to code */
    char *text;           /* [n_text], at least a byte */
    size_t n_text;
};

struct pf_searcher {
    pcre2_match_data *match;
    pcre2_match_context *limits;
    pcre2_jit_stack *stack; /* NULL until PCRE2's own 32 KiB do not suffice */
    uint64_t
        max_steps; /* of one search: PCRE2 does not report the steps taken, so all searches share only a deadline */
    uint64_t deadline_ns;
    size_t growth_left;
    uint32_t n_searches;
    const volatile bool *cancel; /* or NULL */
};

/* --- building --- */

/* `regex`: the regular expression in the file, for errors. */
static pf_status compile(const pf_json *doc, const char *regex, const char *pattern, size_t n_bytes, pcre2_code **out,
                         pf_error *error)
{
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    int code;
    PCRE2_SIZE offset;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return pf_fail(error, PF_NOMEM, "%s: no memory for the pattern", doc->name);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    *out = pcre2_compile((PCRE2_SPTR)pattern, n_bytes, options, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (!*out) {
        PCRE2_UCHAR why[120] = "";
        pcre2_get_error_message(code, why, sizeof why);
        return pf_fail(error, PF_UNSUPPORTED, "%s: PCRE2 does not compile the pattern: %s: %.160s", doc->name,
                       (const char *)why, regex);
    }
    (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* on failure PCRE2 uses its interpreter */
    return PF_OK;
}

static pf_status create(const pf_json *doc, pf_pattern **out, pf_error *error)
{
    *out = calloc(1, sizeof **out);
    return *out ? PF_OK : pf_fail(error, PF_NOMEM, "%s: no memory for the pattern", doc->name);
}

static pf_status compile_both(const pf_json *doc, const char *regex, size_t n_bytes, pf_pattern *made, pf_error *error)
{
    char *plain = NULL, *thorough = NULL;
    size_t n_plain = 0, n_thorough = 0;
    pf_status status = pf_regex_from_oniguruma(doc->name, regex, n_bytes, true, &thorough, &n_thorough, error);
    if (status == PF_OK) status = pf_regex_from_oniguruma(doc->name, regex, n_bytes, false, &plain, &n_plain, error);
    if (status == PF_OK) status = compile(doc, regex, plain, n_plain, &made->code, error);
    if (status == PF_OK && strcmp(plain, thorough) != 0)
        status = compile(doc, regex, thorough, n_thorough, &made->thorough, error);
    free(plain);
    free(thorough);
    return status;
}

pf_status pf_pattern_of_regex(const pf_json *doc, const char *regex, size_t n_bytes, pf_pattern **out, pf_error *error)
{
    pf_pattern *made;
    PF_TRY(create(doc, &made, error));
    const pf_status status = compile_both(doc, regex, n_bytes, made, error);
    if (status == PF_OK)
        *out = made;
    else
        pf_pattern_destroy(made);
    return status;
}

pf_status pf_pattern_of_text(const pf_json *doc, const char *text, size_t n_bytes, pf_pattern **out, pf_error *error)
{
    if (n_bytes == 0) return pf_pattern_of_regex(doc, "", 0, out, error); /* matches between characters */
    pf_pattern *made;
    PF_TRY(create(doc, &made, error));
    made->text = malloc(n_bytes);
    if (!made->text) {
        pf_pattern_destroy(made);
        return pf_fail(error, PF_NOMEM, "%s: no memory for the pattern", doc->name);
    }
    memcpy(made->text, text, n_bytes);
    made->n_text = n_bytes;
    *out = made;
    return PF_OK;
}

pf_status pf_pattern_read(const pf_json *doc, const json_t *part, pf_pattern **out, pf_error *error)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex"), *text = json_object_get(pattern, "String");
    if (json_object_size(pattern) == 1 && json_is_string(regex))
        return pf_pattern_of_regex(doc, json_string_value(regex), json_string_length(regex), out, error);
    if (json_object_size(pattern) == 1 && json_is_string(text))
        return pf_pattern_of_text(doc, json_string_value(text), json_string_length(text), out, error);
    return pf_fail(error, PF_FORMAT, "%s: pattern must be {\"Regex\": ...} or {\"String\": ...}", doc->name);
}

void pf_pattern_destroy(pf_pattern *pattern)
{
    if (!pattern) return;
    pcre2_code_free(pattern->code);
    pcre2_code_free(pattern->thorough);
    free(pattern->text);
    free(pattern);
}

/* --- searcher --- */

pf_status pf_searcher_create(size_t n_bytes, const volatile bool *cancel, pf_searcher **out)
{
    pf_searcher *s = calloc(1, sizeof *s);
    if (!s) return PF_NOMEM;
    s->cancel = cancel;
    s->match = pcre2_match_data_create(1, NULL);
    s->limits = pcre2_match_context_create(NULL);
    if (!s->match || !s->limits) {
        pf_searcher_destroy(s);
        return PF_NOMEM;
    }
    pcre2_set_heap_limit(s->limits, MEMORY_BYTES >> 10); /* KiB */
    s->max_steps = STEPS_ON_DEMAND + 100u * (uint64_t)n_bytes;
    s->deadline_ns = pf_now_ns() + DEADLINE_NS + 10000u * (uint64_t)n_bytes;
    s->growth_left = (1 << 20) + (n_bytes < SIZE_MAX / (2 * GROWTH_A_BYTE) ? GROWTH_A_BYTE * n_bytes : SIZE_MAX / 2);
    *out = s;
    return PF_OK;
}

void pf_searcher_destroy(pf_searcher *s)
{
    if (!s) return;
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->limits);
    pcre2_jit_stack_free(s->stack);
    free(s);
}

const volatile bool *pf_searcher_cancel(const pf_searcher *searcher)
{
    return searcher->cancel;
}

pf_status pf_searcher_grow(pf_searcher *searcher, size_t n_more)
{
    if (n_more > searcher->growth_left) return PF_LIMIT;
    searcher->growth_left -= n_more;
    return PF_OK;
}

size_t pf_searcher_growth_left(const pf_searcher *searcher)
{
    return searcher->growth_left;
}

/* --- searching --- */

pf_status pf_text_ranges_push(pf_text_ranges *ranges, pf_text_range item)
{
    if (ranges->n == ranges->capacity) {
        size_t bytes;
        const size_t capacity = ranges->capacity ? ranges->capacity * 2 : 64;
        if (!pf_size_mul(capacity, sizeof *ranges->items, &bytes)) return PF_NOMEM;
        pf_text_range *grown = realloc(ranges->items, bytes);
        if (!grown) return PF_NOMEM;
        ranges->items = grown;
        ranges->capacity = capacity;
    }
    ranges->items[ranges->n++] = item;
    return PF_OK;
}

/* Allocate a larger stack for compiled patterns; false: it is the largest already. Its pages are taken on first use. */
static bool enlarge_stack(pf_searcher *s)
{
    if (s->stack) return false;
    s->stack = pcre2_jit_stack_create(FIRST_STACK_BYTES, MEMORY_BYTES, NULL);
    if (!s->stack) return false;
    pcre2_jit_stack_assign(s->limits, NULL, s->stack);
    return true;
}

static pf_status search(pf_searcher *s, const pcre2_code *code, const char *text, size_t n, size_t from, bool *found)
{
    if (pf_is_told(s->cancel)) return PF_CANCELLED;
    if (++s->n_searches % SEARCHES_A_CLOCK_LOOK == 0 && pf_now_ns() > s->deadline_ns) return PF_LIMIT;
    for (uint32_t steps = STEPS_AT_FIRST;;) {
        pcre2_set_match_limit(s->limits, steps);
        const int rc = pcre2_match(code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK, s->match, s->limits);
        if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH) {
            *found = rc >= 0;
            return PF_OK;
        }
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT && enlarge_stack(s)) continue;
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT || rc == PCRE2_ERROR_HEAPLIMIT || rc == PCRE2_ERROR_NOMEMORY)
            return PF_NOMEM;
        if (rc != PCRE2_ERROR_MATCHLIMIT || steps > UINT32_MAX / 8) return PF_LIMIT;
        steps *= 8;
        if (steps > s->max_steps || pf_now_ns() > s->deadline_ns) return PF_LIMIT;
    }
}

/* Push the range before a match, and the match. */
static pf_status push_match(pf_text_ranges *out, size_t *covered, size_t begin, size_t end)
{
    if (begin > *covered) PF_TRY(pf_text_ranges_push(out, (pf_text_range){ *covered, begin, false }));
    *covered = end;
    return pf_text_ranges_push(out, (pf_text_range){ begin, end, true });
}

static pf_status find_regex(const pf_pattern *pattern, pf_searcher *s, const char *text, size_t n, pf_text_ranges *out,
                            size_t *covered)
{
    const bool thorough = pattern->thorough && pf_has_newer(text, n);
    const pcre2_code *code = thorough ? pattern->thorough : pattern->code;
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(s->match);
    size_t last_end = SIZE_MAX, at = 0;
    while (at <= n) {
        bool found = false;
        PF_TRY(search(s, code, text, n, at, &found));
        if (!found) break;
        const size_t begin = range[0], end = range[1];
        if (begin > end) return PF_LIMIT; /* \K in a lookahead */
        if (begin == end && end == last_end) {
            at = pf_character_after(text, n, at);
            continue;
        }
        at = last_end = end;
        PF_TRY(push_match(out, covered, begin, end));
    }
    return PF_OK;
}

static pf_status find_text(const pf_pattern *pattern, const pf_searcher *s, const char *text, size_t n,
                           pf_text_ranges *out, size_t *covered)
{
    const char *found;
    while (!pf_is_told(s->cancel) && (found = memmem(text + *covered, n - *covered, pattern->text, pattern->n_text)))
        PF_TRY(push_match(out, covered, (size_t)(found - text), (size_t)(found - text) + pattern->n_text));
    return pf_is_told(s->cancel) ? PF_CANCELLED : PF_OK;
}

pf_status pf_pattern_find_all(const pf_pattern *pattern, pf_searcher *searcher, const char *text, size_t n_bytes,
                              pf_text_ranges *out)
{
    size_t covered = 0;
    out->n = 0;
    if (n_bytes == 0) return PF_OK;
    PF_TRY(pattern->code ? find_regex(pattern, searcher, text, n_bytes, out, &covered)
                         : find_text(pattern, searcher, text, n_bytes, out, &covered));
    return covered < n_bytes ? pf_text_ranges_push(out, (pf_text_range){ covered, n_bytes, false }) : PF_OK;
}
