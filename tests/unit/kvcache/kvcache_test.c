/*
 * The cache against its naive definition: a sequence is an array of stamps, one a position. Every key and value
 * element is a function of (stamp, layer, key or value, head, element), so one comparison of a view tells whether
 * each position still holds what was written there, whatever was shared, copied or freed meanwhile.
 *
 * Compiled together with kvcache.c and PF_POISON: freed slots hold NaN in every build type.
 */
#include "tests/support/test.h"

#include <math.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "kernels/attn/attn.h"
#include "kvcache/kvcache.h"
#include "tests/support/alloc_count.h"
#include "tests/support/draw.h"

enum { LAYERS = 2, HEADS = 2, DIM = 3, PAGE = 16, SEQUENCES = 6, MAX_TOKENS = 100, PAGES = 20 };

static const pf_kv_config CONFIG = {
    .type = PF_TYPE_F32,
    .n_layers = LAYERS,
    .n_kv_heads = HEADS,
    .head_dim = DIM,
    .page_tokens = PAGE,
    .max_sequences = SEQUENCES,
    .max_tokens = MAX_TOKENS,
};

static pf_kv *make(size_t n_pages)
{
    pf_kv_config config = CONFIG;
    pf_kv *kv;
    pf_error error;
    config.budget_bytes = n_pages * pf_kv_page_bytes(&config) + 5; /* rounded down */
    assert_ok(pf_kv_create(&config, &kv, &error), error);
    assert_int_equal(pf_kv_free_pages(kv), n_pages);
    return kv;
}

/* ---- the naive definition ---- */

typedef struct {
    bool alive;
    pf_kv_seq handle;
    int32_t length;
    int32_t stamps[MAX_TOKENS];
} model;

static float element(int32_t stamp, int32_t layer, int32_t values, int32_t head, int32_t d)
{
    return (float)((((stamp * LAYERS + layer) * 2 + values) * HEADS + head) * DIM + d);
}

static float *at(const pf_kv_view *view, int32_t values, int32_t head, int32_t position, int32_t d)
{
    const pf_attn_pages pages = { view->key_pages, view->value_pages, PAGE, HEADS, DIM };
    const int32_t slot = position % PAGE;
    return values ? (float *)pages.value_pages[position / PAGE] + pf_attn_value_at(&pages, PF_TYPE_F32, head, slot, d)
                  : (float *)pages.key_pages[position / PAGE] + pf_attn_key_at(&pages, PF_TYPE_F32, head, slot, d);
}

static void write_position(pf_kv *kv, pf_kv_seq seq, int32_t position, int32_t stamp)
{
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        const pf_kv_view view = pf_kv_layer(kv, seq, layer);
        for (int32_t values = 0; values < 2; values++)
            for (int32_t head = 0; head < HEADS; head++)
                for (int32_t d = 0; d < DIM; d++)
                    *at(&view, values, head, position, d) = element(stamp, layer, values, head, d);
    }
}

static void grow(pf_kv *kv, model *m, int32_t n_tokens, int32_t *stamp)
{
    assert_status(pf_kv_extend(kv, m->handle, n_tokens), PF_OK);
    for (int32_t i = 0; i < n_tokens; i++) {
        write_position(kv, m->handle, m->length, ++*stamp);
        m->stamps[m->length++] = *stamp;
    }
}

static model start(pf_kv *kv)
{
    model m = { .alive = true };
    assert_status(pf_kv_acquire(kv, &m.handle), PF_OK);
    return m;
}

static model fork_of(pf_kv *kv, const model *parent, int32_t length)
{
    model m = *parent;
    assert_status(pf_kv_fork(kv, parent->handle, length, &m.handle), PF_OK);
    m.length = length;
    return m;
}

