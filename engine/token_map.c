#include "engine/token_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "tokenizer/decode/token_text.h"

enum {
    LONGEST_PIECE = 64,       /* bytes */
    MAX_PIECES = 32,          /* of a token: the rest of its text is left out */
    MAX_TEXT_BYTES = 1 << 26, /* of a vocabulary: the largest known has a few MB */
};

/* What each id of a vocabulary adds in the middle of a text. */
typedef struct {
    pf_vocabulary of;
    pf_bytes bytes;
    size_t *ends; /* [n_ids] in bytes */
    int32_t n_ids, n_tokens;
} texts;

/* Ids by their text: open addressing. */
typedef struct {
    const texts *texts;
    int32_t *slots; /* [n_slots], a power of two; -1: free */
    uint32_t n_slots;
} table;

/* ---- texts --------------------------------------------------------------------------------------------------------- */

static bool is_special(const texts *t, int32_t id)
{
    return pf_tokenizer_is_special(t->of.tokenizer, id);
}

static bool exists(const texts *t, int32_t id)
{
    size_t n_bytes;
    return pf_tokenizer_token_bytes(t->of.tokenizer, id, &n_bytes) != NULL;
}

static const char *text_of(const texts *t, int32_t id, size_t *n_bytes)
{
    const size_t begin = id > 0 ? t->ends[id - 1] : 0;
    *n_bytes = t->ends[id] - begin;
    return t->bytes.data + begin;
}

static pf_status take_texts(pf_vocabulary of, texts *out, pf_error *error)
{
    texts *t = out;
    *t = (texts){ .of = of, .n_ids = of.n_ids };
    t->ends = calloc((size_t)t->n_ids, sizeof *t->ends);
    if (!t->ends) return pf_fail(error, PF_NOMEM, "no memory for the texts of a vocabulary");
    pf_token_text reader = { .tokenizer = of.tokenizer, .n_ids = of.n_ids };
    for (int32_t id = 0; id < t->n_ids; id++) {
        if (exists(t, id)) {
            const pf_status status = pf_token_text_append(&reader, id, &t->bytes);
            if (status != PF_OK) return pf_fail(error, status, "the text of token %d cannot be told", id);
            if (t->bytes.n > MAX_TEXT_BYTES)
                return pf_fail(error, PF_LIMIT, "the texts of the first %d tokens have more than %d bytes", id + 1,
                               MAX_TEXT_BYTES);
            t->n_tokens++;
        }
        t->ends[id] = t->bytes.n;
    }
    return PF_OK;
}

static void clear_texts(texts *t)
{
    pf_bytes_clear(&t->bytes);
    free(t->ends);
}

/* ---- the table ----------------------------------------------------------------------------------------------------- */

static uint32_t hash_of(const char *bytes, size_t n, bool special)
{
    uint32_t hash = special ? 0x811C9DC5u ^ 1 : 0x811C9DC5u; /* FNV-1a */
    for (size_t i = 0; i < n; i++) hash = (hash ^ (uint8_t)bytes[i]) * 0x01000193u;
    return hash;
}

/* The slot of the text, or the free one where it would be. */
static uint32_t find_slot(const table *t, const char *bytes, size_t n, bool special)
{
    uint32_t at = hash_of(bytes, n, special) & (t->n_slots - 1);
    for (; t->slots[at] >= 0; at = (at + 1) & (t->n_slots - 1)) {
        size_t n_other;
        const char *other = text_of(t->texts, t->slots[at], &n_other);
        if (n_other == n && memcmp(other, bytes, n) == 0 && is_special(t->texts, t->slots[at]) == special) break;
    }
    return at;
}

/* Of equal texts the lowest id; tokens without a text are not found. */
static pf_status index_texts(const texts *texts_of, table *out, pf_error *error)
{
    *out = (table){ .texts = texts_of, .n_slots = 16 };
    while (out->n_slots < 2 * (uint32_t)texts_of->n_ids) out->n_slots *= 2;
    out->slots = malloc(out->n_slots * sizeof *out->slots);
    if (!out->slots) return pf_fail(error, PF_NOMEM, "no memory for the texts of a vocabulary");
    for (uint32_t i = 0; i < out->n_slots; i++) out->slots[i] = -1;
    for (int32_t id = 0; id < texts_of->n_ids; id++) {
        size_t n;
        const char *bytes = text_of(texts_of, id, &n);
        if (n == 0) continue;
        const uint32_t at = find_slot(out, bytes, n, is_special(texts_of, id));
        if (out->slots[at] < 0) out->slots[at] = id;
    }
    return PF_OK;
}

/* ---- the map ------------------------------------------------------------------------------------------------------- */

