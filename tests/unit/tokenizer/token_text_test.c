/* The text that a token adds in the middle of a text, of vocabularies with byte tokens, spaces at the beginning and parts of characters. */
#include "tests/support/small_tokenizer.h"
#include "tests/support/test.h"

#include "tokenizer/decode/token_text.h"

static void assert_text(pf_token_text *reader, int32_t id, const char *text, size_t n)
{
    pf_bytes found = { 0 };
    assert_int_equal(pf_token_text_append(reader, id, &found), PF_OK);
    if (found.n != n || (n > 0 && memcmp(found.data, text, n) != 0))
        fail_msg("token %d adds %zu bytes \"%.*s\", expected \"%.*s\"", id, found.n, (int)found.n,
                 found.data ? found.data : "", (int)n, text);
    pf_bytes_clear(&found);
}

static void a_part_of_a_character_adds_its_bytes(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .vocab = ",\"ab\":256", .merges = "\"a b\"" });
    pf_token_text reader = { .tokenizer = t, .n_ids = 300 };
    for (int32_t id = 0; id < 256; id++) assert_text(&reader, id, (const char[]){ (char)id }, 1);
    assert_text(&reader, 256, "ab", 2);
    assert_text(&reader, 257, "", 0); /* it does not exist */
    assert_text(&reader, -1, "", 0);
    assert_text(&reader, 300, "", 0);
    pf_tokenizer_close(t);
}

/* As Llama 2 has it: a space for U+2581, that of the first token is dropped, and bytes without a token are written as <0xHH>. */
static void a_space_is_kept_and_a_byte_token_adds_its_byte(void **state)
{
    (void)state;
    static const char file[] =
        "{\"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", \"special\": true, \"single_word\": false, \"lstrip\": "
        "false,"
        "\"rstrip\": false, \"normalized\": false}], \"normalizer\": null, \"pre_tokenizer\": null, "
        "\"post_processor\": null,"
        "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": "
        "\"\xe2\x96\x81\"},"
        "\"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": "
        "\" \","
        "\"start\": 1, \"stop\": 0}]}, \"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"fuse_unk\": true,"
        "\"unk_token\": \"<s>\", \"vocab\": {\"<s>\": 0, \"\xe2\x96\x81\": 1, \"a\": 2, \"\xe2\x96\x81"
        "a\": 3, \"<0xC3>\": 4,"
        "\"<0x41>\": 5}, \"merges\": [\"\xe2\x96\x81 a\"]}}";
    pf_tokenizer *t = open_text(file, NULL);
    pf_token_text reader = { .tokenizer = t, .n_ids = 6 };
    assert_text(&reader, 0, "<s>", 3);
    assert_text(&reader, 1, " ", 1);
    assert_text(&reader, 2, "a", 1);
    assert_text(&reader, 3, " a", 2);
    assert_text(&reader, 4, "\xc3", 1);
    assert_text(&reader, 5, "A", 1);
    pf_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_a_character_adds_its_bytes),
        cmocka_unit_test(a_space_is_kept_and_a_byte_token_adds_its_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
