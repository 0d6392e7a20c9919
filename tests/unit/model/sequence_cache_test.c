/*
 * Prefixes that sequences take from each other, beside the definition: a comparison of all tokens with all that the cache holds.
 *
 * The backend here is a cache of keys alone. The key of a position is a hash of the tokens up to it, made from the key before it, so it
 * shows whether every row was computed behind the right ones.
 */
#include "model/backend/sequence_cache.h"

#include <string.h>

#include "kernels/attn/attn.h"
#include "kvcache/kvcache.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

enum { SLOTS = 6, MAX_TOKENS = 96, PAGE = 16, ROWS = 40, REPLAYED = 20, VOCAB = 3 };

/* ---- a store of which only the last tokens can be cut ---------------------------------------------------------- */

typedef struct {
    int32_t folded[SLOTS]; /* tokens that cannot be cut any more, but all at once */
} states;

static void begin_place(void *state, int32_t place)
{
    ((states *)state)->folded[place] = 0;
}

static void fork_place(void *state, int32_t parent, int32_t child, int32_t length)
{
    states *s = state;
    s->folded[child] = length > 0 ? s->folded[parent] : 0;
}

static pf_status extend_place(void *state, int32_t place, int32_t length, int32_t n_tokens)
{
    int32_t *folded = &((states *)state)->folded[place];
    if (length + n_tokens - REPLAYED > *folded) *folded = length + n_tokens - REPLAYED;
    return PF_OK;
}

static int32_t reachable_place(const void *state, int32_t place, int32_t length, int32_t wanted)
{
    (void)length;
    return wanted >= ((const states *)state)->folded[place] ? wanted : 0;
}

static void truncate_place(void *state, int32_t place, int32_t length, int32_t to)
{
    (void)length;
    if (to == 0) ((states *)state)->folded[place] = 0;
}

static pf_status can_keep(const void *state, int32_t place, int32_t base, const int32_t *rows, int32_t n_rows,
                          int32_t n_stay)
{
    (void)state, (void)place, (void)base, (void)rows, (void)n_rows, (void)n_stay;
    return PF_OK;
}

static void keep_rows(void *state, int32_t place, int32_t length, int32_t base, const int32_t *rows, int32_t n_rows,
                      int32_t n_stay)
{
    (void)state, (void)place, (void)length, (void)base, (void)rows, (void)n_rows, (void)n_stay;
}

static size_t place_bytes(const void *state, int32_t n_tokens)
{
    (void)state, (void)n_tokens;
    return 0;
}

static void destroy_states(void *state)
{
    (void)state;
}

static const pf_store_ops STATE_OPS = { begin_place, fork_place, extend_place, reachable_place, truncate_place,
                                        can_keep,    keep_rows,  place_bytes,  destroy_states };

/* ---- the backend ----------------------------------------------------------------------------------------------- */

static pf_status acquire(void *state, int64_t *out)
{
    return pf_kv_acquire(state, out);
}

static pf_status fork_sequence(void *state, int64_t sequence, int32_t length, int64_t *out)
{
    return pf_kv_fork(state, sequence, length, out);
}

static void release(void *state, int64_t sequence)
{
    pf_kv_release(state, sequence);
}

static int32_t length_of(const void *state, int64_t sequence)
{
    return pf_kv_length(state, sequence);
}

static int32_t reachable(const void *state, int64_t sequence, int32_t wanted)
{
    return pf_kv_reachable(state, sequence, wanted);
}

static pf_status truncate_sequence(void *state, int64_t sequence, int32_t length)
{
    return pf_kv_truncate(state, sequence, length);
}

static pf_status keep(void *state, int64_t sequence, int32_t length, const int32_t *rows, int32_t n_rows)
{
    return pf_kv_keep(state, sequence, length, rows, n_rows);
}

static float *key_of(const pf_kv *kv, int64_t sequence, int32_t position)
{
    const pf_attn_pages pages = { .page_tokens = PAGE, .head_dim = 2 };
    float *page = pf_kv_layer(kv, sequence, 0).key_pages[position / PAGE];
    return page + pf_attn_key_at(&pages, PF_TYPE_F32, 0, position % PAGE, 0);
}

