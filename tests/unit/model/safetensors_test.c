#include <stdlib.h>

#include "model/files/safetensors.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

static pf_temp_dir dir;

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

/* Writes a file with this header and data bytes 0, 1, 2, ...; header_bytes: the value of its length field, 0 for the right one. */
static void write_file(const char *name, const char *header, size_t data_bytes, uint64_t header_bytes)
{
    const size_t n = strlen(header);
    uint8_t *file = malloc(8 + n + data_bytes);
    assert_non_null(file);
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((header_bytes ? header_bytes : n) >> (8 * i));
    memcpy(file + 8, header, n);
    for (size_t i = 0; i < data_bytes; i++) file[8 + n + i] = (uint8_t)i;
    pf_temp_write(&dir, name, file, 8 + n + data_bytes);
    free(file);
}

static void write_text(const char *name, const char *text)
{
    pf_temp_write(&dir, name, text, strlen(text));
}

static void assert_open_fails(pf_status status, const char *part)
{
    pf_safetensors *set = (pf_safetensors *)&dir;
    pf_error error = { 0 };
    assert_status(pf_safetensors_open(dir.path, NULL, &set, &error), status);
    assert_says(error, part);
    assert_ptr_equal(set, &dir); /* untouched */
}

static pf_safetensors *open_set(void)
{
    pf_safetensors *set = NULL;
    pf_error error = { 0 };
    assert_ok(pf_safetensors_open(dir.path, NULL, &set, &error), error);
    return set;
}

#define T(name, dtype, shape, range) \
    "\"" name "\": {\"dtype\": \"" dtype "\", \"shape\": " shape ", \"data_offsets\": " range "}"

static void tensors_are_found_with_type_shape_and_bytes(void **state)
{
    (void)state;
    write_file("model.safetensors",
               "{\"__metadata__\": {\"format\": \"pt\"}," T("b", "BF16", "[3, 2]", "[4, 16]") "," /* any order */
               T("a", "F32", "[1]", "[0, 4]") "," T("c", "F16", "[0, 7]", "[16, 16]") "," T("scalar", "F32", "[]",
                                                                                            "[16, 20]") "}   ",
               20, 0);
    pf_safetensors *set = open_set();
    pf_error error = { 0 };
    pf_tensor t;
    assert_int_equal(pf_safetensors_count(set), 4);
    assert_string_equal(pf_safetensors_name(set, 0), "b");
    assert_ok(pf_safetensors_find(set, "b", &t, &error), error);
    assert_int_equal(t.type, PF_TYPE_BF16);
    assert_int_equal(t.n_dimensions, 2);
    assert_int_equal(t.shape[0], 3);
    assert_int_equal(t.shape[1], 2);
    assert_int_equal(t.data_bytes, 12);
    assert_int_equal(t.data[0], 4);
    assert_int_equal(t.data[11], 15);
    assert_ok(pf_safetensors_find(set, "c", &t, &error), error);
    assert_int_equal(t.data_bytes, 0);
    assert_ok(pf_safetensors_find(set, "scalar", &t, &error), error);
    assert_int_equal(t.n_dimensions, 0);
    assert_status(pf_safetensors_find(set, "d", &t, &error), PF_UNAVAILABLE);
    assert_says(error, "d");
    pf_safetensors_close(set);
}

static void an_unsupported_type_is_refused_when_the_tensor_is_read(void **state)
{
    (void)state;
    write_file("model.safetensors", "{" T("i", "I64", "[2]", "[0, 16]") "," T("f", "F32", "[1]", "[16, 20]") "}", 20,
               0);
    pf_safetensors *set = open_set();
    pf_error error = { 0 };
    pf_tensor t;
    assert_ok(pf_safetensors_find(set, "f", &t, &error), error);
    assert_status(pf_safetensors_find(set, "i", &t, &error), PF_UNSUPPORTED);
    assert_says(error, "I64");
    pf_safetensors_close(set);
}

static void an_unread_tensor_may_have_any_type_of_the_format(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int eight_take;
    } types[] = { { "F64", 64 },        { "C64", 64 },    { "F8_E4M3", 8 }, { "F8_E5M2", 8 }, { "F8_E4M3FNUZ", 8 },
                  { "F8_E5M2FNUZ", 8 }, { "F8_E8M0", 8 }, { "F6_E2M3", 6 }, { "F6_E3M2", 6 }, { "F4", 4 } };
    for (size_t i = 0; i < PF_COUNT(types); i++) {
        char header[256];
        snprintf(header, sizeof header, "{" T("odd", "%s", "[8]", "[0, %d]") "}", types[i].name, types[i].eight_take);
        write_file("model.safetensors", header, (size_t)types[i].eight_take, 0);
        pf_safetensors_close(open_set());
    }
}

