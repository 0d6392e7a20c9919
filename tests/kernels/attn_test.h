/* What the tests of attention share: a sequence's cache, its queries, trees of rows, and keys in parts. */
#ifndef PF_TESTS_ATTN_TEST_H
#define PF_TESTS_ATTN_TEST_H

#include "tests/kernels/kernel_test.h"

/* A sequence's cache of one layer, pages in shuffled order, slots past its length poisoned with NaN; queries in rows
 * that are apart by more than their length. */
enum { MOST_PAGES = 132 };

typedef struct {
    pf_type type;
    int32_t n_heads, n_kv_heads, head_dim, page_tokens, length;
    int32_t n_pages;
    size_t page_bytes;
    pf_guard pool;
    void *key_pages[MOST_PAGES], *value_pages[MOST_PAGES];
} cache;

static inline cache cache_make(pf_type type, int32_t n_heads, int32_t n_kv_heads, int32_t head_dim, int32_t page_tokens,
                               int32_t length)
{
    cache c = { .type = type,
                .n_heads = n_heads,
                .n_kv_heads = n_kv_heads,
                .head_dim = head_dim,
                .page_tokens = page_tokens,
                .length = length };
    c.n_pages = (length + page_tokens - 1) / page_tokens;
    assert_true(c.n_pages <= MOST_PAGES);
    c.page_bytes = (size_t)n_kv_heads * (size_t)page_tokens * pf_attn_width(type, head_dim) * pf_type_bytes(type);
    c.pool = pf_guard_alloc(2 * (size_t)c.n_pages * c.page_bytes, pf_type_bytes(type));
    memset(c.pool.data, 0xFF, c.pool.bytes); /* NaN in both types */
    for (int32_t i = 0; i < c.n_pages; i++) {
        char *keys = (char *)c.pool.data + (size_t)(c.n_pages - 1 - i) * c.page_bytes;
        c.key_pages[i] = keys;
        c.value_pages[i] = keys + (size_t)c.n_pages * c.page_bytes;
    }
    return c;
}

static inline pf_attn_pages pages_of(const cache *c)
{
    return (pf_attn_pages){ .key_pages = c->key_pages,
                            .value_pages = c->value_pages,
                            .page_tokens = c->page_tokens,
                            .n_kv_heads = c->n_kv_heads,
                            .head_dim = c->head_dim };
}

/* Keys and values of the whole sequence: a function of position, head and element alone. */
static inline void cache_fill(cache *c, const pf_kernel *store, uint64_t seed)
{
    const size_t width = (size_t)c->n_kv_heads * (size_t)c->head_dim, stride = width + 1;
    pf_guard k = pf_guard_alloc(((size_t)c->length * stride - 1) * sizeof(float), 4);
    pf_guard v = pf_guard_alloc(((size_t)c->length * stride - 1) * sizeof(float), 4);
    test_rng rng = { seed };
    for (int32_t t = 0; t < c->length; t++)
        for (size_t i = 0; i < width; i++) {
            ((float *)k.data)[(size_t)t * stride + i] = 2.0f * test_float(&rng);
            ((float *)v.data)[(size_t)t * stride + i] = test_float(&rng);
        }
    const pf_attn_store_args args = {
        .pages = pages_of(c), .k = k.data, .v = v.data, .stride = stride, .n_rows = c->length, .position = 0
    };
    store->fn.attn_store(&args, 0, pf_attn_items(c->n_kv_heads, c->length));
    pf_guard_free(&k);
    pf_guard_free(&v);
}

static inline const pf_kernel *definition_for(pf_op op, pf_type type)
{
    const pf_kernel like = { .op = op, .type = type, .name = "a kernel of this type" };
    return definition_of(&like);
}

static inline cache cache_random(const pf_kernel *kernel, int32_t n_heads, int32_t n_kv_heads, int32_t head_dim,
                                 int32_t page_tokens, int32_t length)
{
    cache c = cache_make(kernel->type, n_heads, n_kv_heads, head_dim, page_tokens, length);
    cache_fill(&c, definition_for(PF_OP_ATTN_STORE, kernel->type), 77);
    return c;
}

/* What only some models have of pf_attn_args; zero: none. */
typedef struct {
    int32_t window;
    float softcap;
    const float *slopes, *sinks;
} features;

/* Queries of the last n_rows positions, and what comes of them. */
typedef struct {
    pf_guard q, out, scratch;
    size_t stride;
    int32_t n_rows;
    features features;
} rows;