/* 24 bits, which a float holds. */
static float next_key(float before, int32_t token)
{
    return (float)(pf_hash_pair(1, (uint64_t)before, (uint64_t)token) & 0xFFFFFF);
}

static pf_status run(void *state, const pf_span *spans, int32_t n_spans)
{
    pf_kv *kv = state;
    for (int32_t i = 0; i < n_spans; i++) {
        const int64_t sequence = spans[i].sequence;
        const int32_t length = pf_kv_length(kv, sequence);
        const pf_status status = pf_kv_extend(kv, sequence, spans[i].n_tokens);
        if (status != PF_OK) {
            while (i-- > 0)
                assert_status(
                    pf_kv_truncate(kv, spans[i].sequence, pf_kv_length(kv, spans[i].sequence) - spans[i].n_tokens),
                    PF_OK);
            return status;
        }
        for (int32_t t = 0; t < spans[i].n_tokens; t++) {
            const float before = length + t > 0 ? *key_of(kv, sequence, length + t - 1) : 0.0f;
            *key_of(kv, sequence, length + t) = next_key(before, spans[i].tokens[t]);
        }
    }
    return PF_OK;
}

static const pf_forward_ops BACKEND_OPS = { .acquire = acquire,
                                            .fork = fork_sequence,
                                            .release = release,
                                            .length = length_of,
                                            .reachable = reachable,
                                            .truncate = truncate_sequence,
                                            .keep = keep,
                                            .run = run };

/* ---- what is under test ---------------------------------------------------------------------------------------- */

typedef struct {
    pf_kv *kv;
    pf_arena arena;
    pf_sequence_cache cache;
    states states;
    size_t n_pages;
    bool open[SLOTS];
    int32_t tokens[SLOTS][MAX_TOKENS + ROWS], n[SLOTS]; /* of an open slot */
    uint64_t idle_ns[SLOTS];
} rig;

static uint64_t idle_ns(const void *user, int32_t slot)
{
    return ((const rig *)user)->idle_ns[slot];
}

static void set_up(rig *r, size_t n_pages, bool has_state, bool forgets)
{
    *r = (rig){ .n_pages = n_pages };
    const pf_store store = { &STATE_OPS, &r->states };
    pf_kv_config config = { .type = PF_TYPE_F32,
                            .n_layers = 1,
                            .n_kv_heads = 1,
                            .head_dim = 2,
                            .page_tokens = PAGE,
                            .max_sequences = SLOTS,
                            .max_tokens = MAX_TOKENS,
                            .stores = &store,
                            .n_stores = has_state ? 1 : 0 };
    config.budget_bytes = n_pages * pf_kv_page_bytes(&config);
    pf_error error;
    assert_ok(pf_kv_create(&config, &r->kv, &error), error);
    r->cache.config = (pf_sequence_cache_config){
        .backend = { .ops = &BACKEND_OPS, .state = r->kv, .limits = { .max_tokens = MAX_TOKENS } },
        .n_slots = SLOTS,
        .forgets = forgets,
        .idle_ns = idle_ns,
        .user = r,
    };
    pf_arena measure = pf_arena_measure();
    pf_sequence_cache_lay_out(&r->cache, &measure);
    assert_status(pf_arena_create(measure.used, &r->arena), PF_OK);
    pf_sequence_cache_lay_out(&r->cache, &r->arena);
}

static void close_all(rig *r)
{
    for (int32_t slot = 0; slot < SLOTS; slot++) pf_sequence_cache_close(&r->cache, slot);
    pf_sequence_cache_end(&r->cache);
    assert_int_equal(pf_kv_free_pages(r->kv), r->n_pages);
    pf_kv_destroy(r->kv);
    pf_arena_destroy(&r->arena);
}

/* Open a slot for the tokens; how many of them the cache held. */
static int32_t open_slot(rig *r, int32_t slot, const int32_t *tokens, int32_t n)
{
    const uint64_t before = r->cache.counts.n_reused;
    assert_status(pf_sequence_cache_open(&r->cache, slot, r->tokens[slot], tokens, n), PF_OK);
    memmove(r->tokens[slot], tokens, (size_t)n * sizeof *tokens);
    r->n[slot] = n;
    r->open[slot] = true;
    const int32_t length = pf_sequence_cache_length(&r->cache, slot);
    assert_int_equal(length, r->cache.counts.n_reused - before);
    return length;
}

