/* Compares the naive forward pass with transformers, on the golden vectors. */
#include <dirent.h>
#include <math.h>

#include "base/json.h"
#include "model/forward/forward_ref.h"
#include "tests/support/test.h"

static const double TOLERANCE = 1e-4; /* of the largest logit */

static double *naive_logits(const char *directory, const int32_t *tokens, int32_t n, int32_t context_tokens)
{
    pf_error error = { 0 };
    pf_checkpoint checkpoint;
    assert_ok(pf_checkpoint_open(directory, NULL, NULL, &checkpoint, &error), error);
    double *logits = calloc((size_t)n * (size_t)checkpoint.config.vocab_size, sizeof *logits);
    assert_non_null(logits);
    assert_ok(pf_forward_ref(&checkpoint, tokens, n, context_tokens, logits, &error), error);
    pf_checkpoint_close(&checkpoint);
    return logits;
}

/* ---- the definition and transformers -------------------------------------------------------------------------------- */

/* expected.json: tokens, logits of all rows or of those that "rows" lists, and the context that frequencies depend on. */
static void compare_golden(const char *directory)
{
    char path[600];
    pf_error error = { 0 };
    pf_json doc;
    int32_t tokens[256];
    snprintf(path, sizeof path, "%s/expected.json", directory);
    assert_ok(pf_json_open(path, 1 << 24, &doc, &error), error);
    const json_t *ids = json_object_get(doc.root, "tokens"), *logits = json_object_get(doc.root, "logits");
    const json_t *rows = json_object_get(doc.root, "rows"), *context = json_object_get(doc.root, "context");
    const size_t n = json_array_size(ids), n_rows = json_array_size(logits);
    assert_true(n > 0 && n <= 256 && n_rows > 0);
    for (size_t i = 0; i < n; i++) tokens[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    const size_t vocab = json_array_size(json_array_get(logits, 0));
    double *got =
        naive_logits(directory, tokens, (int32_t)n, context ? (int32_t)json_integer_value(context) : (int32_t)n);
    double worst = 0.0, largest = 0.0;
    for (size_t i = 0; i < n_rows; i++) {
        const size_t row = rows ? (size_t)json_integer_value(json_array_get(rows, i)) : i;
        for (size_t v = 0; v < vocab; v++) {
            const double wanted = json_number_value(json_array_get(json_array_get(logits, i), v));
            const double off = fabs(got[row * vocab + v] - wanted);
            if (!(off <= worst)) worst = off;
            largest = fmax(largest, fabs(wanted));
        }
    }
    if (!(worst <= TOLERANCE * largest))
        fail_msg("%s: off by %.3g, at most %.3g expected", directory, worst, TOLERANCE * largest);
    free(got);
    pf_json_close(&doc);
}

/* The cases that no row of the table of architectures reads yet, a line each: "case: reason". */
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

static void compare_goldens(const char *directory, const char *pending)
{
    DIR *dir = opendir(directory);
    int32_t n = 0;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[512];
        if (strchr(entry->d_name, '.') != NULL || is_pending(pending, entry->d_name)) continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        compare_golden(path);
        n++;
    }
    closedir(dir);
    assert_true(n > 0);
}

static void the_naive_pass_gives_the_logits_of_transformers(void **state)
{
    (void)state;
    char *pending = read_pending();
    compare_goldens("tests/golden/logits", pending);
    compare_goldens("tests/golden/families", pending);
    free(pending);
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
        cmocka_unit_test(tokens_that_the_model_cannot_take_are_refused_by_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