static inline rows rows_make(const cache *c, int32_t n_rows)
{
    rows r = { .n_rows = n_rows, .stride = (size_t)(c->n_heads * c->head_dim) + 3 };
    const size_t floats = (size_t)n_rows * r.stride - 3;
    r.q = pf_guard_alloc(floats * sizeof(float), 4);
    r.out = pf_guard_alloc(floats * sizeof(float), 4);
    r.scratch = pf_guard_alloc(pf_attn_scratch_bytes(c->head_dim), 64);
    for (int32_t row = 0; row < n_rows; row++) {
        test_rng rng = { (uint64_t)(c->length - n_rows + row) }; /* a function of the position */
        test_fill(&rng, (float *)r.q.data + (size_t)row * r.stride, (size_t)(c->n_heads * c->head_dim));
    }
    return r;
}

static inline void rows_free(rows *r)
{
    pf_guard_free(&r->q);
    pf_guard_free(&r->out);
    pf_guard_free(&r->scratch);
}

static inline pf_attn_args args_of(const cache *c, const rows *r)
{
    return (pf_attn_args){ .pages = pages_of(c),
                           .q = r->q.data,
                           .q_stride = r->stride,
                           .out = r->out.data,
                           .out_stride = r->stride,
                           .n_rows = r->n_rows,
                           .n_heads = c->n_heads,
                           .position = c->length - r->n_rows,
                           .scale = 1.0f / sqrtf((float)c->head_dim),
                           .window = r->features.window,
                           .softcap = r->features.softcap,
                           .slopes = r->features.slopes,
                           .sinks = r->features.sinks };
}

/* Attend with all items. The caller frees the copy of out. */
static inline float *attend(const pf_kernel *kernel, const cache *c, rows *r)
{
    const pf_attn_args args = args_of(c, r);
    memset(r->out.data, 0, r->out.bytes);
    memset(r->scratch.data, 0xFF, r->scratch.bytes);
    kernel->fn.attn(&args, 0, pf_attn_items(c->n_kv_heads, r->n_rows), r->scratch.data);
    float *copy = malloc(r->out.bytes);
    assert_non_null(copy);
    memcpy(copy, r->out.data, r->out.bytes);
    return copy;
}

/* Where element d of a key or value is. */
static inline void *element_at(const cache *c, bool value, int32_t head, int32_t t, int32_t d)
{
    const pf_attn_pages pages = pages_of(c);
    const int32_t slot = t % c->page_tokens;
    const size_t at =
        value ? pf_attn_value_at(&pages, c->type, head, slot, d) : pf_attn_key_at(&pages, c->type, head, slot, d);
    return (char *)(value ? c->value_pages : c->key_pages)[t / c->page_tokens] + at * pf_type_bytes(c->type);
}

static inline float held(const cache *c, bool value, int32_t head, int32_t t, int32_t d)
{
    const void *at = element_at(c, value, head, t, d);
    return c->type == PF_TYPE_F32 ? *(const float *)at : pf_bf16_to_f32(*(const uint16_t *)at);
}

static inline void put(const cache *c, bool value, int32_t head, int32_t t, int32_t d, float f)
{
    void *at = element_at(c, value, head, t, d);
    if (c->type == PF_TYPE_F32)
        *(float *)at = f;
    else
        *(uint16_t *)at = pf_bf16_from_f32(f);
}

/* A query's element as the products take it. */
static inline double scaled(const cache *c, float q)
{
    const float f = 1.0f / sqrtf((float)c->head_dim) * q;
    return (double)(c->type == PF_TYPE_F32 ? f : pf_bf16_to_f32(pf_bf16_from_f32(f)));
}

/* --- draft trees --- */

enum { MOST_ROWS = 100 };

/* What row i of a tree follows: 0 everything the context, 1 its neighbour, 2 anything, 3 one of the last few. */
static inline int32_t parent_of(test_rng *rng, int32_t kind, int32_t i)
{
    if (kind < 2) return kind == 0 ? -1 : i - 1;
    if (kind == 2) return test_below(rng, i + 1) - 1;
    return i - 1 - test_below(rng, i < 3 ? i + 1 : 3);
}

/* Attend to the last row of the chain of a row's path: `chain` has the context, and gets the path behind it. */
static inline void attend_to_path(const pf_kernel *kernel, const cache *tree, const cache *chain, rows *r,
                                  const int32_t *parents, int32_t row)
{
    pf_attn_args args = args_of(tree, r);
    args.parents = parents;
    const int32_t context = args.position, position = pf_attn_position(&args, row);
    for (int32_t t = position, up = row; up >= 0; t--, up = parents[up])
        for (int32_t head = 0; head < tree->n_kv_heads; head++)
            for (int32_t d = 0; d < tree->head_dim; d++)
                for (int side = 0; side < 2; side++)
                    put(chain, side != 0, head, t, d, held(tree, side != 0, head, context + up, d));
    args.parents = NULL;
    args.pages = pages_of(chain);
    args.position = position;
    args.n_rows = 1;
    args.q += (size_t)row * r->stride;
    args.out += (size_t)row * r->stride;
    kernel->fn.attn(&args, 0, tree->n_kv_heads, r->scratch.data);
}

