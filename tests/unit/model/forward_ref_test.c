/* Compares the naive forward pass with transformers, and the engine with the naive pass, on the golden models. */
#include <dirent.h>
#include <math.h>

#include "base/json.h"
#include "model/forward/context.h"
#include "model/forward/forward_ref.h"
#include "tests/support/test.h"

static const double TOLERANCE = 1e-4; /* of the largest logit */

enum { MAX_TOKENS = 256, SPLIT = 14 };

/* ---- cases ---------------------------------------------------------------------------------------------------------- */

/* expected.json: tokens, logits of all rows or of those that "rows" lists, and the context that frequencies depend on. */
typedef struct {
    const char *directory;
    pf_json doc;
    const json_t *logits, *rows; /* [n_rows] of [vocab]; [n_rows] or NULL */
    int32_t n, context;
    int32_t tokens[MAX_TOKENS]; /* [n] */
} golden;

static void open_golden(const char *directory, golden *g)
{
    char path[600];
    pf_error error = { 0 };
    snprintf(path, sizeof path, "%s/expected.json", directory);
    *g = (golden){ .directory = directory };
    assert_ok(pf_json_open(path, 1 << 24, &g->doc, &error), error);
    g->logits = json_object_get(g->doc.root, "logits");
    g->rows = json_object_get(g->doc.root, "rows");
    const json_t *ids = json_object_get(g->doc.root, "tokens"), *context = json_object_get(g->doc.root, "context");
    g->n = (int32_t)json_array_size(ids);
    assert_true(g->n > SPLIT && g->n <= MAX_TOKENS && json_array_size(g->logits) > 0);
    g->context = context ? (int32_t)json_integer_value(context) : g->n;
    for (int32_t i = 0; i < g->n; i++) g->tokens[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
}

/* Of all rows; the caller frees them. */
static double *naive_logits(const golden *g)
{
    pf_error error = { 0 };
    pf_checkpoint checkpoint;
    assert_ok(pf_checkpoint_open(g->directory, NULL, NULL, &checkpoint, &error), error);
    assert_int_equal(json_array_size(json_array_get(g->logits, 0)), checkpoint.config.vocab_size);
    double *logits = calloc((size_t)g->n * (size_t)checkpoint.config.vocab_size, sizeof *logits);
    assert_non_null(logits);
    assert_ok(pf_forward_ref(&checkpoint, g->tokens, g->n, g->context, logits, &error), error);
    pf_checkpoint_close(&checkpoint);
    return logits;
}

typedef struct {
    double worst, largest; /* error, and logit; a NaN is the worst of all */
} difference;

static void compare(double got, double wanted, difference *d)
{
    const double error = fabs(got - wanted);
    if (!(error <= d->worst)) d->worst = error;
    d->largest = fmax(d->largest, fabs(wanted));
}

static void assert_small(const difference *d, const char *directory, const char *what)
{
    if (!(d->worst <= TOLERANCE * d->largest))
        fail_msg("%s, %s: off by %.3g, at most %.3g expected", directory, what, d->worst, TOLERANCE * d->largest);
}

/* The cases that the engine refuses so far, a line each: "case: reason". */
static char *read_pending(void)
{
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    FILE *f = fopen("tests/golden/families/pending.txt", "rb");
    if (f == NULL) return text;
    text[0] = '\n';
    (void)!fread(text + 1, 1, (1 << 16) - 2, f);
    fclose(f);
    return text;
}

static bool is_pending(const char *pending, const char *name)
{
    char line[300];
    snprintf(line, sizeof line, "\n%s:", name);
    return strstr(pending, line) != NULL;
}

static void for_goldens(const char *directory, const char *pending, void (*check)(const golden *g))
{
    DIR *dir = opendir(directory);
    int32_t n = 0;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[512];
        if (strchr(entry->d_name, '.') != NULL || is_pending(pending, entry->d_name)) continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        golden g;
        open_golden(path, &g);
        check(&g);
        pf_json_close(&g.doc);
        n++;
    }
    closedir(dir);
    assert_true(n > 0);
}

static void for_all_goldens(void (*check)(const golden *g))
{
    char *pending = read_pending();
    for_goldens("tests/golden/logits", pending, check);
    for_goldens("tests/golden/families", pending, check);
    free(pending);
}

/* ---- the definition and transformers -------------------------------------------------------------------------------- */

