/* quantization_config of other programs is read, described, or refused by the name of what is not known. */
#include "model/config/quantization.h"

#include "tests/support/test.h"

static pf_status parse(const char *text, pf_quantization *out, pf_error *error)
{
    pf_json doc = { 0 };
    assert_ok(pf_json_parse("config.json", text, strlen(text), 1 << 16, &doc, error), *error);
    const pf_status status = pf_quantization_read(&doc, out, error);
    pf_json_close(&doc);
    return status;
}

static pf_quantization parsed(const char *text)
{
    pf_quantization q = { .scheme = PF_SCHEME_NONE };
    pf_error error = { 0 };
    assert_ok(parse(text, &q, &error), error);
    return q;
}

static void assert_refused(const char *text, pf_status status, const char *says)
{
    pf_quantization q = { .group = -7 };
    pf_error error = { 0 };
    assert_status(parse(text, &q, &error), status);
    assert_says(error, says);
    assert_says(error, "config.json");
    assert_int_equal(q.group, -7); /* untouched */
}

#define GPTQ(more) "{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128" more "}"

static void gptq_is_described(void **state)
{
    (void)state;
    pf_quantization q =
        parsed(GPTQ(", \"desc_act\": true, \"sym\": false, \"damp_percent\": 0.01, \"dataset\": \"c4\""));
    assert_string_equal(q.words, "GPTQ, 4 bits, groups of 128, asymmetric, act-order");
    assert_int_equal(q.scheme, PF_SCHEME_GPTQ);
    assert_int_equal(q.widths, 1 << 4);
    assert_int_equal(q.group, 128);
    assert_true(q.zeros_less_one);
    q = parsed("{\"quant_method\": \"gptq\", \"bits\": 8, \"group_size\": -1, \"checkpoint_format\": \"gptq_v2\"}");
    assert_string_equal(q.words, "GPTQ, 8 bits, one group a row, symmetric");
    assert_int_equal(q.group, 0);
    assert_false(q.zeros_less_one);
    q = parsed(GPTQ(", \"dynamic\": {\"-:.*down.*\": {}, \"+:.*\\\\.18\\\\..*\": {\"bits\": 8}}"));
    assert_string_equal(q.words, "GPTQ, 4 bits, groups of 128, symmetric, some modules otherwise");
    assert_int_equal(q.widths, 1 << 2 | 1 << 4 | 1 << 8);
    assert_true(q.varies);
    assert_false(parsed(GPTQ(", \"dynamic\": null")).varies);
}

static void gptq_of_another_form_is_refused(void **state)
{
    (void)state;
    assert_refused(GPTQ(", \"checkpoint_format\": \"marlin\""), PF_UNSUPPORTED,
                   "checkpoint_format is \"marlin\", only gptq, gptq_v2 is read");
    assert_refused(GPTQ(", \"format\": \"bitblas\""), PF_UNSUPPORTED, "format is \"bitblas\"");
    assert_refused(GPTQ(", \"pack_dtype\": \"int16\""), PF_UNSUPPORTED, "pack_dtype is \"int16\"");
    assert_refused(GPTQ(", \"is_marlin_format\": true"), PF_UNSUPPORTED, "is_marlin_format (true) is not known");
    assert_refused(GPTQ(", \"rotation\": \"hadamard\""), PF_UNSUPPORTED, "rotation (\"hadamard\") is not known");
    assert_refused(GPTQ(", \"adapter\": {\"rank\": 8}"), PF_UNSUPPORTED, "adapter");
    assert_refused("{\"quant_method\": \"gptq\", \"bits\": 3}", PF_UNSUPPORTED, "bits is 3, what is read is 2, 4, 8");
    assert_refused("{\"quant_method\": \"gptq\"}", PF_FORMAT, "bits");
    assert_refused("{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 0}", PF_FORMAT, "group_size is 0");
    assert_refused("{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": -2}", PF_FORMAT, "group_size");
    assert_refused("{\"quant_method\": \"gptq\", \"bits\": \"4\"}", PF_FORMAT, "bits");
    assert_refused(GPTQ(", \"sym\": 1"), PF_FORMAT, "sym");
    (void)parsed(GPTQ(", \"rotation\": null, \"is_marlin_format\": false, \"adapter\": {}"));
}