static void compare(const pf_kv *kv, const model *m)
{
    assert_int_equal(pf_kv_length(kv, m->handle), m->length);
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        const pf_kv_view view = pf_kv_layer(kv, m->handle, layer);
        assert_int_equal(view.length, m->length);
        for (int32_t t = 0; t < m->length; t++)
            for (int32_t values = 0; values < 2; values++)
                for (int32_t head = 0; head < HEADS; head++)
                    for (int32_t d = 0; d < DIM; d++)
                        if (*at(&view, values, head, t, d) != element(m->stamps[t], layer, values, head, d))
                            fail_msg("position %d, layer %d, %s, head %d, element %d: %g, expected %g", t, layer,
                                     values ? "value" : "key", head, d, (double)*at(&view, values, head, t, d),
                                     (double)element(m->stamps[t], layer, values, head, d));
    }
}

static int32_t pages_of(int32_t length)
{
    return (length + PAGE - 1) / PAGE;
}

static const void *page_address(const pf_kv *kv, const model *m, int32_t index)
{
    return pf_kv_layer(kv, m->handle, 0).key_pages[index];
}

/* How many of the sequences hold this page. */
static int32_t holders(const pf_kv *kv, const model *all, const void *page)
{
    int32_t n = 0;
    for (int32_t s = 0; s < SEQUENCES; s++)
        for (int32_t i = 0; all[s].alive && i < pages_of(all[s].length); i++) n += page_address(kv, &all[s], i) == page;
    return n;
}

/* Pages that some sequence holds, each counted once. */
static size_t pages_in_use(const pf_kv *kv, const model *all)
{
    size_t n = 0;
    for (int32_t s = 0; s < SEQUENCES; s++)
        for (int32_t i = 0; all[s].alive && i < pages_of(all[s].length); i++) {
            bool first = true;
            for (int32_t r = 0; r < s && first; r++)
                for (int32_t j = 0; all[r].alive && j < pages_of(all[r].length); j++)
                    first = first && page_address(kv, &all[r], j) != page_address(kv, &all[s], i);
            n += first;
        }
    return n;
}

static bool extend_should_fit(const pf_kv *kv, const model *all, const model *m, int32_t n_tokens)
{
    if (n_tokens > MAX_TOKENS - m->length) return false;
    int32_t need = pages_of(m->length + n_tokens) - pages_of(m->length);
    if (n_tokens > 0 && m->length % PAGE != 0) need += holders(kv, all, page_address(kv, m, m->length / PAGE)) > 1;
    return (size_t)need <= pf_kv_free_pages(kv);
}

/* Pages that others hold too, of those that positions [begin, end) lie in. */
static int32_t shared_pages(const pf_kv *kv, const model *all, const model *m, int32_t begin, int32_t end)
{
    int32_t n = 0;
    for (int32_t i = begin / PAGE; i < pages_of(end); i++) n += holders(kv, all, page_address(kv, m, i)) > 1;
    return n;
}

/* Keep a random path of a random number of the last positions. */
static void keep_some(pf_kv *kv, const model *all, model *m, uint64_t *rng)
{
    int32_t rows[MAX_TOKENS], n = 0, n_stay = 0;
    const int32_t length = below(rng, m->length + 1), rarity = below(rng, 4);
    for (int32_t row = 0; row < m->length - length; row++)
        if (below(rng, 4) >= rarity) rows[n++] = row;
    while (n_stay < n && rows[n_stay] == n_stay) n_stay++;
    const int32_t n_copies = n_stay < n ? shared_pages(kv, all, m, length + n_stay, length + n) : 0;
    if ((size_t)n_copies > pf_kv_free_pages(kv)) {
        assert_status(pf_kv_keep(kv, m->handle, length, rows, n), PF_LIMIT);
        return;
    }
    assert_status(pf_kv_keep(kv, m->handle, length, rows, n), PF_OK);
    for (int32_t i = 0; i < n; i++) m->stamps[length + i] = m->stamps[length + rows[i]];
    m->length = length + n;
}

