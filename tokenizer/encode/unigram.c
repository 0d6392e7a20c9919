/*
 * The tokens are a trie over bytes. Its nodes are numbered breadth first, so the children of a node are neighbors and are found
 * by their bytes, which lie side by side.
 */
#include "tokenizer/encode/unigram.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/stop.h"
#include "tokenizer/unicode/character_bytes.h"

static const double UNKNOWN_PENALTY = 10.0;
static const uint64_t MAX_STEPS = 1u << 28; /* of the trie, plus STEPS_A_BYTE for each byte of a piece */
enum { STEPS_A_BYTE = 256 };

typedef struct {
    int32_t first_child; /* nodes first_child .. first_child + n_children - 1 */
    int32_t n_children;
    int32_t id; /* of the token that ends here; -1: none */
} trie_node;

struct pf_unigram {
    trie_node *nodes;      /* [0] is the root */
    unsigned char *labels; /* the byte that leads to each node */
    double *scores;        /* of the token that ends at each node */
    size_t n_nodes, capacity;
    int32_t root_child[256]; /* nodes; 0: none */
    size_t longest_bytes;    /* of all tokens, and of a character */
    double unknown_score;
    int32_t unk_id;
    bool has_bytes;
    int32_t byte_id[256];
};

/* The best way to the end of a prefix of the piece. */
struct pf_unigram_node {
    double score;
    int32_t id;
    int32_t begin; /* where its last token begins; -1: no way */
    int32_t next;  /* on the best way: where the token that begins here ends */
};

/* ---- the trie ---- */

