#include "tokenizer/encode/pretokenize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/utf8.h"
#include "tokenizer/unicode/character_bytes.h"
#include "tokenizer/json_sequence.h"
#include "tokenizer/unicode/newer_characters.h"
#include "tokenizer/unicode/byte_to_unicode.h"

enum {
    MAX_STEPS = 64,
    MAX_FIXED_LENGTH = 65535, /* the largest repeat count of PCRE2 */
};

#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Rust's \s and \w, which differ from Oniguruma's. */
#define SPACE "\\p{White_Space}"
#define WORD  "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}"

/* Unicode's punctuation and ASCII's symbols. The library's table is older than PCRE2's. */
#define PUNCTUATION "(?![" PF_NEWER_PUNCTUATION "])[\\p{P}$+<=>^`|~\\x{166D}\\x{111C9}]"

typedef enum { ISOLATED, REMOVED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS, N_BEHAVIORS } behavior;

static const char *const BEHAVIORS[N_BEHAVIORS] = {
    [ISOLATED] = "Isolated",
    [REMOVED] = "Removed",
    [MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
    [MERGED_WITH_NEXT] = "MergedWithNext",
    [CONTIGUOUS] = "Contiguous",
};

typedef struct {
    pf_pattern *pattern; /* NULL: no split */
    behavior behavior;
    bool invert;                /* the text between matches is the delimiter */
    char space[4];              /* Metaspace: the mark that replaces a space */
    size_t n_space;             /* length of the mark; 0: not a Metaspace */
    pf_prepend_scheme prepends; /* Metaspace: which pieces get a leading mark */
} step;

struct pf_pretokenizer {
    step steps[MAX_STEPS];
    int32_t n_steps;
    int32_t n_before; /* steps before ByteLevel; the others split its byte characters */
    bool has_byte_level;
    bool add_prefix_space;
    pf_pattern *gpt2; /* of ByteLevel; NULL: no ByteLevel, or use_regex is false */
};

struct pf_pretokenize_scratch {
    pf_searcher *searcher;
    pf_text_ranges found, pieces, next;
    const char *text;               /* the text of the pieces */
    size_t n_first;                 /* of text, see pf_text_place */
    pf_bytes written, previous;     /* output of the last Metaspace, and of the one before */
    pf_bytes made;                  /* a piece with a prefix space, or as byte characters */
    pf_pretokenize_scratch *nested; /* for the splits after ByteLevel; created when needed */
};

/* --- building --- */

static pf_status next_step(const pf_json *doc, pf_pretokenizer *p, step **out, pf_error *error)
{
    if (p->n_steps == MAX_STEPS) return pf_fail(error, PF_UNSUPPORTED, "%s: more than %d parts", doc->name, MAX_STEPS);
    *out = &p->steps[p->n_steps++];
    return PF_OK;
}

static pf_status add_regex(const pf_json *doc, pf_pretokenizer *p, const char *regex, behavior how, bool invert,
                           pf_error *error)
{
    step *s = NULL;
    PF_TRY(next_step(doc, p, &s, error));
    s->behavior = how;
    s->invert = invert;
    return pf_pattern_of_regex(doc, regex, strlen(regex), &s->pattern, error);
}

/* *out holds the default. */
static pf_status read_behavior(const pf_json *doc, const json_t *node, bool required, behavior *out, pf_error *error)
{
    int chosen = (int)*out;
    PF_TRY(pf_json_get_choice(doc, node, "behavior", required, BEHAVIORS, N_BEHAVIORS, &chosen, error));
    *out = (behavior)chosen;
    return PF_OK;
}

static pf_status add_split(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    step *s = NULL;
    PF_TRY(next_step(doc, p, &s, error));
    PF_TRY(read_behavior(doc, node, true, &s->behavior, error));
    PF_TRY(pf_json_get_bool(doc, node, "invert", true, &s->invert, error));
    return pf_pattern_read(doc, node, &s->pattern, error);
}

/* Number characters, each alone or in runs. Rust's table is that of Unicode 17. */
static pf_status add_digits(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    bool individual = false;
    PF_TRY(pf_json_get_bool(doc, node, "individual_digits", false, &individual, error));
    return add_regex(doc, p, "[\\p{N}\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}]", individual ? ISOLATED : CONTIGUOUS,
                     false, error);
}

static pf_status add_punctuation(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    behavior how = ISOLATED;
    PF_TRY(read_behavior(doc, node, false, &how, error));
    return add_regex(doc, p, PUNCTUATION, how, false, error);
}

static pf_status add_whitespace(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    (void)node;
    return add_regex(doc, p, "[" WORD "]+|[^" WORD SPACE "]+", REMOVED, true, error);
}

static pf_status add_whitespace_split(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    (void)node;
    return add_regex(doc, p, SPACE, REMOVED, false, error);
}

static pf_status add_bert(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    PF_TRY(add_whitespace_split(doc, node, p, error));
    return add_regex(doc, p, PUNCTUATION, ISOLATED, false, error);
}

static pf_status add_delimiter(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    step *s = NULL;
    const char *text;
    size_t n;
    PF_TRY(next_step(doc, p, &s, error));
    PF_TRY(pf_json_get_character(doc, node, "delimiter", &text, &n, error));
    s->behavior = REMOVED;
    return pf_pattern_of_text(doc, text, n, &s->pattern, error);
}

static pf_status add_fixed_length(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    int64_t length = 5;
    char regex[32];
    PF_TRY(pf_json_get_int(doc, node, "length", false, 1, MAX_FIXED_LENGTH, &length, error));
    snprintf(regex, sizeof regex, "(?m).{1,%d}", (int)length);
    return add_regex(doc, p, regex, ISOLATED, false, error);
}

static pf_status add_metaspace(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    step *s = NULL;
    const char *text;
    bool cuts = true;
    if (p->has_byte_level)
        return pf_fail(error, PF_UNSUPPORTED, "%s is behind ByteLevel, expected it before", doc->name);
    PF_TRY(next_step(doc, p, &s, error));
    PF_TRY(pf_json_get_character(doc, node, "replacement", &text, &s->n_space, error));
    memcpy(s->space, text, s->n_space);
    PF_TRY(pf_json_get_scheme(doc, node, &s->prepends, error));
    PF_TRY(pf_json_get_bool(doc, node, "split", false, &cuts, error));
    s->behavior = MERGED_WITH_NEXT;
    return cuts ? pf_pattern_of_text(doc, text, s->n_space, &s->pattern, error) : PF_OK;
}

static pf_status add_byte_level(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error)
{
    bool use_regex = true;
    if (p->has_byte_level) return pf_fail(error, PF_UNSUPPORTED, "%s is there a second time, expected one", doc->name);
    p->has_byte_level = true;
    p->n_before = p->n_steps;
    p->add_prefix_space = true; /* the library's default */
    PF_TRY(pf_json_get_bool(doc, node, "add_prefix_space", false, &p->add_prefix_space, error));
    PF_TRY(pf_json_get_bool(doc, node, "use_regex", false, &use_regex, error));
    if (!use_regex) return PF_OK;
    return pf_pattern_of_regex(doc, GPT2_PATTERN, sizeof GPT2_PATTERN - 1, &p->gpt2, error);
}

static pf_status add_part(void *user, const pf_json *doc, const char *type, const json_t *node, pf_error *error)
{
    static const struct {
        const char *type;
        pf_status (*add)(const pf_json *doc, const json_t *node, pf_pretokenizer *p, pf_error *error);
    } known[] = {
        { "ByteLevel", add_byte_level },
        { "Metaspace", add_metaspace },
        { "Split", add_split },
        { "Digits", add_digits },
        { "Punctuation", add_punctuation },
        { "Whitespace", add_whitespace },
        { "WhitespaceSplit", add_whitespace_split },
        { "CharDelimiterSplit", add_delimiter },
        { "FixedLength", add_fixed_length },
        { "BertPreTokenizer", add_bert },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i].type) == 0) return known[i].add(doc, node, user, error);
    return pf_fail(error, PF_UNSUPPORTED,
                   "%s is not known (known: ByteLevel, Metaspace, Split, Digits, Punctuation, "
                   "Whitespace, WhitespaceSplit, CharDelimiterSplit, FixedLength, BertPreTokenizer, Sequence)",
                   doc->name);
}

