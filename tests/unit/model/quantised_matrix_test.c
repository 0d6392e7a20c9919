/* A matrix that another program quantised is read as the numbers that its format defines, or is refused by name. */
#include "model/files/quantised_matrix.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/types.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

enum { ROWS = 16, COLUMNS = 64, MAX_BYTES = 1 << 14, MAX_TENSORS = 12, MAX_GROUPS = 66 };

/* ---- a file with the parts of one matrix, "x" ---- */

typedef struct {
    char name[64], dtype[16], shape[48];
    uint8_t data[MAX_BYTES];
    size_t bytes;
} part;

typedef struct {
    part parts[MAX_TENSORS];
    size_t n;
} parts;

static pf_temp_dir dir;
static parts file;
static int32_t n_columns = COLUMNS; /* of the matrix that is looked for */

static int make_dir(void **state)
{
    (void)state;
    pf_temp_dir_make(&dir);
    memset(&file, 0, sizeof file);
    n_columns = COLUMNS;
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    pf_temp_dir_remove(&dir);
    return 0;
}

static part *part_of(const char *name)
{
    for (size_t i = 0; i < file.n; i++)
        if (strcmp(file.parts[i].name, name) == 0) return &file.parts[i];
    fail_msg("no part %s", name);
    abort();
}

static uint8_t *add(const char *name, const char *dtype, const char *shape, size_t bytes)
{
    assert_true(file.n < MAX_TENSORS && bytes <= MAX_BYTES);
    part *p = &file.parts[file.n++];
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->dtype, sizeof p->dtype, "%s", dtype);
    snprintf(p->shape, sizeof p->shape, "%s", shape);
    p->bytes = bytes;
    return p->data;
}

static void drop(const char *name)
{
    part *p = part_of(name);
    memmove(p, p + 1, (size_t)(&file.parts[file.n] - (p + 1)) * sizeof *p);
    file.n--;
}

static void write_file(void)
{
    static uint8_t bytes[MAX_TENSORS * MAX_BYTES];
    char header[4096] = "{";
    size_t at = 0;
    for (size_t i = 0; i < file.n; i++) {
        const part *p = &file.parts[i];
        const size_t used = strlen(header);
        snprintf(header + used, sizeof header - used,
                 "%s\"x.%s\": {\"dtype\": \"%s\", \"shape\": %s, \"data_offsets\": [%zu, %zu]}", i ? "," : "", p->name,
                 p->dtype, p->shape, at, at + p->bytes);
        at += p->bytes;
    }
    strcat(header, "}");
    const uint64_t n = strlen(header);
    size_t total = sizeof n;
    memcpy(bytes, &n, sizeof n);
    memcpy(bytes + total, header, n);
    total += n;
    for (size_t i = 0; i < file.n; i++) {
        memcpy(bytes + total, file.parts[i].data, file.parts[i].bytes);
        total += file.parts[i].bytes;
    }
    pf_temp_write(&dir, "model.safetensors", bytes, total);
}

/* ---- reading it ---- */

typedef struct {
    pf_tensor_source source;
    pf_quantised_place place;
    pf_quantised_matrix matrix;
} opened;

static pf_status open_matrix(const pf_quantization *q, opened *o, pf_error *error)
{
    write_file();
    assert_ok(pf_tensor_source_open(dir.path, NULL, &o->source, error), *error);
    o->place = (pf_quantised_place){
        .files = &o->source, .quantization = q, .path = "DIR", .stem = "x", .n_rows = ROWS, .n_columns = n_columns
    };
    PF_TRY(pf_quantised_find(&o->place, &o->matrix, error));
    return o->matrix.n_groups > 0 ? pf_quantised_check(&o->place, &o->matrix, error) : PF_OK;
}

static float values[ROWS][COLUMNS];

static int n_exact; /* matrices of a test that have groups */

