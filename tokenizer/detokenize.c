/*
 * Each step that runs on the way gets parts of tokens, with a note where a token begins and where it ends, and hands parts
 * on to the next. Strings are looked for as they come, by Knuth, Morris and Pratt's automaton (SIAM J. Comput. 6, 1977), so
 * a step holds back no more than a part of its pattern.
 */
#include "tokenizer/detokenize.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/characters.h"
#include "tokenizer/json_sequence.h"
#include "tokenizer/tokenizer_parts.h"

enum {
    MAX_STEPS = 32,
    MAX_PATTERN_BYTES = 4096,
    MAX_CONTENT_BYTES = 4096,
    MAX_STRIPPED = 1 << 16,
    MAX_BYTES_A_TOKEN = 1 << 20, /* that steps hand on for one token, besides its own */
};

typedef enum { STEP_REPLACE, STEP_STRIP, STEP_FUSE, STEP_METASPACE, STEP_JOIN } step_kind;

typedef struct {
    step_kind kind;
    pf_pattern *regex;       /* Replace in front of all steps that run on the way: any pattern */
    char *pattern, *content; /* Replace; Strip and Metaspace: the character; JOIN: content is what goes between */
    size_t n_pattern, n_content;
    uint16_t *border;         /* [n_pattern] of pattern[0 .. i]: its longest end that begins it, shorter than itself */
    uint32_t n_start, n_stop; /* Strip: of the character, so many */
    bool drops_first;         /* Metaspace: in the first token it stands for nothing */
} step;

struct pf_decoder {
    step steps[MAX_STEPS];
    int32_t n_steps;
    int32_t n_spelling; /* of them, those at the front that look at each token alone */
    bool has_runs;      /* ByteFallback: behind those, tokens that are a byte join */
    bool is_byte_level;
    bool has_list_step; /* while it is built: the steps from here on run on the way */
};

/* --- building --- */

static pf_status no_memory(const pf_json *doc, pf_error *error)
{
    return pf_fail(error, PF_NOMEM, "%s: no memory for the decoder", doc->name);
}

static pf_status next_step(pf_decoder *d, const pf_json *doc, step_kind kind, bool spells, step **out, pf_error *error)
{
    if (d->n_steps == MAX_STEPS)
        return pf_fail(error, PF_UNSUPPORTED, "%s: decoder has more than %d parts", doc->name, MAX_STEPS);
    *out = &d->steps[d->n_steps++];
    (*out)->kind = kind;
    if (!spells) d->has_list_step = true;
    if (!d->has_list_step) d->n_spelling = d->n_steps;
    return PF_OK;
}

static pf_status copy(const pf_json *doc, const char *text, size_t n, char **out, size_t *n_out, pf_error *error)
{
    *out = malloc(n + 1);
    if (!*out) return no_memory(doc, error);
    memcpy(*out, text, n);
    *n_out = n;
    return PF_OK;
}

/* What is looked for as it comes. */
static pf_status set_pattern(step *s, const pf_json *doc, const char *text, size_t n, pf_error *error)
{
    PF_TRY(copy(doc, text, n, &s->pattern, &s->n_pattern, error));
    s->border = calloc(n, sizeof *s->border);
    if (!s->border) return no_memory(doc, error);
    for (size_t i = 1, k = 0; i < n; i++) {
        while (k > 0 && text[i] != text[k]) k = s->border[k - 1];
        if (text[i] == text[k]) k++;
        s->border[i] = (uint16_t)k;
    }
    return PF_OK;
}

static pf_status read_character(const pf_json *doc, const json_t *part, const char *field, step *s, pf_error *error)
{
    const json_t *text = json_object_get(part, field);
    const size_t n = json_string_length(text);
    size_t end = 0;
    if (json_is_string(text) && n > 0) (void)pf_character_at(json_string_value(text), 0, &end);
    if (end == 0 || end != n)
        return pf_fail(error, PF_FORMAT, "%s: decoder: %s must be one character", doc->name, field);
    return set_pattern(s, doc, json_string_value(text), n, error);
}

