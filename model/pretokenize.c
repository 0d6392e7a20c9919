#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/pretokenize.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "model/json_sequence.h"
#include "model/regex_syntax.h"
#include "model/stand_ins.h"

enum {
    MAX_SPLITS = 64,
    STEPS_AT_FIRST = 4096, /* of a search; on demand eight times as many, and so on */
    SEARCHES_A_CLOCK_LOOK = 4096,
};
static const uint64_t STEPS_ON_DEMAND = 100000000; /* for a text, and a hundred for each of its bytes */
static const uint64_t DEADLINE_NS = 10000000000u;  /* for a text, and ten microseconds for each of its bytes */

#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

typedef enum { ISOLATED, REMOVED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS, N_BEHAVIORS } behavior;

static const char *const BEHAVIORS[N_BEHAVIORS] = {
    [ISOLATED] = "Isolated",
    [REMOVED] = "Removed",
    [MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
    [MERGED_WITH_NEXT] = "MergedWithNext",
    [CONTIGUOUS] = "Contiguous",
};

typedef struct {
    pcre2_code *code;
    behavior behavior;
    bool invert; /* what does not match is the delimiter */
} split;

struct pf_pretokenizer {
    split splits[MAX_SPLITS];
    int32_t n_splits;
    int32_t n_before; /* of them, those in front of ByteLevel: the others cut its stand-ins */
    bool add_prefix_space;
    bool has_byte_level; /* while it is built */
    split gpt2;          /* of ByteLevel; code is NULL when it has no pattern */
};

/* A range of the text, and whether the pattern matched it. */
typedef struct {
    size_t begin, end;
    bool matched;
} span;

typedef struct {
    span *items;
    size_t n, capacity;
} spans;

struct pf_pretokenize_scratch {
    pcre2_match_data *match;
    pcre2_match_context *limits;
    spans found, pieces, next;
    char *made; /* a piece behind a space, or in stand-ins */
    size_t made_capacity;
    uint64_t steps_left, deadline_ns;
    uint32_t n_searches;
    size_t n_bytes; /* of the texts that it is for */
    pf_pretokenize_scratch
        *behind; /* for the splits behind ByteLevel, while its own pieces are walked; made when needed */
};

/* --- building --- */

static pf_status compile(const pf_json *doc, const char *what, const char *pattern, size_t n_bytes, uint32_t options,
                         pcre2_code **out, pf_error *error)
{
    int code;
    PCRE2_SIZE offset;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return pf_fail(error, PF_NOMEM, "%s: no memory for %s", doc->name, what);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    *out = pcre2_compile((PCRE2_SPTR)pattern, n_bytes, options | PCRE2_UTF, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (!*out) {
        PCRE2_UCHAR why[120] = "";
        pcre2_get_error_message(code, why, sizeof why);
        return pf_fail(error, PF_UNSUPPORTED, "%s: %s does not compile at byte %zu: %s: %.160s", doc->name, what,
                       (size_t)offset, (const char *)why, pattern);
    }
    (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* where it cannot, the interpreter serves */
    return PF_OK;
}

static pf_status compile_regex(const pf_json *doc, const char *what, const char *pattern, size_t n_bytes,
                               pcre2_code **out, pf_error *error)
{
    char *text, name[320];
    size_t n_text;
    snprintf(name, sizeof name, "%s: %s", doc->name, what);
    PF_TRY(pf_regex_from_oniguruma(name, pattern, n_bytes, &text, &n_text, error));
    const pf_status status =
        compile(doc, what, text, n_text, PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, out, error);
    free(text);
    return status;
}

static pf_status next_split(const pf_json *doc, pf_pretokenizer *p, split **out, pf_error *error)
{
    if (p->n_splits == MAX_SPLITS)
        return pf_fail(error, PF_UNSUPPORTED, "%s: pre_tokenizer has more than %d parts", doc->name, MAX_SPLITS);
    *out = &p->splits[p->n_splits];
    return PF_OK;
}

static pf_status read_behavior(const pf_json *doc, const json_t *node, behavior *out, pf_error *error)
{
    const char *name = NULL;
    PF_TRY(pf_json_get_string(doc, node, "behavior", true, &name, error));
    for (behavior b = 0; b < N_BEHAVIORS; b++) {
        if (strcmp(name, BEHAVIORS[b]) != 0) continue;
        *out = b;
        return PF_OK;
    }
    return pf_fail(error, PF_UNSUPPORTED, "%s: the behavior %.40s of a split is not known", doc->name, name);
}

static pf_status add_split(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    const char *key = NULL;
    split *s = NULL;
    PF_TRY(next_split(doc, p, &s, error));
    PF_TRY(read_behavior(doc, node, &s->behavior, error));
    PF_TRY(pf_json_get_bool(doc, node, "invert", true, &s->invert, error));

    const json_t *pattern = json_object_get(node, "pattern"), *text = json_object_get(pattern, key = "Regex");
    if (!text) text = json_object_get(pattern, key = "String");
    if (!json_is_string(text) || json_object_size(pattern) != 1)
        return pf_fail(error, PF_FORMAT, "%s: Split's pattern must be {\"Regex\": ...} or {\"String\": ...}",
                       doc->name);
    if (strcmp(key, "Regex") == 0)
        PF_TRY(
            compile_regex(doc, "Split's pattern", json_string_value(text), json_string_length(text), &s->code, error));
    else
        PF_TRY(compile(doc, "Split's pattern", json_string_value(text), json_string_length(text), PCRE2_LITERAL,
                       &s->code, error));
    p->n_splits++;
    return PF_OK;
}

/* Digits: any number character, each alone or in runs. */
static pf_status add_digits(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    split *s = NULL;
    bool individual = false;
    PF_TRY(next_split(doc, p, &s, error));
    PF_TRY(pf_json_get_bool(doc, node, "individual_digits", false, &individual, error));
    s->behavior = individual ? ISOLATED : CONTIGUOUS;
    PF_TRY(compile_regex(doc, "Digits", "\\p{N}", 5, &s->code, error));
    p->n_splits++;
    return PF_OK;
}

/* Punctuation: that of Unicode, and ASCII's symbols. */
static pf_status add_punctuation(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    static const char pattern[] = "[\\p{P}$+<=>^`|~]";
    split *s = NULL;
    PF_TRY(next_split(doc, p, &s, error));
    PF_TRY(read_behavior(doc, node, &s->behavior, error));
    PF_TRY(compile_regex(doc, "Punctuation", pattern, sizeof pattern - 1, &s->code, error));
    p->n_splits++;
    return PF_OK;
}

static pf_status add_byte_level(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    bool use_regex = true;
    if (p->has_byte_level)
        return pf_fail(error, PF_UNSUPPORTED, "%s: pre_tokenizer has a second ByteLevel, expected one", doc->name);
    p->has_byte_level = true;
    p->n_before = p->n_splits;
    p->add_prefix_space = true; /* as the library's default; files always say */
    PF_TRY(pf_json_get_bool(doc, node, "add_prefix_space", false, &p->add_prefix_space, error));
    PF_TRY(pf_json_get_bool(doc, node, "use_regex", false, &use_regex, error));
    if (!use_regex) return PF_OK;
    return compile_regex(doc, "ByteLevel", GPT2_PATTERN, sizeof GPT2_PATTERN - 1, &p->gpt2.code, error);
}

static pf_status add_part(void *user, const pf_json *doc, const char *type, const json_t *node, pf_error *error)
{
    pf_pretokenizer *p = user;
    if (strcmp(type, "Split") == 0) return add_split(doc, node, p, error);
    if (strcmp(type, "Digits") == 0) return add_digits(doc, node, p, error);
    if (strcmp(type, "Punctuation") == 0) return add_punctuation(doc, node, p, error);
    if (strcmp(type, "ByteLevel") == 0) return add_byte_level(doc, node, p, error);
    return pf_fail(error, PF_UNSUPPORTED,
                   "%s: the pre_tokenizer %.60s is not known (known: ByteLevel, Split, Digits, Punctuation, Sequence)",
                   doc->name, type);
}

pf_status pf_pretokenizer_create(const pf_json *doc, const json_t *node, pf_pretokenizer **out, pf_error *error)
{
    pf_pretokenizer *p = calloc(1, sizeof *p);
    if (!p) return pf_fail(error, PF_NOMEM, "%s: no memory for the pre_tokenizer", doc->name);
    pf_status status = pf_json_visit_sequence(doc, node, "pre_tokenizer", "pretokenizers", add_part, p, error);
    if (status == PF_OK && !p->has_byte_level)
        status = pf_fail(error, PF_UNSUPPORTED, "%s: pre_tokenizer has no ByteLevel: only byte-level BPE is known",
                         doc->name);
    if (status != PF_OK)
        pf_pretokenizer_destroy(p);
    else
        *out = p;
    return status;
}

void pf_pretokenizer_destroy(pf_pretokenizer *p)
{
    if (!p) return;
    for (int32_t i = 0; i < MAX_SPLITS; i++) pcre2_code_free(p->splits[i].code);
    pcre2_code_free(p->gpt2.code);
    free(p);
}

void pf_pretokenizer_set_prefix_space(pf_pretokenizer *p, bool add_prefix_space)
{
    p->add_prefix_space = add_prefix_space;
}

/* --- scratch --- */

pf_status pf_pretokenize_scratch_create(size_t n_bytes, pf_pretokenize_scratch **out)
{
    pf_pretokenize_scratch *s = calloc(1, sizeof *s);
    if (!s) return PF_NOMEM;
    s->match = pcre2_match_data_create(1, NULL);
    s->limits = pcre2_match_context_create(NULL);
    if (!s->match || !s->limits) {
        pf_pretokenize_scratch_destroy(s);
        return PF_NOMEM;
    }
    pcre2_set_heap_limit(s->limits, 1 << 18); /* KiB */
    s->steps_left = STEPS_ON_DEMAND + 100u * (uint64_t)n_bytes;
    s->deadline_ns = pf_now_ns() + DEADLINE_NS + 10000u * (uint64_t)n_bytes;
    s->n_bytes = n_bytes;
    *out = s;
    return PF_OK;
}

void pf_pretokenize_scratch_destroy(pf_pretokenize_scratch *s)
{
    if (!s) return;
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->limits);
    free(s->found.items);
    free(s->pieces.items);
    free(s->next.items);
    free(s->made);
    pf_pretokenize_scratch_destroy(s->behind);
    free(s);
}

static pf_status push(spans *list, span item)
{
    if (list->n == list->capacity) {
        size_t bytes;
        const size_t capacity = list->capacity ? list->capacity * 2 : 64;
        if (!pf_size_mul(capacity, sizeof *list->items, &bytes)) return PF_NOMEM;
        span *grown = realloc(list->items, bytes);
        if (!grown) return PF_NOMEM;
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->n++] = item;
    return PF_OK;
}

/* --- one search --- */

static pf_status search(pf_pretokenize_scratch *s, const pcre2_code *code, const char *text, size_t n, size_t from,
                        bool *found)
{
    uint32_t options = PCRE2_NO_UTF_CHECK;
    if (++s->n_searches % SEARCHES_A_CLOCK_LOOK == 0 && pf_now_ns() > s->deadline_ns) return PF_LIMIT;
    for (uint32_t steps = STEPS_AT_FIRST;;) {
        pcre2_set_match_limit(s->limits, steps);
        const int rc = pcre2_match(code, (PCRE2_SPTR)text, n, from, options, s->match, s->limits);
        if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH) {
            *found = rc >= 0;
            return PF_OK;
        }
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
            options |= PCRE2_NO_JIT;
            continue;
        }
        if (rc == PCRE2_ERROR_NOMEMORY) return PF_NOMEM;
        if (rc != PCRE2_ERROR_MATCHLIMIT || steps > UINT32_MAX / 8) return PF_LIMIT;
        steps *= 8;
        if (steps > s->steps_left || pf_now_ns() > s->deadline_ns) return PF_LIMIT;
        s->steps_left -= steps;
    }
}