/* Where a matrix has groups of the kernels, they stand for the numbers of its rows, bit for bit. */
static void check_groups(const pf_quantised_matrix *m)
{
    pf_group_format f;
    pf_group_piece p;
    if (!pf_quantised_exact_format(m, &f)) return;
    n_exact++;
    for (int32_t row = 0; row < ROWS; row++) {
        pf_quantised_fill(m, &f, (pf_quantised_span){ row, 0, COLUMNS }, &p);
        for (int32_t k = 0; k < COLUMNS; k++) {
            const int32_t g = pf_group_of(&f, k);
            const float zero = f.offset == PF_GROUP_ZERO ? p.offset[g] : f.bits == 4 ? 8.0f : 0.0f;
            const float x = p.scale[g] * ((float)p.q[k] - zero);
            assert_in_range(p.q[k] + 128, f.bits == 4 ? 128 : 0, f.bits == 4 ? 143 : 255);
            assert_memory_equal(&x, &values[row][k], sizeof x);
        }
    }
}

static void read_all(const pf_quantization *q)
{
    float scratch[2 * MAX_GROUPS];
    pf_error error = { 0 };
    opened o;
    assert_ok(open_matrix(q, &o, &error), error);
    assert_in_range(o.matrix.n_groups, 1, MAX_GROUPS);
    for (int32_t row = 0; row < ROWS; row++) pf_quantised_row(&o.matrix, row, values[row], scratch);
    n_exact = 0;
    check_groups(&o.matrix);
    pf_tensor_source_close(&o.source);
}

static void assert_refused(const pf_quantization *q, pf_status status, const char *says)
{
    pf_error error = { 0 };
    opened o;
    assert_status(open_matrix(q, &o, &error), status);
    assert_says(error, says);
    pf_tensor_source_close(&o.source);
}

/* ---- numbers of the tests ---- */

static uint32_t q_of(int32_t n, int32_t k)
{
    return (uint32_t)(3 * k + 5 * n + k / 7) % 16;
}

static uint32_t zero_of(int32_t n, int32_t g)
{
    return (uint32_t)(n + 3 * g) % 16;
}

/* Exact in F16 and BF16. */
static float scale_of(int32_t n, int32_t g)
{
    return (float)(1 + n) * 0.0625f + (float)g * 4.0f;
}

static float expected(int32_t n, int32_t k, int32_t g)
{
    return scale_of(n, g) * ((float)q_of(n, k) - (float)zero_of(n, g));
}

static void put_word(uint8_t *data, int32_t i, uint32_t word)
{
    memcpy(data + 4 * i, &word, sizeof word);
}

static uint32_t get_word(const uint8_t *data, int32_t i)
{
    uint32_t word;
    memcpy(&word, data + 4 * i, sizeof word);
    return word;
}

static void put_bits(uint8_t *data, int32_t i, int32_t bit, uint32_t value)
{
    put_word(data, i, get_word(data, i) | value << bit);
}

static void put_half(uint8_t *data, int32_t i, float value)
{
    const uint16_t half = pf_f16_from_f32(value);
    memcpy(data + 2 * i, &half, sizeof half);
}

static void put_float(uint8_t *data, int32_t i, float value)
{
    memcpy(data + 4 * i, &value, sizeof value);
}

/* ---- GPTQ ---- */

static pf_quantization gptq(bool less_one)
{
    return (pf_quantization){
        .scheme = PF_SCHEME_GPTQ, .widths = 1 << 4, .group = 32, .zeros_less_one = less_one, .words = "GPTQ"
    };
}

static void add_gptq(bool less_one)
{
    uint8_t *q = add("qweight", "I32", "[8, 16]", 8 * 16 * 4), *z = add("qzeros", "I32", "[2, 2]", 2 * 2 * 4);
    uint8_t *s = add("scales", "F16", "[2, 16]", 2 * 16 * 2);
    for (int32_t n = 0; n < ROWS; n++)
        for (int32_t k = 0; k < COLUMNS; k++) put_bits(q, k / 8 * ROWS + n, k % 8 * 4, q_of(n, k));
    for (int32_t g = 0; g < 2; g++)
        for (int32_t n = 0; n < ROWS; n++) {
            put_bits(z, g * 2 + n / 8, n % 8 * 4, zero_of(n, g));
            put_half(s, g * ROWS + n, scale_of(n, g));
        }
    for (int32_t i = 0; less_one && i < 4; i++) put_word(z, i, get_word(z, i) - 0x11111111u);
}

