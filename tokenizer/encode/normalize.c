/*
 * Applies normalizers. A step appends the new text to an empty array and tracks how many leading bytes come from the first
 * character of the whole input (pf_text_place). Metaspace with the scheme "first" needs this; bytes that a step writes are
 * attributed to characters as in the library.
 */
#include "tokenizer/encode/normalize.h"

#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "tokenizer/base64.h"
#include "tokenizer/unicode/character_bytes.h"
#include "tokenizer/unicode/characters.h"
#include "tokenizer/unicode/charsmap.h"
#include "tokenizer/json_sequence.h"
#include "tokenizer/unicode/normal_forms.h"

typedef struct step step;

/* The input and output of a step. */
typedef struct {
    const char *text;
    size_t n;
    pf_text_place place; /* of the input, then of the output */
    pf_searcher *searcher;
    const volatile bool *cancel; /* or NULL */
    pf_bytes *out;
} transform;

struct step {
    pf_status (*apply)(const step *how, transform *p);
    pf_normal_form form;
    pf_pattern *pattern;
    pf_charsmap *charsmap;
    char *content; /* [n_content] */
    size_t n_content;
    bool strips_left, strips_right;
};

struct pf_normalizer {
    step steps[PF_MAX_NORMALIZERS];
    int32_t n_steps;
};

static bool is_ascii(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= 0x80) return false;
    return true;
}

/* --- steps that map single characters --- */

/* The replacement of c; -1: it is removed. */
typedef int32_t map_fn(int32_t c);

static pf_status put(transform *p, int32_t c)
{
    char bytes[4];
    return pf_bytes_append(p->out, bytes, pf_character_put(c, bytes));
}

static pf_status map(transform *p, map_fn *to)
{
    size_t n_first = 0;
    PF_TRY(pf_bytes_reserve(p->out, p->n));
    for (size_t at = 0, next; at < p->n; at = next) {
        const int32_t c = pf_character_at(p->text, at, &next), made = to(c);
        if (pf_is_told(p->cancel)) return PF_CANCELLED;
        if (made >= 0) PF_TRY(put(p, made));
        if (c == 0x130 && to == pf_lower_case) PF_TRY(put(p, 0x307)); /* U+0130 becomes two characters */
        if (next <= p->place.n_first) n_first = p->out->n;
    }
    p->place.n_first = n_first;
    return PF_OK;
}

static pf_status lowercase(const step *how, transform *p)
{
    (void)how;
    return map(p, pf_lower_case);
}

static int32_t without_mark(int32_t c)
{
    return pf_is_mark(c) ? -1 : c;
}

static pf_status strip_accents(const step *how, transform *p)
{
    (void)how;
    return map(p, without_mark);
}