static size_t next_character(const char *text, size_t n, size_t at)
{
    for (at++; at < n && (text[at] & 0xC0) == 0x80;) at++;
    return at;
}

/* s->found = the text cut into what the pattern matches and what lies between. An empty match counts, except right
 * behind the match before it. */
static pf_status find_all(pf_pretokenize_scratch *s, const pcre2_code *code, const char *text, size_t n)
{
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(s->match);
    size_t covered = 0, last_end = SIZE_MAX, at = 0;
    s->found.n = 0;
    while (at <= n) {
        bool found = false;
        PF_TRY(search(s, code, text, n, at, &found));
        if (!found) break;
        const size_t begin = range[0], end = range[1];
        if (begin > end) return PF_LIMIT; /* \K in a lookahead: no pattern of a tokenizer */
        if (begin == end && end == last_end) {
            at = next_character(text, n, at);
            continue;
        }
        at = last_end = end;
        if (begin > covered) PF_TRY(push(&s->found, (span){ covered, begin, false }));
        PF_TRY(push(&s->found, (span){ begin, end, true }));
        covered = end;
    }
    return covered < n ? push(&s->found, (span){ covered, n, false }) : PF_OK;
}

/* --- one split --- */

/* Fold what was found into pieces, as NormalizedString::split does. The pieces of `out` may be empty. */
static pf_status fold(const spans *found, const split *how, spans *out)
{
    const size_t first = out->n;
    bool previous = false;
    for (size_t k = 0; k < found->n; k++) {
        const size_t i = how->behavior == MERGED_WITH_NEXT ? found->n - 1 - k : k;
        const span item = found->items[i];
        const bool match = item.matched != how->invert;
        span *last = out->n > first ? &out->items[out->n - 1] : NULL;
        bool join = false;
        if (how->behavior == REMOVED && match) continue;
        if (how->behavior == CONTIGUOUS) join = last && match == previous;
        if (how->behavior == MERGED_WITH_PREVIOUS || how->behavior == MERGED_WITH_NEXT)
            join = last && match && !previous;
        previous = match;
        if (!join)
            PF_TRY(push(out, item));
        else if (how->behavior == MERGED_WITH_NEXT)
            last->begin = item.begin;
        else
            last->end = item.end;
    }
    if (how->behavior == MERGED_WITH_NEXT) {
        for (size_t a = first, b = out->n; a + 1 < b; a++, b--) {
            const span swap = out->items[a];
            out->items[a] = out->items[b - 1];
            out->items[b - 1] = swap;
        }
    }
    return PF_OK;
}