typedef struct {
    const texts *target;
    const table *draft;
    int32_t end;
    int32_t *draft_of, *ends, *pieces;
    bool *is_taken; /* [n of the draft] it is a counterpart already */
    int32_t n_pieces, n_shared, longest;
} builder;

/* The longest token of the draft that the text begins with, or the end where there is none; how many bytes it has. */
static size_t take_piece(const builder *b, const char *bytes, size_t n, int32_t *piece)
{
    for (size_t length = n < LONGEST_PIECE ? n : LONGEST_PIECE; length > 0; length--) {
        *piece = b->draft->slots[find_slot(b->draft, bytes, length, false)];
        if (*piece >= 0) return length;
    }
    *piece = b->end;
    return n;
}

static void map_token(builder *b, int32_t id)
{
    size_t n_bytes;
    const char *bytes = text_of(b->target, id, &n_bytes);
    const bool special = is_special(b->target, id);
    const int32_t first = b->n_pieces;
    const int32_t same = n_bytes > 0 ? b->draft->slots[find_slot(b->draft, bytes, n_bytes, special)] : -1;
    b->draft_of[id] = same >= 0 && !b->is_taken[same] ? same : -1;
    if (b->draft_of[id] >= 0) {
        b->is_taken[same] = true;
        b->n_shared++;
    }
    if (same >= 0) {
        b->pieces[b->n_pieces++] = same;
    } else if (special || n_bytes == 0) {
        b->pieces[b->n_pieces++] = b->end;
    } else {
        for (size_t at = 0; at < n_bytes && b->n_pieces - first < MAX_PIECES;)
            at += take_piece(b, bytes + at, n_bytes - at, &b->pieces[b->n_pieces++]);
    }
    b->ends[id] = b->n_pieces;
    if (b->n_pieces - first > b->longest) b->longest = b->n_pieces - first;
}

static pf_status check_share(const builder *b, const texts *draft, pf_error *error)
{
    const int32_t least = pf_min(b->target->n_tokens, draft->n_tokens);
    if (least > 0 && 100.0 * b->n_shared >= (double)PF_TOKEN_MAP_LEAST_SHARE * least) return PF_OK;
    return pf_fail(
        error, PF_INVALID,
        "of the target's %d tokens and the draft's %d, %d have the same text: %.1f %% of the smaller vocabulary, "
        "expected at least %d %%",
        b->target->n_tokens, draft->n_tokens, b->n_shared, least > 0 ? 100.0 * b->n_shared / least : 0.0,
        PF_TOKEN_MAP_LEAST_SHARE);
}

static pf_status build(const texts *target, const texts *draft, const table *index, int32_t end, pf_token_map *out,
                       pf_error *error)
{
    const size_t n = (size_t)target->n_ids;
    builder b = { .target = target, .draft = index, .end = end };
    b.draft_of = calloc(n, sizeof *b.draft_of);
    b.ends = calloc(n, sizeof *b.ends);
    b.pieces = calloc(target->bytes.n + n, sizeof *b.pieces); /* a piece has a byte, or stands alone */
    b.is_taken = calloc((size_t)draft->n_ids, sizeof *b.is_taken);
    pf_status status = b.draft_of && b.ends && b.pieces && b.is_taken ? PF_OK : PF_NOMEM;
    if (status != PF_OK) (void)pf_fail(error, status, "no memory for a map of vocabularies");
    for (int32_t id = 0; status == PF_OK && id < target->n_ids; id++) map_token(&b, id);
    if (status == PF_OK) status = check_share(&b, draft, error);
    free(b.is_taken);
    pf_token_map map = { .n_target = target->n_ids,
                         .n_shared = b.n_shared,
                         .draft_of = b.draft_of,
                         .ends = b.ends,
                         .pieces = b.pieces,
                         .longest = b.longest };
    if (status == PF_OK)
        *out = map;
    else
        pf_token_map_clear(&map);
    return status;
}

pf_status pf_token_map_build(pf_vocabulary target, pf_vocabulary draft, int32_t end, pf_token_map *out, pf_error *error)
{
    texts of_target = { 0 }, of_draft = { 0 };
    table index = { 0 };
    pf_status status = take_texts(target, &of_target, error);
    if (status == PF_OK) status = take_texts(draft, &of_draft, error);
    if (status == PF_OK) status = index_texts(&of_draft, &index, error);
    if (status == PF_OK) status = build(&of_target, &of_draft, &index, end, out, error);
    free(index.slots);
    clear_texts(&of_draft);
    clear_texts(&of_target);
    return status;
}

void pf_token_map_clear(pf_token_map *map)
{
    free((int32_t *)(uintptr_t)map->draft_of);
    free((int32_t *)(uintptr_t)map->ends);
    free((int32_t *)(uintptr_t)map->pieces);
    *map = (pf_token_map){ 0 };
}