static void bytes_are_found_by_their_element_type(void **state)
{
    (void)state;
    pf_tensor t;
    pf_error error = { 0 };
    write_file("model.safetensors", "{" T("a", "I8", "[2,2]", "[0,4]") ", " T("b", "U8", "[3]", "[4,7]") "}", 7, 0);
    pf_safetensors *set = open_set();
    assert_ok(pf_safetensors_find_bytes(set, "b", "U8", &t, &error), error);
    assert_int_equal(t.data_bytes, 3);
    assert_int_equal(t.data[2], 6);
    assert_status(pf_safetensors_find_bytes(set, "a", "U8", &t, &error), PF_FORMAT);
    assert_says(error, "tensor a: elements of type I8, expected U8");
    assert_status(pf_safetensors_find_bytes(set, "c", "U8", &t, &error), PF_UNAVAILABLE);
    pf_safetensors_close(set);
}

static void an_inconsistent_header_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header, *part;
        uint64_t header_bytes;
    } cases[] = {
        { "{" T("a", "F32", "[1]", "[0, 8]") "}", "takes 4 bytes", 0 },
        { "{" T("a", "F32", "[3]", "[0, 12]") "}", "in the 8 bytes of data", 0 },
        { "{" T("a", "F32", "[2]", "[-8, 0]") "}", "data_offsets", 0 },
        { "{" T("a", "F32", "[2]", "[8, 0]") "}", "data_offsets", 0 },
        { "{" T("a", "F32", "[2]", "[0]") "}", "[begin, end]", 0 },
        { "{" T("a", "F32", "[1]", "[0, 4]") "}", "4 bytes follow", 0 },
        { "{" T("a", "F32", "[1]", "[4, 8]") "}", "bytes of no tensor", 0 },
        { "{" T("a", "F32", "[2]", "[0, 8]") "," T("b", "F32", "[1]", "[4, 8]") "}", "overlaps", 0 },
        { "{" T("a", "F32", "[1]", "[0, 4]") "," T("a", "F32", "[1]", "[4, 8]") "}", "bytes of no tensor", 0 },
        { "{" T("a", "F32", "[4611686018427387904, 2]", "[0, 8]") "}", "shape", 0 },
        { "{" T("a", "F32", "[9223372036854775807, 0]", "[0, 8]") "}", "shape", 0 },
        { "{" T("a", "F32", "[-1]", "[0, 8]") "}", "shape[0]", 0 },
        { "{" T("a", "F32", "[1,1,1,1,1,1,1,1,2]", "[0, 8]") "}", "shape", 0 },
        { "{" T("a", "Q4", "[2]", "[0, 8]") "}", "Q4", 0 },
        { "{" T("a", "F4", "[3]", "[0, 8]") "}", "shape", 0 },
        { "{\"a\": 3}", "object", 0 },
        { "{\"a\": {}}", "dtype", 0 },
        { "[]", "object", 0 },
        { "not JSON", "line 1", 0 },
        { "{}", "cut short", 1000 },
        { "{}", "header's length", UINT64_MAX },
        { "{}", "8 bytes follow the last tensor", 0 },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        write_file("model.safetensors", cases[i].header, 8, cases[i].header_bytes);
        assert_open_fails(PF_FORMAT, cases[i].part);
    }
    write_text("model.safetensors", "1234567");
    assert_open_fails(PF_FORMAT, "cut short");
    write_text("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n");
    assert_open_fails(PF_FORMAT, "is a pointer of Git LFS, expected");
    write_text("model.safetensors", "");
    assert_open_fails(PF_FORMAT, "cut short");
}

static void shards_are_one_set(void **state)
{
    (void)state;
    write_file("one.safetensors", "{" T("x", "F32", "[1]", "[0, 4]") "," T("y", "F32", "[1]", "[4, 8]") "}", 8, 0);
    write_file("two.safetensors", "{" T("z", "F16", "[1]", "[0, 2]") "}", 2, 0);
    write_text("model.safetensors.index.json",
               "{\"metadata\": {\"total_size\": 10}, \"weight_map\": {\"x\": \"one.safetensors\","
               "\"z\": \"two.safetensors\", \"y\": \"one.safetensors\"}}");
    pf_safetensors *set = open_set();
    pf_error error = { 0 };
    pf_tensor t;
    assert_int_equal(pf_safetensors_count(set), 3);
    assert_string_equal(pf_safetensors_name(set, 2), "z");
    assert_ok(pf_safetensors_find(set, "z", &t, &error), error);
    assert_int_equal(t.type, PF_TYPE_F16);
    assert_ok(pf_safetensors_find(set, "y", &t, &error), error);
    assert_int_equal(t.data[0], 4);
    pf_safetensors_close(set);
}