/* Zero points of 0 are among them: less one each, they borrow from their neighbours. */
static void gptq_stores_words_of_zero_points_less_one(void **state)
{
    (void)state;
    const pf_quantization q = gptq(true);
    add_gptq(true);
    read_all(&q);
    for (int32_t n = 0; n < ROWS; n++)
        for (int32_t k = 0; k < COLUMNS; k++) assert_true(values[n][k] == expected(n, k, k / 32));
    assert_int_equal(n_exact, 1);
}

static void gptq_v2_stores_zero_points_as_they_are(void **state)
{
    (void)state;
    const pf_quantization q = gptq(false);
    add_gptq(false);
    read_all(&q);
    for (int32_t n = 0; n < ROWS; n++)
        for (int32_t k = 0; k < COLUMNS; k++) assert_true(values[n][k] == expected(n, k, k / 32));
}

static uint8_t *add_index(const char *name)
{
    uint8_t *index = add(name, "I32", "[64]", 64 * 4);
    for (int32_t k = 0; k < COLUMNS; k++) put_word(index, k, (uint32_t)(k * 5 % 7 % 2));
    return index;
}

static void gptq_index_gives_each_column_its_group(void **state)
{
    (void)state;
    const pf_quantization q = gptq(true);
    add_gptq(true);
    add_index("g_idx");
    read_all(&q);
    for (int32_t n = 0; n < ROWS; n++)
        for (int32_t k = 0; k < COLUMNS; k++) assert_true(values[n][k] == expected(n, k, k * 5 % 7 % 2));
    assert_int_equal(n_exact, 0);
}

static void group_of_an_index_must_exist(void **state)
{
    (void)state;
    const pf_quantization q = gptq(true);
    add_gptq(true);
    uint8_t *index = add_index("g_idx");
    put_word(index, 63, 2);
    assert_refused(&q, PF_FORMAT, "\"x.g_idx\" gives column 63 group 2, expected 0 to 1");
    put_word(index, 63, UINT32_MAX);
    assert_refused(&q, PF_FORMAT, "\"x.g_idx\" gives column 63 group -1");
}

static void scales_must_be_finite(void **state)
{
    (void)state;
    const pf_quantization q = gptq(true);
    add_gptq(true);
    put_half(part_of("scales")->data, 31, INFINITY);
    assert_refused(&q, PF_FORMAT, "\"x.scales\" has a scale that is not finite");
}

/* Changes the shape of a part to [1, 1, n], then its type to F64, then drops it if the matrix needs it. */
static void check_part(const pf_quantization *q, const char *name, bool is_needed)
{
    const parts whole = file;
    char named[80];
    part *p = part_of(name);
    const size_t size = strcmp(p->dtype, "F16") == 0 ? 2 : 4;
    snprintf(named, sizeof named, "x.%s", name);
    snprintf(p->shape, sizeof p->shape, "[1, 1, %zu]", p->bytes / size);
    assert_refused(q, PF_FORMAT, named);
    snprintf(p->dtype, sizeof p->dtype, "F64");
    snprintf(p->shape, sizeof p->shape, "[%zu]", p->bytes / 8);
    assert_refused(q, size == 2 ? PF_UNSUPPORTED : PF_FORMAT, named);
    file = whole;
    if (!is_needed) return;
    drop(name);
    assert_refused(q, PF_FORMAT, named);
    file = whole;
}

static void gptq_parts_have_their_shapes_and_types(void **state)
{
    (void)state;
    const pf_quantization q = gptq(true);
    add_gptq(true);
    add_index("g_idx");
    check_part(&q, "qweight", false); /* without it the matrix is not quantised */
    check_part(&q, "qzeros", true);
    check_part(&q, "scales", true);
    check_part(&q, "g_idx", false);
}

/* A file whose modules vary: the shapes tell bits and groups. */
static void shapes_tell_bits_and_groups_where_modules_vary(void **state)
{
    (void)state;
    pf_quantization q = gptq(true);
    add_gptq(true);
    q.group = 128;
    assert_refused(&q, PF_FORMAT, "\"x.scales\" has shape [2, 16], quantization_config makes it [1, 16]");
    q.widths = 1 << 8;
    assert_refused(&q, PF_FORMAT, "\"x.qweight\" has shape [8, 16], quantization_config makes it [16, 16]");
    q.widths = 1 << 2 | 1 << 4 | 1 << 8;
    q.varies = true;
    read_all(&q);
    assert_true(values[5][40] == expected(5, 40, 1));
}