static void awq_is_read_in_the_gemm_layout_only(void **state)
{
    (void)state;
    const pf_quantization q = parsed("{\"quant_method\": \"awq\", \"w_bit\": 4, \"q_group_size\": 64, \"zero_point\":"
                                     "true, \"version\": \"GEMM\", \"backend\": \"autoawq\"}");
    assert_string_equal(q.words, "AWQ, 4 bits, groups of 64, asymmetric");
    assert_int_equal(q.scheme, PF_SCHEME_AWQ);
    assert_refused("{\"quant_method\": \"awq\", \"bits\": 4, \"version\": \"gemv\"}", PF_UNSUPPORTED,
                   "version is \"gemv\", only gemm is read");
    assert_refused("{\"quant_method\": \"awq\", \"bits\": 4, \"backend\": \"llm-awq\"}", PF_UNSUPPORTED, "llm-awq");
    assert_refused("{\"quant_method\": \"awq\", \"bits\": 8}", PF_UNSUPPORTED, "bits is 8, what is read is 4");
}

#define ROUND(packing, more) \
    "{\"quant_method\": \"auto-round\", \"bits\": 4, \"group_size\": 32, \"packing_format\": \"" packing "\"" more "}"

static void auto_round_names_its_packing(void **state)
{
    (void)state;
    pf_quantization q = parsed(ROUND("auto_round:auto_gptq", ", \"data_type\": \"int\", \"iters\": 200"));
    assert_string_equal(q.words, "AutoRound as auto_round:auto_gptq, 4 bits, groups of 32, symmetric");
    assert_int_equal(q.scheme, PF_SCHEME_GPTQ);
    assert_true(q.zeros_less_one);
    q = parsed(ROUND("auto_round", ", \"sym\": false"));
    assert_int_equal(q.scheme, PF_SCHEME_GPTQ);
    assert_false(q.zeros_less_one);
    q = parsed(ROUND("auto_round:auto_awq", ""));
    assert_int_equal(q.scheme, PF_SCHEME_AWQ);
    q = parsed(ROUND("auto_round", ", \"extra_config\": {\"lm_head\": {\"bits\": 8}}"));
    assert_true(q.varies);
    assert_refused(ROUND("auto_round:fp8", ""), PF_UNSUPPORTED, "packing_format is \"auto_round:fp8\"");
    assert_refused(ROUND("auto_round", ", \"data_type\": \"mx_fp\""), PF_UNSUPPORTED, "data_type is \"mx_fp\"");
    assert_refused(ROUND("auto_round", ", \"act_bits\": 8"), PF_UNSUPPORTED, "act_bits is 8");
}

#define CT(format, weights, more)                                                 \
    "{\"quant_method\": \"compressed-tensors\", \"format\": \"" format "\"," more \
    "\"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"], \"weights\": {" weights "}}}}"
#define INT4 "\"num_bits\": 4, \"type\": \"int\", \"symmetric\": false, \"strategy\": \"group\", \"group_size\": 64"

static void compressed_tensors_are_described(void **state)
{
    (void)state;
    pf_quantization q = parsed(CT("pack-quantized", INT4 ", \"actorder\": \"group\"", ""));
    assert_string_equal(q.words, "compressed-tensors pack-quantized, 4 bits, groups of 64, asymmetric, act-order");
    assert_int_equal(q.scheme, PF_SCHEME_SCALED);
    assert_int_equal(q.widths, 1 << 4);
    assert_int_equal(q.group, 64);
    q = parsed(
        CT("pack-quantized", INT4 ", \"actorder\": \"static\"", "\"sparsity_config\": {\"format\": \"dense\"},"));
    assert_string_equal(q.words, "compressed-tensors pack-quantized, 4 bits, groups of 64, asymmetric");
    q = parsed(CT("float-quantized",
                  "\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"block\", \"block_structure\": [128, 64]", ""));
    assert_string_equal(q.words, "compressed-tensors float-quantized, FP8 E4M3, blocks of 128 x 64");
    assert_int_equal(q.block_rows, 128);
    assert_int_equal(q.block_columns, 64);
    q = parsed(CT("float-quantized",
                  "\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"block\", \"block_structure\": \"32x16\"", ""));
    assert_int_equal(q.block_columns, 16);
}

