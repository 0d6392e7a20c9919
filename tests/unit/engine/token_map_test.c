/* What the tokens of one vocabulary are in another, by their texts. */
#include "engine/token_map.h"

#include <string.h>

#include "tests/support/small_tokenizer.h"
#include "tests/support/test.h"

/* Byte-level, each with tokens of its own behind the 256 bytes. */
static pf_tokenizer *open_target(void)
{
    return open_parts((parts){ .vocab = ",\"in\":256,\"it\":257,\"init\":258,\"\xC4\xA0o\":259",
                               .merges = "\"i n\",\"i t\",\"in it\",\"\xC4\xA0 o\"" });
}

static pf_tokenizer *open_draft(void)
{
    return open_parts(
        (parts){ .vocab = ",\"\xC4\xA0o\":256,\"in\":257,\"lo\":258", .merges = "\"\xC4\xA0 o\",\"i n\",\"l o\"" });
}

static int32_t first_of(const pf_token_map *map, int32_t id)
{
    return id > 0 ? map->ends[id - 1] : 0;
}

static void tokens_with_one_text_are_counterparts_and_others_are_spelt(void **state)
{
    (void)state;
    pf_tokenizer *target = open_target(), *draft = open_draft();
    pf_token_map map;
    pf_error error = { 0 };
    assert_ok(pf_token_map_build((pf_vocabulary){ target, 260 }, (pf_vocabulary){ draft, 259 }, 0, &map, &error),
              error);
    assert_int_equal(map.n_target, 260);
    assert_int_equal(map.n_shared, 258); /* the bytes, "in" and " o" */
    for (int32_t id = 0; id < 256; id++) {
        assert_int_equal(map.draft_of[id], id);
        assert_int_equal(map.pieces[first_of(&map, id)], id);
    }
    assert_int_equal(map.draft_of[256], 257);
    assert_int_equal(map.draft_of[259], 256);
    assert_int_equal(map.draft_of[258], -1);
    const int32_t at = first_of(&map, 258); /* init: in i t */
    assert_int_equal(map.ends[258] - at, 3);
    assert_int_equal(map.pieces[at], 257);
    assert_int_not_equal(map.pieces[at + 1], map.pieces[at + 2]);
    assert_int_equal(map.longest, 3);
    pf_token_map_clear(&map);
    pf_tokenizer_close(target);
    pf_tokenizer_close(draft);
}

static void ids_without_a_row_have_no_part(void **state)
{
    (void)state;
    pf_tokenizer *target = open_target(), *draft = open_draft();
    pf_token_map map;
    pf_error error = { 0 };
    assert_ok(pf_token_map_build((pf_vocabulary){ target, 262 }, (pf_vocabulary){ draft, 257 }, 65, &map, &error),
              error);
    assert_int_equal(map.draft_of[256], -1); /* "in" has no row in the draft */
    assert_int_equal(map.draft_of[261], -1); /* no token of the target: its end */
    assert_int_equal(map.pieces[first_of(&map, 261)], 65);
    for (int32_t i = 0; i < map.ends[261]; i++) assert_in_range(map.pieces[i], 0, 256);
    pf_token_map_clear(&map);
    pf_tokenizer_close(target);
    pf_tokenizer_close(draft);
}

/* The 256 bytes, and many tokens that begin with this letter. */
static pf_tokenizer *open_large(char letter, int32_t n_more)
{
    static char vocab[1 << 16];
    size_t n = 0;
    for (int32_t i = 0; i < n_more; i++)
        n += (size_t)snprintf(vocab + n, sizeof vocab - n, ",\"%c%d\":%d", letter, 1000 + i, 256 + i);
    assert_true(n < sizeof vocab);
    return open_parts((parts){ .vocab = vocab });
}

static void a_pair_that_shares_too_little_is_refused_with_its_share(void **state)
{
    (void)state;
    enum { N_MORE = 2000, N = 256 + N_MORE };
    pf_tokenizer *target = open_large('t', N_MORE), *draft = open_large('d', N_MORE);
    pf_token_map map;
    pf_error error = { 0 };
    assert_int_equal(pf_token_map_build((pf_vocabulary){ target, N }, (pf_vocabulary){ draft, N }, 0, &map, &error),
                     PF_INVALID);
    assert_non_null(
        strstr(error.text, "256 have the same text: 11.3 % of the smaller vocabulary, expected at least 20 %"));
    assert_ok(pf_token_map_build((pf_vocabulary){ target, N }, (pf_vocabulary){ draft, 1000 }, 0, &map, &error), error);
    pf_token_map_clear(&map); /* 256 of 1000 */
    pf_tokenizer_close(target);
    pf_tokenizer_close(draft);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_with_one_text_are_counterparts_and_others_are_spelt),
        cmocka_unit_test(ids_without_a_row_have_no_part),
        cmocka_unit_test(a_pair_that_shares_too_little_is_refused_with_its_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
