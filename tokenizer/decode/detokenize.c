/*
 * Runs the stream steps of a decoder. Each step receives parts of tokens, marked where a token begins and ends, and emits
 * parts to the next step. Strings are matched with the automaton of Knuth, Morris and Pratt (SIAM J. Comput. 6, 1977), so a
 * step holds back no more than a prefix of its pattern.
 */
#include "tokenizer/decode/detokenize.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_parts.h"

enum { MAX_BYTES_A_TOKEN = 1 << 20 }; /* the most bytes that steps may add to one token */

/* A part of a token; begins, ends: it is the first, the last part. */
typedef struct {
    const char *bytes;
    size_t n;
    bool begins, ends;
} part;

typedef struct {
    size_t n_matched;           /* length of the held-back prefix of the pattern */
    uint32_t n_dropped, n_held; /* Strip: characters removed at the start, and held back at the end */
    bool is_inside;             /* Strip: nothing more is removed at the start */
    bool has_begun;             /* Fuse: the joined token has begun */
    bool had_token;             /* Metaspace: the first token has ended; JOIN: there was a token */
} progress;

struct pf_detokenizer {
    const pf_tokenizer *t;
    const pf_decoder *decoder;
    bool in_run;         /* a run of byte tokens has begun and not ended */
    size_t bytes_left;   /* budget of this call, see MAX_BYTES_A_TOKEN */
    pf_bytes *text;      /* output of this call */
    pf_bytes prompt_end; /* the end of the prompt's text that the steps held back after the last prompt token */
    size_t n_skipped;    /* bytes of prompt_end that were emitted and dropped since */
    progress at[];       /* [n_steps] */
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
    if (d) pf_bytes_clear(&d->prompt_end);
    free(d);
}

static pf_status feed(pf_detokenizer *d, int32_t i, part p);

/* Pass bytes to the step after i. */
static pf_status emit(pf_detokenizer *d, int32_t i, const char *bytes, size_t n)
{
    return n == 0 ? PF_OK : feed(d, i + 1, (part){ .bytes = bytes, .n = n });
}

static pf_status emit_edge(pf_detokenizer *d, int32_t i, bool begins, bool ends)
{
    return begins || ends ? feed(d, i + 1, (part){ .begins = begins, .ends = ends }) : PF_OK;
}

/* Advance the automaton by a byte; the held-back bytes that cannot become a match any more are emitted. *matched: the
 * pattern is complete, and nothing is held back. */
static pf_status match(pf_detokenizer *d, int32_t i, const char *byte, bool *matched)
{
    const pf_decoder_step *s = &d->decoder->steps[i];
    size_t *n = &d->at[i].n_matched;
    *matched = false;
    while (*n > 0 && s->pattern[*n] != *byte) {
        const size_t kept = s->border[*n - 1], gone = *n - kept;
        *n = kept;
        PF_TRY(emit(d, i, s->pattern, gone)); /* the held-back bytes equal a prefix of the pattern */
    }
    if (s->pattern[*n] != *byte) return emit(d, i, byte, 1);
    if (++*n < s->n_pattern) return PF_OK;
    *n = 0;
    *matched = true;
    return PF_OK;
}

/* The token ends: the held-back bytes are no match. */
static pf_status flush_match(pf_detokenizer *d, int32_t i)
{
    const size_t n = d->at[i].n_matched;
    d->at[i].n_matched = 0;
    return emit(d, i, d->decoder->steps[i].pattern, n);
}

static pf_status replace(pf_detokenizer *d, int32_t i, part p)
{
    const pf_decoder_step *s = &d->decoder->steps[i];
    const bool drops = s->drops_first && !d->at[i].had_token;
    PF_TRY(emit_edge(d, i, p.begins, false));
    for (size_t at = 0; at < p.n;) {
        /* emit at once all bytes before the next possible match */
        const char *first = d->at[i].n_matched > 0 ? p.bytes + at : memchr(p.bytes + at, s->pattern[0], p.n - at);
        const size_t end = first ? (size_t)(first - p.bytes) : p.n;
        bool matched = false;
        PF_TRY(emit(d, i, p.bytes + at, end - at));
        if (end < p.n) PF_TRY(match(d, i, p.bytes + end, &matched));
        if (matched && !drops) PF_TRY(emit(d, i, s->content, s->n_content));
        at = end + 1;
    }
    if (!p.ends) return PF_OK;
    PF_TRY(flush_match(d, i));
    d->at[i].had_token = true;
    return emit_edge(d, i, false, true);
}