static void close_slot(rig *r, int32_t slot)
{
    pf_sequence_cache_close(&r->cache, slot);
    r->open[slot] = false;
}

/* A pass over at most n of the slot's tokens that the cache lacks. */
static pf_status read_some(rig *r, int32_t slot, int32_t n)
{
    const int32_t length = pf_sequence_cache_length(&r->cache, slot);
    const int32_t n_unread = r->n[slot] - length;
    const pf_span span = { .sequence = pf_sequence_cache_of(&r->cache, slot),
                           .tokens = r->tokens[slot] + length,
                           .n_tokens = n < n_unread ? n : n_unread };
    return pf_sequence_cache_run(&r->cache, &span, 1);
}

static void read_all(rig *r, int32_t slot)
{
    while (pf_sequence_cache_length(&r->cache, slot) < r->n[slot]) assert_status(read_some(r, slot, ROWS), PF_OK);
}

/* Every row that the cache holds, of open sequences and retained ones, is that of its tokens. */
static void check_rows(const rig *r)
{
    for (int32_t i = 0; i < SLOTS; i++) {
        const pf_cached_sequence *s = &r->cache.places[i];
        if (s->slot < -1) continue;
        float key = 0.0f;
        for (int32_t t = 0; t < pf_kv_length(r->kv, s->sequence); t++) {
            key = next_key(key, s->tokens[t]);
            assert_true(*key_of(r->kv, s->sequence, t) == key);
        }
    }
}

static int32_t count_equal(const int32_t *a, const int32_t *b, int32_t n)
{
    int32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

/* The definition: what could be taken of the best of all sequences. */
static int32_t longest_prefix(const rig *r, int32_t slot, const int32_t *tokens, int32_t n)
{
    int32_t longest = 0;
    for (int32_t i = 0; i < SLOTS; i++) {
        const pf_cached_sequence *s = &r->cache.places[i];
        if (s->slot < -1) continue;
        const int32_t length = pf_kv_length(r->kv, s->sequence);
        const int32_t equal = count_equal(s->tokens, tokens, n < length ? n : length);
        const int32_t usable = pf_kv_reachable(r->kv, s->sequence, equal);
        const bool is_own = r->open[slot] && s->slot == slot;
        if (usable > longest && (is_own || usable >= PF_PREFIX_BLOCK)) longest = usable;
    }
    return longest;
}

/* ---- random operations ----------------------------------------------------------------------------------------- */

/* A prompt that begins as a sequence of the cache does, more often than not. */
static int32_t make_prompt(const rig *r, uint64_t *rng, int32_t *tokens)
{
    int32_t n = 0;
    const pf_cached_sequence *s = &r->cache.places[below(rng, SLOTS)];
    if (s->slot >= -1) {
        n = below(rng, pf_kv_length(r->kv, s->sequence) + 1);
        if (n > 0) memcpy(tokens, s->tokens, (size_t)n * sizeof *tokens);
    }
    const int32_t end = n + below(rng, MAX_TOKENS - n + 1);
    while (n < end) tokens[n++] = below(rng, VOCAB);
    return n;
}

static void open_at_random(rig *r, uint64_t *rng, int32_t slot)
{
    int32_t tokens[MAX_TOKENS];
    const int32_t n = make_prompt(r, rng, tokens), wanted = longest_prefix(r, slot, tokens, n);
    assert_int_equal(open_slot(r, slot, tokens, n), wanted);
}

/* Some tokens more, of which a path is kept, as after a verdict; or fewer. */
static void go_on_at_random(rig *r, uint64_t *rng, int32_t slot)
{
    const int32_t length = pf_sequence_cache_length(&r->cache, slot);
    if (below(rng, 4) == 0) {
        const int32_t to = below(rng, length + 1), reached = pf_sequence_cache_length(&r->cache, slot);
        assert_status(pf_sequence_cache_cut(&r->cache, slot, to), PF_OK);
        assert_true(pf_sequence_cache_length(&r->cache, slot) <= to && to <= reached);
        r->n[slot] = pf_sequence_cache_length(&r->cache, slot);
        return;
    }
    if (length < r->n[slot] || length == MAX_TOKENS) {
        (void)!read_some(r, slot, 1 + below(rng, ROWS));
        return;
    }
    const int32_t n = 1 + below(rng, MAX_TOKENS - length < 6 ? MAX_TOKENS - length : 6), n_kept = below(rng, n + 1);
    for (int32_t i = 0; i < n; i++) r->tokens[slot][length + i] = below(rng, VOCAB);
    r->n[slot] = length + n;
    if (read_some(r, slot, n) != PF_OK) {
        r->n[slot] = length;
        return;
    }
    static const int32_t first[] = { 0, 1, 2, 3, 4, 5 };
    assert_status(pf_sequence_cache_keep(&r->cache, slot, length, first, n_kept), PF_OK);
    r->n[slot] = length + n_kept;
}

static void operate_at_random(size_t n_pages, bool has_state, uint64_t rng)
{
    rig *r = test_calloc(1, sizeof *r);
    set_up(r, n_pages, has_state, false);
    for (int32_t step = 0; step < 3000; step++) {
        const int32_t slot = below(&rng, SLOTS);
        for (int32_t i = 0; i < SLOTS; i++) r->idle_ns[i] = below(&rng, 3) == 0 ? 1 + draw(&rng) % 100 : 0;
        const int32_t what = below(&rng, 6);
        if (!r->open[slot] || what == 0)
            open_at_random(r, &rng, slot);
        else if (what == 1)
            close_slot(r, slot);
        else
            go_on_at_random(r, &rng, slot);
        check_rows(r);
    }
    const pf_sequence_cache_counts c = r->cache.counts;
    assert_true(c.n_reusing > 100 && c.n_reused > 1000 && c.n_retained > 100);
    if (n_pages < 20) assert_true(c.n_dropped > 10 && c.n_evicted > 10);
    close_all(r);
    test_free(r);
}

static void random_sequences_take_the_longest_prefix_and_their_rows_are_right(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        operate_at_random(SLOTS * MAX_TOKENS / PAGE + SLOTS, false, seed);
        operate_at_random(12, false, seed);
        operate_at_random(12, true, seed);
    }
}

