/*
 * A cache with a second store, of a layer that keeps a state: the place where recurrent layers will stand.
 *
 * The state of this store is a hash of the sequence in order, folded up to a base, and the last tokens by themselves, as
 * docs/design.md describes it for the gated delta rule. So a state tells whether truncate, keep and fork were exact.
 */
#include "tests/support/test.h"

#include <stdbool.h>
#include <string.h>

#include "kvcache/kvcache.h"
#include "tests/support/draw.h"

enum { SEQUENCES = 5, MAX_TOKENS = 64, PAGES = 12, PAGE = 16, REPLAYED = 7 };

/* ---- the store ---- */

typedef struct {
    uint64_t base;
    int32_t base_length, n;
    uint64_t updates[REPLAYED];
} place;

typedef struct {
    place places[SEQUENCES];
    int32_t n_destroyed;
} states;

static uint64_t fold(uint64_t state, uint64_t update)
{
    return state * 0x9E3779B97F4A7C15u + update + 1;
}

static void fold_oldest(place *p, int32_t n)
{
    for (int32_t i = 0; i < n; i++) p->base = fold(p->base, p->updates[i]);
    memmove(p->updates, p->updates + n, (size_t)(p->n - n) * sizeof *p->updates);
    p->base_length += n;
    p->n -= n;
}

static void begin(void *state, int32_t at)
{
    ((states *)state)->places[at] = (place){ 0 };
}

static void fork_place(void *state, int32_t parent, int32_t child, int32_t length)
{
    states *s = state;
    s->places[child] = length > 0 ? s->places[parent] : (place){ 0 };
    s->places[child].n = length - s->places[child].base_length;
}

static pf_status extend(void *state, int32_t at, int32_t length, int32_t n_tokens)
{
    place *p = &((states *)state)->places[at];
    assert_int_equal(p->base_length + p->n, length);
    if (n_tokens > REPLAYED) return PF_LIMIT;
    if (p->n + n_tokens > REPLAYED) fold_oldest(p, p->n + n_tokens - REPLAYED);
    p->n += n_tokens;
    return PF_OK;
}

static int32_t reachable(const void *state, int32_t at, int32_t length, int32_t wanted)
{
    (void)length;
    return wanted >= ((const states *)state)->places[at].base_length ? wanted : 0;
}

static void truncate_place(void *state, int32_t at, int32_t length, int32_t to)
{
    place *p = &((states *)state)->places[at];
    assert_int_equal(p->base_length + p->n, length);
    if (to < p->base_length)
        *p = (place){ 0 };
    else
        p->n = to - p->base_length;
}

static pf_status can_keep(const void *state, int32_t at, int32_t base, const int32_t *rows, int32_t n_rows,
                          int32_t n_stay)
{
    (void)rows, (void)n_stay;
    return n_rows > 0 && base < ((const states *)state)->places[at].base_length ? PF_INVALID : PF_OK;
}

static void keep(void *state, int32_t at, int32_t length, int32_t base, const int32_t *rows, int32_t n_rows,
                 int32_t n_stay)
{
    (void)length, (void)n_stay;
    place *p = &((states *)state)->places[at];
    if (base < p->base_length) {
        truncate_place(state, at, length, 0);
        return;
    }
    const int32_t first = base - p->base_length;
    for (int32_t i = 0; i < n_rows; i++) p->updates[first + i] = p->updates[first + rows[i]];
    p->n = first + n_rows;
}

static size_t bytes(const void *state, int32_t n_tokens)
{
    (void)state, (void)n_tokens;
    return sizeof(place);
}

static void destroy(void *state)
{
    ((states *)state)->n_destroyed++;
}

static const pf_store_ops OPS = {
    begin, fork_place, extend, reachable, truncate_place, can_keep, keep, bytes, destroy
};