static pf_status add_replace(const pf_json *doc, const json_t *part, pf_decoder *d, pf_error *error)
{
    const json_t *content = json_object_get(part, "content");
    const json_t *text = json_object_get(json_object_get(part, "pattern"), "String");
    step *s = NULL;
    if (!json_is_string(content) || json_string_length(content) > MAX_CONTENT_BYTES)
        return pf_fail(error, PF_UNSUPPORTED, "%s: decoder: Replace's content must be a string of at most %d bytes",
                       doc->name, MAX_CONTENT_BYTES);
    PF_TRY(next_step(d, doc, STEP_REPLACE, true, &s, error));
    PF_TRY(copy(doc, json_string_value(content), json_string_length(content), &s->content, &s->n_content, error));
    if (!d->has_list_step) return pf_pattern_read(doc, part, "Replace's pattern", &s->regex, error);
    if (!json_is_string(text) || json_string_length(text) == 0 || json_string_length(text) > MAX_PATTERN_BYTES)
        return pf_fail(
            error, PF_UNSUPPORTED,
            "%s: decoder: the pattern of a Replace behind ByteFallback, ByteLevel, Fuse or Metaspace must be a "
            "String of 1 to %d bytes",
            doc->name, MAX_PATTERN_BYTES);
    return set_pattern(s, doc, json_string_value(text), json_string_length(text), error);
}

static pf_status add_strip(const pf_json *doc, const json_t *part, pf_decoder *d, pf_error *error)
{
    int64_t start = 0, stop = 0;
    step *s = NULL;
    PF_TRY(next_step(d, doc, STEP_STRIP, true, &s, error));
    PF_TRY(read_character(doc, part, "content", s, error));
    PF_TRY(pf_json_get_int(doc, part, "start", true, 0, MAX_STRIPPED, &start, error));
    PF_TRY(pf_json_get_int(doc, part, "stop", true, 0, MAX_STRIPPED, &stop, error));
    s->n_start = (uint32_t)start;
    s->n_stop = (uint32_t)stop;
    return PF_OK;
}

static pf_status add_fuse(const pf_json *doc, const json_t *part, pf_decoder *d, pf_error *error)
{
    step *s = NULL;
    (void)part;
    return next_step(d, doc, STEP_FUSE, false, &s, error);
}

static pf_status add_metaspace(const pf_json *doc, const json_t *part, pf_decoder *d, pf_error *error)
{
    const char *scheme = "always";
    bool prefix = true;
    step *s = NULL;
    PF_TRY(next_step(d, doc, STEP_METASPACE, false, &s, error));
    PF_TRY(read_character(doc, part, "replacement", s, error));
    PF_TRY(pf_json_get_string(doc, part, "prepend_scheme", false, &scheme, error));
    PF_TRY(pf_json_get_bool(doc, part, "add_prefix_space", false, &prefix, error));
    s->drops_first = prefix && strcmp(scheme, "never") != 0;
    return copy(doc, " ", 1, &s->content, &s->n_content, error);
}

static pf_status add_byte_fallback(const pf_json *doc, const json_t *part, pf_decoder *d, pf_error *error)
{
    (void)part;
    if (d->has_list_step)
        return pf_fail(
            error, PF_UNSUPPORTED,
            "%s: decoder has a ByteFallback behind ByteLevel, Fuse, Metaspace or another one, expected it before",
            doc->name);
    d->has_runs = d->has_list_step = true;
    return PF_OK;
}

/* Its tokens are one text from there on. */
static pf_status add_byte_level(const pf_json *doc, const json_t *part, pf_decoder *d, pf_error *error)
{
    for (int32_t i = 0; i < d->n_steps; i++)
        if (d->steps[i].kind != STEP_FUSE || d->is_byte_level)
            return pf_fail(error, PF_UNSUPPORTED, "%s: decoder has a ByteLevel behind another part, expected it first",
                           doc->name);
    d->is_byte_level = true;
    return add_fuse(doc, part, d, error);
}

static pf_status add_part(void *user, const pf_json *doc, const char *type, const json_t *part, pf_error *error)
{
    static const struct {
        const char *type;
        pf_status (*add)(const pf_json *doc, const json_t *part, pf_decoder *d, pf_error *error);
    } known[] = {
        { "ByteLevel", add_byte_level },
        { "Replace", add_replace },
        { "ByteFallback", add_byte_fallback },
        { "Fuse", add_fuse },
        { "Strip", add_strip },
        { "Metaspace", add_metaspace },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i].type) == 0) return known[i].add(doc, part, user, error);
    return pf_fail(
        error, PF_UNSUPPORTED,
        "%s: the decoder %.60s is not known (known: ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, "
        "Sequence)",
        doc->name, type);
}