/* One random operation on the cache and on its definition. */
static void step(pf_kv *kv, model *all, uint64_t *rng, int32_t *stamp)
{
    model *m = &all[below(rng, SEQUENCES)], *other = &all[below(rng, SEQUENCES)];
    const int32_t choice = below(rng, 18);
    if (!m->alive) {
        if (other->alive && choice < 14)
            *m = fork_of(kv, other, below(rng, other->length + 1));
        else
            *m = start(kv);
    } else if (choice < 8) {
        const int32_t n = below(rng, 40);
        if (extend_should_fit(kv, all, m, n))
            grow(kv, m, n, stamp);
        else
            assert_status(pf_kv_extend(kv, m->handle, n), PF_LIMIT);
    } else if (choice < 13) {
        m->length = below(rng, m->length + 1);
        assert_status(pf_kv_truncate(kv, m->handle, m->length), PF_OK);
    } else if (choice < 16) {
        keep_some(kv, all, m, rng);
    } else {
        pf_kv_release(kv, m->handle);
        m->alive = false;
        assert_int_equal(pf_kv_length(kv, m->handle), -1);
    }
}

static void random_operations_give_the_result_of_plain_arrays(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        pf_kv *kv = make(PAGES);
        model all[SEQUENCES] = { 0 };
        uint64_t rng = seed;
        int32_t stamp = 0;
        for (int32_t i = 0; i < 1500; i++) {
            step(kv, all, &rng, &stamp);
            for (int32_t s = 0; s < SEQUENCES; s++)
                if (all[s].alive) compare(kv, &all[s]);
            assert_int_equal(pf_kv_free_pages(kv), PAGES - pages_in_use(kv, all));
        }
        pf_kv_destroy(kv);
    }
}

/* ---- single claims ---- */

static void a_fork_takes_no_page_until_one_side_writes_into_the_shared_one(void **state)
{
    (void)state;
    pf_kv *kv = make(8);
    int32_t stamp = 0;
    model a = start(kv);
    grow(kv, &a, 20, &stamp);
    model b = fork_of(kv, &a, 20);
    assert_status(pf_kv_extend(kv, b.handle, 0), PF_OK);
    assert_int_equal(pf_kv_free_pages(kv), 6);
    grow(kv, &b, 1, &stamp);
    assert_int_equal(pf_kv_free_pages(kv), 5);
    grow(kv, &a, 1, &stamp); /* alone with the old page by now: writes in place */
    assert_int_equal(pf_kv_free_pages(kv), 5);
    compare(kv, &a);
    compare(kv, &b);
    pf_kv_destroy(kv);
}

static void a_fork_at_a_page_boundary_never_copies(void **state)
{
    (void)state;
    pf_kv *kv = make(8);
    int32_t stamp = 0;
    model a = start(kv);
    grow(kv, &a, 40, &stamp);
    model b = fork_of(kv, &a, 32), c = fork_of(kv, &a, 0);
    const void *shared = page_address(kv, &a, 1);
    grow(kv, &b, 1, &stamp);
    assert_ptr_equal(page_address(kv, &b, 1), shared);
    assert_int_equal(pf_kv_free_pages(kv), 8 - 3 - 1);
    grow(kv, &c, 1, &stamp);
    compare(kv, &a);
    compare(kv, &b);
    compare(kv, &c);
    pf_kv_destroy(kv);
}

static void the_parent_may_end_before_its_forks(void **state)
{
    (void)state;
    pf_kv *kv = make(8);
    int32_t stamp = 0;
    model chain[SEQUENCES];
    chain[0] = start(kv);
    grow(kv, &chain[0], 10, &stamp);
    for (int32_t i = 1; i < SEQUENCES; i++) {
        chain[i] = fork_of(kv, &chain[i - 1], chain[i - 1].length);
        grow(kv, &chain[i], 3, &stamp);
        pf_kv_release(kv, chain[i - 1].handle);
    }
    compare(kv, &chain[SEQUENCES - 1]);
    assert_int_equal(pf_kv_free_pages(kv), 8 - 2);
    pf_kv_release(kv, chain[SEQUENCES - 1].handle);
    assert_int_equal(pf_kv_free_pages(kv), 8);
    pf_kv_destroy(kv);
}

