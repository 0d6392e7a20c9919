#include <math.h>

#include "gguf/gguf.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

static pf_temp_dir dir;
static const float FOUR[] = { 1.0f, 2.0f, 3.0f, 4.0f };
static const int64_t TWO_BY_TWO[] = { 2, 2 };

static int make_dir(void **state)
{
    (void)state;
    pf_temp_dir_make(&dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    pf_temp_dir_remove(&dir);
    return 0;
}

static const char *path_of(const char *name)
{
    static char path[PF_TEMP_PATH_BYTES];
    return pf_temp_path(&dir, name, path);
}

/* Writes the file and ends the writer. */
static void save_as(gguf_writer *w, const char *name, uint32_t version)
{
    pf_bytes out = { .data = NULL };
    gguf_print(w, version, &out);
    pf_temp_write(&dir, name, out.data, out.n);
    pf_bytes_clear(&out);
    gguf_writer_clear(w);
    *w = (gguf_writer){ .n_keys = 0 };
}

static void save(gguf_writer *w)
{
    save_as(w, "model.gguf", 3);
}

static pf_gguf *open_file(const char *name)
{
    pf_gguf *g = NULL;
    pf_error error = { 0 };
    assert_ok(pf_gguf_open(path_of(name), &g, &error), error);
    return g;
}

static void assert_refused(const char *name, pf_status status, const char *part)
{
    pf_gguf *g = (pf_gguf *)&dir;
    pf_error error = { 0 };
    assert_status(pf_gguf_open(path_of(name), &g, &error), status);
    assert_says(error, part);
    assert_ptr_equal(g, &dir); /* untouched */
}

/* Saves what the writer has and checks the refusal. */
static void assert_save_refused(gguf_writer *w, pf_status status, const char *part)
{
    save(w);
    assert_refused("model.gguf", status, part);
}

static void put_four(gguf_writer *w, const char *name)
{
    gguf_put_tensor(w, name, PF_GGML_F32, TWO_BY_TWO, 2, FOUR, sizeof FOUR);
}

static void tensors_are_found_with_type_shape_and_bytes(void **state)
{
    (void)state;
    static const int64_t blocks[] = { 3, 64 };
    static const uint8_t bytes[3 * 2 * 18] = { 7, 8, 9 };
    for (uint32_t version = 2; version <= 3; version++) {
        gguf_writer w = { .n_keys = 0 };
        gguf_put_string(&w, "general.architecture", "llama");
        put_four(&w, "b");
        gguf_put_tensor(&w, "a", PF_GGML_Q4_0, blocks, 2, bytes, sizeof bytes);
        save_as(&w, "model.gguf", version);
        pf_gguf *g = open_file("model.gguf");
        assert_int_equal(pf_gguf_n_tensors(g), 2);
        assert_string_equal(pf_gguf_tensor_at(g, 0)->name, "b");
        const pf_gguf_tensor *a = pf_gguf_find_tensor(g, "a");
        assert_non_null(a);
        assert_int_equal(a->type, PF_GGML_Q4_0);
        assert_int_equal(a->n_dimensions, 2);
        assert_int_equal(a->shape[0], 3);
        assert_int_equal(a->shape[1], 64);
        assert_int_equal(a->data_bytes, sizeof bytes);
        assert_memory_equal(a->data, bytes, sizeof bytes);
        assert_memory_equal(pf_gguf_find_tensor(g, "b")->data, FOUR, sizeof FOUR);
        assert_null(pf_gguf_find_tensor(g, "c"));
        pf_gguf_close(g);
    }
}

static void values_are_read_by_key_from_every_type(void **state)
{
    (void)state;
    gguf_writer w = { .n_keys = 0 };
    static const struct {
        pf_gguf_kind kind;
        int64_t value;
    } integers[] = { { PF_GGUF_U8, 200 },        { PF_GGUF_I8, -100 },         { PF_GGUF_U16, 60000 },
                     { PF_GGUF_I16, -30000 },    { PF_GGUF_U32, 4000000000 },  { PF_GGUF_I32, -2000000000 },
                     { PF_GGUF_U64, 1LL << 40 }, { PF_GGUF_I64, -(1LL << 40) } };
    for (size_t i = 0; i < PF_COUNT(integers); i++) {
        const char key[] = { (char)('a' + i), 0 };
        gguf_put_int(&w, key, integers[i].kind, integers[i].value);
    }
    gguf_put_f32(&w, "real", 0.5f);
    gguf_put_int(&w, "yes", PF_GGUF_BOOL, 1);
    gguf_put_string(&w, "text", "two words");
    save(&w);
    pf_gguf *g = open_file("model.gguf");
    pf_error error = { 0 };
    int64_t value = 0;
    for (size_t i = 0; i < PF_COUNT(integers); i++) {
        const char key[] = { (char)('a' + i), 0 };
        assert_ok(pf_gguf_get_int(g, key, true, INT64_MIN, INT64_MAX, &value, &error), error);
        assert_int_equal(value, integers[i].value);
    }
    double number = 0.0;
    assert_ok(pf_gguf_get_number(g, "real", true, 0.0, 1.0, &number, &error), error);
    assert_true(number == 0.5);
    assert_ok(pf_gguf_get_number(g, "b", true, -1e9, 0.0, &number, &error), error);
    assert_true(number == -100.0);
    bool yes = false;
    assert_ok(pf_gguf_get_bool(g, "yes", true, &yes, &error), error);
    assert_true(yes);
    pf_gguf_string text;
    assert_ok(pf_gguf_get_string(g, "text", true, &text, &error), error);
    assert_true(pf_gguf_string_is(text, "two words"));
    assert_false(pf_gguf_string_is(text, "two"));
    pf_gguf_close(g);
}

static void wrong_values_are_refused_by_key(void **state)
{
    (void)state;
    gguf_writer w = { .n_keys = 0 };
    gguf_put_int(&w, "large", PF_GGUF_U64, -1);
    gguf_put_int(&w, "nine", PF_GGUF_U32, 9);
    gguf_put_int(&w, "two", PF_GGUF_BOOL, 2);
    gguf_put_f32(&w, "nan", NAN);
    gguf_put_string(&w, "text", "");
    save(&w);
    pf_gguf *g = open_file("model.gguf");
    pf_error error = { 0 };
    int64_t value = 5;
    double number = 5.0;
    bool yes = true;
    pf_gguf_string text = { "", 0 };
    assert_status(pf_gguf_get_int(g, "large", true, INT64_MIN, INT64_MAX, &value, &error), PF_FORMAT);
    assert_says(error, "large");
    assert_status(pf_gguf_get_int(g, "nine", true, 1, 8, &value, &error), PF_FORMAT);
    assert_says(error, "nine is 9, expected 1 to 8");
    assert_status(pf_gguf_get_int(g, "text", true, 1, 8, &value, &error), PF_FORMAT);
    assert_says(error, "text is of type string, expected an integer");
    assert_status(pf_gguf_get_int(g, "nan", true, 1, 8, &value, &error), PF_FORMAT);
    assert_status(pf_gguf_get_number(g, "nan", true, 0.0, 1.0, &number, &error), PF_FORMAT);
    assert_status(pf_gguf_get_number(g, "text", true, 0.0, 1.0, &number, &error), PF_FORMAT);
    assert_status(pf_gguf_get_bool(g, "two", true, &yes, &error), PF_FORMAT);
    assert_status(pf_gguf_get_string(g, "nine", true, &text, &error), PF_FORMAT);
    assert_status(pf_gguf_get_int(g, "absent", true, 1, 8, &value, &error), PF_FORMAT);
    assert_says(error, "has no absent");
    assert_ok(pf_gguf_get_int(g, "absent", false, 1, 8, &value, &error), error);
    assert_int_equal(value, 5);
    pf_gguf_close(g);
}

static void arrays_give_their_elements(void **state)
{
    (void)state;
    static const char *const words[] = { "one", "", "three" };
    static const int32_t numbers[] = { 3, -4 };
    gguf_writer w = { .n_keys = 0 };
    gguf_put_strings(&w, "words", words, 3);
    gguf_put_i32s(&w, "numbers", numbers, 2);
    gguf_put_f32s(&w, "reals", FOUR, 4);
    save(&w);
    pf_gguf *g = open_file("model.gguf");
    pf_error error = { 0 };
    pf_gguf_array array;
    assert_ok(pf_gguf_get_array(g, "words", true, &array, &error), error);
    assert_int_equal(array.kind, PF_GGUF_STRING);
    assert_int_equal(array.n, 3);
    for (size_t i = 0; i < 3; i++) assert_true(pf_gguf_string_is(pf_gguf_next_string(&array), words[i]));
    int64_t value = 0;
    double number = 0.0;
    assert_ok(pf_gguf_get_array(g, "numbers", true, &array, &error), error);
    assert_ok(pf_gguf_array_int(&array, 1, -4, 3, &value, &error), error);
    assert_int_equal(value, -4);
    assert_status(pf_gguf_array_int(&array, 1, 0, 3, &value, &error), PF_FORMAT);
    assert_says(error, "numbers[1] is -4, expected 0 to 3");
    assert_ok(pf_gguf_get_array(g, "reals", true, &array, &error), error);
    assert_ok(pf_gguf_array_number(&array, 2, &number, &error), error);
    assert_true(number == 3.0);
    assert_status(pf_gguf_array_int(&array, 2, 0, 9, &value, &error), PF_FORMAT);
    pf_gguf_close(g);
}

static void headers_that_lie_are_refused(void **state)
{
    (void)state;
    gguf_writer w = { .n_keys = 0 };
    put_four(&w, "a");
    save_as(&w, "model.gguf", 1);
    assert_refused("model.gguf", PF_UNSUPPORTED, "version is 1");
    put_four(&w, "a");
    save_as(&w, "model.gguf", 3u << 24);
    assert_refused("model.gguf", PF_UNSUPPORTED, "big-endian");
    pf_temp_write(&dir, "model.gguf", "PK\3\4 and so on, 32 bytes of it...", 32);
    assert_refused("model.gguf", PF_FORMAT, "no GGUF file");
    w.n_keys = UINT64_MAX;
    assert_save_refused(&w, PF_FORMAT, "number of keys is 18446744073709551615");
    w.n_tensors = 1u << 30;
    assert_save_refused(&w, PF_FORMAT, "number of tensors");
    gguf_put_string(&w, "twice", "a");
    gguf_put_string(&w, "twice", "b");
    assert_save_refused(&w, PF_FORMAT, "twice is there twice");
    put_four(&w, "a");
    put_four(&w, "a");
    assert_save_refused(&w, PF_FORMAT, "tensor a is there twice");
    gguf_put_int(&w, "general.alignment", PF_GGUF_U32, 24);
    put_four(&w, "a");
    assert_save_refused(&w, PF_FORMAT, "general.alignment is 24");
}

static void tensors_that_lie_are_refused(void **state)
{
    (void)state;
    static const int64_t odd[] = { 2, 33 }, none[] = { 2, 0 }, huge[] = { 1LL << 40, 1LL << 40 },
                         five[] = { 1, 1, 1, 1, 1 };
    gguf_writer w = { .n_keys = 0 };
    gguf_put_tensor(&w, "a", 77, TWO_BY_TWO, 2, FOUR, sizeof FOUR);
    assert_save_refused(&w, PF_UNSUPPORTED, "tensor a is of type 77");
    gguf_put_tensor(&w, "a", 4, TWO_BY_TWO, 2, FOUR, sizeof FOUR); /* Q4_2, which was removed */
    assert_save_refused(&w, PF_UNSUPPORTED, "tensor a is of type 4");
    gguf_put_tensor(&w, "a", PF_GGML_Q8_0, odd, 2, FOUR, sizeof FOUR);
    assert_save_refused(&w, PF_FORMAT, "rows of 33 elements");
    gguf_put_tensor(&w, "a", PF_GGML_F32, none, 2, FOUR, sizeof FOUR);
    assert_save_refused(&w, PF_FORMAT, "size 0 is 0");
    gguf_put_tensor(&w, "a", PF_GGML_F32, huge, 2, FOUR, sizeof FOUR);
    assert_save_refused(&w, PF_FORMAT, "tensor a");
    gguf_put_tensor(&w, "a", PF_GGML_F32, five, 5, FOUR, sizeof FOUR);
    assert_save_refused(&w, PF_FORMAT, "5 dimensions");
    gguf_put_tensor_at(&w, "a", PF_GGML_F32, TWO_BY_TWO, 2, FOUR, sizeof FOUR, 8);
    assert_save_refused(&w, PF_FORMAT, "offset 8, expected a multiple of 32");
    gguf_put_tensor_at(&w, "a", PF_GGML_F32, TWO_BY_TWO, 2, FOUR, sizeof FOUR, 1u << 20);
    assert_save_refused(&w, PF_FORMAT, "cut short");
    gguf_put_tensor_at(&w, "a", PF_GGML_F32, TWO_BY_TWO, 2, FOUR, sizeof FOUR, UINT64_MAX - 31);
    assert_save_refused(&w, PF_FORMAT, "cut short");
    put_four(&w, "a");
    gguf_put_tensor_at(&w, "b", PF_GGML_F32, TWO_BY_TWO, 2, FOUR, sizeof FOUR, 0);
    assert_save_refused(&w, PF_FORMAT, "overlap");
}

static void a_file_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    static const char *const words[] = { "one", "three" };
    gguf_writer w = { .n_keys = 0 };
    gguf_put_strings(&w, "words", words, 2);
    gguf_put_f32s(&w, "reals", FOUR, 4);
    gguf_put_string(&w, "text", "abc");
    put_four(&w, "a");
    put_four(&w, "b");
    pf_bytes out = { .data = NULL };
    gguf_print(&w, 3, &out);
    const size_t needed = out.n - 16; /* the padding behind the last tensor may be missing */
    for (size_t n = 0; n < out.n; n++) {
        pf_gguf *g = NULL;
        pf_error error = { 0 };
        pf_temp_write(&dir, "model.gguf", out.data, n);
        const pf_status status = pf_gguf_open(path_of("model.gguf"), &g, &error);
        if (n < needed && status != PF_FORMAT) fail_msg("%zu bytes: %s", n, pf_status_name(status));
        if (n < needed) assert_says(error, "model.gguf");
        if (n >= needed) assert_ok(status, error);
        pf_gguf_close(g);
    }
    pf_bytes_clear(&out);
    gguf_writer_clear(&w);
}

