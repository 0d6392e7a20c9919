/*
 * Compares logits and greedy text with transformers in float32, from vectors that tests/golden/make_logits_golden.py wrote:
 * one tiny model per variant (heads, sizes, ties, biases, every RoPE scaling, both styles of config.json, file types, shards).
 */
#include <dirent.h>
#include <math.h>

#include "base/json.h"
#include "model/forward/context.h"
#include "tests/support/test.h"

#define GOLDEN_DIR "tests/golden/logits"

enum { MAX_TOKENS = 64, N_VARIANTS = 15 };

static const double TOLERANCE = 1e-4; /* of the largest logit */

/* The contents of expected.json. */
typedef struct {
    pf_json doc;
    int32_t context, n_tokens, n_greedy;
    int32_t tokens[MAX_TOKENS], greedy[MAX_TOKENS];
    const json_t *logits; /* [n_tokens] of [vocab] */
} golden;

static int32_t read_ids(const json_t *array, int32_t ids[MAX_TOKENS])
{
    const size_t n = json_array_size(array);
    assert_true(n <= MAX_TOKENS);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return (int32_t)n;
}

static void read_golden(const char *directory, golden *g)
{
    char path[512];
    pf_error error;
    snprintf(path, sizeof path, "%s/expected.json", directory);
    assert_ok(pf_json_open(path, 1 << 24, &g->doc, &error), error);
    g->context = (int32_t)json_integer_value(json_object_get(g->doc.root, "context"));
    g->n_tokens = read_ids(json_object_get(g->doc.root, "tokens"), g->tokens);
    g->n_greedy = read_ids(json_object_get(g->doc.root, "greedy"), g->greedy);
    g->logits = json_object_get(g->doc.root, "logits");
    assert_true(g->n_tokens > 0);
    assert_int_equal(json_array_size(g->logits), g->n_tokens);
}

static void compare_logits(const char *what, pf_context *context, const golden *g)
{
    double largest = 0.0, worst = 0.0;
    for (int32_t i = 0; i < g->n_tokens; i++) {
        const json_t *row = json_array_get(g->logits, (size_t)i);
        assert_int_equal(json_array_size(row), pf_context_n_vocab(context));
        for (int32_t v = 0; v < pf_context_n_vocab(context); v++) {
            const double wanted = json_number_value(json_array_get(row, (size_t)v));
            const double error = fabs((double)pf_context_logits(context, i)[v] - wanted);
            largest = fmax(largest, fabs(wanted));
            worst = error > worst || isnan(error) ? error : worst;
        }
    }
    if (!(worst <= TOLERANCE * largest))
        fail_msg("%s: off by %.3g, at most %.3g expected", what, worst, TOLERANCE * largest);
}

static void compare_variant(const char *directory, pf_isa isa)
{
    golden g;
    read_golden(directory, &g);
    pf_error error = { 0 };
    pf_team *team;
    pf_model *model;
    pf_context *context;
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    const pf_model_options options = { .dtype = PF_DTYPE_F32, .isa = isa, .team = team };
    assert_ok(pf_model_load(directory, &options, &model, &error), error);
    const pf_context_config config = { .max_tokens = g.context,
                                       .max_sequences = 1,
                                       .max_rows = MAX_TOKENS,
                                       .max_logit_rows = MAX_TOKENS,
                                       .kv_type = PF_TYPE_F32 };
    assert_ok(pf_context_create(model, team, &config, &context, &error), error);

    char what[600];
    snprintf(what, sizeof what, "%s on %s", directory, pf_isa_name(isa));
    pf_kv_seq seq;
    assert_int_equal(pf_kv_acquire(pf_context_kv(context), &seq), PF_OK);
    const pf_span prompt = { seq, g.tokens, g.n_tokens, g.n_tokens, NULL, 0 };
    assert_int_equal(pf_context_forward(context, &prompt, 1), PF_OK);
    compare_logits(what, context, &g);

    int32_t row = g.n_tokens - 1;
    for (int32_t i = 0; i < g.n_greedy; i++) {
        const int32_t token =
            pf_model_kernels(model)->argmax(pf_context_logits(context, row), pf_context_n_vocab(context));
        if (token != g.greedy[i]) fail_msg("%s: greedy token %d is %d, expected %d", what, i, token, g.greedy[i]);
        const pf_span next = { seq, &token, 1, 1, NULL, 0 };
        if (i + 1 < g.n_greedy) assert_int_equal(pf_context_forward(context, &next, 1), PF_OK);
        row = 0;
    }
    pf_context_destroy(context);
    pf_model_release(model);
    pf_team_destroy(team);
    pf_json_close(&g.doc);
}

static void f32_logits_and_greedy_text_equal_transformers_on_every_instruction_set(void **state)
{
    (void)state;
    DIR *dir = opendir(GOLDEN_DIR);
    assert_non_null(dir);
    int32_t n = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        char path[400];
        snprintf(path, sizeof path, "%s/%s", GOLDEN_DIR, entry->d_name);
        for (int isa = 0; isa <= (int)pf_cpu_best_isa(); isa++) compare_variant(path, (pf_isa)isa);
        n++;
    }
    closedir(dir);
    assert_int_equal(n, N_VARIANTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_logits_and_greedy_text_equal_transformers_on_every_instruction_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
