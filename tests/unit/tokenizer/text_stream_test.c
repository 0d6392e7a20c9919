/* Tests the text of a stream of tokens: stop texts, whole characters, and that shown text never changes. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/decode/text_stream.h"

/* ---- a vocabulary without a file: token i is pieces[i] --------------------------------------------------------- */

enum { SPECIAL = 5 };
static const char *const pieces[] = { "a", "b", "ab", "ba", "bab", "<end>", "\xC3", "\xA9", "aab" };

bool pf_tokenizer_is_special(const pf_tokenizer *tokenizer, int32_t id)
{
    (void)tokenizer;
    return id == SPECIAL;
}

/* It drops the first byte of a text, as a decoder drops a leading space. */
struct pf_detokenizer {
    bool strips_first;
};

pf_status pf_detokenizer_create(const pf_tokenizer *tokenizer, pf_detokenizer **out)
{
    (void)tokenizer;
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    return PF_OK;
}

void pf_detokenizer_destroy(pf_detokenizer *d)
{
    free(d);
}

pf_status pf_detokenizer_skip_prompt(pf_detokenizer *d, const int32_t *prompt, int32_t n_prompt)
{
    (void)prompt;
    d->strips_first = n_prompt == 0;
    return PF_OK;
}

pf_status pf_detokenizer_push(pf_detokenizer *d, int32_t id, pf_bytes *text)
{
    if (id < 0 || (size_t)id >= PF_COUNT(pieces)) return PF_INVALID;
    const size_t n_stripped = d->strips_first ? 1 : 0;
    d->strips_first = false;
    return pf_bytes_append(text, pieces[id] + n_stripped, strlen(pieces[id]) - n_stripped);
}

/* It holds back an "a" until the end. */
pf_status pf_detokenizer_finish(pf_detokenizer *d, pf_bytes *text)
{
    (void)d;
    return pf_bytes_append(text, "a", 1);
}

typedef struct {
    const char *items[4];
    int32_t n;
} stop_texts;

static pf_text_stream begin_after(const stop_texts *stops, int32_t n_prompt)
{
    pf_text_stream stream;
    const pf_tokens prompt = { .ids = (int32_t[]){ 0, 0 }, .n = n_prompt };
    assert_int_equal(pf_text_stream_begin(&stream, NULL, stops->items, stops->n, &prompt, 1), PF_OK);
    return stream;
}

static pf_text_stream begin(const stop_texts *stops)
{
    return begin_after(stops, 1);
}

static void push(pf_text_stream *stream, int32_t token)
{
    assert_int_equal(pf_text_stream_push(stream, token, false), PF_OK);
}

static void assert_bytes(const pf_text_stream *stream, size_t n, const char *expected)
{
    assert_int_equal(n, strlen(expected));
    assert_memory_equal(stream->bytes.data, expected, n);
}

/* ---- claims ---------------------------------------------------------------------------------------------------- */

static void stop_text_is_found_across_tokens(void **state)
{
    (void)state;
    const stop_texts stops = { { "abba" }, 1 };
    pf_text_stream stream = begin(&stops);
    const int32_t tokens[] = { 0, 0, 1 }; /* a a b: the last two begin the stop text */
    for (size_t i = 0; i < 3; i++) push(&stream, tokens[i]);
    assert_bytes(&stream, pf_text_stream_ready(&stream), "a");
    push(&stream, 3); /* ba */
    assert_true(stream.stopped);
    assert_bytes(&stream, stream.bytes.n, "a");
    pf_text_stream_end(&stream);
}

static void partial_stop_text_is_released(void **state)
{
    (void)state;
    const stop_texts stops = { { "abb" }, 1 };
    pf_text_stream stream = begin(&stops);
    push(&stream, 2); /* ab */
    assert_bytes(&stream, pf_text_stream_ready(&stream), "");
    push(&stream, 0); /* aba: its last a may begin the stop text again */
    assert_bytes(&stream, pf_text_stream_ready(&stream), "ab");
    assert_false(stream.stopped);
    assert_bytes(&stream, stream.bytes.n, "aba");
    pf_text_stream_end(&stream);
}

static void earliest_stop_text_ends_the_text(void **state)
{
    (void)state;
    const stop_texts orders[] = { { { "b", "ab" }, 2 }, { { "ab", "b" }, 2 } };
    for (size_t i = 0; i < PF_COUNT(orders); i++) {
        pf_text_stream stream = begin(&orders[i]);
        push(&stream, 8); /* aab: "ab" begins before "b" */
        assert_bytes(&stream, stream.bytes.n, "a");
        push(&stream, 0);
        assert_bytes(&stream, stream.bytes.n, "a"); /* nothing is added after a stop */
        pf_text_stream_end(&stream);
    }
}

