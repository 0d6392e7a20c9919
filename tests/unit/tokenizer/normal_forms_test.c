/* Tests NFC where a run of characters that it leaves as they are meets others. The oracle compares all characters. */
#include "tokenizer/unicode/normal_forms.h"

#include <stdlib.h>

#include "tests/support/test.h"

static void assert_nfc(const char *text, const char *expected)
{
    pf_bytes out = { .data = NULL };
    assert_status(pf_normal_form_append(PF_NFC, text, strlen(text), NULL, &out), PF_OK);
    assert_int_equal(out.n, strlen(expected));
    if (out.n > 0) assert_memory_equal(out.data, expected, out.n);
    pf_bytes_clear(&out);
}

static void the_last_character_of_a_copied_run_composes_with_what_follows(void **state)
{
    (void)state;
    assert_nfc("", "");
    assert_nfc("plain text \u0436\u6f22\uc11c", "plain text \u0436\u6f22\uc11c");
    assert_nfc("cafe\u0301 ", "caf\u00e9 ");
    assert_nfc("\u6f22e\u0301\u6f22", "\u6f22\u00e9\u6f22");
    assert_nfc("x\u0438\u0306\u0436", "x\u0439\u0436");
    assert_nfc("\u304b\u3099\u304b", "\u304c\u304b");
    assert_nfc("\uac00\u11a8\uac00", "\uac01\uac00");
    assert_nfc("\u0928\u093c", "\u0929");
}

/* A run of 200,000 bytes is copied in chunks, and no character is lost or seen twice. */
static void long_runs_are_copied_once(void **state)
{
    (void)state;
    enum { N = 200000 };
    char *text = malloc(N + 8);
    assert_non_null(text);
    for (size_t i = 0; i + 2 <= N; i += 2) memcpy(text + i, i % 6 == 0 ? "xy" : "\u0436", 2);
    strcpy(text + N, "e\u0301"); /* U+00E9 when composed */
    pf_bytes out = { .data = NULL };
    assert_status(pf_normal_form_append(PF_NFC, text, N + 3, NULL, &out), PF_OK);
    assert_int_equal(out.n, N + 2);
    assert_memory_equal(out.data, text, N);
    assert_memory_equal(out.data + N, "\u00e9", 2);
    pf_bytes_clear(&out);
    free(text);
}

static void marks_are_ordered_across_a_copied_run(void **state)
{
    (void)state;
    assert_nfc("aq\u0301\u0323c", "aq\u0323\u0301c");
    assert_nfc("a\u0323\u0301", "\u1ea1\u0301");
    assert_nfc("\u0301\u0323", "\u0323\u0301");
}

static void a_character_with_another_form_is_no_part_of_a_run(void **state)
{
    (void)state;
    assert_nfc("\u212b\u2126\u0340", "\u00c5\u1ffa");
    assert_nfc("\u0958", "\u0915\u093c");
    assert_nfc("a\uf900b\u2000c", "a\u8c48b\u2002c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_character_of_a_copied_run_composes_with_what_follows),
        cmocka_unit_test(long_runs_are_copied_once),
        cmocka_unit_test(marks_are_ordered_across_a_copied_run),
        cmocka_unit_test(a_character_with_another_form_is_no_part_of_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