/* ---- AWQ ---- */

static const pf_quantization AWQ = { .scheme = PF_SCHEME_AWQ, .widths = 1 << 4, .group = 32, .words = "AWQ" };

static void add_awq(void)
{
    static const int32_t order[8] = { 0, 2, 4, 6, 1, 3, 5, 7 };
    uint8_t *q = add("qweight", "I32", "[64, 2]", 64 * 2 * 4), *z = add("qzeros", "I32", "[2, 2]", 2 * 2 * 4);
    uint8_t *s = add("scales", "F16", "[2, 16]", 2 * 16 * 2);
    for (int32_t word = 0; word < ROWS / 8; word++)
        for (int32_t nibble = 0; nibble < 8; nibble++) {
            const int32_t n = word * 8 + order[nibble];
            for (int32_t k = 0; k < COLUMNS; k++) put_bits(q, k * 2 + word, nibble * 4, q_of(n, k));
            for (int32_t g = 0; g < 2; g++) put_bits(z, g * 2 + word, nibble * 4, zero_of(n, g));
        }
    for (int32_t n = 0; n < ROWS; n++)
        for (int32_t g = 0; g < 2; g++) put_half(s, g * ROWS + n, scale_of(n, g));
}

static void awq_interleaves_the_rows_of_a_word(void **state)
{
    (void)state;
    add_awq();
    read_all(&AWQ);
    for (int32_t n = 0; n < ROWS; n++)
        for (int32_t k = 0; k < COLUMNS; k++) assert_true(values[n][k] == expected(n, k, k / 32));
    assert_int_equal(n_exact, 1);
}

static void awq_parts_have_their_shapes_and_types(void **state)
{
    (void)state;
    add_awq();
    check_part(&AWQ, "qweight", false);
    check_part(&AWQ, "qzeros", true);
    check_part(&AWQ, "scales", true);
}

/* ---- compressed-tensors and FP8 ---- */

static const pf_quantization SCALED = {
    .scheme = PF_SCHEME_SCALED, .widths = 1 << 4 | 1 << 8, .group = 32, .words = "compressed-tensors"
};

static void add_packed(void)
{
    uint8_t *q = add("weight_packed", "I32", "[16, 8]", 16 * 8 * 4);
    uint8_t *s = add("weight_scale", "F16", "[16, 2]", 16 * 2 * 2);
    uint8_t *z = add("weight_zero_point", "I32", "[2, 2]", 2 * 2 * 4);
    const int64_t shape[] = { ROWS, COLUMNS };
    memcpy(add("weight_shape", "I64", "[2]", sizeof shape), shape, sizeof shape);
    for (int32_t n = 0; n < ROWS; n++) {
        for (int32_t k = 0; k < COLUMNS; k++) put_bits(q, n * 8 + k / 8, k % 8 * 4, q_of(n, k));
        for (int32_t g = 0; g < 2; g++) {
            put_bits(z, n / 8 * 2 + g, n % 8 * 4, zero_of(n, g));
            put_half(s, n * 2 + g, scale_of(n, g));
        }
    }
}

static void packed_values_and_zero_points_count_from_the_middle(void **state)
{
    (void)state;
    add_packed();
    read_all(&SCALED);
    for (int32_t n = 0; n < ROWS; n++)
        for (int32_t k = 0; k < COLUMNS; k++) assert_true(values[n][k] == expected(n, k, k / 32));
    drop("weight_zero_point");
    read_all(&SCALED);
    for (int32_t n = 0; n < ROWS; n++)
        for (int32_t k = 0; k < COLUMNS; k++)
            assert_true(values[n][k] == scale_of(n, k / 32) * ((float)q_of(n, k) - 8.0f));
    assert_int_equal(n_exact, 1);
}

static void packed_index_with_minus_one_gives_no_order(void **state)
{
    (void)state;
    add_packed();
    uint8_t *index = add_index("weight_g_idx");
    read_all(&SCALED);
    for (int32_t k = 0; k < COLUMNS; k++) assert_true(values[9][k] == expected(9, k, k * 5 % 7 % 2));
    put_word(index, 3, UINT32_MAX);
    read_all(&SCALED);
    for (int32_t k = 0; k < COLUMNS; k++) assert_true(values[9][k] == expected(9, k, k / 32));
}