static void an_index_may_name_files_in_folders_below_it(void **state)
{
    (void)state;
    write_file("one", "{" T("x", "F32", "[1]", "[0, 4]") "}", 4, 0);
    write_file("a/..b/two", "{" T("y", "F32", "[1]", "[0, 4]") "}", 4, 0);
    write_text("model.safetensors.index.json", "{\"weight_map\": {\"x\": \"./one\", \"y\": \"a//..b/two\"}}");
    pf_safetensors *set = open_set();
    pf_error error = { 0 };
    pf_tensor t;
    assert_ok(pf_safetensors_find(set, "x", &t, &error), error);
    assert_ok(pf_safetensors_find(set, "y", &t, &error), error);
    assert_ok(pf_safetensors_check(set, &error), error);
    pf_safetensors_close(set);
}

static void an_index_may_name_tensors_that_no_file_has(void **state)
{
    (void)state;
    write_file("one", "{" T("x", "F32", "[1]", "[0, 4]") "}", 4, 0);
    write_text("model.safetensors.index.json", "{\"weight_map\": {\"x\": \"one\", \"q\": \"one\"}}");
    pf_safetensors *set = open_set();
    pf_error error = { 0 };
    pf_tensor t;
    assert_int_equal(pf_safetensors_count(set), 1);
    assert_ok(pf_safetensors_find(set, "x", &t, &error), error);
    assert_status(pf_safetensors_find(set, "q", &t, &error), PF_UNAVAILABLE);
    pf_safetensors_close(set);
}

static void an_invalid_index_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *map, *part;
        pf_status status;
    } cases[] = {
        { "{\"x\": \"one\", \"q\": \"copy\"}", "both in one and in copy", PF_FORMAT },
        { "{\"x\": \"../one\"}", "name of a file", PF_FORMAT },
        { "{\"x\": \"/etc/passwd\"}", "name of a file", PF_FORMAT },
        { "{\"x\": \"..\"}", "name of a file", PF_FORMAT },
        { "{\"x\": \"a/../one\"}", "name of a file", PF_FORMAT },
        { "{\"x\": \"a//..\"}", "name of a file", PF_FORMAT },
        { "{\"x\": \"a/\"}", "tensor x: a/ is not there", PF_UNAVAILABLE },
        { "{\"x\": \".\"}", "is a directory", PF_INVALID },
        { "{\"x\": \"\"}", "name of a file", PF_FORMAT },
        { "{\"x\": \"one\\u0000\"}", "name of a file", PF_FORMAT },
        { "{\"x\": 1}", "name of a file", PF_FORMAT },
        { "{}", "weight_map", PF_FORMAT },
        { "7", "weight_map", PF_FORMAT },
        { "{\"x\": \"gone\"}", "tensor x: gone is not there", PF_UNAVAILABLE },
        { "{\"x\": \"one\", \"q\": \"gone\"}", "tensor q: gone is not there, nor is the tensor in another file",
          PF_UNAVAILABLE },
    };
    static const char one[] = "{" T("x", "F32", "[1]", "[0, 4]") "," T("y", "F32", "[1]", "[4, 8]") "}";
    write_file("one", one, 8, 0);
    write_file("copy", one, 8, 0);
    write_file("two", "{" T("z", "F16", "[1]", "[0, 2]") "}", 2, 0);
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"weight_map\": %s}", cases[i].map);
        write_text("model.safetensors.index.json", text);
        assert_open_fails(cases[i].status, cases[i].part);
    }
}

typedef struct {
    char text[512];
    int n;
} warnings;

static void note_warning(void *user, const char *sentence)
{
    warnings *w = user;
    w->n++;
    snprintf(w->text, sizeof w->text, "%s", sentence);
}

/* Opens the directory and expects one warning with `part`; a strict open is refused with the same sentence. */
static pf_safetensors *open_with_warning(const char *part)
{
    warnings w = { .n = 0 };
    pf_safetensors *set = NULL;
    pf_error error = { 0 };
    const pf_load_policy lenient = { .warn = note_warning, .warn_user = &w }, strict = { .strict = true };
    assert_status(pf_safetensors_open(dir.path, &strict, &set, &error), PF_UNSUPPORTED);
    assert_says(error, part);
    assert_ok(pf_safetensors_open(dir.path, &lenient, &set, &error), error);
    assert_int_equal(w.n, 1);
    if (!strstr(w.text, part)) fail_msg("warning without \"%s\": %s", part, w.text);
    return set;
}