static void save_part(const char *name, int64_t number, int64_t count, int64_t n_tensors, const char *tensor)
{
    gguf_writer w = { .n_keys = 0 };
    if (number == 0) gguf_put_string(&w, "general.architecture", "llama");
    gguf_put_int(&w, "split.no", PF_GGUF_U16, number);
    gguf_put_int(&w, "split.count", PF_GGUF_U16, count);
    gguf_put_int(&w, "split.tensors.count", PF_GGUF_I32, n_tensors);
    put_four(&w, tensor);
    save_as(&w, name, 3);
}

static void parts_of_a_split_file_are_one_file(void **state)
{
    (void)state;
    save_part("m-00001-of-00002.gguf", 0, 2, 2, "a");
    save_part("m-00002-of-00002.gguf", 1, 2, 2, "b");
    pf_gguf *g = open_file("m-00001-of-00002.gguf");
    assert_int_equal(pf_gguf_n_parts(g), 2);
    assert_int_equal(pf_gguf_n_tensors(g), 2);
    assert_non_null(pf_gguf_find_tensor(g, "b"));
    assert_true(pf_gguf_has(g, "general.architecture")); /* the metadata of the first part */
    pf_gguf_close(g);
    assert_refused("m-00002-of-00002.gguf", PF_INVALID, "part 2 of 2");
}

