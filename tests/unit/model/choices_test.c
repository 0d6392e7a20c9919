/* Tests the choices of AUTO for simulated machines and models of several sizes. */
#include "model/forward/context.h"
#include "model/head/head_choice.h"
#include "model/weights/weights.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

static char directory[PF_TINY_PATH];
static pf_team *team;

static const pf_tiny_model HEAD_OF_128 = { .vocab = 128, .type = PF_TYPE_BF16 };

/* A simulated machine with the fields that a test sets, and enough memory. */
static pf_topology machine_of(size_t l3_bytes)
{
    return (pf_topology){ .n_cores = 1, .n_cpus = 1, .l3_bytes = l3_bytes, .memory_bytes = (size_t)1 << 40 };
}

static pf_status try_to_load(const pf_topology *machine, pf_dtype dtype, pf_head head, pf_isa isa, pf_model **out,
                             pf_error *error)
{
    const pf_model_options options = { .dtype = dtype, .head = head, .isa = isa, .team = team, .machine = machine };
    return pf_model_load(directory, &options, out, error);
}

static pf_model *load(const pf_topology *machine, pf_dtype dtype, pf_head head, pf_isa isa)
{
    pf_error error;
    pf_model *model;
    assert_ok(try_to_load(machine, dtype, head, isa, &model, &error), error);
    return model;
}

static pf_head chosen_head(const pf_topology *machine, pf_dtype dtype, pf_head asked)
{
    pf_model *model = load(machine, dtype, asked, PF_ISA_SCALAR);
    const pf_head kind = model->head.kind;
    pf_model_release(model);
    return kind;
}

/* Two layers of 30,720 weights, norms of 320, and a head of 64 for each token of the vocabulary. */
static void auto_takes_a_bounded_head_when_weights_exceed_the_cache_and_it_saves_a_twentieth(void **state)
{
    (void)state;
    const struct {
        pf_tiny_model model;
        pf_dtype dtype;
        size_t l3_bytes;
        pf_head chosen;
    } cases[] = {
        { { .vocab = 128, .type = PF_TYPE_BF16 }, PF_DTYPE_BF16, 136 << 10, PF_HEAD_BOUNDED }, /* 69,952 weights */
        { { .vocab = 128, .type = PF_TYPE_BF16 }, PF_DTYPE_BF16, 137 << 10, PF_HEAD_FULL },
        { { .vocab = 128, .type = PF_TYPE_BF16 }, PF_DTYPE_BF16, 0, PF_HEAD_FULL }, /* cache size unknown */
        { { .vocab = 128, .type = PF_TYPE_BF16 }, PF_DTYPE_F32, 273 << 10, PF_HEAD_BOUNDED },
        { { .vocab = 128, .type = PF_TYPE_BF16 }, PF_DTYPE_F32, 274 << 10, PF_HEAD_FULL },
        { { .vocab = 128, .tied = true }, PF_DTYPE_BF16, 136 << 10, PF_HEAD_BOUNDED },
        { { .vocab = 128, .tied = true }, PF_DTYPE_BF16, 137 << 10, PF_HEAD_FULL },
        { { .vocab = 112, .type = PF_TYPE_BF16 },
          PF_DTYPE_BF16,
          1 << 10,
          PF_HEAD_BOUNDED },                                                               /* 7,168 of 137,856 bytes */
        { { .vocab = 104, .type = PF_TYPE_BF16 }, PF_DTYPE_BF16, 1 << 10, PF_HEAD_FULL },  /* 6,656 of 136,832 */
        { { .vocab = 72, .type = PF_TYPE_BF16 }, PF_DTYPE_F32, 1 << 10, PF_HEAD_BOUNDED }, /* 13,824 of 265,472 */
        { { .vocab = 64, .type = PF_TYPE_BF16 }, PF_DTYPE_F32, 1 << 10, PF_HEAD_FULL },    /* 12,288 of 263,424 */
        { { .vocab = 128, .type = PF_TYPE_BF16 }, PF_DTYPE_INT8, 1 << 10, PF_HEAD_FULL },  /* not supported */
        { { .vocab = 128, .type = PF_TYPE_BF16 }, PF_DTYPE_F16, 1 << 10, PF_HEAD_FULL },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_tiny_model_create(&cases[i].model, directory);
        const pf_topology machine = machine_of(cases[i].l3_bytes);
        if (chosen_head(&machine, cases[i].dtype, PF_HEAD_AUTO) != cases[i].chosen) fail_msg("case %zu", i);
        assert_int_equal(chosen_head(&machine, cases[i].dtype, PF_HEAD_FULL), PF_HEAD_FULL);
        pf_tiny_model_remove(directory);
    }
}