static pf_kv *make(const pf_store *store, int32_t n_stores, size_t n_pages)
{
    pf_kv_config config = { .type = PF_TYPE_F32,
                            .n_layers = 1,
                            .n_kv_heads = 1,
                            .head_dim = 2,
                            .page_tokens = PAGE,
                            .max_sequences = SEQUENCES,
                            .max_tokens = MAX_TOKENS,
                            .stores = store,
                            .n_stores = n_stores };
    pf_kv *kv;
    pf_error error;
    config.budget_bytes = n_pages * pf_kv_page_bytes(&config);
    assert_ok(pf_kv_create(&config, &kv, &error), error);
    return kv;
}

/* ---- the naive definition: a sequence is an array ---- */

typedef struct {
    bool alive;
    pf_kv_seq handle;
    int32_t length;
    uint64_t tokens[MAX_TOKENS];
} model;

static void compare(const pf_kv *kv, const states *s, const model *m)
{
    const place *p = &s->places[pf_kv_place(kv, m->handle)];
    uint64_t want = 0, got = p->base;
    for (int32_t i = 0; i < m->length; i++) want = fold(want, m->tokens[i]);
    for (int32_t i = 0; i < p->n; i++) got = fold(got, p->updates[i]);
    assert_int_equal(pf_kv_length(kv, m->handle), m->length);
    assert_int_equal(p->base_length + p->n, m->length);
    assert_true(got == want);
}

/* What a pass does: room in all stores, then the layer writes. */
static bool grow(pf_kv *kv, states *s, model *m, int32_t n, uint64_t *rng)
{
    if (pf_kv_extend(kv, m->handle, n) != PF_OK) return false;
    place *p = &s->places[pf_kv_place(kv, m->handle)];
    for (int32_t i = 0; i < n; i++) p->updates[p->n - n + i] = m->tokens[m->length++] = (uint64_t)below(rng, 1 << 20);
    return true;
}

static void keep_some(pf_kv *kv, model *m, uint64_t *rng)
{
    int32_t rows[MAX_TOKENS], n_rows = 0;
    const int32_t base = pf_kv_reachable(kv, m->handle, below(rng, m->length + 1));
    for (int32_t r = 0; r < m->length - base; r++)
        if (below(rng, 2)) rows[n_rows++] = r;
    if (pf_kv_keep(kv, m->handle, base, rows, n_rows) != PF_OK) return;
    for (int32_t i = 0; i < n_rows; i++) m->tokens[base + i] = m->tokens[base + rows[i]];
    m->length = base + n_rows;
}

static void step(pf_kv *kv, states *s, model *all, uint64_t *rng)
{
    model *m = &all[below(rng, SEQUENCES)];
    const int32_t action = below(rng, 6), wanted = below(rng, m->length + 1);
    if (!m->alive) {
        *m = (model){ .alive = pf_kv_acquire(kv, &m->handle) == PF_OK, .handle = m->handle };
        return;
    }
    if (action < 2) {
        (void)grow(kv, s, m, 1 + below(rng, REPLAYED + 1), rng);
    } else if (action == 2) {
        const int32_t to = pf_kv_reachable(kv, m->handle, wanted);
        assert_in_range(to, 0, wanted);
        assert_status(pf_kv_truncate(kv, m->handle, wanted), to == wanted ? PF_OK : PF_INVALID);
        if (to == wanted) m->length = wanted;
    } else if (action == 3) {
        keep_some(kv, m, rng);
    } else if (action == 4) {
        model *child = &all[below(rng, SEQUENCES)];
        if (child->alive || pf_kv_fork(kv, m->handle, wanted, &child->handle) != PF_OK) return;
        const pf_kv_seq handle = child->handle;
        *child = *m;
        child->handle = handle;
        child->length = wanted;
    } else if (below(rng, 4) == 0) {
        pf_kv_release(kv, m->handle);
        m->alive = false;
    }
}

static void random_operations_leave_the_state_of_the_plain_sequence(void **state)
{
    (void)state;
    uint64_t rng = 11;
    for (int32_t run = 0; run < 20; run++) {
        states s = { 0 };
        const pf_store store = { &OPS, &s };
        pf_kv *kv = make(&store, 1, PAGES);
        model all[SEQUENCES] = { 0 };
        for (int32_t i = 0; i < 2000; i++) {
            step(kv, &s, all, &rng);
            for (int32_t j = 0; j < SEQUENCES; j++)
                if (all[j].alive) compare(kv, &s, &all[j]);
        }
        pf_kv_destroy(kv);
        assert_int_equal(s.n_destroyed, 1);
    }
}

