#include "tokenizer/unicode/charsmap.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/stop.h"
#include "base/utf8.h"
#include "tokenizer/unicode/character_bytes.h"
#include "tokenizer/unicode/newer_characters.h"

enum { LONG_GRAPHEME_BYTES = 6 };

struct pf_charsmap {
    uint32_t *units; /* [n_units] */
    size_t n_units;
    char *texts; /* [n_texts] */
    size_t n_texts;
    bool begins[256]; /* whether a text of the trie begins with this byte */
    pf_charsmap_rule rule;
};

/* A text of the trie; n_bytes 0: none. */
typedef struct {
    size_t n_bytes;
    const char *text; /* its replacement [n_text] */
    size_t n_text;
} replacement;

/* ---- units of the double array ---- */

/* A unit has a label and leads to its children at an offset; with bit 8 the unit there holds a value. */
static uint32_t label_of(uint32_t unit)
{
    return unit & (1u << 31 | 0xFF);
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* ---- reading ---- */

static bool is_utf8(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        bool valid = true;
        i += pf_utf8_length(text + i, n - i, &valid);
        if (!valid) return false;
    }
    return true;
}

static uint32_t u32_le(const uint8_t *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

pf_status pf_charsmap_create(const uint8_t *data, size_t n, pf_charsmap_rule rule, pf_charsmap **out)
{
    const size_t n_trie = n < 4 ? 0 : u32_le(data);
    if (n_trie < 4 || n_trie % 4 != 0 || n_trie > n - 4) return PF_FORMAT;
    const size_t n_texts = n - 4 - n_trie;
    const char *texts = (const char *)data + 4 + n_trie;
    if (!is_utf8(texts, n_texts)) return PF_FORMAT;
    pf_charsmap *map = calloc(1, sizeof *map);
    if (!map) return PF_NOMEM;
    map->rule = rule;
    map->n_units = n_trie / 4;
    map->n_texts = n_texts;
    map->units = malloc(n_trie);
    map->texts = malloc(n_texts + 1);
    if (!map->units || !map->texts) {
        pf_charsmap_destroy(map);
        return PF_NOMEM;
    }
    for (size_t i = 0; i < map->n_units; i++) map->units[i] = u32_le(data + 4 + 4 * i);
    memcpy(map->texts, texts, n_texts);
    map->texts[n_texts] = '\0';
    for (uint32_t byte = 0; byte < 256; byte++) {
        const size_t at = offset_of(map->units[0]) ^ byte;
        map->begins[byte] = at < map->n_units && label_of(map->units[at]) == byte;
    }
    *out = map;
    return PF_OK;
}

void pf_charsmap_destroy(pf_charsmap *map)
{
    if (!map) return;
    free(map->units);
    free(map->texts);
    free(map);
}

/* ---- searching ---- */

static replacement replacement_at(const pf_charsmap *map, uint32_t value, size_t n_bytes)
{
    const size_t at = value & ~(1u << 31);
    if (at >= map->n_texts || (map->texts[at] & 0xC0) == 0x80) return (replacement){ .n_bytes = 0 };
    return (replacement){ .n_bytes = n_bytes, .text = map->texts + at, .n_text = strlen(map->texts + at) };
}

/* The shortest or the longest prefix of text [n] in the trie. */
static replacement find_prefix(const pf_charsmap *map, const char *text, size_t n, bool longest)
{
    replacement found = { .n_bytes = 0 };
    size_t at = offset_of(map->units[0]);
    for (size_t i = 0; i < n && text[i] != '\0'; i++) {
        const uint32_t byte = (unsigned char)text[i];
        at ^= byte;
        if (at >= map->n_units) break;
        const uint32_t unit = map->units[at];
        if (label_of(unit) != byte) break;
        at ^= offset_of(unit);
        if (at >= map->n_units) break;
        if ((unit >> 8 & 1) == 0) continue;
        const replacement r = replacement_at(map, map->units[at], i + 1);
        if (r.n_bytes > 0) found = r;
        if (!longest) break;
    }
    return found;
}

/* ---- a text ---- */

typedef struct {
    const pf_charsmap *map;
    const char *text;
    size_t n;
    size_t cursor;    /* where the next character of the output comes from, as the library counts */
    size_t last;      /* where the last one came from */
    size_t n_first;   /* of the input */
    size_t first_out; /* of the output */
    size_t n_most;
    pf_bytes *out;
} writer;

static void skip_characters(writer *w, size_t n)
{
    for (; n > 0 && w->cursor < w->n; n--) w->cursor = pf_character_after(w->text, w->n, w->cursor);
}

/* Writes `made` [n_made] for the next n_old characters of the input. Characters that are more than the old ones belong to the
 * last old one; old ones that are more belong to the last new one. */
static pf_status write(writer *w, size_t n_old, const char *made, size_t n_made)
{
    size_t n_new = 0;
    if (n_made > w->n_most - w->out->n) return PF_LIMIT;
    PF_TRY(pf_bytes_append(w->out, made, n_made));
    const size_t end = w->out->n;
    if (w->last >= w->n_first && w->cursor >= w->n_first) { /* behind the first character nothing is to be tracked */
        w->cursor = w->last = w->n_first;
        return PF_OK;
    }
    for (size_t at = end - n_made, next; at < end; at = next) {
        next = pf_character_after(w->out->data, end, at);
        if (n_new++ < n_old) {
            w->last = w->cursor;
            skip_characters(w, 1);
        }
        if (w->last < w->n_first) w->first_out = next;
    }
    if (n_new < n_old && end > 0) skip_characters(w, n_old - n_new);
    return PF_OK;
}

static pf_status write_character(writer *w, const char *c, size_t n)
{
    const replacement r = find_prefix(w->map, c, n, false);
    return r.n_bytes > 0 ? write(w, 1, r.text, r.n_text) : write(w, 1, c, n);
}

static pf_status write_grapheme(writer *w, const char *grapheme, size_t n)
{
    if (n < LONG_GRAPHEME_BYTES) {
        const replacement r = find_prefix(w->map, grapheme, n, false);
        if (r.n_bytes > 0) return write(w, pf_utf8_count(grapheme, n), r.text, r.n_text);
    }
    for (size_t at = 0, next; at < n; at = next) {
        next = pf_character_after(grapheme, n, at);
        PF_TRY(write_character(w, grapheme + at, next - at));
    }
    return PF_OK;
}

/* Marks of Unicode 17, which extend a grapheme in the library. Found by comparing both at every code point. */
static const pf_character_range NEWER_MARKS[] = {
    { 0x1ACF, 0x1ADD },   { 0x1AE0, 0x1AEB },   { 0x10EFA, 0x10EFB }, { 0x11B60, 0x11B67 },
    { 0x1E6E3, 0x1E6E3 }, { 0x1E6E6, 0x1E6E6 }, { 0x1E6EE, 0x1E6EF }, { 0x1E6F5, 0x1E6F5 },
};

/* A character that utf8proc does not know breaks as the one that is returned. */
static int32_t known_character(int32_t c)
{
    enum { SOME_MARK = 0x300 };
    if (utf8proc_category(c) != UTF8PROC_CATEGORY_CN) return c;
    const bool is_mark =
        pf_newer_category(c)[0] == 'M' || pf_is_in_ranges(NEWER_MARKS, sizeof NEWER_MARKS / sizeof *NEWER_MARKS, c);
    return is_mark ? SOME_MARK : c;
}

static size_t grapheme_end(const char *text, size_t n, size_t at)
{
    utf8proc_int32_t state = 0;
    size_t end;
    int32_t c = pf_character_at(text, at, &end);
    while (end < n) {
        if (c < 0x80 && c != '\r' && (unsigned char)text[end] < 0x80) return end;
        size_t next;
        const int32_t following = pf_character_at(text, end, &next);
        if (utf8proc_grapheme_break_stateful(known_character(c), known_character(following), &state)) return end;
        c = following;
        end = next;
    }
    return end;
}

/* Where a run of ASCII that stays as it is ends: each character is a grapheme by itself, and no text begins with it. */
static size_t plain_end(const writer *w, size_t at)
{
    while (at < w->n && (unsigned char)w->text[at] < 0x80 && !w->map->begins[(unsigned char)w->text[at]] &&
           (at + 1 == w->n || (unsigned char)w->text[at + 1] < 0x80) && w->text[at] != '\r')
        at++;
    return at;
}

/* Writes such a run; *at: its end. The first character is left to the caller, which counts it. */
static pf_status write_plain(writer *w, size_t *at)
{
    if (w->last < w->n_first || w->cursor < w->n_first) return PF_OK;
    const size_t begin = *at;
    *at = plain_end(w, begin);
    return *at > begin ? write(w, 0, w->text + begin, *at - begin) : PF_OK;
}

static pf_status append_by_grapheme(writer *w, const volatile bool *cancel)
{
    for (size_t at = 0, end; at < w->n; at = end) {
        if (pf_is_told(cancel)) return PF_CANCELLED;
        PF_TRY(write_plain(w, &at));
        if (at == w->n) break;
        end = grapheme_end(w->text, w->n, at);
        PF_TRY(write_grapheme(w, w->text + at, end - at));
    }
    return PF_OK;
}

static pf_status append_by_longest(writer *w, const volatile bool *cancel)
{
    for (size_t at = 0; at < w->n;) {
        if (pf_is_told(cancel)) return PF_CANCELLED;
        PF_TRY(write_plain(w, &at));
        if (at == w->n) break;
        const replacement r = find_prefix(w->map, w->text + at, w->n - at, true);
        const size_t end = at + r.n_bytes;
        if (r.n_bytes > 0 && (end == w->n || (w->text[end] & 0xC0) != 0x80)) {
            PF_TRY(write(w, pf_utf8_count(w->text + at, r.n_bytes), r.text, r.n_text));
            at = end;
            continue;
        }
        const size_t next = pf_character_after(w->text, w->n, at);
        PF_TRY(write(w, 1, w->text + at, next - at));
        at = next;
    }
    return PF_OK;
}

pf_status pf_charsmap_append(const pf_charsmap *map, const char *text, size_t n, size_t *n_first, size_t n_most,
                             const volatile bool *cancel, pf_bytes *out)
{
    const size_t room = n_most < SIZE_MAX - out->n ? n_most : SIZE_MAX - out->n;
    writer w = { .map = map, .text = text, .n = n, .n_first = *n_first, .n_most = out->n + room, .out = out };
    PF_TRY(map->rule == PF_CHARSMAP_BY_GRAPHEME ? append_by_grapheme(&w, cancel) : append_by_longest(&w, cancel));
    *n_first = w.first_out;
    return PF_OK;
}