static void auto_takes_a_bounded_head_only_if_a_quarter_of_the_memory_stays_free(void **state)
{
    (void)state;
    pf_tiny_model_create(&HEAD_OF_128, directory);
    pf_topology machine = machine_of(1 << 10);
    pf_model *both = load(&machine, PF_DTYPE_BF16, PF_HEAD_BOUNDED, PF_ISA_SCALAR);
    const size_t bytes = pf_model_packed_bytes(both), enough = (bytes + 2) / 3 * 4;
    pf_model_release(both);

    machine.memory_bytes = enough;
    assert_int_equal(chosen_head(&machine, PF_DTYPE_BF16, PF_HEAD_AUTO), PF_HEAD_BOUNDED);
    machine.memory_bytes = enough - 4;
    assert_int_equal(chosen_head(&machine, PF_DTYPE_BF16, PF_HEAD_AUTO), PF_HEAD_FULL);
    machine.memory_bytes = 0; /* memory size unknown */
    assert_int_equal(chosen_head(&machine, PF_DTYPE_BF16, PF_HEAD_AUTO), PF_HEAD_FULL);

    machine.memory_bytes = bytes;
    assert_int_equal(chosen_head(&machine, PF_DTYPE_BF16, PF_HEAD_BOUNDED), PF_HEAD_BOUNDED);
    machine.memory_bytes = bytes - 1;
    assert_int_equal(chosen_head(&machine, PF_DTYPE_BF16, PF_HEAD_AUTO), PF_HEAD_FULL);
    pf_model *model = NULL;
    pf_error error;
    assert_status(try_to_load(&machine, PF_DTYPE_BF16, PF_HEAD_BOUNDED, PF_ISA_SCALAR, &model, &error), PF_LIMIT);
    assert_says(error, "this machine has");
    assert_null(model);
    pf_tiny_model_remove(directory);
}