/* By text; equal texts by id, so that the last one comes last. */
static int by_text(const void *a, const void *b)
{
    const pf_unigram_token *x = a, *y = b;
    const size_t n = x->n_bytes < y->n_bytes ? x->n_bytes : y->n_bytes;
    const int order = n == 0 ? 0 : memcmp(x->text, y->text, n);
    if (order != 0) return order;
    if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static bool same_text(const pf_unigram_token *a, const pf_unigram_token *b)
{
    return a->n_bytes == b->n_bytes && memcmp(a->text, b->text, a->n_bytes) == 0;
}

/* Sorts, and drops all but the last of equal texts and the empty ones. */
static size_t sort_tokens(pf_unigram_token *tokens, size_t n)
{
    size_t kept = 0;
    if (n > 1) qsort(tokens, n, sizeof *tokens, by_text);
    for (size_t i = 0; i < n; i++)
        if (tokens[i].n_bytes > 0 && (i + 1 == n || !same_text(&tokens[i], &tokens[i + 1]))) tokens[kept++] = tokens[i];
    return kept;
}

/* The tokens [begin, end) share the bytes of a node. */
typedef struct {
    uint32_t begin, end, depth;
} span;

typedef struct {
    pf_unigram *u;
    span *spans; /* of each node */
    const pf_unigram_token *tokens;
} trie_builder;

static pf_status push_node(trie_builder *b, unsigned char label, span covered)
{
    pf_unigram *u = b->u;
    if (u->n_nodes == u->capacity) {
        const size_t capacity = 2 * u->capacity + 1024;
        if (capacity > INT32_MAX) return PF_LIMIT;
        trie_node *nodes = realloc(u->nodes, capacity * sizeof *nodes);
        if (nodes) u->nodes = nodes;
        unsigned char *labels = realloc(u->labels, capacity);
        if (labels) u->labels = labels;
        double *scores = realloc(u->scores, capacity * sizeof *scores);
        if (scores) u->scores = scores;
        span *spans = realloc(b->spans, capacity * sizeof *spans);
        if (spans) b->spans = spans;
        if (!nodes || !labels || !scores || !spans) return PF_NOMEM;
        u->capacity = capacity;
    }
    u->nodes[u->n_nodes] = (trie_node){ .id = -1 };
    u->labels[u->n_nodes] = label;
    u->scores[u->n_nodes] = 0.0;
    b->spans[u->n_nodes] = covered;
    u->n_nodes++;
    return PF_OK;
}

static pf_status push_children(trie_builder *b, size_t node)
{
    pf_unigram *u = b->u;
    span s = b->spans[node];
    if (s.begin < s.end && b->tokens[s.begin].n_bytes == s.depth) {
        u->nodes[node].id = b->tokens[s.begin].id;
        u->scores[node] = b->tokens[s.begin].score;
        s.begin++;
    }
    const size_t first = u->n_nodes;
    for (uint32_t at = s.begin, end; at < s.end; at = end) {
        const unsigned char label = (unsigned char)b->tokens[at].text[s.depth];
        for (end = at + 1; end < s.end && (unsigned char)b->tokens[end].text[s.depth] == label;) end++;
        PF_TRY(push_node(b, label, (span){ at, end, s.depth + 1 }));
    }
    u->nodes[node].first_child = (int32_t)first;
    u->nodes[node].n_children = (int32_t)(u->n_nodes - first);
    return PF_OK;
}

static pf_status build_trie(pf_unigram *u, const pf_unigram_token *tokens, size_t n)
{
    trie_builder b = { .u = u, .tokens = tokens };
    pf_status status = push_node(&b, 0, (span){ 0, (uint32_t)n, 0 });
    for (size_t i = 0; status == PF_OK && i < u->n_nodes; i++) status = push_children(&b, i);
    free(b.spans);
    if (status != PF_OK) return status;
    for (int32_t i = 0; i < u->nodes[0].n_children; i++) u->root_child[u->labels[1 + i]] = 1 + i;
    return PF_OK;
}

pf_status pf_unigram_create(pf_unigram_token *tokens, size_t n, int32_t unk_id, const int32_t *byte_id,
                            pf_unigram **out)
{
    if (n > INT32_MAX) return PF_LIMIT;
    pf_unigram *u = calloc(1, sizeof *u);
    if (!u) return PF_NOMEM;
    u->unk_id = unk_id;
    u->has_bytes = byte_id != NULL;
    for (int i = 0; i < 256; i++) u->byte_id[i] = byte_id ? byte_id[i] : -1;
    double least = n > 0 ? tokens[0].score : 0.0;
    u->longest_bytes = 4;
    for (size_t i = 0; i < n; i++) {
        if (tokens[i].score < least) least = tokens[i].score;
        if (tokens[i].n_bytes > u->longest_bytes) u->longest_bytes = tokens[i].n_bytes;
    }
    u->unknown_score = least - UNKNOWN_PENALTY;
    const pf_status status = build_trie(u, tokens, sort_tokens(tokens, n));
    if (status == PF_OK)
        *out = u;
    else
        pf_unigram_destroy(u);
    return status;
}

void pf_unigram_destroy(pf_unigram *u)
{
    if (!u) return;
    free(u->nodes);
    free(u->labels);
    free(u->scores);
    free(u);
}

/* The child of a node; 0: none. */
static inline int32_t find_child(const pf_unigram *u, int32_t at, unsigned char byte)
{
    if (at == 0) return u->root_child[byte];
    const trie_node *node = &u->nodes[at];
    if (node->n_children == 0) return 0;
    const unsigned char *labels = u->labels + node->first_child;
    if (node->n_children > 16) {
        const unsigned char *found = memchr(labels, byte, (size_t)node->n_children);
        return found ? node->first_child + (int32_t)(found - labels) : 0;
    }
    for (int32_t i = 0; i < node->n_children; i++)
        if (labels[i] == byte) return node->first_child + i;
    return 0;
}

/* ---- a piece ---- */

void pf_unigram_scratch_clear(pf_unigram_scratch *scratch)
{
    free(scratch->nodes);
    *scratch = (pf_unigram_scratch){ .nodes = NULL };
}

static pf_status reserve(pf_unigram_scratch *scratch, size_t n)
{
    if (n <= scratch->capacity) return PF_OK;
    size_t capacity = scratch->capacity * 2 > n ? scratch->capacity * 2 : n, bytes;
    if (capacity < 256) capacity = 256;
    if (!pf_size_mul(capacity, sizeof *scratch->nodes, &bytes)) return PF_NOMEM;
    pf_unigram_node *grown = realloc(scratch->nodes, bytes);
    if (!grown) return PF_NOMEM;
    scratch->nodes = grown;
    scratch->capacity = capacity;
    return PF_OK;
}

/* The part of a piece whose best way is not known yet. No token that was offered passes its end before it is known, so the parts
 * before it are final, and only the sum is carried on. */
typedef struct {
    const pf_unigram *u;
    pf_unigram_node *nodes; /* [reach + 1] of the ends of prefixes of the part */
    const char *text;       /* the part */
    size_t reach;           /* the last end that was offered a token */
} part;

/* Offers a token of this score that begins at `begin` to the way that ends at `end`. */
static inline void offer(part *p, size_t begin, size_t end, double score, int32_t id)
{
    pf_unigram_node *node = &p->nodes[end];
    const double sum = score + p->nodes[begin].score;
    while (p->reach < end) p->nodes[++p->reach].begin = -1;
    if (node->begin >= 0 && !(sum > node->score)) return;
    node->score = sum;
    node->begin = (int32_t)begin;
    node->id = id;
}

/* Offers all tokens that begin at `begin` of the part [n]; returns how many bytes of the trie were looked at. */
static size_t offer_tokens(part *p, size_t n, size_t begin, size_t next, bool *has_single)
{
    const pf_unigram *u = p->u;
    size_t i = begin;
    for (int32_t at = 0; i < n; i++) {
        at = find_child(u, at, (unsigned char)p->text[i]);
        if (at == 0) break;
        if (u->nodes[at].id < 0) continue;
        offer(p, begin, i + 1, u->scores[at], u->nodes[at].id);
        if (i + 1 == next) *has_single = true;
    }
    return i - begin + 1;
}

/* The token with exactly this text; -1: none. */
static int32_t find_token(const pf_unigram *u, const char *text, size_t n)
{
    int32_t at = 0;
    for (size_t i = 0; i < n; i++) {
        at = find_child(u, at, (unsigned char)text[i]);
        if (at == 0) return -1;
    }
    return n == 0 ? -1 : u->nodes[at].id;
}

/* A run of unknown characters. */
static pf_status push_unknown(const pf_unigram *u, const char *run, size_t n, pf_tokens *out)
{
    const int32_t id = find_token(u, run, n);
    bool has_all = u->has_bytes;
    if (id >= 0) return pf_tokens_push(out, id);
    for (size_t i = 0; has_all && i < n; i++) has_all = u->byte_id[(unsigned char)run[i]] >= 0;
    if (!has_all) return pf_tokens_push(out, u->unk_id);
    for (size_t i = 0; i < n; i++) PF_TRY(pf_tokens_push(out, u->byte_id[(unsigned char)run[i]]));
    return PF_OK;
}

/* Appends the best way through the part up to `end`. */
static pf_status push_best(const part *p, int32_t end, pf_tokens *out)
{
    pf_unigram_node *nodes = p->nodes;
    for (int32_t at = end; at > 0; at = nodes[at].begin) nodes[nodes[at].begin].next = at;
    for (int32_t at = 0, next; at < end; at = next) {
        next = nodes[at].next;
        if (nodes[next].id != p->u->unk_id) {
            PF_TRY(pf_tokens_push(out, nodes[next].id));
            continue;
        }
        while (next < end && nodes[nodes[next].next].id == p->u->unk_id) next = nodes[next].next;
        PF_TRY(push_unknown(p->u, p->text + at, (size_t)(next - at), out));
    }
    return PF_OK;
}

/* Begins the part again at `end`, behind which no token reaches. */
static void begin_part(part *p, size_t end)
{
    p->nodes[0].score = p->nodes[end].score;
    p->text += end;
    p->reach = 0;
}

static pf_status offer_at(part *p, size_t n, size_t at, size_t next, uint64_t *n_steps)
{
    bool has_single = false;
    *n_steps += offer_tokens(p, n, at, next, &has_single);
    if (has_single) return PF_OK;
    if (p->u->unk_id < 0) return p->reach >= next && p->nodes[next].begin >= 0 ? PF_OK : PF_UNSUPPORTED;
    offer(p, at, next, p->u->unknown_score, p->u->unk_id);
    return PF_OK;
}

/* A run of unknown characters is one token, so a part does not end behind one of them. */
pf_status pf_unigram_encode(const pf_unigram *u, pf_unigram_scratch *scratch, const char *piece, size_t n_bytes,
                            const volatile bool *cancel, pf_tokens *out)
{
    const uint64_t limit = scratch->n_steps + MAX_STEPS + STEPS_A_BYTE * (uint64_t)n_bytes;
    part p = { .u = u, .text = piece };
    if (n_bytes == 0) return PF_OK;
    if (n_bytes >= INT32_MAX) return PF_LIMIT;
    PF_TRY(reserve(scratch, 1));
    scratch->nodes[0].score = 0.0;
    for (size_t at = 0, next; p.text + at < piece + n_bytes; at = next) {
        const size_t n = n_bytes - (size_t)(p.text - piece);
        PF_TRY(reserve(scratch, at + (u->longest_bytes < n - at ? u->longest_bytes : n - at) + 1));
        p.nodes = scratch->nodes;
        (void)pf_character_at(p.text, at, &next);
        PF_TRY(offer_at(&p, n, at, next, &scratch->n_steps));
        if (scratch->n_steps > limit) return PF_LIMIT;
        if (p.reach > next || (p.nodes[next].id == u->unk_id && next < n)) continue;
        if (pf_is_told(cancel)) return PF_CANCELLED;
        PF_TRY(push_best(&p, (int32_t)next, out));
        begin_part(&p, next);
        next = 0;
    }
    return PF_OK;
}