/* ---- one by one ------------------------------------------------------------------------------------------------ */

/* Texts of distinct tokens. */
static void make_text(int32_t *tokens, int32_t first)
{
    for (int32_t i = 0; i < MAX_TOKENS; i++) tokens[i] = first + i;
}

static void a_closed_sequence_that_goes_on_is_taken_over_whole(void **state)
{
    (void)state;
    rig r;
    int32_t text[MAX_TOKENS];
    make_text(text, 0);
    set_up(&r, 6, false, false);
    for (int32_t turn = 1; turn <= 4; turn++) { /* in whatever slot */
        assert_int_equal(open_slot(&r, turn, text, 20 * turn), 20 * (turn - 1));
        read_all(&r, turn);
        close_slot(&r, turn);
    }
    assert_int_equal(r.cache.counts.n_rows, 80);
    assert_int_equal(pf_kv_free_pages(r.kv), 1); /* of six, five: nothing is there twice */
    close_all(&r);
}

static void a_prefix_is_forked_and_both_sides_go_on(void **state)
{
    (void)state;
    rig r;
    int32_t a[MAX_TOKENS], b[MAX_TOKENS];
    make_text(a, 0);
    make_text(b, 0);
    for (int32_t i = 37; i < MAX_TOKENS; i++) b[i] += 100;
    set_up(&r, 20, false, false);
    (void)open_slot(&r, 0, a, 60);
    read_all(&r, 0);
    assert_int_equal(open_slot(&r, 1, b, 50), 37); /* of an open one, within a page */
    read_all(&r, 1);
    check_rows(&r);
    close_slot(&r, 0);
    assert_int_equal(open_slot(&r, 2, a, 40), 40); /* of a retained one, which stays */
    assert_int_equal(open_slot(&r, 3, a, 70), 60);
    read_all(&r, 2);
    read_all(&r, 3);
    check_rows(&r);
    close_all(&r);
}