/* A head that saves enough bytes to be bounded, of a plan that changes logits in one way or none. */
static void logits_that_are_changed_keep_the_head_full_and_say_why(void **state)
{
    (void)state;
    const struct {
        bool has_bias;
        float scale, softcap;
        const char *why; /* NULL: it is bounded */
    } cases[] = {
        { false, 1.0f, 0.0f, NULL },           { false, 0.0625f, 0.0f, NULL },
        { false, 8.0f, 0.0f, NULL },           { true, 1.0f, 0.0f, "bias" },
        { false, 1.0f, 30.0f, "capped" },      { false, 0.3f, 0.0f, "logit_scale" },
        { false, -0.5f, 0.0f, "logit_scale" }, { false, 0.0f, 0.0f, "logit_scale" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_head_facts facts = { .asked = PF_HEAD_AUTO,
                                .dtype = "bf16",
                                .row_type = PF_TYPE_BF16,
                                .has_own_products = true,
                                .has_bias = cases[i].has_bias,
                                .logit_scale = cases[i].scale,
                                .logit_softcap = cases[i].softcap,
                                .n_vocab = 1000,
                                .hidden = 64,
                                .step_bytes = 1e6,
                                .weight_bytes = 2.0,
                                .step_is_from_memory = true };
        pf_head kind = PF_HEAD_AUTO;
        const char *why = "";
        pf_error error;
        assert_ok(pf_head_choose(&facts, &kind, &why, &error), error);
        assert_int_equal(kind, cases[i].why == NULL ? PF_HEAD_BOUNDED : PF_HEAD_FULL);
        assert_true((why == NULL) == (cases[i].why == NULL));
        if (why != NULL) assert_non_null(strstr(why, cases[i].why));

        facts.asked = PF_HEAD_BOUNDED;
        const pf_status status = pf_head_choose(&facts, &kind, &why, &error);
        assert_int_equal(status, cases[i].why == NULL ? PF_OK : PF_UNSUPPORTED);
        if (cases[i].why != NULL) assert_says(error, cases[i].why);
        facts.asked = PF_HEAD_SCREENED;
        assert_int_equal(pf_head_choose(&facts, &kind, &why, &error), cases[i].has_bias ? PF_UNSUPPORTED : PF_OK);
    }
}

static void a_context_is_limited_by_the_memory_of_the_machine_the_model_was_loaded_for(void **state)
{
    (void)state;
    pf_tiny_model_create(&HEAD_OF_128, directory);
    pf_topology machine = machine_of(0);
    machine.memory_bytes = 1 << 20;
    pf_model *model = load(&machine, PF_DTYPE_BF16, PF_HEAD_FULL, PF_ISA_SCALAR);
    pf_context_config config = { .max_sequences = 1, .max_rows = 8, .max_logit_rows = 1, .kv_type = PF_TYPE_BF16 };
    pf_error error;
    pf_context *context = NULL;
    assert_ok(pf_context_create(model, team, &config, &context, &error), error);
    const size_t both = pf_model_packed_bytes(model) + pf_context_reserved_bytes(context);
    pf_context_destroy(context);
    pf_model_release(model);
    for (size_t lacks = 0; lacks < 2; lacks++) {
        machine.memory_bytes = both - lacks;
        model = load(&machine, PF_DTYPE_BF16, PF_HEAD_FULL, PF_ISA_SCALAR);
        assert_status(pf_context_create(model, team, &config, &context, &error), lacks ? PF_LIMIT : PF_OK);
        if (!lacks) pf_context_destroy(context);
        pf_model_release(model);
    }
    assert_says(error, "beside 0 MiB of weights, and this machine has 0 MiB left");

    machine.memory_bytes = 1 << 20;
    model = load(&machine, PF_DTYPE_BF16, PF_HEAD_FULL, PF_ISA_SCALAR);
    context = NULL;
    config.max_sequences = 16;
    assert_status(pf_context_create(model, team, &config, &context, &error), PF_LIMIT);
    assert_says(error, "for 16 sequences of ");
    assert_says(error, "this machine has 1 MiB");
    assert_null(context);
    pf_model_release(model);
    pf_tiny_model_remove(directory);
}

static void a_cache_by_memory_has_room_for_no_more_than_its_share(void **state)
{
    (void)state;
    pf_tiny_model_create(&HEAD_OF_128, directory);
    pf_topology machine = machine_of(0);
    machine.memory_bytes = (size_t)1 << 40;
    pf_model *model = load(&machine, PF_DTYPE_BF16, PF_HEAD_FULL, PF_ISA_SCALAR);
    pf_context_config config = {
        .max_sequences = 64, .kv_sequences = 1, .max_rows = 8, .max_logit_rows = 1, .kv_type = PF_TYPE_BF16
    };
    pf_error error;
    pf_context *one, *context;
    assert_ok(pf_context_create(model, team, &config, &one, &error), error);
    const size_t each = pf_context_get_config(one)->kv_budget_bytes, weights = pf_model_packed_bytes(model);
    pf_context_destroy(one);
    config.kv_sequences = -1;
    assert_ok(pf_context_create(model, team, &config, &context, &error), error);
    assert_int_equal(pf_context_get_config(context)->kv_sequences, 64); /* there is memory for all */
    pf_context_destroy(context);
    pf_model_release(model);
    const struct {
        size_t room;
        int32_t n;
    } cases[] = { { 20 * each, 20 }, { 20 * each - 1, 19 }, { 7 * each, PF_CONTEXT_FEWEST_KV } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        machine.memory_bytes = weights + PF_CONTEXT_KV_SHARE * cases[i].room;
        model = load(&machine, PF_DTYPE_BF16, PF_HEAD_FULL, PF_ISA_SCALAR);
        assert_ok(pf_context_create(model, team, &config, &context, &error), error);
        assert_int_equal(pf_context_get_config(context)->kv_sequences, cases[i].n);
        pf_context_destroy(context);
        pf_model_release(model);
    }
    pf_tiny_model_remove(directory);
}

/* The hint that products use, and whether AUTO holds BF16 in twelve bits where that product is fast. */
static void weights_larger_than_the_cache_are_marked_as_read_from_memory(void **state)
{
    (void)state;
    pf_tiny_model_create(&HEAD_OF_128, directory);
    pf_topology machine = machine_of(0);
    pf_model *model = load(&machine, PF_DTYPE_BF16, PF_HEAD_FULL, PF_ISA_SCALAR);
    const size_t bytes = pf_model_step_bytes(model);
    assert_false(model->head.full.weights.from_memory); /* cache size unknown */
    pf_model_release(model);
    for (int less = 0; less <= 1; less++) {
        machine.l3_bytes = bytes - (size_t)less;
        model = load(&machine, PF_DTYPE_BF16, PF_HEAD_FULL, PF_ISA_SCALAR);
        assert_int_equal(model->head.full.weights.from_memory, less);
        assert_int_equal(model->layers[1].down.weights.from_memory, less);
        pf_model_release(model);
    }
    for (int isa = 0; isa <= (int)pf_cpu_best_isa() && isa <= (int)PF_ISA_AVX512BF16; isa++)
        for (int far = 0; far <= 1; far++) {
            machine.l3_bytes = far ? 136 << 10 : 137 << 10; /* 69,952 weights of two bytes */
            model = load(&machine, PF_DTYPE_AUTO, PF_HEAD_FULL, (pf_isa)isa);
            assert_int_equal(model->dtype == PF_DTYPE_BF16_12 || model->not_representable_in_12_bits,
                             far && isa >= (int)PF_ISA_AVX512BF16);
            pf_model_release(model);
        }
    pf_tiny_model_remove(directory);
}

/* Otherwise, and where the cache size is unknown, rows are gathered from the panels of the LM head. */
static void a_tied_embedding_keeps_separate_rows_when_weights_fit_in_the_cache(void **state)
{
    (void)state;
    const struct {
        pf_dtype dtype;
        size_t l3_bytes;
        bool apart;
    } cases[] = {
        { PF_DTYPE_BF16, 137 << 10, true }, /* 69,952 weights of two bytes */
        { PF_DTYPE_BF16, 136 << 10, false }, { PF_DTYPE_BF16, 0, false },       { PF_DTYPE_F32, 274 << 10, true },
        { PF_DTYPE_F32, 273 << 10, false },  { PF_DTYPE_INT8, 1 << 30, false }, /* integers: only the panels exist */
    };
    pf_tiny_model_create(&(pf_tiny_model){ .vocab = 128, .tied = true }, directory);
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        const pf_topology machine = machine_of(cases[i].l3_bytes);
        pf_model *model = load(&machine, cases[i].dtype, PF_HEAD_FULL, PF_ISA_SCALAR);
        if ((model->embedding != NULL) != cases[i].apart) fail_msg("case %zu", i);
        pf_model_release(model);
    }
    pf_tiny_model_remove(directory);
}