static void packed_parts_have_their_shapes_and_types(void **state)
{
    (void)state;
    add_packed();
    add_index("weight_g_idx");
    const parts whole = file;
    part_of("weight_shape")->data[0] = 17;
    assert_refused(&SCALED, PF_FORMAT, "\"x.weight_shape\" holds 17 and 64, config.json makes them 16 and 64");
    file = whole;
    check_part(&SCALED, "weight_packed", false);
    check_part(&SCALED, "weight_scale", true);
    check_part(&SCALED, "weight_zero_point", false);
    check_part(&SCALED, "weight_g_idx", false);
}

static void bytes_have_a_scale_of_their_row_or_of_all(void **state)
{
    (void)state;
    uint8_t *q = add("weight", "I8", "[16, 64]", ROWS * COLUMNS), *s = add("weight_scale", "F16", "[16, 1]", ROWS * 2);
    for (int32_t i = 0; i < ROWS * COLUMNS; i++) q[i] = (uint8_t)(i * 7);
    for (int32_t n = 0; n < ROWS; n++) put_half(s, n, scale_of(n, 0));
    read_all(&SCALED);
    for (int32_t n = 0; n < ROWS; n++)
        for (int32_t k = 0; k < COLUMNS; k++)
            assert_true(values[n][k] == scale_of(n, 0) * (float)(int8_t)q[n * COLUMNS + k]);
    uint8_t *z = add("weight_zero_point", "I8", "[16, 1]", ROWS);
    for (int32_t n = 0; n < ROWS; n++) z[n] = (uint8_t)(n - 5);
    read_all(&SCALED);
    assert_true(values[3][9] == scale_of(3, 0) * ((float)(int8_t)q[3 * COLUMNS + 9] + 2.0f));
    drop("weight_zero_point");
    snprintf(part_of("weight_scale")->shape, 48, "[]");
    part_of("weight_scale")->bytes = 2;
    read_all(&SCALED);
    assert_true(values[3][9] == scale_of(0, 0) * (float)(int8_t)q[3 * COLUMNS + 9]);
    assert_int_equal(n_exact, 1);
}

static void float8_is_e4m3_without_infinities(void **state)
{
    (void)state;
    static const struct {
        uint8_t code;
        float value;
    } some[] = { { 0x00, 0.0f }, { 0x01, 0x1p-9f }, { 0x07, 7 * 0x1p-9f }, { 0x08, 0x1p-6f }, { 0x38, 1.0f },
                 { 0x3C, 1.5f }, { 0xB8, -1.0f },   { 0x7E, 448.0f },      { 0xFE, -448.0f }, { 0x81, -0x1p-9f } };
    uint8_t *q = add("weight", "F8_E4M3", "[16, 64]", ROWS * COLUMNS), *s = add("weight_scale", "F32", "[1]", 4);
    put_float(s, 0, 0.5f);
    for (size_t i = 0; i < PF_COUNT(some); i++) q[i] = some[i].code;
    q[COLUMNS] = 0x7F;
    read_all(&SCALED);
    for (size_t i = 0; i < PF_COUNT(some); i++) assert_true(values[0][i] == 0.5f * some[i].value);
    assert_true(isnan(values[1][0]));
    assert_int_equal(n_exact, 0);
}

static void float8_has_a_scale_a_block(void **state)
{
    (void)state;
    const pf_quantization q = {
        .scheme = PF_SCHEME_SCALED, .widths = 1 << 8, .block_rows = 6, .block_columns = 24, .words = "FP8"
    };
    memset(add("weight", "F8_E4M3", "[16, 64]", ROWS * COLUMNS), 0x38, ROWS * COLUMNS);
    uint8_t *s = add("weight_scale_inv", "F32", "[3, 3]", 9 * 4);
    for (int32_t i = 0; i < 9; i++) put_float(s, i, (float)(i + 1));
    read_all(&q);
    for (int32_t n = 0; n < ROWS; n++)
        for (int32_t k = 0; k < COLUMNS; k++) assert_true(values[n][k] == (float)(n / 6 * 3 + k / 24 + 1));
    snprintf(part_of("weight_scale_inv")->shape, 48, "[9]");
    assert_refused(&q, PF_FORMAT, "\"x.weight_scale_inv\" has shape [9], quantization_config makes it [16]");
    snprintf(part_of("weight_scale_inv")->shape, 48, "[3, 3]");
    snprintf(part_of("weight_scale_inv")->dtype, 16, "F8_E8M0");
    part_of("weight_scale_inv")->bytes = 9;
    for (int32_t i = 0; i < 9; i++) s[i] = (uint8_t)(123 + i);
    read_all(&q);
    assert_true(values[15][63] == 16.0f && values[0][0] == 0.0625f);
    s[4] = 255;
    assert_refused(&q, PF_FORMAT, "has a scale that is not finite");
}