static void compressed_tensors_of_another_form_are_refused(void **state)
{
    (void)state;
    assert_refused(CT("nvfp4-pack-quantized", INT4, ""), PF_UNSUPPORTED, "format is \"nvfp4-pack-quantized\"");
    assert_refused(CT("marlin-24", INT4, ""), PF_UNSUPPORTED, "marlin-24");
    assert_refused(CT("pack-quantized", INT4 ", \"dynamic\": true", ""), PF_UNSUPPORTED, "dynamic");
    assert_refused(CT("pack-quantized", "\"num_bits\": 4, \"type\": \"float\"", ""), PF_UNSUPPORTED, "num_bits is 4");
    assert_refused(CT("pack-quantized", INT4 ", \"codebook\": 5", ""), PF_UNSUPPORTED, "the field codebook (5)");
    assert_refused(CT("pack-quantized", INT4, "\"transform_config\": {\"u\": 1},"), PF_UNSUPPORTED, "transform_config");
    assert_refused(CT("pack-quantized", INT4, "\"sparsity_config\": {\"format\": \"sparse-24-bitmask\"},"),
                   PF_UNSUPPORTED, "sparsity_config: format is \"sparse-24-bitmask\"");
    assert_refused(CT("pack-quantized", INT4 ", \"block_structure\": [0, 4]", ""), PF_FORMAT, "block_structure");
    assert_refused(CT("pack-quantized", INT4 ", \"block_structure\": \"4x\"", ""), PF_FORMAT, "block_structure");
    assert_refused("{\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\"}", PF_FORMAT,
                   "config_groups is absent");
    assert_refused("{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": 4}}", PF_FORMAT, "group");
    assert_refused("{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": {}}}", PF_FORMAT, "weights");
}

static void fp8_has_blocks_or_scales_of_tensors(void **state)
{
    (void)state;
    pf_quantization q = parsed("{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128], \"fmt\": \"e4m3\","
                               "\"activation_scheme\": \"dynamic\", \"scale_fmt\": \"ue8m0\"}");
    assert_string_equal(q.words, "FP8 E4M3, blocks of 128 x 128; activations are not rounded");
    assert_int_equal(q.block_rows, 128);
    q = parsed("{\"quant_method\": \"fbgemm_fp8\", \"activation_scale_ub\": 1200.0}");
    assert_string_equal(q.words, "FP8 E4M3, a scale a tensor or a row; activations are not rounded");
    assert_refused("{\"quant_method\": \"fp8\", \"fmt\": \"e5m2\"}", PF_UNSUPPORTED, "fmt is \"e5m2\"");
    assert_refused("{\"quant_method\": \"fp8\", \"weight_block_size\": [128]}", PF_FORMAT, "weight_block_size");
    assert_refused("{\"quant_method\": \"fp8\", \"expert_dtype\": \"fp4\"}", PF_UNSUPPORTED, "expert_dtype");
}

static void bitsandbytes_names_its_table(void **state)
{
    (void)state;
#define BNB(more) "{\"quant_method\": \"bitsandbytes\", \"bnb_4bit_compute_dtype\": \"bfloat16\", " more "}"
    assert_string_equal(
        parsed(BNB("\"load_in_4bit\": true, \"bnb_4bit_quant_type\": \"nf4\", \"bnb_4bit_use_double_quant\": true"))
            .words,
        "bitsandbytes NF4, scales in 8 bits");
    assert_string_equal(parsed(BNB("\"_load_in_4bit\": true, \"bnb_4bit_quant_type\": \"fp4\"")).words,
                        "bitsandbytes FP4");
    assert_string_equal(parsed(BNB("\"load_in_8bit\": true, \"llm_int8_threshold\": 6.0")).words,
                        "bitsandbytes INT8, one group a row; activations are not rounded");
    assert_refused(BNB("\"bnb_4bit_quant_type\": \"af4\""), PF_UNSUPPORTED, "bnb_4bit_quant_type is \"af4\"");
    assert_refused(BNB("\"bnb_4bit_quant_storage\": \"bfloat16\""), PF_UNSUPPORTED, "bnb_4bit_quant_storage");
#undef BNB
}

static void other_methods_are_refused_by_name(void **state)
{
    (void)state;
    assert_refused("{\"quant_method\": \"hqq\"}", PF_UNSUPPORTED,
                   "quant_method is hqq, known here are pilotfish, gptq");
    assert_refused("{\"quant_method\": 4}", PF_UNSUPPORTED, "quant_method is no string");
    assert_refused("{}", PF_UNSUPPORTED, "quant_method is no string");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gptq_is_described),
        cmocka_unit_test(gptq_of_another_form_is_refused),
        cmocka_unit_test(awq_is_read_in_the_gemm_layout_only),
        cmocka_unit_test(auto_round_names_its_packing),
        cmocka_unit_test(compressed_tensors_are_described),
        cmocka_unit_test(compressed_tensors_of_another_form_are_refused),
        cmocka_unit_test(fp8_has_blocks_or_scales_of_tensors),
        cmocka_unit_test(bitsandbytes_names_its_table),
        cmocka_unit_test(other_methods_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