static void truncate_frees_whole_pages_and_a_sequence_can_grow_again(void **state)
{
    (void)state;
    pf_kv *kv = make(8);
    int32_t stamp = 0;
    model a = start(kv);
    grow(kv, &a, 100, &stamp);
    assert_int_equal(pf_kv_free_pages(kv), 1);
    a.length = 17;
    assert_status(pf_kv_truncate(kv, a.handle, 17), PF_OK);
    assert_int_equal(pf_kv_free_pages(kv), 6);
    grow(kv, &a, 20, &stamp);
    compare(kv, &a);
    pf_kv_destroy(kv);
}

static bool all_nan(const pf_kv *kv, const model *m, int32_t begin, int32_t end)
{
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        const pf_kv_view view = pf_kv_layer(kv, m->handle, layer);
        for (int32_t t = begin; t < end; t++)
            for (int32_t head = 0; head < HEADS; head++)
                for (int32_t d = 0; d < DIM; d++)
                    if (!isnan(*at(&view, 0, head, t, d)) || !isnan(*at(&view, 1, head, t, d))) return false;
    }
    return true;
}

static void slots_that_hold_no_position_are_nan(void **state)
{
    (void)state;
    pf_kv *kv = make(8);
    int32_t stamp = 0;
    model a = start(kv);
    grow(kv, &a, 30, &stamp);
    assert_true(all_nan(kv, &a, 30, 32)); /* never written */
    a.length = 20;
    assert_status(pf_kv_truncate(kv, a.handle, 20), PF_OK);
    assert_true(all_nan(kv, &a, 20, 32)); /* rolled back */
    compare(kv, &a);

    model b = fork_of(kv, &a, 18);
    assert_status(pf_kv_truncate(kv, b.handle, 17), PF_OK); /* what a still has stays */
    compare(kv, &a);
    assert_status(pf_kv_extend(kv, b.handle, 1), PF_OK); /* a copy of one position */
    assert_true(all_nan(kv, &b, 17, 32));

    pf_kv_release(kv, b.handle);
    pf_kv_release(kv, a.handle);
    model c = start(kv);
    assert_status(pf_kv_extend(kv, c.handle, 100), PF_OK);
    assert_true(all_nan(kv, &c, 0, 100)); /* pages that were used before */
    pf_kv_destroy(kv);
}

static void a_stale_view_of_a_freed_page_reads_nan(void **state)
{
    (void)state;
    pf_kv *kv = make(8);
    int32_t stamp = 0;
    model a = start(kv);
    grow(kv, &a, 32, &stamp);
    const float *stale = page_address(kv, &a, 1);
    assert_status(pf_kv_truncate(kv, a.handle, 16), PF_OK);
    for (int32_t i = 0; i < PAGE * DIM; i++) assert_true(isnan(stale[i]));
    a.length = 16;
    compare(kv, &a);
    pf_kv_destroy(kv);
}

static void keeping_a_path_moves_its_positions_together_and_frees_the_rest(void **state)
{
    (void)state;
    pf_kv *kv = make(8);
    int32_t stamp = 0;
    model a = start(kv);
    grow(kv, &a, 40, &stamp);
    const int32_t rows[] = { 0, 1, 4, 9, 27 };
    assert_status(pf_kv_keep(kv, a.handle, 12, rows, 5), PF_OK);
    for (int32_t i = 0; i < 5; i++) a.stamps[12 + i] = a.stamps[12 + rows[i]];
    a.length = 17;
    compare(kv, &a);
    assert_true(all_nan(kv, &a, 17, 32));
    assert_int_equal(pf_kv_free_pages(kv), 6);

    model b = fork_of(kv, &a, 17); /* shares both pages: what moves within one is copied first */
    assert_status(pf_kv_keep(kv, b.handle, 15, &rows[1], 1), PF_OK);
    b.stamps[15] = b.stamps[16];
    b.length = 16;
    compare(kv, &a);
    compare(kv, &b);
    assert_int_equal(pf_kv_free_pages(kv), 5);
    assert_status(pf_kv_keep(kv, a.handle, 17, NULL, 0), PF_OK); /* nothing */
    assert_status(pf_kv_keep(kv, a.handle, 15, rows, 2), PF_OK); /* all of it */
    compare(kv, &a);
    pf_kv_destroy(kv);
}