pf_status pf_decoder_create(const pf_json *doc, const json_t *node, pf_decoder **out, pf_error *error)
{
    pf_decoder *d = calloc(1, sizeof *d);
    if (!d) return no_memory(doc, error);
    pf_status status = pf_json_visit_sequence(doc, node, "decoder", "decoders", add_part, d, error);
    if (status == PF_OK && (!node || json_is_null(node))) {
        step *s = NULL;
        status = next_step(d, doc, STEP_JOIN, false, &s, error);
        if (status == PF_OK) status = copy(doc, " ", 1, &s->content, &s->n_content, error);
    }
    if (status != PF_OK)
        pf_decoder_destroy(d);
    else
        *out = d;
    return status;
}

void pf_decoder_destroy(pf_decoder *d)
{
    if (!d) return;
    for (int32_t i = 0; i < d->n_steps; i++) {
        pf_pattern_destroy(d->steps[i].regex);
        free(d->steps[i].pattern);
        free(d->steps[i].content);
        free(d->steps[i].border);
    }
    free(d);
}

bool pf_decoder_is_byte_level(const pf_decoder *decoder)
{
    return decoder->is_byte_level;
}

/* --- a token alone --- */

static pf_status replace_whole(const step *s, pf_searcher *searcher, const pf_bytes *text, pf_bytes *out)
{
    pf_text_ranges found = { .items = NULL };
    pf_status status = pf_pattern_find_all(s->regex, searcher, text->data, text->n, &found);
    for (size_t i = 0; status == PF_OK && i < found.n; i++) {
        const pf_text_range item = found.items[i];
        if (item.matched) status = pf_searcher_grow(searcher, s->n_content);
        if (status != PF_OK) break;
        status = item.matched ? pf_bytes_append(out, s->content, s->n_content)
                              : pf_bytes_append(out, text->data + item.begin, item.end - item.begin);
    }
    free(found.items);
    return status;
}

static pf_status strip_whole(const step *s, const pf_bytes *text, pf_bytes *out)
{
    size_t begin = 0, end = text->n;
    for (uint32_t i = 0; i < s->n_start && end - begin >= s->n_pattern; i++, begin += s->n_pattern)
        if (memcmp(text->data + begin, s->pattern, s->n_pattern) != 0) break;
    for (uint32_t i = 0; i < s->n_stop && end - begin >= s->n_pattern; i++, end -= s->n_pattern)
        if (memcmp(text->data + end - s->n_pattern, s->pattern, s->n_pattern) != 0) break;
    return pf_bytes_append(out, text->data + begin, end - begin);
}

/* "<0xC3>" */
static bool read_byte(const pf_bytes *text, char *out)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    if (text->n != 6 || memcmp(text->data, "<0x", 3) != 0 || text->data[5] != '>') return false;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        const char *digit = text->data[i] ? strchr(digits, text->data[i]) : NULL;
        if (!digit) return false;
        const int d = (int)(digit - digits);
        value = value * 16 + (d < 16 ? d : d - 6);
    }
    *out = (char)value;
    return true;
}

pf_status pf_decoder_spell(const pf_decoder *d, pf_searcher *searcher, pf_bytes *text, pf_bytes *spare, bool *is_byte)
{
    for (int32_t i = 0; i < d->n_spelling; i++) {
        spare->n = 0;
        PF_TRY(pf_bytes_reserve(spare, 1)); /* so that an empty text is one */
        PF_TRY(d->steps[i].kind == STEP_STRIP ? strip_whole(&d->steps[i], text, spare)
                                              : replace_whole(&d->steps[i], searcher, text, spare));
        const pf_bytes swap = *text;
        *text = *spare;
        *spare = swap;
    }
    *is_byte = d->has_runs && read_byte(text, text->data);
    if (*is_byte) text->n = 1;
    return PF_OK;
}

/* --- on the way --- */

/* A part of a token, and whether the token begins with it and ends with it. */
typedef struct {
    const char *bytes;
    size_t n;
    bool begins, ends;
} part;

typedef struct {
    size_t n_matched;           /* bytes of the pattern that are held back */
    uint32_t n_dropped, n_held; /* Strip: of its character, at the start, and held back whole */
    bool is_inside;             /* Strip: what may be dropped at the start is over */
    bool is_under_way;          /* Fuse: the one token has begun */
    bool had_token;             /* Metaspace: the first token has ended; JOIN: a token has been */
} progress;