/* Leading characters are dropped at once. Characters that may be trailing are held back, at most n_stop of them. */
static pf_status strip_byte(pf_detokenizer *d, int32_t i, const char *byte)
{
    const pf_decoder_step *s = &d->decoder->steps[i];
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
        return emit(d, i, s->pattern, s->n_pattern);
    }
    at->is_inside = true;
    for (; at->n_held > 0; at->n_held--) PF_TRY(emit(d, i, s->pattern, s->n_pattern));
    const bool was_part = at->n_matched > 0;
    PF_TRY(flush_match(d, i));
    return was_part ? strip_byte(d, i, byte) : emit(d, i, byte, 1); /* the byte may begin the character again */
}

static pf_status strip(pf_detokenizer *d, int32_t i, part p)
{
    progress *at = &d->at[i];
    if (p.begins) {
        *at = (progress){ 0 };
        PF_TRY(emit_edge(d, i, true, false));
    }
    for (size_t k = 0; k < p.n; k++) PF_TRY(strip_byte(d, i, p.bytes + k));
    if (!p.ends) return PF_OK;
    if (at->n_matched > 0)
        for (; at->n_held > 0; at->n_held--)
            PF_TRY(emit(d, i, d->decoder->steps[i].pattern, d->decoder->steps[i].n_pattern));
    PF_TRY(flush_match(d, i));
    return emit_edge(d, i, false, true);
}

static pf_status fuse(pf_detokenizer *d, int32_t i, part p)
{
    const bool begins = !d->at[i].has_begun;
    d->at[i].has_begun = true;
    return begins || p.n > 0 ? feed(d, i + 1, (part){ .bytes = p.bytes, .n = p.n, .begins = begins }) : PF_OK;
}

static pf_status join(pf_detokenizer *d, int32_t i, part p)
{
    const pf_decoder_step *s = &d->decoder->steps[i];
    if (p.begins && d->at[i].had_token) PF_TRY(emit(d, i, s->content, s->n_content));
    d->at[i].had_token = true;
    return emit(d, i, p.bytes, p.n);
}

static pf_status feed(pf_detokenizer *d, int32_t i, part p)
{
    if (p.n > d->bytes_left) return PF_LIMIT;
    d->bytes_left -= p.n;
    if (i == d->decoder->n_steps) return pf_bytes_append(d->text, p.bytes, p.n);
    switch (d->decoder->steps[i].kind) {
    case PF_STEP_REPLACE:
    case PF_STEP_METASPACE: return replace(d, i, p);
    case PF_STEP_STRIP: return strip(d, i, p);
    case PF_STEP_FUSE: return fuse(d, i, p);
    case PF_STEP_JOIN: break;
    }
    return join(d, i, p);
}

static void begin_call(pf_detokenizer *d, pf_bytes *text, size_t n)
{
    d->text = text;
    d->bytes_left = MAX_BYTES_A_TOKEN + n * ((size_t)d->decoder->n_steps + 1);
}

static pf_status end_run(pf_detokenizer *d)
{
    if (!d->in_run) return PF_OK;
    d->in_run = false;
    return feed(d, d->decoder->n_token_steps, (part){ .ends = true });
}

static bool exists(const pf_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->vocab_size && t->tokens[id].bytes;
}

static pf_status push(pf_detokenizer *d, int32_t id, pf_bytes *text)
{
    const pf_token *token = &d->t->tokens[id];
    part p = { .bytes = token->decoded ? token->decoded : token->bytes,
               .n = token->decoded ? token->n_decoded : token->n_bytes,
               .begins = true,
               .ends = true };
    begin_call(d, text, p.n);
    if (token->is_byte) {
        p.begins = !d->in_run;
        p.ends = false;
        d->in_run = true;
    } else {
        PF_TRY(end_run(d));
    }
    return feed(d, d->decoder->n_token_steps, p);
}

/* A Fuse ends its token only now, so each step sees the end after the steps before it have handed on all bytes. */
static pf_status finish(pf_detokenizer *d, pf_bytes *text)
{
    begin_call(d, text, 0);
    PF_TRY(end_run(d));
    for (int32_t i = d->decoder->n_token_steps; i < d->decoder->n_steps; i++)
        if (d->decoder->steps[i].kind == PF_STEP_FUSE && d->at[i].has_begun)
            PF_TRY(feed(d, i + 1, (part){ .ends = true }));
    return PF_OK;
}

