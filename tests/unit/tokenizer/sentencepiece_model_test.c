/* Tests the reader of tokenizer.model on files that are cut, damaged or hostile. Its ids: tokenizer_forms_test.c. */
#include "tokenizer/files/sentencepiece_model.h"

#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/file.h"
#include "tests/support/test.h"
#include "tokenizer/files/sentencepiece_tokenizer.h"

#define GOLDEN "tests/golden/tokenizer_forms/"

static pf_status read_model(const void *data, size_t n, pf_sentencepiece_model *out, pf_error *error)
{
    /* exactly its size, so that AddressSanitizer sees a read past its end */
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, data, n);
    const pf_status status = pf_sentencepiece_model_read("x.model", copy, n, out, error);
    free(copy);
    return status;
}

static void assert_refused(const pf_bytes *file, pf_status status, const char *part)
{
    pf_sentencepiece_model model = { .pieces = NULL };
    pf_error error = { 0 };
    assert_status(read_model(file->data ? file->data : "", file->n, &model, &error), status);
    assert_says(error, part);
    assert_says(error, "x.model");
    assert_null(model.pieces);
}

/* ---- writing ---- */

static void put(pf_bytes *out, const void *data, size_t n)
{
    assert_status(pf_bytes_append(out, data, n), PF_OK);
}