static void an_invalid_path_changes_nothing(void **state)
{
    (void)state;
    pf_kv *kv = make(4);
    int32_t stamp = 0;
    model a = start(kv);
    grow(kv, &a, 20, &stamp);
    model b = fork_of(kv, &a, 20), c = start(kv);
    const int32_t falling[] = { 3, 2 }, twice[] = { 3, 3 }, beyond[] = { 3, 10 }, before[] = { -1, 3 },
                  good[] = { 3, 4 };
    assert_status(pf_kv_keep(kv, a.handle, 10, falling, 2), PF_INVALID);
    assert_status(pf_kv_keep(kv, a.handle, 10, twice, 2), PF_INVALID);
    assert_status(pf_kv_keep(kv, a.handle, 10, beyond, 2), PF_INVALID);
    assert_status(pf_kv_keep(kv, a.handle, 10, before, 2), PF_INVALID);
    assert_status(pf_kv_keep(kv, a.handle, 21, good, 0), PF_INVALID);
    assert_status(pf_kv_keep(kv, a.handle, -1, good, 2), PF_INVALID);
    assert_status(pf_kv_keep(kv, a.handle, 10, good, -1), PF_INVALID);
    assert_status(pf_kv_keep(kv, -1, 10, good, 2), PF_INVALID);
    grow(kv, &c, 32, &stamp);
    assert_status(pf_kv_keep(kv, a.handle, 10, good, 2), PF_LIMIT); /* a copy, and no page is free */
    compare(kv, &a);
    pf_kv_release(kv, c.handle);
    assert_status(pf_kv_keep(kv, a.handle, 10, good, 2), PF_OK);
    a.stamps[10] = a.stamps[13];
    a.stamps[11] = a.stamps[14];
    a.length = 12;
    compare(kv, &a);
    compare(kv, &b);
    pf_kv_destroy(kv);
}

static void an_extend_that_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    pf_kv *kv = make(3);
    int32_t stamp = 0;
    model a = start(kv);
    grow(kv, &a, 24, &stamp);
    model b = fork_of(kv, &a, 24);
    assert_status(pf_kv_extend(kv, b.handle, 9), PF_LIMIT); /* a copy and a page, of which one is there */
    assert_int_equal(pf_kv_free_pages(kv), 1);
    assert_ptr_equal(page_address(kv, &a, 1), page_address(kv, &b, 1));
    compare(kv, &a);
    compare(kv, &b);
    grow(kv, &b, 8, &stamp); /* the copy alone fits */
    assert_int_equal(pf_kv_free_pages(kv), 0);
    assert_status(pf_kv_extend(kv, b.handle, 1), PF_LIMIT);
    grow(kv, &a, 8, &stamp); /* within its page, which is its own now */
    compare(kv, &a);
    compare(kv, &b);
    pf_kv_release(kv, a.handle);
    grow(kv, &b, 16, &stamp);
    compare(kv, &b);
    pf_kv_destroy(kv);
}

static void a_sequence_ends_at_max_tokens(void **state)
{
    (void)state;
    pf_kv *kv = make(PAGES);
    int32_t stamp = 0;
    model a = start(kv);
    assert_status(pf_kv_extend(kv, a.handle, MAX_TOKENS + 1), PF_LIMIT);
    assert_status(pf_kv_extend(kv, a.handle, INT32_MAX), PF_LIMIT);
    grow(kv, &a, MAX_TOKENS, &stamp);
    assert_status(pf_kv_extend(kv, a.handle, INT32_MAX), PF_LIMIT);
    assert_status(pf_kv_extend(kv, a.handle, 0), PF_OK);
    compare(kv, &a);
    pf_kv_destroy(kv);
}