struct pf_detokenizer {
    const pf_tokenizer *t;
    const pf_decoder *decoder;
    bool in_run;       /* tokens that are a byte each, under way as one */
    size_t bytes_left; /* that may be handed on for this token */
    pf_bytes *text;    /* that is appended to */
    progress at[];     /* [n_steps] */
};

pf_status pf_detokenizer_create(const pf_tokenizer *tokenizer, pf_detokenizer **out)
{
    pf_detokenizer *d = calloc(1, sizeof *d + (size_t)tokenizer->decoder->n_steps * sizeof *d->at);
    if (!d) return PF_NOMEM;
    d->t = tokenizer;
    d->decoder = tokenizer->decoder;
    *out = d;
    return PF_OK;
}

void pf_detokenizer_destroy(pf_detokenizer *d)
{
    free(d);
}

static pf_status feed(pf_detokenizer *d, int32_t i, part p);

/* To the step behind i. */
static pf_status hand_on(pf_detokenizer *d, int32_t i, const char *bytes, size_t n)
{
    return n == 0 ? PF_OK : feed(d, i + 1, (part){ .bytes = bytes, .n = n });
}

static pf_status hand_on_edge(pf_detokenizer *d, int32_t i, bool begins, bool ends)
{
    return begins || ends ? feed(d, i + 1, (part){ .begins = begins, .ends = ends }) : PF_OK;
}

/* Take a byte into the automaton: the part of what is held back that can no longer become a match goes on. True: the
 * pattern is there, and nothing is held back. */
static pf_status match(pf_detokenizer *d, int32_t i, const char *byte, bool *matched)
{
    const step *s = &d->decoder->steps[i];
    size_t *n = &d->at[i].n_matched;
    *matched = false;
    while (*n > 0 && s->pattern[*n] != *byte) {
        const size_t kept = s->border[*n - 1], gone = *n - kept;
        *n = kept;
        PF_TRY(hand_on(d, i, s->pattern, gone)); /* what is held back begins the pattern */
    }
    if (s->pattern[*n] != *byte) return hand_on(d, i, byte, 1);
    if (++*n < s->n_pattern) return PF_OK;
    *n = 0;
    *matched = true;
    return PF_OK;
}

/* The token ends: what is held back is no match. */
static pf_status let_go(pf_detokenizer *d, int32_t i)
{
    const size_t n = d->at[i].n_matched;
    d->at[i].n_matched = 0;
    return hand_on(d, i, d->decoder->steps[i].pattern, n);
}

static pf_status replace(pf_detokenizer *d, int32_t i, part p)
{
    const step *s = &d->decoder->steps[i];
    const bool drops = s->drops_first && !d->at[i].had_token;
    PF_TRY(hand_on_edge(d, i, p.begins, false));
    for (size_t at = 0; at < p.n;) {
        /* what cannot begin a match goes on as one */
        const char *first = d->at[i].n_matched > 0 ? p.bytes + at : memchr(p.bytes + at, s->pattern[0], p.n - at);
        const size_t end = first ? (size_t)(first - p.bytes) : p.n;
        bool matched = false;
        PF_TRY(hand_on(d, i, p.bytes + at, end - at));
        if (end < p.n) PF_TRY(match(d, i, p.bytes + end, &matched));
        if (matched && !drops) PF_TRY(hand_on(d, i, s->content, s->n_content));
        at = end + 1;
    }
    if (!p.ends) return PF_OK;
    PF_TRY(let_go(d, i));
    d->at[i].had_token = true;
    return hand_on_edge(d, i, false, true);
}

/* The characters at the start are dropped as they come; those that may be the stop wait, and of more than are dropped there
 * the first go on. */