pf_status pf_pretokenizer_create(const pf_json *doc, const json_t *node, pf_pretokenizer **out, pf_error *error)
{
    pf_pretokenizer *p = calloc(1, sizeof *p);
    if (!p) return pf_fail(error, PF_NOMEM, "%s: no memory for the pre_tokenizer", doc->name);
    const pf_status status = pf_json_visit_sequence(doc, node, "pre_tokenizer", "pretokenizers", add_part, p, error);
    if (!p->has_byte_level) p->n_before = p->n_steps;
    if (status != PF_OK)
        pf_pretokenizer_destroy(p);
    else
        *out = p;
    return status;
}

void pf_pretokenizer_destroy(pf_pretokenizer *p)
{
    if (!p) return;
    for (int32_t i = 0; i < p->n_steps; i++) pf_pattern_destroy(p->steps[i].pattern);
    pf_pattern_destroy(p->gpt2);
    free(p);
}

bool pf_pretokenizer_is_byte_level(const pf_pretokenizer *p)
{
    return p->has_byte_level;
}

void pf_pretokenizer_set_prefix_space(pf_pretokenizer *p, bool add_prefix_space)
{
    p->add_prefix_space = p->has_byte_level && add_prefix_space;
}

/* --- scratch --- */

pf_status pf_pretokenize_scratch_create(pf_searcher *searcher, pf_pretokenize_scratch **out)
{
    pf_pretokenize_scratch *s = calloc(1, sizeof *s);
    if (!s) return PF_NOMEM;
    s->searcher = searcher;
    *out = s;
    return PF_OK;
}