static void a_sequence_beyond_the_limit_is_refused_until_one_ends(void **state)
{
    (void)state;
    pf_kv *kv = make(2);
    pf_kv_seq all[SEQUENCES], extra = -5;
    for (int32_t i = 0; i < SEQUENCES; i++) assert_status(pf_kv_acquire(kv, &all[i]), PF_OK);
    assert_status(pf_kv_acquire(kv, &extra), PF_LIMIT);
    assert_status(pf_kv_fork(kv, all[0], 0, &extra), PF_LIMIT);
    assert_int_equal(extra, -5);
    pf_kv_release(kv, all[3]);
    assert_status(pf_kv_fork(kv, all[0], 0, &extra), PF_OK);
    assert_true(extra >= 0);
    pf_kv_destroy(kv);
}

static void a_handle_that_was_released_stays_dead_when_its_slot_lives_again(void **state)
{
    (void)state;
    pf_kv *kv = make(2);
    pf_kv_seq old, new, out = -5;
    assert_status(pf_kv_acquire(kv, &old), PF_OK);
    pf_kv_release(kv, old);
    assert_status(pf_kv_acquire(kv, &new), PF_OK);
    assert_int_not_equal(old, new);
    pf_kv_release(kv, old); /* ignored */
    assert_int_equal(pf_kv_length(kv, new), 0);
    const pf_kv_seq dead[] = { old,      0, -1, INT64_MIN, INT64_MAX, new + 1, new | (int64_t)1 << 31, new | INT64_MIN,
                               SEQUENCES };
    for (size_t i = 0; i < PF_COUNT(dead); i++) {
        assert_int_equal(pf_kv_length(kv, dead[i]), -1);
        assert_status(pf_kv_extend(kv, dead[i], 1), PF_INVALID);
        assert_status(pf_kv_truncate(kv, dead[i], 0), PF_INVALID);
        assert_status(pf_kv_fork(kv, dead[i], 0, &out), PF_INVALID);
        pf_kv_release(kv, dead[i]);
    }
    assert_int_equal(out, -5);
    assert_int_equal(pf_kv_length(kv, new), 0);
    for (int32_t i = 1; i < SEQUENCES; i++) assert_status(pf_kv_acquire(kv, &out), PF_OK); /* nor is a slot lost */
    assert_status(pf_kv_acquire(kv, &out), PF_LIMIT);
    pf_kv_destroy(kv);
}

static void lengths_out_of_range_are_refused(void **state)
{
    (void)state;
    pf_kv *kv = make(2);
    int32_t stamp = 0;
    model a = start(kv);
    pf_kv_seq out = -5;
    grow(kv, &a, 5, &stamp);
    assert_status(pf_kv_extend(kv, a.handle, -1), PF_INVALID);
    assert_status(pf_kv_truncate(kv, a.handle, 6), PF_INVALID);
    assert_status(pf_kv_truncate(kv, a.handle, -1), PF_INVALID);
    assert_status(pf_kv_fork(kv, a.handle, 6, &out), PF_INVALID);
    assert_status(pf_kv_fork(kv, a.handle, -1, &out), PF_INVALID);
    assert_int_equal(out, -5);
    compare(kv, &a);
    pf_kv_destroy(kv);
}