/* A chain's cache: the context of a tree's, the rest not written but for the padding of keys. */
static inline cache chain_of(const cache *tree, int32_t context)
{
    cache chain = cache_random(definition_for(PF_OP_ATTN, tree->type), tree->n_heads, tree->n_kv_heads, tree->head_dim,
                               tree->page_tokens, tree->length);
    for (int32_t t = 0; t < tree->length; t++)
        for (int32_t head = 0; head < tree->n_kv_heads; head++)
            for (int32_t d = 0; d < tree->head_dim; d++)
                for (int side = 0; side < 2; side++)
                    put(&chain, side != 0, head, t, d, t < context ? held(tree, side != 0, head, t, d) : NAN);
    return chain;
}

static inline void compare_tree(const pf_kernel *kernel, const pf_kernel *definition, cache *c, int32_t n_rows,
                                int32_t kind, const features *of)
{
    char what[160];
    snprintf(what, sizeof what, "%s, heads %d of %d, head_dim %d, pages of %d, a tree of %d behind %d, kind %d",
             kernel->name, c->n_heads, c->n_kv_heads, c->head_dim, c->page_tokens, n_rows, c->length - n_rows, kind);
    int32_t parents[MOST_ROWS];
    test_rng rng = { (uint64_t)(n_rows + kind) };
    for (int32_t i = 0; i < n_rows; i++) parents[i] = parent_of(&rng, kind, i);
    rows r = rows_make(c, n_rows);
    if (of) r.features = *of;
    pf_attn_args args = args_of(c, &r);
    args.parents = parents;
    const int32_t n_items = pf_attn_items(c->n_kv_heads, n_rows);
    const size_t n_floats = r.out.bytes / sizeof(float);
    memset(r.scratch.data, 0xFF, r.scratch.bytes);
    memset(r.out.data, 0, r.out.bytes);
    definition->fn.attn(&args, 0, n_items, r.scratch.data);
    float *expected = malloc(r.out.bytes);
    assert_non_null(expected);
    memcpy(expected, r.out.data, r.out.bytes);

    const int32_t steps[] = { n_items, 7 }; /* at once, and in ranges of items, as members take them */
    for (size_t s = 0; s < 2; s++) {
        memset(r.out.data, 0, r.out.bytes);
        for (int32_t item = 0; item < n_items; item += steps[s])
            kernel->fn.attn(&args, item, item + steps[s] < n_items ? item + steps[s] : n_items, r.scratch.data);
        assert_same_floats(what, r.out.data, expected, n_floats);
    }

    cache chain = chain_of(c, c->length - n_rows);
    memset(r.out.data, 0, r.out.bytes);
    for (int32_t row = 0; row < n_rows; row++) attend_to_path(kernel, c, &chain, &r, parents, row);
    assert_same_floats(what, r.out.data, expected, n_floats);
    pf_guard_free(&chain.pool);
    free(expected);
    rows_free(&r);
}

/* --- keys in parts --- */

/* Attend by units, `step` at a time, and join their parts. */
static inline void attend_in_parts(const pf_kernel *kernel, pf_attn_args args, int32_t step, rows *r)
{
    const int32_t n_units = args.pages.n_kv_heads * pf_attn_segments(&args);
    const int32_t n_items = pf_attn_items(args.pages.n_kv_heads, args.n_rows);
    const size_t lines = (size_t)n_units * (size_t)(args.n_rows * args.n_heads / args.pages.n_kv_heads);
    pf_guard parts = pf_guard_alloc(lines * pf_attn_part_floats(args.pages.head_dim) * sizeof(float), 64);
    memset(parts.data, 0xFF, parts.bytes);
    memset(r->out.data, 0, r->out.bytes);
    args.parts = parts.data;
    args.step = PF_ATTN_PART;
    for (int32_t unit = 0; unit < n_units; unit += step)
        kernel->fn.attn(&args, unit, unit + step < n_units ? unit + step : n_units, r->scratch.data);
    args.step = PF_ATTN_JOIN;
    for (int32_t item = 0; item < n_items; item += step)
        kernel->fn.attn(&args, item, item + step < n_items ? item + step : n_items, r->scratch.data);
    pf_guard_free(&parts);
}

#endif