/* s->pieces, each split further. */
static pf_status apply(pf_pretokenize_scratch *s, const split *how, const char *text)
{
    s->next.n = 0;
    for (size_t i = 0; i < s->pieces.n; i++) {
        const span piece = s->pieces.items[i];
        const size_t first = s->next.n;
        PF_TRY(find_all(s, how->code, text + piece.begin, piece.end - piece.begin));
        PF_TRY(fold(&s->found, how, &s->next));
        size_t kept = first;
        for (size_t k = first; k < s->next.n; k++) {
            const span part = s->next.items[k];
            if (part.begin < part.end)
                s->next.items[kept++] = (span){ piece.begin + part.begin, piece.begin + part.end, false };
        }
        s->next.n = kept;
    }
    const spans swap = s->pieces;
    s->pieces = s->next;
    s->next = swap;
    return PF_OK;
}

/* --- ByteLevel --- */

static pf_status reserve_made(pf_pretokenize_scratch *s, size_t n)
{
    if (s->made_capacity >= n) return PF_OK;
    char *grown = realloc(s->made, n);
    if (!grown) return PF_NOMEM;
    s->made = grown;
    s->made_capacity = n;
    return PF_OK;
}

static pf_status prefix_space(pf_pretokenize_scratch *s, const char **piece, size_t *n)
{
    PF_TRY(reserve_made(s, *n + 1));
    s->made[0] = ' ';
    memcpy(s->made + 1, *piece, *n);
    *piece = s->made;
    *n += 1;
    return PF_OK;
}