/* ---- prompt ------------------------------------------------------------------------------------------------------ */

static bool is_visible(const pf_tokenizer *t, int32_t id)
{
    return exists(t, id) && !pf_tokenizer_is_special(t, id);
}

/* Whether further tokens that are not byte tokens leave the state of step i as it is. `fused`: a Fuse before it joins all
 * tokens. */
static bool is_settled_at(const pf_detokenizer *d, int32_t i, bool fused)
{
    const pf_decoder_step *s = &d->decoder->steps[i];
    const progress *at = &d->at[i];
    switch (s->kind) {
    case PF_STEP_FUSE: return at->has_begun;
    case PF_STEP_STRIP: return !fused || (at->is_inside && s->n_stop == 0 && s->n_pattern == 1);
    case PF_STEP_REPLACE:
    case PF_STEP_METASPACE: return fused ? s->n_pattern == 1 : at->had_token;
    case PF_STEP_JOIN: break;
    }
    return at->had_token;
}

static bool is_settled(const pf_detokenizer *d)
{
    bool fused = false;
    for (int32_t i = d->decoder->n_token_steps; i < d->decoder->n_steps; i++) {
        if (!is_settled_at(d, i, fused)) return false;
        fused = fused || d->decoder->steps[i].kind == PF_STEP_FUSE;
    }
    return !d->in_run;
}

/* Where the trailing run of byte tokens begins, which the next token may continue; n: there is none. */
static int32_t find_last_run(const pf_tokenizer *t, const int32_t *ids, int32_t n)
{
    int32_t begin = n;
    for (int32_t i = n - 1; i >= 0; i--) {
        if (!is_visible(t, ids[i])) continue;
        if (!t->tokens[ids[i]].is_byte) break;
        begin = i;
    }
    return begin;
}

/* Bring the steps to their state after the prompt. Once they are settled only the trailing run changes it. */
static pf_status read_prompt(pf_detokenizer *d, const int32_t *ids, int32_t n, pf_bytes *scratch)
{
    bool settled = is_settled(d);
    const int32_t last_run = find_last_run(d->t, ids, n);
    for (int32_t i = 0; i < n; i++) {
        if (settled && i < last_run) i = last_run;
        if (i == n) break;
        if (!is_visible(d->t, ids[i])) continue;
        scratch->n = 0;
        PF_TRY(push(d, ids[i], scratch));
        settled = settled || is_settled(d);
    }
    return PF_OK;
}

/* The text that a copy emits if the text ends here. */
static pf_status find_prompt_end(const pf_detokenizer *d, pf_bytes *end)
{
    const size_t size = sizeof *d + (size_t)d->decoder->n_steps * sizeof *d->at;
    pf_detokenizer *copy = malloc(size);
    if (!copy) return PF_NOMEM;
    memcpy(copy, d, size);
    const pf_status status = finish(copy, end);
    free(copy);
    return status;
}

pf_status pf_detokenizer_skip_prompt(pf_detokenizer *d, const int32_t *prompt, int32_t n_prompt)
{
    pf_bytes scratch = { .data = NULL };
    pf_status status = read_prompt(d, prompt, n_prompt, &scratch);
    pf_bytes_clear(&scratch);
    if (status == PF_OK) status = find_prompt_end(d, &d->prompt_end);
    return status;
}

/* Remove the bytes of `text` from `old` on that repeat the end of the prompt's text. */
static void skip_prompt_end(pf_detokenizer *d, pf_bytes *text, size_t old)
{
    size_t n = 0;
    while (d->n_skipped < d->prompt_end.n && old + n < text->n &&
           text->data[old + n] == d->prompt_end.data[d->n_skipped]) {
        n++;
        d->n_skipped++;
    }
    if (old + n < text->n) d->n_skipped = d->prompt_end.n;
    if (n == 0) return;
    memmove(text->data + old, text->data + old + n, text->n - old - n);
    text->n -= n;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

pf_status pf_detokenizer_push(pf_detokenizer *d, int32_t id, pf_bytes *text)
{
    const size_t old = text->n;
    if (!exists(d->t, id)) return PF_INVALID;
    const pf_status status = push(d, id, text);
    skip_prompt_end(d, text, old);
    return status;
}

pf_status pf_detokenizer_finish(pf_detokenizer *d, pf_bytes *text)
{
    const size_t old = text->n;
    const pf_status status = finish(d, text);
    skip_prompt_end(d, text, old);
    return status;
}
