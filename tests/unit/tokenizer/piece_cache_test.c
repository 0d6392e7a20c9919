/* Tests the memory of short pieces, and that a piece is cut only where its tokens stay the same. */
#include "tokenizer/encode/piece_cache.h"

#include <stdlib.h>

#include "tests/support/draw.h"
#include "tests/support/test.h"
#include "tokenizer/encode/bpe.h"

static void assert_found(const pf_piece_cache *cache, const char *piece, const int32_t *ids, int32_t n)
{
    pf_tokens out = { 0 };
    bool found = false;
    assert_status(pf_piece_cache_find(cache, piece, strlen(piece), &out, &found), PF_OK);
    assert_int_equal(found, ids != NULL);
    assert_int_equal(out.n, n);
    if (n > 0) assert_memory_equal(out.ids, ids, (size_t)n * sizeof *ids);
    pf_tokens_clear(&out);
}

static void short_pieces_are_remembered(void **state)
{
    (void)state;
    const int32_t ids[] = { 1, 2, 3, 4, 5, 6, 7 };
    char longest[PF_CACHED_BYTES + 2];
    pf_piece_cache cache;
    assert_status(pf_piece_cache_create(&cache, 1 << 20), PF_OK);
    memset(longest, 'x', sizeof longest);
    longest[PF_CACHED_BYTES + 1] = '\0';
    assert_found(&cache, "a", NULL, 0);
    pf_piece_cache_put(&cache, "a", 1, ids, 1);
    pf_piece_cache_put(&cache, "many", 4, ids, PF_CACHED_TOKENS + 1);
    pf_piece_cache_put(&cache, "eightbytes", 10, ids + 1, PF_CACHED_TOKENS);
    pf_piece_cache_put(&cache, longest, PF_CACHED_BYTES + 1, ids, 1);
    assert_found(&cache, "a", ids, 1);
    assert_found(&cache, "eightbytes", ids + 1, PF_CACHED_TOKENS);
    assert_found(&cache, "eightbyte", NULL, 0);
    assert_found(&cache, "many", NULL, 0);
    assert_found(&cache, longest, NULL, 0);
    pf_piece_cache_clear(&cache);
}

/* A thousand pieces share 64 slots. */
static void a_slot_holds_its_last_piece_alone(void **state)
{
    (void)state;
    pf_piece_cache cache;
    assert_status(pf_piece_cache_create(&cache, 512), PF_OK);
    for (int32_t round = 0; round < 2; round++) {
        for (int32_t i = 0; i < 1000; i++) {
            char piece[24];
            pf_tokens out = { 0 };
            bool found = false;
            const size_t n = (size_t)snprintf(piece, sizeof piece, "piece of number %d", i);
            assert_status(pf_piece_cache_find(&cache, piece, n, &out, &found), PF_OK);
            assert_true(!found || out.ids[0] == i);
            pf_piece_cache_put(&cache, piece, n, &i, 1);
            pf_tokens_clear(&out);
        }
    }
    assert_found(&cache, "piece of number 999", (const int32_t[]){ 999 }, 1);
    pf_piece_cache_clear(&cache);
}

static void short_texts_have_no_cache(void **state)
{
    (void)state;
    const int32_t id = 7;
    pf_piece_cache cache;
    assert_status(pf_piece_cache_create(&cache, 100), PF_OK);
    assert_null(cache.slots);
    pf_piece_cache_put(&cache, "a", 1, &id, 1);
    assert_found(&cache, "a", NULL, 0);
    pf_piece_cache_clear(&cache);
}

/* ---- cuts ---- */

enum { N_TOKENS = 24, UNK = 0 };

/* Letters a to d and a letter of two bytes; d has no token. Other tokens join two earlier ones. */
static void make_bpe(pf_bpe *bpe, uint64_t *rng)
{
    char texts[N_TOKENS][16] = { "", "a", "b", "c", "\u00e9" };
    int32_t n = 5;
    *bpe = (pf_bpe){ .unk_id = UNK, .fuse_unk = draw(rng) % 2 == 0 };
    for (int i = 0; i < 256; i++) bpe->byte_id[i] = -1;
    assert_status(pf_bpe_reserve(bpe, N_TOKENS), PF_OK);
    assert_status(pf_bpe_reserve_characters(bpe, 4), PF_OK);
    for (int32_t i = 1; i < 4; i++) pf_bpe_set_character(bpe, 'a' + i - 1, i);
    pf_bpe_set_character(bpe, 0xE9, 4);
    while (n < N_TOKENS) {
        const int32_t left = 1 + (int32_t)(draw(rng) % (uint64_t)(n - 1)),
                      right = 1 + (int32_t)(draw(rng) % (uint64_t)(n - 1));
        const size_t n_left = strlen(texts[left]), n_right = strlen(texts[right]);
        if (n_left + n_right <= 8) {
            memcpy(texts[n], texts[left], n_left);
            memcpy(texts[n] + n_left, texts[right], n_right + 1);
            pf_bpe_set_merge(bpe, left, right, n, n);
        }
        n++;
    }
    for (int32_t i = 0; i < n; i++) assert_status(pf_bpe_add_pairs(bpe, texts[i], strlen(texts[i])), PF_OK);
}

static void cuts_change_no_token(void **state)
{
    (void)state;
    static const char *const letters[] = { "a", "b", "c", "d", "\u00e9" };
    uint64_t rng = 5;
    size_t n_cuts = 0;
    for (int round = 0; round < 500; round++) {
        pf_bpe bpe;
        pf_bpe_scratch scratch = { 0 };
        pf_tokens whole = { 0 }, parts = { 0 };
        char text[256] = "";
        size_t n = 0;
        make_bpe(&bpe, &rng);
        for (int i = 0; i < 60; i++) {
            const char *letter = letters[draw(&rng) % 5];
            memcpy(text + n, letter, strlen(letter));
            n += strlen(letter);
        }
        assert_status(pf_bpe_encode(&bpe, &scratch, text, n, NULL, &whole), PF_OK);
        for (size_t at = 0, end; at < n; at = end) {
            end = pf_bpe_find_cut(&bpe, text, n, at);
            n_cuts += end < n;
            assert_status(pf_bpe_encode(&bpe, &scratch, text + at, end - at, NULL, &parts), PF_OK);
        }
        assert_int_equal(whole.n, parts.n);
        assert_memory_equal(whole.ids, parts.ids, (size_t)whole.n * sizeof *whole.ids);
        pf_tokens_clear(&whole);
        pf_tokens_clear(&parts);
        pf_bpe_scratch_clear(&scratch);
        pf_bpe_clear(&bpe);
    }
    assert_true(n_cuts > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_pieces_are_remembered),
        cmocka_unit_test(a_slot_holds_its_last_piece_alone),
        cmocka_unit_test(short_texts_have_no_cache),
        cmocka_unit_test(cuts_change_no_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