static void find_reason(void *user, const pf_model_tensor *tensor)
{
    if (strstr(tensor->name, "down_proj") != NULL) snprintf(user, 256, "%s", tensor->reason);
}

static void a_file_of_several_types_is_loaded_as_its_widest_matrix(void **state)
{
    (void)state;
    const struct {
        pf_type type, other_type;
        const char *other;
        pf_dtype dtype;
        const char *matrices;
    } cases[] = {
        { PF_TYPE_BF16, PF_TYPE_F32, "layers.1.mlp.up_proj.weight", PF_DTYPE_F32, "f32 and bf16;" },
        { PF_TYPE_F32, PF_TYPE_BF16, "embed_tokens", PF_DTYPE_F32, "f32 and bf16;" },
        { PF_TYPE_BF16, PF_TYPE_F32, "embed_tokens", PF_DTYPE_F32, "f32 and bf16;" },
        { PF_TYPE_BF16, PF_TYPE_F16, "q_proj.weight", PF_DTYPE_BF16, "f16 and bf16, rounded to bf16;" },
        { PF_TYPE_F16, PF_TYPE_F32, "norm", PF_DTYPE_BF16, "f16, rounded to bf16;" },
        { PF_TYPE_F16, PF_TYPE_F32, "q_proj.weight", PF_DTYPE_F32, "f32 and f16;" },
        { PF_TYPE_BF16, PF_TYPE_F32, "norm", PF_DTYPE_BF16, "bf16;" },
        { PF_TYPE_BF16, PF_TYPE_F32, ".bias", PF_DTYPE_BF16, "bf16;" },
    };
    const pf_topology machine = machine_of(0);
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        char expected[96], reason[256] = "";
        const pf_tiny_model tiny = {
            .type = cases[i].type, .other = cases[i].other, .other_type = cases[i].other_type, .mlp_bias = true
        };
        pf_tiny_model_create(&tiny, directory);
        pf_model *model = load(&machine, PF_DTYPE_AUTO, PF_HEAD_FULL, PF_ISA_SCALAR);
        assert_int_equal(model->dtype, cases[i].dtype);
        pf_model_visit_tensors(model, find_reason, reason);
        snprintf(expected, sizeof expected, "the file's matrices are in %s", cases[i].matrices);
        if (strncmp(reason, expected, strlen(expected)) != 0) fail_msg("case %zu: %s", i, reason);
        pf_model_release(model);
        pf_tiny_model_remove(directory);
    }
}

int main(void)
{
    if (pf_team_create(1, NULL, 0, &team, NULL) != PF_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_takes_a_bounded_head_when_weights_exceed_the_cache_and_it_saves_a_twentieth),
        cmocka_unit_test(auto_takes_a_bounded_head_only_if_a_quarter_of_the_memory_stays_free),
        cmocka_unit_test(logits_that_are_changed_keep_the_head_full_and_say_why),
        cmocka_unit_test(a_cache_by_memory_has_room_for_no_more_than_its_share),
        cmocka_unit_test(a_context_is_limited_by_the_memory_of_the_machine_the_model_was_loaded_for),
        cmocka_unit_test(weights_larger_than_the_cache_are_marked_as_read_from_memory),
        cmocka_unit_test(a_tied_embedding_keeps_separate_rows_when_weights_fit_in_the_cache),
        cmocka_unit_test(a_file_of_several_types_is_loaded_as_its_widest_matrix),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pf_team_destroy(team);
    return failed;
}