static pf_status strip_byte(pf_detokenizer *d, int32_t i, const char *byte)
{
    const step *s = &d->decoder->steps[i];
    progress *at = &d->at[i];
    const bool is_next = s->pattern[at->n_matched] == *byte;
    if (is_next && ++at->n_matched < s->n_pattern) return PF_OK;
    if (is_next) {
        at->n_matched = 0;
        if (!at->is_inside && at->n_dropped < s->n_start) {
            at->n_dropped++;
            return PF_OK;
        }
        at->is_inside = true;
        if (at->n_held < s->n_stop) {
            at->n_held++;
            return PF_OK;
        }
        return hand_on(d, i, s->pattern, s->n_pattern);
    }
    at->is_inside = true;
    for (; at->n_held > 0; at->n_held--) PF_TRY(hand_on(d, i, s->pattern, s->n_pattern));
    const bool was_part = at->n_matched > 0;
    PF_TRY(let_go(d, i));
    return was_part ? strip_byte(d, i, byte) : hand_on(d, i, byte, 1); /* it may begin the character anew */
}

static pf_status strip(pf_detokenizer *d, int32_t i, part p)
{
    progress *at = &d->at[i];
    if (p.begins) {
        *at = (progress){ 0 };
        PF_TRY(hand_on_edge(d, i, true, false));
    }
    for (size_t k = 0; k < p.n; k++) PF_TRY(strip_byte(d, i, p.bytes + k));
    if (!p.ends) return PF_OK;
    if (at->n_matched > 0)
        for (; at->n_held > 0; at->n_held--)
            PF_TRY(hand_on(d, i, d->decoder->steps[i].pattern, d->decoder->steps[i].n_pattern));
    PF_TRY(let_go(d, i));
    return hand_on_edge(d, i, false, true);
}

static pf_status fuse(pf_detokenizer *d, int32_t i, part p)
{
    const bool begins = !d->at[i].is_under_way;
    d->at[i].is_under_way = true;
    return begins || p.n > 0 ? feed(d, i + 1, (part){ .bytes = p.bytes, .n = p.n, .begins = begins }) : PF_OK;
}

static pf_status join(pf_detokenizer *d, int32_t i, part p)
{
    const step *s = &d->decoder->steps[i];
    if (p.begins && d->at[i].had_token) PF_TRY(hand_on(d, i, s->content, s->n_content));
    d->at[i].had_token = true;
    return hand_on(d, i, p.bytes, p.n);
}

static pf_status feed(pf_detokenizer *d, int32_t i, part p)
{
    if (p.n > d->bytes_left) return PF_LIMIT;
    d->bytes_left -= p.n;
    if (i == d->decoder->n_steps) return pf_bytes_append(d->text, p.bytes, p.n);
    switch (d->decoder->steps[i].kind) {
    case STEP_REPLACE:
    case STEP_METASPACE: return replace(d, i, p);
    case STEP_STRIP: return strip(d, i, p);
    case STEP_FUSE: return fuse(d, i, p);
    case STEP_JOIN: break;
    }
    return join(d, i, p);
}

static void begin_push(pf_detokenizer *d, pf_bytes *text, size_t n)
{
    d->text = text;
    d->bytes_left = MAX_BYTES_A_TOKEN + n * ((size_t)d->decoder->n_steps + 1);
}

static pf_status end_run(pf_detokenizer *d)
{
    if (!d->in_run) return PF_OK;
    d->in_run = false;
    return feed(d, d->decoder->n_spelling, (part){ .ends = true });
}

pf_status pf_detokenizer_push(pf_detokenizer *d, int32_t id, pf_bytes *text)
{
    if (id < 0 || id >= d->t->vocab_size || !d->t->tokens[id].bytes) return PF_INVALID;
    const pf_token *token = &d->t->tokens[id];
    part p = { .bytes = token->spelt ? token->spelt : token->bytes,
               .n = token->spelt ? token->n_spelt : token->n_bytes,
               .begins = true,
               .ends = true };
    begin_push(d, text, p.n);
    if (token->is_byte) {
        p.begins = !d->in_run;
        p.ends = false;
        d->in_run = true;
    } else {
        PF_TRY(end_run(d));
    }
    return feed(d, d->decoder->n_spelling, p);
}

/* A Fuse ends its token only now, so each step is told once those before it have said all. */
pf_status pf_detokenizer_finish(pf_detokenizer *d, pf_bytes *text)
{
    begin_push(d, text, 0);
    PF_TRY(end_run(d));
    for (int32_t i = d->decoder->n_spelling; i < d->decoder->n_steps; i++)
        if (d->decoder->steps[i].kind == STEP_FUSE && d->at[i].is_under_way)
            PF_TRY(feed(d, i + 1, (part){ .ends = true }));
    return PF_OK;
}