void pf_pretokenize_scratch_destroy(pf_pretokenize_scratch *s)
{
    if (!s) return;
    free(s->found.items);
    free(s->pieces.items);
    free(s->next.items);
    pf_bytes_clear(&s->written);
    pf_bytes_clear(&s->previous);
    pf_bytes_clear(&s->made);
    pf_pretokenize_scratch_destroy(s->nested);
    free(s);
}

/* --- split --- */

/* Combine matches into pieces, as NormalizedString::split does. The pieces of `out` may be empty. */
static pf_status fold(const pf_text_ranges *found, const step *how, pf_text_ranges *out)
{
    const size_t first = out->n;
    bool previous = false;
    for (size_t k = 0; k < found->n; k++) {
        const size_t i = how->behavior == MERGED_WITH_NEXT ? found->n - 1 - k : k;
        const pf_text_range item = found->items[i];
        const bool match = item.matched != how->invert;
        pf_text_range *last = out->n > first ? &out->items[out->n - 1] : NULL;
        bool join = false;
        if (how->behavior == REMOVED && match) continue;
        if (how->behavior == CONTIGUOUS) join = last && match == previous;
        if (how->behavior == MERGED_WITH_PREVIOUS || how->behavior == MERGED_WITH_NEXT)
            join = last && match && !previous;
        previous = match;
        if (!join)
            PF_TRY(pf_text_ranges_push(out, item));
        else if (how->behavior == MERGED_WITH_NEXT)
            last->begin = item.begin;
        else
            last->end = item.end;
    }
    if (how->behavior == MERGED_WITH_NEXT) {
        for (size_t a = first, b = out->n; a + 1 < b; a++, b--) {
            const pf_text_range swap = out->items[a];
            out->items[a] = out->items[b - 1];
            out->items[b - 1] = swap;
        }
    }
    return PF_OK;
}

