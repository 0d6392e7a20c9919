/* Reads the decoder of tokenizer.json, and applies its token steps. */
#include "tokenizer/decode/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/json_sequence.h"

enum {
    MAX_PATTERN_BYTES = 4096,
    MAX_STRIPPED = 1 << 16,
};

/* --- building --- */

static pf_status no_memory(const pf_json *doc, pf_error *error)
{
    return pf_fail(error, PF_NOMEM, "%s: no memory for the decoder", doc->name);
}

static pf_status next_step(pf_decoder *d, const pf_json *doc, pf_step_kind kind, bool is_token_step,
                           pf_decoder_step **out, pf_error *error)
{
    if (d->n_steps == PF_MAX_DECODER_STEPS)
        return pf_fail(error, PF_UNSUPPORTED, "%s: more than %d parts", doc->name, PF_MAX_DECODER_STEPS);
    *out = &d->steps[d->n_steps++];
    (*out)->kind = kind;
    if (!is_token_step) d->has_stream_step = true;
    if (!d->has_stream_step) d->n_token_steps = d->n_steps;
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

/* The pattern of a stream step, with its KMP table. */
static pf_status set_pattern(pf_decoder_step *s, const pf_json *doc, const char *text, size_t n, pf_error *error)
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

/* A pattern that is a single character. */
static pf_status read_character(const pf_json *doc, const json_t *part, const char *field, pf_decoder_step *s,
                                pf_error *error)
{
    const char *text = NULL;
    size_t n = 0;
    PF_TRY(pf_json_get_character(doc, part, field, &text, &n, error));
    return set_pattern(s, doc, text, n, error);
}

static pf_status add_replace(const pf_json *doc, const json_t *part, pf_decoder *d, pf_error *error)
{
    const json_t *pattern = json_object_get(part, "pattern"), *text = json_object_get(pattern, "String");
    pf_decoder_step *s = NULL;
    PF_TRY(next_step(d, doc, PF_STEP_REPLACE, true, &s, error));
    PF_TRY(pf_json_get_content(doc, part, "content", &s->content, &s->n_content, error));
    if (!d->has_stream_step) return pf_pattern_read(doc, part, &s->regex, error);
    if (json_object_size(pattern) != 1 || !json_is_string(text) || json_string_length(text) == 0 ||
        json_string_length(text) > MAX_PATTERN_BYTES)
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s: a pattern behind ByteFallback, ByteLevel, Fuse or Metaspace must be a "
                       "String of 1 to %d bytes",
                       doc->name, MAX_PATTERN_BYTES);
    return set_pattern(s, doc, json_string_value(text), json_string_length(text), error);
}

static pf_status add_strip(const pf_json *doc, const json_t *part, pf_decoder *d, pf_error *error)
{
    int64_t start = 0, stop = 0;
    pf_decoder_step *s = NULL;
    PF_TRY(next_step(d, doc, PF_STEP_STRIP, true, &s, error));
    PF_TRY(read_character(doc, part, "content", s, error));
    PF_TRY(pf_json_get_int(doc, part, "start", true, 0, MAX_STRIPPED, &start, error));
    PF_TRY(pf_json_get_int(doc, part, "stop", true, 0, MAX_STRIPPED, &stop, error));
    s->n_start = (uint32_t)start;
    s->n_stop = (uint32_t)stop;
    return PF_OK;
}

static pf_status add_fuse(const pf_json *doc, const json_t *part, pf_decoder *d, pf_error *error)
{
    pf_decoder_step *s = NULL;
    (void)part;
    return next_step(d, doc, PF_STEP_FUSE, false, &s, error);
}

static pf_status add_metaspace(const pf_json *doc, const json_t *part, pf_decoder *d, pf_error *error)
{
    pf_prepend_scheme scheme = PF_PREPEND_ALWAYS;
    pf_decoder_step *s = NULL;
    PF_TRY(next_step(d, doc, PF_STEP_METASPACE, false, &s, error));
    PF_TRY(read_character(doc, part, "replacement", s, error));
    PF_TRY(pf_json_get_scheme(doc, part, &scheme, error));
    s->drops_first = scheme != PF_PREPEND_NEVER;
    return copy(doc, " ", 1, &s->content, &s->n_content, error);
}