static void check_naive(const golden *g)
{
    double *got = naive_logits(g);
    difference d = { 0.0, 0.0 };
    for (size_t i = 0; i < json_array_size(g->logits); i++) {
        const json_t *wanted = json_array_get(g->logits, i);
        const size_t vocab = json_array_size(wanted);
        const size_t row = g->rows ? (size_t)json_integer_value(json_array_get(g->rows, i)) : i;
        for (size_t v = 0; v < vocab; v++)
            compare(got[row * vocab + v], json_number_value(json_array_get(wanted, v)), &d);
    }
    assert_small(&d, g->directory, "the naive pass");
    free(got);
}

static void the_naive_pass_gives_the_logits_of_transformers(void **state)
{
    (void)state;
    for_all_goldens(check_naive);
}

/* ---- the engine and the definition ---------------------------------------------------------------------------------- */

/* In two passes, so that the second reads the cache of the first. */
static difference run_engine(pf_model *model, pf_team *team, const golden *g, const double *wanted)
{
    pf_error error = { 0 };
    pf_context *context;
    pf_kv_seq seq;
    difference d = { 0.0, 0.0 };
    const pf_context_config config = { .max_tokens = g->context,
                                       .max_sequences = 1,
                                       .max_rows = MAX_TOKENS,
                                       .max_logit_rows = MAX_TOKENS,
                                       .kv_type = PF_TYPE_F32 };
    assert_ok(pf_context_create(model, team, &config, &context, &error), error);
    assert_int_equal(pf_kv_acquire(pf_context_kv(context), &seq), PF_OK);
    const int32_t vocab = pf_context_n_vocab(context);
    for (int32_t begin = 0, n = SPLIT; begin < g->n; begin += n, n = g->n - SPLIT) {
        const pf_span span = { seq, g->tokens + begin, n, n, NULL, 0 };
        assert_int_equal(pf_context_forward(context, &span, 1), PF_OK);
        for (int32_t i = 0; i < n; i++)
            for (int32_t v = 0; v < vocab; v++)
                compare((double)pf_context_logits(context, i)[v], wanted[(begin + i) * vocab + v], &d);
    }
    pf_context_destroy(context);
    return d;
}

static void check_engine(const golden *g)
{
    double *wanted = naive_logits(g);
    for (int isa = 0; isa <= (int)pf_cpu_best_isa(); isa++) {
        pf_error error = { 0 };
        pf_team *team;
        pf_model *model;
        assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
        const pf_model_options options = { .dtype = PF_DTYPE_F32, .isa = (pf_isa)isa, .team = team };
        assert_ok(pf_model_load(g->directory, &options, &model, &error), error);
        const difference d = run_engine(model, team, g, wanted);
        assert_small(&d, g->directory, pf_isa_name((pf_isa)isa));
        pf_model_release(model);
        pf_team_destroy(team);
    }
    free(wanted);
}

static void the_engine_gives_the_logits_of_the_naive_pass_on_every_instruction_set(void **state)
{
    (void)state;
    for_all_goldens(check_engine);
}

/* ---- refusals ------------------------------------------------------------------------------------------------------- */

static void tokens_that_the_model_cannot_take_are_refused_by_number(void **state)
{
    (void)state;
    pf_error error = { 0 };
    pf_checkpoint checkpoint;
    assert_ok(pf_checkpoint_open("tests/golden/logits/gqa", NULL, NULL, &checkpoint, &error), error);
    const int32_t vocab = checkpoint.config.vocab_size;
    double *logits = calloc(2 * (size_t)vocab, sizeof *logits);
    char expected[80];
    assert_non_null(logits);
    assert_int_equal(pf_forward_ref(&checkpoint, (const int32_t[]){ 3, vocab }, 2, 2, logits, &error), PF_INVALID);
    snprintf(expected, sizeof expected, "token 1 is %d, expected 0 to %d", vocab, vocab - 1);
    assert_string_equal(error.text, expected);
    assert_int_equal(pf_forward_ref(&checkpoint, (const int32_t[]){ -1 }, 1, 1, logits, &error), PF_INVALID);
    assert_int_equal(pf_forward_ref(&checkpoint, NULL, 0, 1, logits, &error), PF_INVALID);
    free(logits);
    pf_checkpoint_close(&checkpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_naive_pass_gives_the_logits_of_transformers),
        cmocka_unit_test(the_engine_gives_the_logits_of_the_naive_pass_on_every_instruction_set),
        cmocka_unit_test(tokens_that_the_model_cannot_take_are_refused_by_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