/* The bytes of each file count from zero, and x is at another offset in the second file. */
static void the_index_selects_among_copies_of_a_tensor(void **state)
{
    (void)state;
    write_file("one", "{" T("x", "F32", "[1]", "[0, 4]") "," T("y", "F32", "[1]", "[4, 8]") "}", 8, 0);
    write_file("overlay", "{" T("z", "F32", "[2]", "[0, 8]") "," T("x", "F32", "[1]", "[8, 12]") "}", 12, 0);
    static const struct {
        const char *map;
        int first_byte;
    } cases[] = {
        { "{\"x\": \"overlay\", \"y\": \"one\", \"z\": \"overlay\"}", 8 },
        { "{\"x\": \"one\", \"y\": \"one\", \"z\": \"overlay\"}", 0 },
        { "{\"z\": \"overlay\", \"y\": \"one\", \"x\": \"overlay\"}", 8 },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        char text[256];
        pf_error error = { 0 };
        pf_tensor t;
        warnings w = { .n = 0 };
        pf_safetensors *set = NULL;
        const pf_load_policy policy = { .strict = true, .warn = note_warning, .warn_user = &w };
        snprintf(text, sizeof text, "{\"weight_map\": %s}", cases[i].map);
        write_text("model.safetensors.index.json", text);
        assert_ok(pf_safetensors_open(dir.path, &policy, &set, &error), error);
        assert_int_equal(w.n, 0);
        assert_int_equal(pf_safetensors_count(set), 3);
        assert_ok(pf_safetensors_find(set, "x", &t, &error), error);
        assert_int_equal(t.data[0], cases[i].first_byte);
        assert_ok(pf_safetensors_find(set, "y", &t, &error), error);
        assert_ok(pf_safetensors_find(set, "z", &t, &error), error);
        pf_safetensors_close(set);
    }
}

static void a_misplaced_tensor_is_read_from_the_shard_that_holds_it(void **state)
{
    (void)state;
    pf_error error = { 0 };
    pf_tensor t;
    write_file("one", "{" T("x", "F32", "[1]", "[0, 4]") "," T("y", "F32", "[1]", "[4, 8]") "}", 8, 0);
    write_file("two", "{" T("z", "F16", "[1]", "[0, 2]") "}", 2, 0);
    write_text("model.safetensors.index.json", "{\"weight_map\": {\"y\": \"one\", \"x\": \"two\", \"z\": \"one\"}}");
    pf_safetensors *set =
        open_with_warning("2 of its tensors are not in the file that weight_map names: x is in one, not in two");
    assert_ok(pf_safetensors_find(set, "x", &t, &error), error);
    assert_int_equal(t.data[0], 0);
    assert_ok(pf_safetensors_find(set, "z", &t, &error), error);
    assert_int_equal(t.type, PF_TYPE_F16);
    pf_safetensors_close(set);
}

static void a_tensor_of_an_absent_shard_is_read_from_another_that_holds_it(void **state)
{
    (void)state;
    pf_error error = { 0 };
    pf_tensor t;
    write_file("one", "{" T("x", "F32", "[1]", "[0, 4]") "," T("y", "F32", "[1]", "[4, 8]") "}", 8, 0);
    write_text("model.safetensors.index.json", "{\"weight_map\": {\"y\": \"gone\", \"x\": \"one\"}}");
    pf_safetensors *set =
        open_with_warning("1 of its tensors is not in the file that weight_map names: y is in one, not in gone");
    assert_ok(pf_safetensors_find(set, "y", &t, &error), error);
    assert_int_equal(t.data[0], 4);
    assert_ok(pf_safetensors_check(set, &error), error);
    pf_safetensors_close(set);
}

static void shards_without_an_index_are_one_set(void **state)
{
    (void)state;
    pf_error error = { 0 };
    pf_tensor t;
    write_file("model-00001-of-00002.safetensors", "{" T("x", "F32", "[1]", "[0, 4]") "}", 4, 0);
    assert_open_fails(PF_UNAVAILABLE, "of 2 shards number 2 is not there");
    write_file("model-00002-of-00002.safetensors", "{" T("z", "F16", "[1]", "[0, 2]") "}", 2, 0);
    pf_safetensors *set = open_with_warning("all 2 shards are read without it");
    assert_int_equal(pf_safetensors_count(set), 2);
    assert_ok(pf_safetensors_find(set, "z", &t, &error), error);
    pf_safetensors_close(set);
    write_file("model-00002-of-00002.safetensors", "{" T("x", "F16", "[1]", "[0, 2]") "}", 2, 0);
    assert_open_fails(PF_FORMAT, "tensor x is both in model-00001-of-00002.safetensors and in");
}