/* Split each of s->pieces further. */
static pf_status cut(pf_pretokenize_scratch *s, const step *how)
{
    s->next.n = 0;
    for (size_t i = 0; i < s->pieces.n; i++) {
        const pf_text_range piece = s->pieces.items[i];
        const size_t first = s->next.n;
        PF_TRY(
            pf_pattern_find_all(how->pattern, s->searcher, s->text + piece.begin, piece.end - piece.begin, &s->found));
        PF_TRY(fold(&s->found, how, &s->next));
        size_t kept = first;
        for (size_t k = first; k < s->next.n; k++) {
            const pf_text_range part = s->next.items[k];
            if (part.begin < part.end)
                s->next.items[kept++] = (pf_text_range){ piece.begin + part.begin, piece.begin + part.end, false };
        }
        s->next.n = kept;
    }
    const pf_text_ranges swap = s->pieces;
    s->pieces = s->next;
    s->next = swap;
    return PF_OK;
}

/* --- Metaspace --- */

static bool prepends(const pf_pretokenize_scratch *s, const step *how, pf_text_range piece, bool follows_raw_byte)
{
    if (how->prepends == PF_PREPEND_NEVER || (follows_raw_byte && piece.begin == 0)) return false;
    if (how->prepends == PF_PREPEND_FIRST && piece.begin >= s->n_first) return false;
    const char c = s->text[piece.begin];
    return c != ' ' &&
           !(piece.end - piece.begin >= how->n_space && memcmp(s->text + piece.begin, how->space, how->n_space) == 0);
}

/* Copy a piece with the mark for each space. */
static pf_status write_spaces(const step *how, const char *piece, size_t n, pf_bytes *out)
{
    for (size_t at = 0; at < n;) {
        const char *space = memchr(piece + at, ' ', n - at);
        const size_t end = space ? (size_t)(space - piece) : n;
        PF_TRY(pf_bytes_append(out, piece + at, end - at));
        if (space) PF_TRY(pf_bytes_append(out, how->space, how->n_space));
        at = end + (space ? 1 : 0);
    }
    return PF_OK;
}

/* Write s->text again with marks. */
static pf_status write_metaspaces(pf_pretokenize_scratch *s, const step *how, bool follows_raw_byte)
{
    const pf_bytes swap = s->previous;
    size_t n_before = 0, n_first = 0;
    s->previous = s->written;
    s->written = swap;
    s->written.n = 0;
    for (size_t i = 0; i < s->pieces.n; i++) {
        const pf_text_range piece = s->pieces.items[i];
        const size_t begin = s->written.n, n = piece.end - piece.begin;
        const size_t n_of_first = piece.begin >= s->n_first ? 0 : s->n_first < piece.end ? s->n_first - piece.begin : n;
        if (prepends(s, how, piece, follows_raw_byte)) PF_TRY(pf_bytes_append(&s->written, how->space, how->n_space));
        PF_TRY(write_spaces(how, s->text + piece.begin, n_of_first, &s->written));
        if (n_of_first > 0) n_first = s->written.n;
        PF_TRY(write_spaces(how, s->text + piece.begin + n_of_first, n - n_of_first, &s->written));
        s->pieces.items[i] = (pf_text_range){ begin, s->written.n, false };
        n_before += n;
        if (s->written.n > n_before) {
            PF_TRY(pf_searcher_grow(s->searcher, s->written.n - n_before));
            n_before = s->written.n;
        }
    }
    s->text = s->written.data;
    s->n_first = n_first;
    return PF_OK;
}

/* Split text [n] into s->pieces by the steps from `begin` to `end`. */
static pf_status apply_steps(const pf_pretokenizer *p, pf_pretokenize_scratch *s, int32_t begin, int32_t end,
                             const char *text, size_t n, pf_text_place place)
{
    s->text = text;
    s->n_first = place.n_first;
    s->pieces.n = 0;
    PF_TRY(pf_text_ranges_push(&s->pieces, (pf_text_range){ 0, n, false }));
    for (int32_t i = begin; i < end; i++) {
        if (p->steps[i].n_space > 0) PF_TRY(write_metaspaces(s, &p->steps[i], place.follows_raw_byte));
        if (p->steps[i].pattern) PF_TRY(cut(s, &p->steps[i]));
    }
    return PF_OK;
}

/* --- ByteLevel --- */

