#include "draft/suffix_corpus.h"

enum { MOST_TOKENS = 1 << 28 };

static void lay_out_segment(pf_suffix_segment *segment, int32_t max_tokens, pf_arena *arena)
{
    int32_t *text = pf_arena_take(arena, (size_t)max_tokens, sizeof *text);
    pf_suffix_tree_lay_out(segment ? &segment->tree : NULL, max_tokens, arena);
    if (segment) segment->text = text;
}

/* Tokens that a segment of n_bytes holds: its tables have sizes in powers of two, so the size is not proportional to them. */
static int32_t count_tokens(size_t n_bytes)
{
    int32_t least = 1, most = MOST_TOKENS;
    while (least < most) {
        const int32_t half = least + (most - least + 1) / 2;
        pf_arena measure = pf_arena_measure();
        lay_out_segment(NULL, half, &measure);
        if (measure.used <= n_bytes)
            least = half;
        else
            most = half - 1;
    }
    return least;
}

void pf_suffix_corpus_lay_out(pf_suffix_corpus *corpus, size_t n_bytes, pf_arena *arena)
{
    pf_arena header = pf_arena_measure();
    (void)pf_arena_take(&header, PF_SUFFIX_SEGMENTS, sizeof *corpus->segments);
    const int32_t max_tokens = count_tokens((n_bytes - header.used) / PF_SUFFIX_SEGMENTS);
    corpus->segments = pf_arena_take(arena, PF_SUFFIX_SEGMENTS, sizeof *corpus->segments);
    for (int32_t i = 0; i < PF_SUFFIX_SEGMENTS; i++)
        lay_out_segment(corpus->segments ? &corpus->segments[i] : NULL, max_tokens, arena);
}

/* Where the client's text goes on: its latest segment, or with `is_full` another. */
static pf_suffix_segment *segment_of(pf_suffix_corpus *corpus, uint64_t client, bool is_full)
{
    pf_suffix_segment *latest = NULL, *oldest = &corpus->segments[0];
    for (int32_t i = 0; i < PF_SUFFIX_SEGMENTS; i++) {
        pf_suffix_segment *s = &corpus->segments[i];
        if (s->written < oldest->written) oldest = s;
        if (s->written > 0 && s->client == client && (!latest || s->written > latest->written)) latest = s;
    }
    if (latest && !is_full) return latest;
    pf_suffix_tree_reset(&oldest->tree, oldest->text);
    oldest->client = client;
    return oldest;
}

void pf_suffix_corpus_add(pf_suffix_corpus *corpus, uint64_t client, const int32_t *tokens, int32_t n)
{
    if (n <= 0) return;
    pf_suffix_segment *s = segment_of(corpus, client, false);
    s->written = ++corpus->n_texts;
    for (int32_t i = 0; i < n; i++) {
        if (pf_suffix_tree_append(&s->tree, tokens[i])) continue;
        s = segment_of(corpus, client, true);
        s->written = ++corpus->n_texts;
        (void)pf_suffix_tree_append(&s->tree, tokens[i]);
    }
    (void)pf_suffix_tree_break(&s->tree); /* where the segment is full nothing follows */
}

int32_t pf_suffix_corpus_find(const pf_suffix_corpus *corpus, uint64_t client, const int32_t *tokens, int32_t n,
                              const pf_suffix_tree **tree, pf_suffix_place *place)
{
    int32_t longest = 0;
    uint64_t written = 0;
    for (int32_t i = 0; i < PF_SUFFIX_SEGMENTS; i++) {
        const pf_suffix_segment *s = &corpus->segments[i];
        if (s->written == 0 || s->client != client) continue;
        pf_suffix_place at;
        const int32_t found = pf_suffix_tree_find(&s->tree, tokens, n, &at);
        if (found == 0 || found < longest || (found == longest && s->written < written)) continue;
        longest = found;
        written = s->written;
        *tree = &s->tree;
        *place = at;
    }
    return longest;
}