static pf_status add_byte_fallback(const pf_json *doc, const json_t *part, pf_decoder *d, pf_error *error)
{
    (void)part;
    if (d->has_stream_step)
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s is behind ByteLevel, Fuse, Metaspace or another one, expected it before", doc->name);
    d->has_runs = d->has_stream_step = true;
    return PF_OK;
}

/* It joins all tokens, as Fuse does. */
static pf_status add_byte_level(const pf_json *doc, const json_t *part, pf_decoder *d, pf_error *error)
{
    for (int32_t i = 0; i < d->n_steps; i++)
        if (d->steps[i].kind != PF_STEP_FUSE || d->is_byte_level)
            return pf_fail(error, PF_UNSUPPORTED, "%s is behind another part, expected it first", doc->name);
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
    return pf_fail(error, PF_UNSUPPORTED,
                   "%s is not known (known: ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, "
                   "Sequence)",
                   doc->name);
}

pf_status pf_decoder_create(const pf_json *doc, const json_t *node, pf_decoder **out, pf_error *error)
{
    pf_decoder *d = calloc(1, sizeof *d);
    if (!d) return no_memory(doc, error);
    pf_status status = pf_json_visit_sequence(doc, node, "decoder", "decoders", add_part, d, error);
    if (status == PF_OK && (!node || json_is_null(node))) {
        pf_decoder_step *s = NULL;
        status = next_step(d, doc, PF_STEP_JOIN, false, &s, error);
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

/* --- token steps --- */

static pf_status replace_whole(const pf_decoder_step *s, pf_searcher *searcher, const pf_bytes *text, pf_bytes *out)
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

static pf_status strip_whole(const pf_decoder_step *s, const pf_bytes *text, pf_bytes *out)
{
    size_t begin = 0, end = text->n;
    for (uint32_t i = 0; i < s->n_start && end - begin >= s->n_pattern; i++, begin += s->n_pattern)
        if (memcmp(text->data + begin, s->pattern, s->n_pattern) != 0) break;
    for (uint32_t i = 0; i < s->n_stop && end - begin >= s->n_pattern; i++, end -= s->n_pattern)
        if (memcmp(text->data + end - s->n_pattern, s->pattern, s->n_pattern) != 0) break;
    return pf_bytes_append(out, text->data + begin, end - begin);
}

/* "<0xC3>", or "<0x+A>": Rust's number parser accepts a sign. */
static bool read_byte(const pf_bytes *text, char *out)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    if (text->n != 6 || memcmp(text->data, "<0x", 3) != 0 || text->data[5] != '>') return false;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        if (i == 3 && text->data[i] == '+') continue;
        const char *digit = text->data[i] ? strchr(digits, text->data[i]) : NULL;
        if (!digit) return false;
        const int d = (int)(digit - digits);
        value = value * 16 + (d < 16 ? d : d - 6);
    }
    *out = (char)value;
    return true;
}

pf_status pf_decoder_decode_token(const pf_decoder *d, pf_searcher *searcher, pf_bytes *text, pf_bytes *spare,
                                  bool *is_byte)
{
    for (int32_t i = 0; i < d->n_token_steps; i++) {
        spare->n = 0;
        PF_TRY(pf_bytes_reserve(spare, 1)); /* data is not NULL for an empty text */
        PF_TRY(d->steps[i].kind == PF_STEP_STRIP ? strip_whole(&d->steps[i], text, spare)
                                                 : replace_whole(&d->steps[i], searcher, text, spare));
        const pf_bytes swap = *text;
        *text = *spare;
        *spare = swap;
    }
    *is_byte = d->has_runs && read_byte(text, text->data);
    if (*is_byte) text->n = 1;
    return PF_OK;
}