static bool needs_prefix_space(const pf_pretokenizer *p, const pf_pretokenize_scratch *s, pf_text_range piece,
                               bool follows_raw_byte)
{
    return p->add_prefix_space && !(follows_raw_byte && piece.begin == 0) && s->text[piece.begin] != ' ';
}

static pf_status prefix_space(pf_pretokenize_scratch *s, const char **piece, size_t *n)
{
    s->made.n = 0;
    PF_TRY(pf_bytes_append(&s->made, " ", 1));
    PF_TRY(pf_bytes_append(&s->made, *piece, *n));
    *piece = s->made.data;
    *n += 1;
    return PF_OK;
}

static pf_status byte_level(const pf_pretokenizer *p, pf_pretokenize_scratch *s, const char *piece, size_t n,
                            pf_piece_fn *emit, void *user)
{
    if (!p->gpt2) return emit(user, piece, n);
    PF_TRY(pf_pattern_find_all(p->gpt2, s->searcher, piece, n, &s->found));
    for (size_t i = 0; i < s->found.n; i++) {
        const pf_text_range part = s->found.items[i];
        if (part.begin < part.end) PF_TRY(emit(user, piece + part.begin, part.end - part.begin));
    }
    return PF_OK;
}

/* --- after ByteLevel --- */

typedef struct {
    const pf_pretokenizer *p;
    pf_pretokenize_scratch *s;
    pf_piece_fn *emit;
    void *user;
} byte_level_rest;

static pf_status write_byte_characters(const char *bytes, size_t n, pf_bytes *out)
{
    out->n = 0;
    PF_TRY(pf_bytes_reserve(out, 2 * n)); /* a byte character has at most two bytes of UTF-8 */
    for (size_t i = 0; i < n; i++)
        out->n += pf_character_put(pf_byte_to_unicode((unsigned char)bytes[i]), out->data + out->n);
    return PF_OK;
}

/* Split a piece of ByteLevel further, as byte characters. */
static pf_status split_byte_characters(void *user, const char *piece, size_t n)
{
    const byte_level_rest *b = user;
    if (!b->s->nested) PF_TRY(pf_pretokenize_scratch_create(b->s->searcher, &b->s->nested));
    pf_pretokenize_scratch *s = b->s->nested;
    PF_TRY(write_byte_characters(piece, n, &s->made));
    PF_TRY(apply_steps(b->p, s, b->p->n_before, b->p->n_steps, s->made.data, s->made.n, (pf_text_place){ 0 }));
    size_t at = 0, byte = 0; /* the same position in the byte characters and in the piece */
    for (size_t i = 0; i < s->pieces.n; i++) {
        const pf_text_range part = s->pieces.items[i];
        const size_t begin = byte + pf_utf8_count(s->text + at, part.begin - at); /* each stands for a byte */
        byte = begin + pf_utf8_count(s->text + part.begin, part.end - part.begin);
        at = part.end;
        PF_TRY(b->emit(b->user, piece + begin, byte - begin));
    }
    return PF_OK;
}

pf_status pf_pretokenize(const pf_pretokenizer *p, pf_pretokenize_scratch *s, const char *text, size_t n_bytes,
                         pf_text_place place, pf_piece_fn *emit, void *user)
{
    byte_level_rest rest = { .p = p, .s = s, .emit = emit, .user = user };
    const bool has_rest = p->n_before < p->n_steps;
    if (n_bytes == 0) return PF_OK;
    PF_TRY(apply_steps(p, s, 0, p->n_before, text, n_bytes, place));
    for (size_t i = 0; i < s->pieces.n; i++) {
        const pf_text_range range = s->pieces.items[i];
        const char *piece = s->text + range.begin;
        size_t n = range.end - range.begin;
        if (needs_prefix_space(p, s, range, place.follows_raw_byte)) PF_TRY(prefix_space(s, &piece, &n));
        PF_TRY(byte_level(p, s, piece, n, has_rest ? split_byte_characters : emit, has_rest ? &rest : user));
    }
    return PF_OK;
}