static void parts_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    save_part("m-00001-of-00002.gguf", 0, 2, 2, "a");
    assert_refused("m-00001-of-00002.gguf", PF_UNAVAILABLE, "m-00002-of-00002.gguf");
    save_part("m-00002-of-00002.gguf", 0, 2, 2, "b");
    assert_refused("m-00001-of-00002.gguf", PF_FORMAT, "split.no");
    save_part("m-00002-of-00002.gguf", 1, 2, 2, "a");
    assert_refused("m-00001-of-00002.gguf", PF_FORMAT, "twice");
    save_part("m-00001-of-00002.gguf", 0, 2, 3, "a");
    save_part("m-00002-of-00002.gguf", 1, 2, 3, "b");
    assert_refused("m-00001-of-00002.gguf", PF_FORMAT, "split.tensors.count is 3");
    save_part("whole.gguf", 0, 2, 1, "a");
    assert_refused("whole.gguf", PF_FORMAT, "-00001-of-00002.gguf");
}

static void a_file_is_told_by_its_beginning_or_name(void **state)
{
    (void)state;
    gguf_writer w = { .n_keys = 0 };
    save_as(&w, "blob", 3);
    pf_temp_write(&dir, "other", "text", 4);
    assert_true(pf_gguf_is_file(path_of("blob")));
    assert_false(pf_gguf_is_file(path_of("other")));
    assert_true(pf_gguf_is_file(path_of("absent.gguf")));
    assert_false(pf_gguf_is_file(dir.path));
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        T(tensors_are_found_with_type_shape_and_bytes),
        T(values_are_read_by_key_from_every_type),
        T(wrong_values_are_refused_by_key),
        T(arrays_give_their_elements),
        T(headers_that_lie_are_refused),
        T(tensors_that_lie_are_refused),
        T(a_file_cut_at_any_byte_is_refused),
        T(parts_of_a_split_file_are_one_file),
        T(parts_that_do_not_fit_are_refused),
        T(a_file_is_told_by_its_beginning_or_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