static void tokens_that_replace_others_are_found_in_their_place(void **state)
{
    (void)state;
    rig r;
    int32_t a[MAX_TOKENS], b[MAX_TOKENS];
    make_text(a, 0);
    make_text(b, 200);
    set_up(&r, 30, false, false);
    (void)open_slot(&r, 0, a, 60);
    read_all(&r, 0);
    assert_int_equal(open_slot(&r, 1, a, 40), 40);
    assert_status(pf_sequence_cache_cut(&r.cache, 0, 0), PF_OK);
    memcpy(r.tokens[0], b, sizeof b);
    read_all(&r, 0);
    assert_int_equal(open_slot(&r, 2, b, 70), 60);
    assert_int_equal(open_slot(&r, 3, a, 60), 40); /* of the other: the first has them no more */
    close_all(&r);
}

static void less_than_a_block_is_taken_of_the_slot_itself_alone(void **state)
{
    (void)state;
    rig r;
    int32_t a[MAX_TOKENS];
    make_text(a, 0);
    set_up(&r, 20, false, false);
    (void)open_slot(&r, 0, a, PF_PREFIX_BLOCK - 1);
    read_all(&r, 0);
    assert_int_equal(open_slot(&r, 1, a, 40), 0);
    assert_int_equal(open_slot(&r, 0, a, 40), PF_PREFIX_BLOCK - 1);
    close_all(&r);
}

static void a_slot_that_is_opened_for_another_text_retains_the_first(void **state)
{
    (void)state;
    rig r;
    int32_t a[MAX_TOKENS], b[MAX_TOKENS];
    make_text(a, 0);
    make_text(b, 200);
    set_up(&r, 20, false, false);
    (void)open_slot(&r, 0, a, 60);
    read_all(&r, 0);
    assert_int_equal(open_slot(&r, 0, b, 40), 0);
    read_all(&r, 0);
    assert_int_equal(open_slot(&r, 0, a, 60), 60);
    assert_int_equal(open_slot(&r, 0, b, 40), 40);
    check_rows(&r);
    close_all(&r);
}

static void retained_sequences_are_dropped_the_least_recently_used_first(void **state)
{
    (void)state;
    rig r;
    int32_t texts[SLOTS + 1][MAX_TOKENS];
    for (int32_t i = 0; i <= SLOTS; i++) make_text(texts[i], 200 * i);
    set_up(&r, 100, false, false);
    for (int32_t i = 0; i < SLOTS; i++) {
        (void)open_slot(&r, i, texts[i], 20);
        read_all(&r, i);
    }
    for (int32_t i = 0; i < SLOTS; i++) close_slot(&r, i);
    assert_int_equal(open_slot(&r, 0, texts[0], 30), 20);
    close_slot(&r, 0);                        /* the latest now */
    (void)open_slot(&r, 0, texts[SLOTS], 20); /* needs a place: that of the second */
    assert_int_equal(r.cache.counts.n_dropped, 1);
    close_slot(&r, 0);
    assert_int_equal(open_slot(&r, 0, texts[0], 30), 20);
    assert_int_equal(open_slot(&r, 1, texts[2], 20), 20);
    assert_int_equal(open_slot(&r, 2, texts[1], 20), 0);
    close_all(&r);
}

static void retained_sequences_make_way_before_open_ones_and_these_by_their_idleness(void **state)
{
    (void)state;
    rig r;
    int32_t texts[4][MAX_TOKENS];
    for (int32_t i = 0; i < 4; i++) make_text(texts[i], 200 * i);
    set_up(&r, 6, false, false);
    for (int32_t i = 0; i < 3; i++) {
        (void)open_slot(&r, i, texts[i], 32);
        read_all(&r, i);
    }
    close_slot(&r, 1);
    r.idle_ns[0] = 5;
    (void)open_slot(&r, 3, texts[3], 32);
    read_all(&r, 3);
    assert_int_equal(r.cache.counts.n_dropped, 1);
    assert_int_equal(pf_sequence_cache_length(&r.cache, 0), 32);
    r.idle_ns[2] = 9;
    (void)open_slot(&r, 1, texts[1], 32);
    read_all(&r, 1);
    assert_int_equal(pf_sequence_cache_length(&r.cache, 0), 32);
    assert_int_equal(pf_sequence_cache_length(&r.cache, 2), 0);
    r.idle_ns[0] = r.idle_ns[2] = 0;
    assert_status(read_some(&r, 2, 32), PF_LIMIT); /* none is idle */
    assert_int_equal(r.cache.counts.n_evicted, 1);
    close_all(&r);
}