static void plain_tensors_are_not_quantised(void **state)
{
    (void)state;
    const pf_quantization schemes[] = { gptq(true), AWQ, SCALED, { .scheme = PF_SCHEME_BITSANDBYTES } };
    add("weight", "BF16", "[16, 64]", ROWS * COLUMNS * 2);
    for (size_t i = 0; i < PF_COUNT(schemes); i++) {
        pf_error error = { 0 };
        opened o;
        assert_ok(open_matrix(&schemes[i], &o, &error), error);
        assert_int_equal(o.matrix.n_groups, 0);
        pf_tensor_source_close(&o.source);
    }
}

/* ---- bitsandbytes ---- */

static const pf_quantization BNB = { .scheme = PF_SCHEME_BITSANDBYTES, .words = "bitsandbytes" };

static float table_of(uint32_t i)
{
    return (float)((int32_t)(i * i) - 100) * 0.01f;
}

static void set_state(const char *text)
{
    part *p = part_of("weight.quant_state.bitsandbytes__nf4");
    p->bytes = strlen(text);
    snprintf(p->shape, sizeof p->shape, "[%zu]", p->bytes);
    memcpy(p->data, text, p->bytes);
}

#define STATE(group, more) "{\"quant_type\": \"nf4\", \"blocksize\": " group ", \"shape\": [16, 64]" more "}"

static void add_nf4(void)
{
    uint8_t *q = add("weight", "U8", "[512, 1]", 512), *table = add("weight.quant_map", "F32", "[16]", 16 * 4);
    uint8_t *s = add("weight.absmax", "F32", "[11]", 11 * 4);
    add("weight.quant_state.bitsandbytes__nf4", "U8", "[0]", 0);
    set_state(STATE("100", ", \"dtype\": \"bfloat16\""));
    for (int32_t i = 0; i < ROWS * COLUMNS; i++)
        q[i / 2] |= (uint8_t)(q_of(i / COLUMNS, i % COLUMNS) << (i % 2 == 0 ? 4 : 0));
    for (int32_t i = 0; i < 16; i++) put_float(table, i, table_of((uint32_t)i));
    for (int32_t i = 0; i < 11; i++) put_float(s, i, (float)(i + 1));
}

static void nf4_is_a_table_times_the_scale_of_a_run_of_elements(void **state)
{
    (void)state;
    add_nf4();
    read_all(&BNB);
    for (int32_t n = 0; n < ROWS; n++)
        for (int32_t k = 0; k < COLUMNS; k++)
            assert_true(values[n][k] == table_of(q_of(n, k)) * (float)((n * COLUMNS + k) / 100 + 1));
}

static void nf4_scales_in_bytes_are_nested(void **state)
{
    (void)state;
    add_nf4();
    set_state(STATE("100", ", \"nested_blocksize\": 4, \"nested_offset\": 0.25"));
    drop("weight.absmax");
    uint8_t *s = add("weight.absmax", "U8", "[11]", 11), *outer = add("weight.nested_absmax", "F32", "[3]", 12);
    uint8_t *table = add("weight.nested_quant_map", "F32", "[256]", 1024);
    for (int32_t i = 0; i < 11; i++) s[i] = (uint8_t)(255 - i);
    for (int32_t i = 0; i < 3; i++) put_float(outer, i, (float)(i + 2));
    for (int32_t i = 0; i < 256; i++) put_float(table, i, (float)i * 0.5f);
    read_all(&BNB);
    for (int32_t n = 0; n < ROWS; n++)
        for (int32_t k = 0; k < COLUMNS; k++) {
            const int32_t i = (n * COLUMNS + k) / 100;
            const float scale = (float)(255 - i) * 0.5f * (float)(i / 4 + 2) + 0.25f;
            assert_true(values[n][k] == table_of(q_of(n, k)) * scale);
        }
    set_state(STATE("100", ""));
    assert_refused(&BNB, PF_FORMAT, "no nested_blocksize");
}