static void special_tokens_are_hidden_and_unknown_ids_are_refused(void **state)
{
    (void)state;
    const stop_texts none = { { NULL }, 0 };
    pf_text_stream stream = begin(&none);
    push(&stream, SPECIAL);
    assert_int_equal(stream.bytes.n, 0);
    assert_int_equal(pf_text_stream_push(&stream, 1000, false), PF_INVALID);
    assert_int_equal(stream.bytes.n, 0);
    pf_text_stream_end(&stream);
}

static void split_character_is_shown_whole(void **state)
{
    (void)state;
    const stop_texts none = { { NULL }, 0 };
    pf_text_stream stream = begin(&none);
    push(&stream, 0);
    push(&stream, 6);
    assert_int_equal(pf_text_stream_ready(&stream), 1);
    push(&stream, 7);
    assert_int_equal(pf_text_stream_ready(&stream), 3);
    pf_text_stream_end(&stream);
}

static void held_back_text_is_released_and_checked_for_stops(void **state)
{
    (void)state;
    const stop_texts stops = { { "ba", "aa" }, 2 };
    pf_text_stream stream = begin(&stops);
    assert_int_equal(pf_text_stream_finish(&stream), PF_OK);
    assert_bytes(&stream, stream.bytes.n, "a");
    assert_false(stream.stopped);
    pf_text_stream_end(&stream);
    stream = begin(&stops);
    push(&stream, 2); /* ab */
    assert_int_equal(pf_text_stream_finish(&stream), PF_OK);
    assert_true(stream.stopped);
    assert_bytes(&stream, stream.bytes.n, "a");
    assert_int_equal(pf_text_stream_finish(&stream), PF_OK);
    assert_bytes(&stream, stream.bytes.n, "a"); /* nothing is added after a stop */
    pf_text_stream_end(&stream);
}

static void stop_text_does_not_match_inside_the_prompt(void **state)
{
    (void)state;
    const stop_texts stops = { { "aba" }, 1 };
    for (int32_t n_prompt = 0; n_prompt < 3; n_prompt++) { /* 2: the prompt ends as the stop text begins */
        pf_text_stream stream = begin_after(&stops, n_prompt);
        push(&stream, 3); /* ba */
        assert_false(stream.stopped);
        assert_bytes(&stream, stream.bytes.n, n_prompt ? "ba" : "a");
        push(&stream, 3);
        assert_true(stream.stopped);
        assert_bytes(&stream, stream.bytes.n, n_prompt ? "b" : "");
        pf_text_stream_end(&stream);
    }
}

/* Definition: the text is the bytes before the first stop text in all bytes so far. */
static void random_streams_match_the_definition(void **state)
{
    (void)state;
    const stop_texts stops = { { "abbab", "bbb", "aabaa" }, 3 };
    srand(1);
    for (int trial = 0; trial < 2000; trial++) {
        pf_text_stream stream = begin(&stops);
        char all[512] = "", shown[512] = "";
        const char *first = NULL;
        while (!first && strlen(all) < 200) {
            const int32_t token = rand() % 5;
            strcat(all, pieces[token]);
            push(&stream, token);
            for (int32_t i = 0; i < stops.n; i++) {
                const char *found = strstr(all, stops.items[i]);
                if (found && (!first || found < first)) first = found;
            }
            const size_t ready = pf_text_stream_ready(&stream);
            assert_true(ready >= strlen(shown));
            assert_memory_equal(stream.bytes.data, shown, strlen(shown));
            memcpy(shown, stream.bytes.data, ready);
            shown[ready] = '\0';
        }
        assert_int_equal(stream.stopped, first != NULL);
        assert_int_equal(stream.bytes.n, first ? (size_t)(first - all) : strlen(all));
        assert_memory_equal(stream.bytes.data, all, stream.bytes.n);
        pf_text_stream_end(&stream);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_text_is_found_across_tokens),
        cmocka_unit_test(partial_stop_text_is_released),
        cmocka_unit_test(earliest_stop_text_ends_the_text),
        cmocka_unit_test(special_tokens_are_hidden_and_unknown_ids_are_refused),
        cmocka_unit_test(split_character_is_shown_whole),
        cmocka_unit_test(held_back_text_is_released_and_checked_for_stops),
        cmocka_unit_test(stop_text_does_not_match_inside_the_prompt),
        cmocka_unit_test(random_streams_match_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