static void a_bad_configuration_is_refused_by_field(void **state)
{
    (void)state;
    static const struct {
        const char *field;
        size_t offset;
        int32_t value;
    } cases[] = {
        { "n_layers", offsetof(pf_kv_config, n_layers), 0 },
        { "n_kv_heads", offsetof(pf_kv_config, n_kv_heads), -1 },
        { "head_dim", offsetof(pf_kv_config, head_dim), 0 },
        { "page_tokens", offsetof(pf_kv_config, page_tokens), 8 },
        { "page_tokens", offsetof(pf_kv_config, page_tokens), 24 },
        { "page_tokens", offsetof(pf_kv_config, page_tokens), 2048 },
        { "max_sequences", offsetof(pf_kv_config, max_sequences), 0 },
        { "max_sequences", offsetof(pf_kv_config, max_sequences), INT32_MAX },
        { "max_tokens", offsetof(pf_kv_config, max_tokens), 0 },
        { "type", offsetof(pf_kv_config, type), PF_TYPE_F16 },
    };
    pf_kv *kv = NULL;
    pf_error error;
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_kv_config config = CONFIG;
        config.budget_bytes = 1 << 20;
        memcpy((char *)&config + cases[i].offset, &cases[i].value, sizeof(int32_t));
        assert_int_equal(pf_kv_page_bytes(&config), 0);
        assert_status(pf_kv_create(&config, &kv, &error), PF_INVALID);
        assert_says(error, cases[i].field);
    }
    pf_kv_config config = CONFIG;
    config.page_tokens = 1024;
    assert_int_not_equal(pf_kv_page_bytes(&config), 0);
    config = CONFIG;
    config.budget_bytes = pf_kv_page_bytes(&config) - 1;
    assert_status(pf_kv_create(&config, &kv, &error), PF_INVALID);
    assert_says(error, "budget_bytes");
    config.n_layers = config.n_kv_heads = config.head_dim = INT32_MAX;
    config.budget_bytes = SIZE_MAX;
    assert_int_equal(pf_kv_page_bytes(&config), 0);
    assert_status(pf_kv_create(&config, &kv, &error), PF_INVALID);
    assert_null(kv);
}

static void a_budget_that_cannot_be_allocated_is_nomem(void **state)
{
    (void)state;
    pf_kv *kv = NULL;
    pf_error error;
    pf_kv_config config = CONFIG;
    config.budget_bytes = (size_t)1 << 20;
    pf_alloc_refuse_after(0);
    assert_status(pf_kv_create(&config, &kv, &error), PF_NOMEM);
    pf_alloc_refuse_after(-1);
    config.max_sequences = 1 << 20; /* tables that no machine has */
    config.max_tokens = INT32_MAX;
    config.n_layers = INT32_MAX / 1024;
    config.budget_bytes = pf_kv_page_bytes(&config);
    assert_status(pf_kv_create(&config, &kv, &error), PF_NOMEM);
    assert_null(kv);
    pf_kv_destroy(NULL);
}

static void a_cache_that_is_destroyed_has_no_memory_left(void **state)
{
    (void)state;
    unsigned char resident;
    pf_kv *kv = make(2);
    int32_t stamp = 0;
    model a = start(kv);
    grow(kv, &a, 1, &stamp);
    void *page = (void *)((uintptr_t)page_address(kv, &a, 0) & ~(uintptr_t)4095);
    assert_int_equal(mincore(page, 1, &resident), 0);
    pf_kv_destroy(kv);
    assert_int_equal(mincore(page, 1, &resident), -1);
}

static void a_page_is_counted_in_bytes_of_its_type_and_bf16_is_half(void **state)
{
    (void)state;
    pf_kv_config config = { .type = PF_TYPE_F32,
                            .n_layers = 3,
                            .n_kv_heads = 2,
                            .head_dim = 64,
                            .page_tokens = 32,
                            .max_sequences = 1,
                            .max_tokens = 32 };
    assert_int_equal(pf_kv_page_bytes(&config), 2 * 3 * 2 * 64 * 32 * 4);
    config.type = PF_TYPE_BF16;
    assert_int_equal(pf_kv_page_bytes(&config), 2 * 3 * 2 * 64 * 32 * 2);
    config.head_dim = 63; /* padded to pairs */
    assert_int_equal(pf_kv_page_bytes(&config), 2 * 3 * 2 * 64 * 32 * 2);
}

static void nothing_is_allocated_after_creation(void **state)
{
    (void)state;
    pf_kv *kv = make(PAGES);
    model all[SEQUENCES] = { 0 };
    uint64_t rng = 99;
    int32_t stamp = 0;
    pf_alloc_count_reset();
    for (int32_t i = 0; i < 500; i++) step(kv, all, &rng, &stamp);
    assert_int_equal(pf_alloc_count(), 0);
    pf_kv_destroy(kv);
}