static void state_of_nf4_is_checked(void **state)
{
    (void)state;
    static const char whole[] = STATE("100", "");
    static const struct {
        const char *text, *says;
    } cases[] = { { STATE("0", ""), "blocksize" },
                  { STATE("-1", ""), "blocksize" },
                  { STATE("4194305", ""), "blocksize" },
                  { STATE("\"64\"", ""), "blocksize" },
                  { STATE("100", ", \"nested_offset\": \"a\""), "nested_offset" },
                  { STATE("100", ", \"nested_blocksize\": 0"), "nested_blocksize" },
                  { STATE("101", ", \"shape\": [64, 16]"), "expected [16, 64]" },
                  { STATE("64", ""), "\"x.weight.absmax\" has shape [11], quantization_config makes it [16]" },
                  { "{\"quant_type\": \"fp4\", \"blocksize\": 100, \"shape\": [16, 64]}", "quant_type is \"fp4\"" },
                  { "[]", "quant_state" } };
    add_nf4();
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        set_state(cases[i].text);
        assert_refused(&BNB, PF_FORMAT, cases[i].says);
    }
    for (size_t n = 1; n < sizeof whole - 1; n++) {
        char cut[sizeof whole];
        snprintf(cut, sizeof cut, "%.*s", (int)n, whole);
        set_state(cut);
        assert_refused(&BNB, PF_FORMAT, "x.weight.quant_state");
    }
}

static void nf4_parts_have_their_shapes_and_types(void **state)
{
    (void)state;
    static const char *const names[] = { "weight", "weight.absmax", "weight.quant_map" };
    add_nf4();
    const parts whole = file;
    for (size_t i = 0; i < PF_COUNT(names); i++) {
        char named[64];
        snprintf(named, sizeof named, "x.%s", names[i]);
        snprintf(part_of(names[i])->shape, 48, "[1, 1, %zu]", part_of(names[i])->bytes / (i == 0 ? 1 : 4));
        assert_refused(&BNB, PF_FORMAT, named);
        file = whole;
        if (i == 0) continue;
        drop(names[i]);
        assert_refused(&BNB, PF_FORMAT, named);
        file = whole;
    }
    put_float(part_of("weight.quant_map")->data, 3, NAN);
    assert_refused(&BNB, PF_FORMAT, "\"x.weight.quant_map\" has a scale that is not finite");
}

static void int8_of_bitsandbytes_is_scaled_by_127(void **state)
{
    (void)state;
    uint8_t *q = add("weight", "I8", "[16, 64]", ROWS * COLUMNS), *s = add("SCB", "F32", "[16]", ROWS * 4);
    uint8_t *format = add("weight_format", "U8", "[]", 1);
    for (int32_t i = 0; i < ROWS * COLUMNS; i++) q[i] = (uint8_t)(i * 11);
    for (int32_t n = 0; n < ROWS; n++) put_float(s, n, scale_of(n, 0));
    read_all(&BNB);
    for (int32_t n = 0; n < ROWS; n++)
        for (int32_t k = 0; k < COLUMNS; k++)
            assert_true(values[n][k] == scale_of(n, 0) * (float)(int8_t)q[n * COLUMNS + k] * (1.0f / 127.0f));
    *format = 1;
    assert_refused(&BNB, PF_UNSUPPORTED, "\"x.weight_format\" is not 0");
    *format = 0;
    drop("SCB");
    assert_refused(&BNB, PF_FORMAT, "no tensor \"x.SCB\", which a matrix in bitsandbytes must have");
}

/* ---- pieces of long rows ---- */

enum { LONG = 320 };

static void add_random(const char *name, const char *dtype, const char *shape, size_t bytes)
{
    uint32_t state = 12345;
    uint8_t *data = add(name, dtype, shape, bytes);
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (uint8_t)(state >> 24);
    }
}