static void an_extend_that_one_store_refuses_changes_none(void **state)
{
    (void)state;
    states s = { 0 };
    const pf_store store = { &OPS, &s };
    pf_kv *kv = make(&store, 1, PAGES);
    pf_kv_seq seq;
    assert_status(pf_kv_acquire(kv, &seq), PF_OK);
    assert_status(pf_kv_extend(kv, seq, REPLAYED), PF_OK);
    const size_t free_pages = pf_kv_free_pages(kv);
    assert_status(pf_kv_extend(kv, seq, 2 * PAGE), PF_LIMIT); /* the pages have room, the states have not */
    assert_int_equal(pf_kv_length(kv, seq), REPLAYED);
    assert_int_equal(pf_kv_free_pages(kv), free_pages);
    pf_kv_destroy(kv);
}

static void a_length_that_the_state_has_passed_is_not_reachable(void **state)
{
    (void)state;
    states s = { 0 };
    const pf_store store = { &OPS, &s };
    pf_kv *kv = make(&store, 1, PAGES);
    pf_kv_seq seq, child;
    assert_status(pf_kv_acquire(kv, &seq), PF_OK);
    for (int32_t i = 0; i < 3; i++) assert_status(pf_kv_extend(kv, seq, 5), PF_OK);
    assert_int_equal(pf_kv_reachable(kv, seq, 15), 15);
    assert_int_equal(pf_kv_reachable(kv, seq, 15 - REPLAYED), 15 - REPLAYED);
    assert_int_equal(pf_kv_reachable(kv, seq, 14 - REPLAYED), 0);
    assert_int_equal(pf_kv_reachable(kv, seq, 99), 15);
    assert_int_equal(pf_kv_reachable(kv, seq, -1), 0);
    assert_status(pf_kv_truncate(kv, seq, 14 - REPLAYED), PF_INVALID);
    assert_status(pf_kv_fork(kv, seq, 14 - REPLAYED, &child), PF_INVALID);
    assert_status(pf_kv_keep(kv, seq, 14 - REPLAYED, NULL, 0), PF_INVALID);
    assert_int_equal(pf_kv_length(kv, seq), 15);
    pf_kv_release(kv, seq);
    assert_int_equal(pf_kv_reachable(kv, seq, 0), -1);
    pf_kv_destroy(kv);
}

static void a_sequence_takes_the_bytes_of_all_stores(void **state)
{
    (void)state;
    states s = { 0 };
    const pf_store store = { &OPS, &s };
    pf_kv *with = make(&store, 1, PAGES), *without = make(NULL, 0, PAGES);
    const size_t page = pf_kv_page_bytes(pf_kv_get_config(with));
    assert_int_equal(pf_kv_sequence_bytes(without, 0), 0);
    assert_int_equal(pf_kv_sequence_bytes(without, PAGE + 1), 2 * page);
    assert_int_equal(pf_kv_sequence_bytes(with, PAGE + 1), 2 * page + sizeof(place));
    pf_kv_destroy(with);
    pf_kv_destroy(without);
}

static void too_many_stores_are_refused(void **state)
{
    (void)state;
    pf_kv_config config = { .type = PF_TYPE_F32, .n_stores = PF_KV_MAX_STORES + 1 };
    pf_kv *kv;
    pf_error error;
    assert_status(pf_kv_create(&config, &kv, &error), PF_INVALID);
    assert_string_equal(error.text, "KV cache: n_stores is 4, expected 0 to 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_leave_the_state_of_the_plain_sequence),
        cmocka_unit_test(an_extend_that_one_store_refuses_changes_none),
        cmocka_unit_test(a_length_that_the_state_has_passed_is_not_reachable),
        cmocka_unit_test(a_sequence_takes_the_bytes_of_all_stores),
        cmocka_unit_test(too_many_stores_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