static void without_a_place_for_a_fork_a_retained_sequence_is_cut_and_taken(void **state)
{
    (void)state;
    rig r;
    int32_t texts[SLOTS][MAX_TOKENS];
    for (int32_t i = 0; i < SLOTS; i++) make_text(texts[i], 200 * i);
    set_up(&r, 100, false, false);
    for (int32_t i = 0; i < SLOTS; i++) {
        (void)open_slot(&r, i, texts[i], 40);
        read_all(&r, i);
    }
    close_slot(&r, 3);
    assert_int_equal(open_slot(&r, 3, texts[3], 25), 25);
    check_rows(&r);
    close_all(&r);
}

static void equal_hashes_of_different_tokens_take_what_is_equal(void **state)
{
    (void)state;
    rig r;
    int32_t a[MAX_TOKENS], b[MAX_TOKENS];
    make_text(a, 0);
    make_text(b, 0);
    b[40] = 999;
    set_up(&r, 20, false, false);
    (void)open_slot(&r, 0, a, 90);
    read_all(&r, 0);
    pf_cached_sequence *s = &r.cache.places[r.cache.place_of[0]];
    pf_prefix_hash(&s->blocks, b, 90); /* as if they were those of another text */
    assert_int_equal(open_slot(&r, 1, b, 90), 40);
    read_all(&r, 1);
    check_rows(&r);
    close_all(&r);
}

static void a_cache_that_forgets_takes_nothing_but_what_the_slot_has(void **state)
{
    (void)state;
    rig r;
    int32_t a[MAX_TOKENS];
    make_text(a, 0);
    set_up(&r, 20, false, true);
    (void)open_slot(&r, 0, a, 40);
    read_all(&r, 0);
    assert_int_equal(open_slot(&r, 1, a, 40), 0);
    assert_int_equal(open_slot(&r, 0, a, 50), 40);
    assert_int_equal(open_slot(&r, 0, a, 5), 5);
    read_all(&r, 1);
    close_slot(&r, 1);
    assert_int_equal(open_slot(&r, 1, a, 40), 0);
    close_all(&r);
}

static void a_state_that_cannot_go_back_gives_no_prefix(void **state)
{
    (void)state;
    rig r;
    int32_t a[MAX_TOKENS];
    make_text(a, 0);
    set_up(&r, 40, true, false);
    (void)open_slot(&r, 0, a, 60);
    read_all(&r, 0);
    assert_int_equal(open_slot(&r, 1, a, 60 - REPLAYED - 1), 0);
    assert_int_equal(open_slot(&r, 2, a, 60 - REPLAYED), 60 - REPLAYED);
    close_slot(&r, 0);
    assert_int_equal(open_slot(&r, 3, a, 80), 60);
    close_all(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sequences_take_the_longest_prefix_and_their_rows_are_right),
        cmocka_unit_test(a_closed_sequence_that_goes_on_is_taken_over_whole),
        cmocka_unit_test(a_prefix_is_forked_and_both_sides_go_on),
        cmocka_unit_test(tokens_that_replace_others_are_found_in_their_place),
        cmocka_unit_test(less_than_a_block_is_taken_of_the_slot_itself_alone),
        cmocka_unit_test(a_slot_that_is_opened_for_another_text_retains_the_first),
        cmocka_unit_test(retained_sequences_are_dropped_the_least_recently_used_first),
        cmocka_unit_test(retained_sequences_make_way_before_open_ones_and_these_by_their_idleness),
        cmocka_unit_test(without_a_place_for_a_fork_a_retained_sequence_is_cut_and_taken),
        cmocka_unit_test(equal_hashes_of_different_tokens_take_what_is_equal),
        cmocka_unit_test(a_cache_that_forgets_takes_nothing_but_what_the_slot_has),
        cmocka_unit_test(a_state_that_cannot_go_back_gives_no_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