static pf_status byte_level(const pf_pretokenizer *p, pf_pretokenize_scratch *s, const char *piece, size_t n,
                            pf_piece_fn *emit, void *user)
{
    if (p->add_prefix_space && piece[0] != ' ') PF_TRY(prefix_space(s, &piece, &n));
    if (!p->gpt2.code) return emit(user, piece, n);
    PF_TRY(find_all(s, p->gpt2.code, piece, n));
    for (size_t i = 0; i < s->found.n; i++) {
        const span part = s->found.items[i];
        if (part.begin < part.end) PF_TRY(emit(user, piece + part.begin, part.end - part.begin));
    }
    return PF_OK;
}

/* text [n] into s->pieces, by the splits from `begin` to `end`. */
static pf_status apply_splits(const pf_pretokenizer *p, pf_pretokenize_scratch *s, int32_t begin, int32_t end,
                              const char *text, size_t n)
{
    s->pieces.n = 0;
    PF_TRY(push(&s->pieces, (span){ 0, n, false }));
    for (int32_t i = begin; i < end; i++) PF_TRY(apply(s, &p->splits[i], text));
    return PF_OK;
}

/* --- behind ByteLevel --- */

typedef struct {
    const pf_pretokenizer *p;
    pf_pretokenize_scratch *s;
    pf_piece_fn *emit;
    void *user;
} behind;