static void put_varint(pf_bytes *out, uint64_t value)
{
    do {
        const char byte = (char)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        put(out, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void put_number(pf_bytes *out, uint64_t field, uint64_t value)
{
    put_varint(out, field << 3);
    put_varint(out, value);
}

static void put_bytes(pf_bytes *out, uint64_t field, const void *data, size_t n)
{
    put_varint(out, field << 3 | 2);
    put_varint(out, n);
    put(out, data, n);
}

static void put_piece(pf_bytes *out, const char *text, size_t n, float score, uint64_t type)
{
    pf_bytes piece = { .data = NULL };
    put_bytes(&piece, 1, text, n);
    put_varint(&piece, 2 << 3 | 5);
    put(&piece, &score, sizeof score);
    put_number(&piece, 3, type);
    put_number(&piece, 99, 1); /* a field that is not known */
    put_bytes(out, 1, piece.data, piece.n);
    pf_bytes_clear(&piece);
}

static void put_message(pf_bytes *out, uint64_t field, uint64_t inner, uint64_t value)
{
    pf_bytes message = { .data = NULL };
    put_number(&message, inner, value);
    put_bytes(out, field, message.data, message.n);
    pf_bytes_clear(&message);
}

/* ---- reading ---- */

static void fields_are_read_and_unknown_ones_skipped(void **state)
{
    (void)state;
    pf_bytes file = { .data = NULL };
    pf_sentencepiece_model model;
    pf_error error = { 0 };
    put_bytes(&file, 4, "self test", 9);
    put_piece(&file, "<unk>", 5, 0.0f, PF_PIECE_UNKNOWN);
    put_piece(&file, "\u2581a", 4, -1.5f, PF_PIECE_NORMAL);
    put_message(&file, 2, 3, 2);
    put_message(&file, 2, 35, 1);
    put_message(&file, 2, 41, (uint64_t)-1);
    put_message(&file, 3, 3, 0);
    put_varint(&file, 200 << 3 | 1);
    put(&file, "12345678", 8);
    assert_ok(pf_sentencepiece_model_read("x.model", (const uint8_t *)file.data, file.n, &model, &error), error);
    assert_int_equal(model.n_pieces, 2);
    assert_memory_equal(model.pieces[1].text, "\u2581a", 4);
    assert_true(model.pieces[1].score == -1.5f);
    assert_int_equal(model.pieces[0].type, PF_PIECE_UNKNOWN);
    assert_true(!model.is_unigram && model.byte_fallback && !model.add_dummy_prefix && model.remove_extra_whitespaces);
    assert_int_equal(model.unk_id, 0);
    assert_int_equal(model.bos_id, -1);
    assert_int_equal(model.eos_id, -1); /* 2 by default, which is no piece */
    pf_sentencepiece_model_clear(&model);
    pf_bytes_clear(&file);
}

static void hostile_fields_are_refused(void **state)
{
    (void)state;
    pf_bytes file = { .data = NULL };
    assert_refused(&file, PF_FORMAT, "a file without pieces");
    put(&file, "\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 10); /* a length near 2^63 */
    assert_refused(&file, PF_FORMAT, "the file is no protobuf message");
    file.n = 0;
    put(&file, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 13); /* a tag of thirteen bytes */
    assert_refused(&file, PF_FORMAT, "the file is no protobuf message");
    file.n = 0;
    put(&file, "\x0B\x0C", 2); /* a group */
    assert_refused(&file, PF_FORMAT, "the file is no protobuf message");
    file.n = 0;
    put_bytes(&file, 1,
              "\x0A\x05"
              "ab",
              4);
    assert_refused(&file, PF_FORMAT, "a piece is no protobuf message");
    file.n = 0;
    put_piece(&file, "a", 1, 0.0f, 1);
    put_bytes(&file, 2, "\x18", 1);
    assert_refused(&file, PF_FORMAT, "trainer_spec is no protobuf message");
    pf_bytes_clear(&file);
}

static void hostile_pieces_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        float score;
        uint64_t type;
    } cases[] = {
        { "", 0, 0.0f, 1 },        { "a\0b", 3, 0.0f, 1 },         { "\xC3", 1, 0.0f, 1 },
        { "a", 1, (float)NAN, 1 }, { "a", 1, (float)INFINITY, 1 }, { "a", 1, 0.0f, 0 },
        { "a", 1, 0.0f, 7 },       { "a", 1, 0.0f, UINT64_MAX },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_bytes file = { .data = NULL };
        put_piece(&file, cases[i].text, cases[i].n, cases[i].score, cases[i].type);
        assert_refused(&file, PF_FORMAT, "piece 0 must have a text in UTF-8");
        pf_bytes_clear(&file);
    }
}

static void unknown_options_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        uint64_t message, field, value;
        const char *part;
    } cases[] = {
        { 2, 3, 3, "trainer_spec.model_type is 3" },
        { 2, 24, 1, "trainer_spec.treat_whitespace_as_suffix is true" },
        { 3, 5, 0, "normalizer_spec.escape_whitespaces is false" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_bytes file = { .data = NULL };
        put_piece(&file, "a", 1, 0.0f, 1);
        put_message(&file, cases[i].message, cases[i].field, cases[i].value);
        assert_refused(&file, PF_UNSUPPORTED, cases[i].part);
        pf_bytes_clear(&file);
    }
}

/* 2,097,153 pieces of a byte each. */
static void too_many_pieces_are_refused(void **state)
{
    (void)state;
    pf_bytes file = { .data = NULL };
    for (int i = 0; i <= PF_MAX_PIECES; i++)
        put(&file,
            "\x0A\x03\x0A\x01"
            "a",
            5);
    assert_refused(&file, PF_LIMIT, "more than 2097152 pieces");
    pf_bytes_clear(&file);
}

/* ---- the document ---- */

static pf_status make_document(const void *data, size_t n, const char *config_text, pf_error *error)
{
    pf_json config = { 0 }, made = { 0 };
    const pf_tokenizer_files files = { .config = config_text ? &config : NULL };
    if (config_text)
        assert_status(pf_json_parse("config", config_text, strlen(config_text), 4096, &config, error), PF_OK);
    const pf_status status = pf_sentencepiece_document("x.model", data, n, &files, &made, error);
    pf_json_close(&made);
    pf_json_close(&config);
    return status;
}

static void equal_pieces_are_refused(void **state)
{
    (void)state;
    pf_bytes file = { .data = NULL };
    pf_error error = { 0 };
    put_piece(&file, "a", 1, 0.0f, 1);
    put_piece(&file, "a", 1, -1.0f, 1);
    assert_status(make_document(file.data, file.n, NULL, &error), PF_FORMAT);
    assert_says(error, "x.model: piece 1 is \"a\", as piece 0 is");
    pf_bytes_clear(&file);
}

static void an_unknown_class_is_refused_by_name(void **state)
{
    (void)state;
    pf_bytes file = { .data = NULL };
    pf_error error = { 0 };
    put_piece(&file, "a", 1, 0.0f, 1);
    assert_status(make_document(file.data, file.n, "{\"tokenizer_class\": \"T5TokenizerFast\"}", &error),
                  PF_UNSUPPORTED);
    assert_says(error, "tokenizer_class is T5Tokenizer");
    assert_status(make_document(file.data, file.n, "{\"tokenizer_class\": 5}", &error), PF_FORMAT);
    assert_status(make_document(file.data, file.n, "{\"legacy\": \"no\"}", &error), PF_FORMAT);
    assert_says(error, "legacy");
    pf_bytes_clear(&file);
}

/* A cut at the end of a field leaves a smaller model; everywhere else the file is refused. */
static void a_file_cut_at_any_byte_is_read_or_refused(void **state)
{
    (void)state;
    static const char *const names[] = { GOLDEN "llama/tokenizer.model", GOLDEN "orion/tokenizer.model" };
    for (size_t i = 0; i < PF_COUNT(names); i++) {
        char *data = NULL;
        size_t size = 0, n_read = 0;
        pf_error error = { 0 };
        assert_ok(pf_file_read(names[i], 1 << 20, &data, &size, &error), error);
        for (size_t n = 0; n < size; n++) {
            pf_sentencepiece_model model = { .pieces = NULL };
            error.text[0] = '\0';
            const pf_status status = read_model(data, n, &model, &error);
            n_read += status == PF_OK;
            assert_true(status == PF_OK || (status == PF_FORMAT && error.text[0]));
            pf_sentencepiece_model_clear(&model);
        }
        assert_true(n_read > 100 && n_read < 1000);
        free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_read_and_unknown_ones_skipped),
        cmocka_unit_test(hostile_fields_are_refused),
        cmocka_unit_test(hostile_pieces_are_refused),
        cmocka_unit_test(unknown_options_are_refused_by_name),
        cmocka_unit_test(too_many_pieces_are_refused),
        cmocka_unit_test(equal_pieces_are_refused),
        cmocka_unit_test(an_unknown_class_is_refused_by_name),
        cmocka_unit_test(a_file_cut_at_any_byte_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