static void missing_shards_are_named(void **state)
{
    (void)state;
    write_file("model-00002-of-00003.safetensors", "{" T("x", "F32", "[1]", "[0, 4]") "}", 4, 0);
    assert_open_fails(PF_UNAVAILABLE, "of 3 shards number 1 is not there");
    write_file("model-00001-of-00003.safetensors", "{" T("y", "F32", "[1]", "[0, 4]") "}", 4, 0);
    assert_open_fails(PF_UNAVAILABLE, "of 3 shards number 3 is not there");
    write_file("other.safetensors", "{" T("z", "F32", "[1]", "[0, 4]") "}", 4, 0);
    assert_open_fails(PF_FORMAT, "are not shards of one model");
}

static void one_file_of_another_name_is_read(void **state)
{
    (void)state;
    write_file("model.fp16.safetensors", "{" T("x", "F32", "[1]", "[0, 4]") "}", 4, 0);
    write_text("adapter_model.safetensors", "");
    pf_safetensors_close(open_with_warning("there is no model.safetensors: model.fp16.safetensors is read"));
}

static void a_directory_without_weights_is_refused_with_its_contents_and_the_remedy(void **state)
{
    (void)state;
    static const struct {
        const char *name, *part;
        pf_status status;
    } cases[] = {
        { "pytorch_model.bin", "pytorch_model.bin is PyTorch's format", PF_UNSUPPORTED },
        { "pytorch_model-00001-of-00002.bin", "save_pretrained", PF_UNSUPPORTED },
        { "llama-q4.gguf", "llama-q4.gguf is GGUF", PF_UNSUPPORTED },
        { "adapter_config.json", "LoRA adapter", PF_UNSUPPORTED },
        { "adapter_model.safetensors", "merge_and_unload", PF_UNSUPPORTED },
        { "consolidated.00.pth", "convert_llama_weights_to_hf.py", PF_UNSUPPORTED },
        { "consolidated.safetensors", "consolidated.safetensors", PF_UNSUPPORTED },
        { "model.onnx", "model.onnx is ONNX", PF_UNSUPPORTED },
        { "onnx/model.onnx", "is a folder for ONNX", PF_UNSUPPORTED },
        { "tf_model.h5", "from_tf=True", PF_UNSUPPORTED },
        { "flax_model.msgpack", "from_flax=True", PF_UNSUPPORTED },
        { "checkpoint.pt", "checkpoint.pt is PyTorch's format", PF_UNSUPPORTED },
        { "weights.npz", "weights.npz is", PF_UNSUPPORTED },
        { "tokenizer.model", "holds a tokenizer and no weights (tokenizer.model)", PF_UNAVAILABLE },
        { "checkpoint-500/config.json", "the folder checkpoint-500", PF_UNAVAILABLE },
        { "snapshots/abc/config.json", "Hugging Face cache", PF_UNAVAILABLE },
        { "model.safetensors.incomplete", "download the model again", PF_UNAVAILABLE },
        { "README.md", "it holds README.md", PF_UNAVAILABLE },
    };
    assert_open_fails(PF_UNAVAILABLE, "model.safetensors.index.json; the directory is empty");
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        write_text(cases[i].name, "x");
        assert_open_fails(cases[i].status, cases[i].part);
        pf_temp_dir_remove(&dir);
        pf_temp_dir_make(&dir);
    }
    for (int i = 0; i < 9; i++) write_text((char[]){ 'f', (char)('1' + i), '\0' }, "x");
    assert_open_fails(PF_UNAVAILABLE, "it holds f1, f2, f3, f4, f5, ...");
    pf_safetensors_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tensors_are_found_with_type_shape_and_bytes, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(an_unsupported_type_is_refused_when_the_tensor_is_read, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(an_unread_tensor_may_have_any_type_of_the_format, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(bytes_are_found_by_their_element_type, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(an_inconsistent_header_is_refused, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(shards_are_one_set, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(an_index_may_name_files_in_folders_below_it, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(an_index_may_name_tensors_that_no_file_has, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(an_invalid_index_is_refused, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(the_index_selects_among_copies_of_a_tensor, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_misplaced_tensor_is_read_from_the_shard_that_holds_it, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_tensor_of_an_absent_shard_is_read_from_another_that_holds_it, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(shards_without_an_index_are_one_set, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(missing_shards_are_named, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(one_file_of_another_name_is_read, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_directory_without_weights_is_refused_with_its_contents_and_the_remedy,
                                        make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