/* Nmt: removes control characters and maps space-like characters to a space. */
static int32_t clean(int32_t c)
{
    if ((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
        return -1;
    if (c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
        c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD)
        return ' ';
    return c;
}

static pf_status nmt(const step *how, transform *p)
{
    (void)how;
    return map(p, clean);
}

/* --- other steps --- */

static pf_status normal_form(const step *how, transform *p)
{
    if (is_ascii(p->text, p->n)) return pf_bytes_append(p->out, p->text, p->n);
    PF_TRY(pf_normal_form_append(how->form, p->text, p->place.n_first, p->cancel, p->out));
    size_t n_first = p->out->n; /* of the first character alone, before later characters compose with it */
    p->out->n = 0;
    PF_TRY(pf_normal_form_append(how->form, p->text, p->n, p->cancel, p->out));
    while (n_first < p->out->n && (p->out->data[n_first] & 0xC0) == 0x80) n_first++;
    p->place.n_first = n_first < p->out->n ? n_first : p->out->n;
    return PF_OK;
}

static pf_status prepend(const step *how, transform *p)
{
    if (p->n > 0 && !p->place.follows_raw_byte) {
        PF_TRY(pf_searcher_grow(p->searcher, how->n_content));
        PF_TRY(pf_bytes_append(p->out, how->content, how->n_content));
        if (p->place.n_first > 0) p->place.n_first += how->n_content;
    }
    return pf_bytes_append(p->out, p->text, p->n);
}

static pf_status strip(const step *how, transform *p)
{
    size_t begin = 0, end = p->n, next;
    while (how->strips_left && begin < end && pf_is_white_space(pf_character_at(p->text, begin, &next))) begin = next;
    while (how->strips_right && end > begin) {
        const size_t before = pf_character_before(p->text, end);
        if (!pf_is_white_space(pf_character_at(p->text, before, &next))) break;
        end = before;
    }
    const size_t first_end = p->place.n_first < end ? p->place.n_first : end;
    p->place.n_first = first_end > begin ? first_end - begin : 0;
    return pf_bytes_append(p->out, p->text + begin, end - begin);
}

/* The replacement of a match belongs to the last character of the match. That of an empty match belongs to the character
 * before it, and at the start of the input to the first one. */
static bool is_of_first(const transform *p, pf_text_range match)
{
    return match.end == 0 ? p->place.is_start : match.end <= p->place.n_first;
}

static pf_status write_matches(const step *how, transform *p, const pf_text_ranges *found)
{
    size_t n_matched = 0, n_first = 0, n_written;
    for (size_t i = 0; i < found->n; i++) n_matched += found->items[i].matched;
    if (__builtin_mul_overflow(n_matched, how->n_content, &n_written)) return PF_LIMIT;
    if (n_written > p->n) PF_TRY(pf_searcher_grow(p->searcher, n_written - p->n));
    PF_TRY(pf_bytes_reserve(p->out, p->n + n_written));
    for (size_t i = 0; i < found->n; i++) {
        const pf_text_range item = found->items[i];
        const size_t before = p->out->n;
        if (pf_is_told(p->cancel)) return PF_CANCELLED;
        if (item.matched)
            PF_TRY(pf_bytes_append(p->out, how->content, how->n_content));
        else
            PF_TRY(pf_bytes_append(p->out, p->text + item.begin, item.end - item.begin));
        if (item.matched && is_of_first(p, item)) n_first = p->out->n;
        if (!item.matched && item.begin < p->place.n_first)
            n_first = before + (item.end < p->place.n_first ? item.end : p->place.n_first) - item.begin;
    }
    p->place.n_first = n_first;
    return PF_OK;
}

static pf_status replace(const step *how, transform *p)
{
    pf_text_ranges found = { .items = NULL };
    pf_status status = pf_pattern_find_all(how->pattern, p->searcher, p->text, p->n, &found);
    if (status == PF_OK) status = write_matches(how, p, &found);
    free(found.items);
    return status;
}

/* It may add what the searcher's budget has left. */
static pf_status precompiled(const step *how, transform *p)
{
    const size_t n_most = p->n + pf_searcher_growth_left(p->searcher);
    PF_TRY(pf_bytes_reserve(p->out, p->n));
    PF_TRY(pf_charsmap_append(how->charsmap, p->text, p->n, &p->place.n_first, n_most, p->cancel, p->out));
    return p->out->n > p->n ? pf_searcher_grow(p->searcher, p->out->n - p->n) : PF_OK;
}

/* --- building --- */

static pf_status read_precompiled(const pf_json *doc, const json_t *part, step *out, pf_error *error)
{
    const json_t *text = json_object_get(part, "precompiled_charsmap");
    const size_t n = json_string_length(text);
    bool longest = false; /* set by documents that are made from a tokenizer.model */
    size_t n_bytes = 0;
    PF_TRY(pf_json_get_bool(doc, part, "longest_match", false, &longest, error));
    if (!json_is_string(text))
        return pf_fail(error, PF_FORMAT, "%s: expected a string precompiled_charsmap", doc->name);
    uint8_t *bytes = malloc(n + 1);
    if (!bytes) return pf_fail(error, PF_NOMEM, "%s: no memory for precompiled_charsmap", doc->name);
    pf_status status = PF_FORMAT;
    if (pf_base64_decode(json_string_value(text), n, bytes, &n_bytes))
        status = pf_charsmap_create(bytes, n_bytes, longest ? PF_CHARSMAP_BY_LONGEST : PF_CHARSMAP_BY_GRAPHEME,
                                    &out->charsmap);
    free(bytes);
    if (status == PF_NOMEM) return pf_fail(error, PF_NOMEM, "%s: no memory for precompiled_charsmap", doc->name);
    if (status != PF_OK)
        return pf_fail(error, PF_FORMAT,
                       "%s: precompiled_charsmap must be a double array and its texts in UTF-8, in base64", doc->name);
    return PF_OK;
}

static pf_status read_prepend(const pf_json *doc, const json_t *part, step *out, pf_error *error)
{
    return pf_json_get_content(doc, part, "prepend", &out->content, &out->n_content, error);
}

static pf_status read_replace(const pf_json *doc, const json_t *part, step *out, pf_error *error)
{
    PF_TRY(pf_json_get_content(doc, part, "content", &out->content, &out->n_content, error));
    return pf_pattern_read(doc, part, &out->pattern, error);
}

static pf_status read_strip(const pf_json *doc, const json_t *part, step *out, pf_error *error)
{
    PF_TRY(pf_json_get_bool(doc, part, "strip_left", true, &out->strips_left, error));
    return pf_json_get_bool(doc, part, "strip_right", true, &out->strips_right, error);
}

static pf_status add_step(void *user, const pf_json *doc, const char *type, const json_t *part, pf_error *error)
{
    static const struct {
        const char *type;
        pf_status (*read)(const pf_json *doc, const json_t *part, step *out, pf_error *error); /* NULL: no fields */
        step step;
    } known[] = {
        { "NFC", NULL, { .apply = normal_form, .form = PF_NFC } },
        { "NFD", NULL, { .apply = normal_form, .form = PF_NFD } },
        { "NFKC", NULL, { .apply = normal_form, .form = PF_NFKC } },
        { "NFKD", NULL, { .apply = normal_form, .form = PF_NFKD } },
        { "Prepend", read_prepend, { .apply = prepend } },
        { "Replace", read_replace, { .apply = replace } },
        { "Lowercase", NULL, { .apply = lowercase } },
        { "Strip", read_strip, { .apply = strip } },
        { "StripAccents", NULL, { .apply = strip_accents } },
        { "Nmt", NULL, { .apply = nmt } },
        { "Precompiled", read_precompiled, { .apply = precompiled } },
    };
    pf_normalizer *n = user;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(type, known[i].type) != 0) continue;
        if (n->n_steps == PF_MAX_NORMALIZERS)
            return pf_fail(error, PF_UNSUPPORTED, "%s: more than %d parts", doc->name, PF_MAX_NORMALIZERS);
        step *made = &n->steps[n->n_steps++];
        *made = known[i].step;
        return known[i].read ? known[i].read(doc, part, made, error) : PF_OK;
    }
    return pf_fail(error, PF_UNSUPPORTED,
                   "%s is not known (known: NFC, NFD, NFKC, NFKD, Prepend, Replace, Lowercase, "
                   "Strip, StripAccents, Nmt, Precompiled, Sequence)",
                   doc->name);
}