static void add_scales(const char *name, const char *shape)
{
    uint8_t *s = add(name, "F16", shape, ROWS * LONG / 32 * 2);
    for (int32_t i = 0; i < ROWS * LONG / 32; i++) put_half(s, i, (float)(i + 1) * 0.125f);
}

/* The values from column 256 on must be those of the whole row. */
static void assert_second_piece(const pf_quantization *q)
{
    float row[LONG], scratch[2 * MAX_GROUPS];
    pf_error error = { 0 };
    pf_group_format format;
    pf_group_piece piece;
    opened o;
    assert_ok(open_matrix(q, &o, &error), error);
    assert_true(pf_quantised_exact_format(&o.matrix, &format));
    assert_int_equal(format.group, 32);
    for (int32_t n = 0; n < ROWS; n++) {
        pf_quantised_row(&o.matrix, n, row, scratch);
        pf_quantised_fill(&o.matrix, &format, (pf_quantised_span){ n, 256, LONG - 256 }, &piece);
        for (int32_t i = 0; i < LONG - 256; i++) {
            const float zero = format.offset == PF_GROUP_ZERO ? piece.offset[i / 32] : 0.0f;
            assert_true(row[256 + i] == piece.scale[i / 32] * ((float)piece.q[i] - zero));
        }
    }
    pf_tensor_source_close(&o.source);
    memset(&file, 0, sizeof file);
}

static void groups_are_read_from_the_middle_of_a_row(void **state)
{
    (void)state;
    const pf_quantization q = gptq(true);
    n_columns = LONG;
    add_random("qweight", "I32", "[40, 16]", 40 * 16 * 4);
    add_random("qzeros", "I32", "[10, 2]", 10 * 2 * 4);
    add_scales("scales", "[10, 16]");
    assert_second_piece(&q);
    add_random("qweight", "I32", "[320, 2]", 320 * 2 * 4);
    add_random("qzeros", "I32", "[10, 2]", 10 * 2 * 4);
    add_scales("scales", "[10, 16]");
    assert_second_piece(&AWQ);
    add_random("weight_packed", "I32", "[16, 40]", 16 * 40 * 4);
    add_random("weight_zero_point", "I32", "[2, 10]", 2 * 10 * 4);
    add_scales("weight_scale", "[16, 10]");
    assert_second_piece(&SCALED);
    add_random("weight", "I8", "[16, 320]", 16 * 320);
    add_scales("weight_scale", "[16, 10]");
    assert_second_piece(&SCALED);
}

static void an_index_in_order_is_no_act_order(void **state)
{
    (void)state;
    const pf_quantization q = gptq(true);
    add_gptq(true);
    uint8_t *index = add_index("g_idx");
    for (int32_t k = 0; k < COLUMNS; k++) put_word(index, k, (uint32_t)(k / 32));
    read_all(&q);
    assert_int_equal(n_exact, 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(gptq_stores_words_of_zero_points_less_one),
        CASE(gptq_v2_stores_zero_points_as_they_are),
        CASE(gptq_index_gives_each_column_its_group),
        CASE(group_of_an_index_must_exist),
        CASE(scales_must_be_finite),
        CASE(gptq_parts_have_their_shapes_and_types),
        CASE(shapes_tell_bits_and_groups_where_modules_vary),
        CASE(awq_interleaves_the_rows_of_a_word),
        CASE(awq_parts_have_their_shapes_and_types),
        CASE(packed_values_and_zero_points_count_from_the_middle),
        CASE(packed_index_with_minus_one_gives_no_order),
        CASE(packed_parts_have_their_shapes_and_types),
        CASE(bytes_have_a_scale_of_their_row_or_of_all),
        CASE(float8_is_e4m3_without_infinities),
        CASE(float8_has_a_scale_a_block),
        CASE(plain_tensors_are_not_quantised),
        CASE(nf4_is_a_table_times_the_scale_of_a_run_of_elements),
        CASE(nf4_scales_in_bytes_are_nested),
        CASE(state_of_nf4_is_checked),
        CASE(nf4_parts_have_their_shapes_and_types),
        CASE(int8_of_bitsandbytes_is_scaled_by_127),
        CASE(groups_are_read_from_the_middle_of_a_row),
        CASE(an_index_in_order_is_no_act_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