/* Stand-ins are two bytes of UTF-8 at most. */
static size_t write_stand_ins(const char *bytes, size_t n, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const int32_t c = pf_stand_in((unsigned char)bytes[i]);
        if (c >= 0x80) out[used++] = (char)(0xC0 | c >> 6);
        out[used++] = (char)(c < 0x80 ? c : 0x80 | (c & 0x3F));
    }
    return used;
}

/* Characters, each of which stands for a byte. */
static size_t count_characters(const char *text, size_t begin, size_t end)
{
    size_t n = 0;
    for (size_t i = begin; i < end; i++) n += (text[i] & 0xC0) != 0x80;
    return n;
}

/* A piece that ByteLevel made, cut further where its stand-ins are. */
static pf_status cut_stand_ins(void *user, const char *piece, size_t n)
{
    const behind *b = user;
    if (!b->s->behind) PF_TRY(pf_pretokenize_scratch_create(2 * b->s->n_bytes, &b->s->behind));
    pf_pretokenize_scratch *s = b->s->behind;
    PF_TRY(reserve_made(s, 2 * n));
    PF_TRY(apply_splits(b->p, s, b->p->n_before, b->p->n_splits, s->made, write_stand_ins(piece, n, s->made)));
    size_t at = 0, byte = 0; /* the same place in the stand-ins and in the piece */
    for (size_t i = 0; i < s->pieces.n; i++) {
        const span part = s->pieces.items[i];
        const size_t begin = byte + count_characters(s->made, at, part.begin);
        byte = begin + count_characters(s->made, part.begin, part.end);
        at = part.end;
        PF_TRY(b->emit(b->user, piece + begin, byte - begin));
    }
    return PF_OK;
}

pf_status pf_pretokenize(const pf_pretokenizer *p, pf_pretokenize_scratch *s, const char *text, size_t n_bytes,
                         pf_piece_fn *emit, void *user)
{
    behind rest = { .p = p, .s = s, .emit = emit, .user = user };
    const bool has_rest = p->n_before < p->n_splits;
    if (n_bytes == 0) return PF_OK;
    PF_TRY(apply_splits(p, s, 0, p->n_before, text, n_bytes));
    for (size_t i = 0; i < s->pieces.n; i++) {
        const span piece = s->pieces.items[i];
        PF_TRY(byte_level(p, s, text + piece.begin, piece.end - piece.begin, has_rest ? cut_stand_ins : emit,
                          has_rest ? &rest : user));
    }
    return PF_OK;
}