/* Nanoseconds of one extend by one position and its rollback, the least of some tries. */
static uint64_t rollback_ns(pf_kv *kv, pf_kv_seq seq, int32_t length)
{
    uint64_t least = UINT64_MAX;
    for (int32_t try = 0; try < 20; try++) {
        const uint64_t begin = pf_now_ns();
        for (int32_t i = 0; i < 100; i++) {
            assert_status(pf_kv_extend(kv, seq, 1), PF_OK);
            assert_status(pf_kv_truncate(kv, seq, length), PF_OK);
        }
        const uint64_t took = pf_now_ns() - begin;
        if (took < least) least = took;
    }
    return least / 100;
}

static void rolling_back_costs_what_is_freed_not_what_is_kept(void **state)
{
    (void)state;
    enum { LONG = 200008, SHORT = 8 };
    pf_kv_config config = { .type = PF_TYPE_BF16,
                            .n_layers = 1,
                            .n_kv_heads = 1,
                            .head_dim = 1,
                            .page_tokens = 16,
                            .max_sequences = 2,
                            .max_tokens = LONG + 1 };
    config.budget_bytes = pf_kv_page_bytes(&config) * (LONG / 16 + 4);
    pf_kv *kv;
    pf_kv_seq seq[2];
    pf_error error;
    assert_ok(pf_kv_create(&config, &kv, &error), error);
    for (int32_t i = 0; i < 2; i++) assert_status(pf_kv_acquire(kv, &seq[i]), PF_OK);
    assert_status(pf_kv_extend(kv, seq[0], LONG), PF_OK);
    assert_status(pf_kv_extend(kv, seq[1], SHORT), PF_OK);
    const uint64_t of_long = rollback_ns(kv, seq[0], LONG), of_short = rollback_ns(kv, seq[1], SHORT);
    if (of_long > 20 * of_short + 500) /* 12,500 pages against 1 */
        fail_msg("%llu ns at length %d, %llu ns at %d", (unsigned long long)of_long, LONG, (unsigned long long)of_short,
                 SHORT);
    pf_kv_destroy(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_give_the_result_of_plain_arrays),
        cmocka_unit_test(a_fork_takes_no_page_until_one_side_writes_into_the_shared_one),
        cmocka_unit_test(a_fork_at_a_page_boundary_never_copies),
        cmocka_unit_test(the_parent_may_end_before_its_forks),
        cmocka_unit_test(truncate_frees_whole_pages_and_a_sequence_can_grow_again),
        cmocka_unit_test(slots_that_hold_no_position_are_nan),
        cmocka_unit_test(a_stale_view_of_a_freed_page_reads_nan),
        cmocka_unit_test(keeping_a_path_moves_its_positions_together_and_frees_the_rest),
        cmocka_unit_test(an_invalid_path_changes_nothing),
        cmocka_unit_test(an_extend_that_does_not_fit_changes_nothing),
        cmocka_unit_test(a_sequence_ends_at_max_tokens),
        cmocka_unit_test(a_sequence_beyond_the_limit_is_refused_until_one_ends),
        cmocka_unit_test(a_handle_that_was_released_stays_dead_when_its_slot_lives_again),
        cmocka_unit_test(lengths_out_of_range_are_refused),
        cmocka_unit_test(a_bad_configuration_is_refused_by_field),
        cmocka_unit_test(a_budget_that_cannot_be_allocated_is_nomem),
        cmocka_unit_test(a_cache_that_is_destroyed_has_no_memory_left),
        cmocka_unit_test(a_page_is_counted_in_bytes_of_its_type_and_bf16_is_half),
        cmocka_unit_test(nothing_is_allocated_after_creation),
        cmocka_unit_test(rolling_back_costs_what_is_freed_not_what_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