pf_status pf_normalizer_create(const pf_json *doc, const json_t *node, pf_normalizer **out, pf_error *error)
{
    pf_normalizer *n = calloc(1, sizeof *n);
    if (!n) return pf_fail(error, PF_NOMEM, "%s: no memory for the normalizer", doc->name);
    const pf_status status = pf_json_visit_sequence(doc, node, "normalizer", "normalizers", add_step, n, error);
    if (status != PF_OK)
        pf_normalizer_destroy(n);
    else
        *out = n;
    return status;
}

void pf_normalizer_destroy(pf_normalizer *n)
{
    if (!n) return;
    for (int32_t i = 0; i < n->n_steps; i++) {
        pf_pattern_destroy(n->steps[i].pattern);
        pf_charsmap_destroy(n->steps[i].charsmap);
        free(n->steps[i].content);
    }
    free(n);
}

/* --- normalize --- */

pf_status pf_normalize(const pf_normalizer *normalizer, pf_searcher *searcher, const char *text, size_t n_bytes,
                       pf_text_place *place, pf_bytes *out)
{
    pf_bytes made = { .data = NULL }, next = { .data = NULL };
    transform p = { .text = text,
                    .n = n_bytes,
                    .place = *place,
                    .searcher = searcher,
                    .cancel = pf_searcher_cancel(searcher),
                    .out = &next };
    pf_status status = PF_OK;
    for (int32_t i = 0; status == PF_OK && i < normalizer->n_steps; i++) {
        next.n = 0;
        status = pf_is_told(p.cancel) ? PF_CANCELLED : PF_OK;
        if (status == PF_OK) status = pf_bytes_reserve(&next, 1); /* data is not NULL for an empty text */
        if (status == PF_OK) status = normalizer->steps[i].apply(&normalizer->steps[i], &p);
        const pf_bytes swap = made;
        made = next;
        next = swap;
        p.text = made.data;
        p.n = made.n;
    }
    pf_bytes_clear(&next);
    if (status != PF_OK) {
        pf_bytes_clear(&made);
        return status;
    }
    *place = p.place;
    *out = made;
    return PF_OK;
}
