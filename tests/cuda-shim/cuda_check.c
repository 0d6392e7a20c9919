/*
 * cuda_check MODEL [PASSES]: the CUDA backend beside the CPU on a model's files, as lines of "name value" for scripts/gpu-check.sh.
 *
 *   logits_error     of a text's logits, in units of their size; the CPU in BF16 ("cpu_skipped 1": it has no room for the model)
 *   same_best        share of positions at which both choose one token
 *   same_rows        1: eight rows of one pass have the bits of eight passes of one
 *   decode_ms, verify_8_ms, prefill_ms     median time of a pass of 1, of 8 rows, of all rows that a pass has
 *   weight_bytes     that a pass reads
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/team.h"
#include "model/backend/cpu_backend.h"
#include "model/forward/context.h"
#include "model/weights/model.h"
#include "verify/cuda/cuda_backend.h"

enum { TEXT = 40, BLOCK = 8, MOST_PASSES = 1000 };

static _Noreturn void give_up(const char *what, const pf_error *error)
{
    fprintf(stderr, "cuda_check: %s: %s\n", what, error ? error->text : "");
    exit(1);
}

static void demand(pf_status status, const char *what, const pf_error *error)
{
    if (status != PF_OK) give_up(what, error);
}

static int32_t token(const pf_forward_backend *b, int32_t i)
{
    return (i * 7919 + i * i % 101) % b->limits.n_vocab;
}

/* Logits of the text's tokens, n of them a pass. */
static float *read_text(const pf_forward_backend *b, int32_t n)
{
    const size_t n_vocab = (size_t)b->limits.n_vocab;
    float *out = malloc(TEXT * n_vocab * sizeof *out);
    int32_t tokens[TEXT];
    int64_t sequence;
    if (!out) give_up("logits", NULL);
    for (int32_t i = 0; i < TEXT; i++) tokens[i] = token(b, i);
    demand(pf_forward_acquire(b, &sequence), "a sequence", NULL);
    for (int32_t at = 0; at < TEXT; at += n) {
        const pf_span span = { .sequence = sequence, .tokens = tokens + at, .n_tokens = n, .n_logits = n };
        demand(pf_forward_run(b, &span, 1), pf_forward_refusal(b), NULL);
        for (int32_t i = 0; i < n; i++)
            memcpy(out + (size_t)(at + i) * n_vocab, pf_forward_logits(b, i), n_vocab * sizeof *out);
    }
    pf_forward_release(b, sequence);
    return out;
}

static float *read_on_cpu(const char *path)
{
    pf_team *team;
    pf_model *model;
    pf_context *context;
    pf_error error = { 0 };
    const long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    demand(pf_team_create(n_cpus < 1    ? 1
                          : n_cpus > 64 ? 64
                                        : (int32_t)n_cpus,
                          NULL, 0, &team, &error),
           "threads", &error);
    const pf_model_options options = { .dtype = PF_DTYPE_BF16, .isa = pf_cpu_best_isa(), .team = team };
    demand(pf_model_load(path, &options, &model, &error), "the model", &error);
    const pf_context_config config = {
        .max_tokens = TEXT, .max_sequences = 1, .max_rows = BLOCK, .max_logit_rows = BLOCK, .kv_type = PF_TYPE_BF16
    };
    demand(pf_context_create(model, team, &config, &context, &error), "the context", &error);
    const pf_forward_backend backend = pf_cpu_backend(context);
    float *logits = read_text(&backend, BLOCK);
    pf_context_destroy(context);
    pf_model_release(model);
    pf_team_destroy(team);
    return logits;
}

static void compare(const pf_forward_backend *b, const float *logits, const float *expected)
{
    const int32_t n_vocab = b->limits.n_vocab;
    double squares = 0.0, errors = 0.0;
    int32_t n_same = 0;
    for (int32_t i = 0; i < TEXT; i++) {
        const float *got = logits + (size_t)i * (size_t)n_vocab, *other = expected + (size_t)i * (size_t)n_vocab;
        n_same += b->kernels->argmax(got, n_vocab) == b->kernels->argmax(other, n_vocab);
        for (int32_t v = 0; v < n_vocab; v++) {
            squares += (double)other[v] * (double)other[v];
            errors += ((double)got[v] - (double)other[v]) * ((double)got[v] - (double)other[v]);
        }
    }
    printf("logits_error %.5f\nsame_best %.3f\n", sqrt(errors / squares), (double)n_same / TEXT);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds of a pass of n rows behind the text, with the best token of each: the median. */
static double time_pass(const pf_forward_backend *b, int32_t n, int32_t n_passes)
{
    static double times[MOST_PASSES];
    int32_t tokens[PF_CUDA_MOST_ROWS];
    int64_t sequence;
    for (int32_t i = 0; i < n; i++) tokens[i] = token(b, i);
    demand(pf_forward_acquire(b, &sequence), "a sequence", NULL);
    for (int32_t i = -2; i < n_passes; i++) { /* two to warm up */
        const pf_span span = {
            .sequence = sequence, .tokens = tokens, .n_tokens = n, .n_logits = n, .best_of = b->limits.n_vocab
        };
        const uint64_t start = pf_now_ns();
        demand(pf_forward_run(b, &span, 1), pf_forward_refusal(b), NULL);
        if (pf_forward_best(b, n - 1, b->limits.n_vocab) < 0) give_up("the best token", NULL); /* waits for the pass */
        if (i >= 0) times[i] = (double)(pf_now_ns() - start) * 1e-6;
        demand(pf_forward_truncate(b, sequence, 0), "a rollback", NULL);
    }
    pf_forward_release(b, sequence);
    qsort(times, (size_t)n_passes, sizeof *times, ascending);
    return times[n_passes / 2];
}

int main(int argc, char **argv)
{
    pf_cuda_backend *cuda;
    pf_error error = { 0 };
    const int32_t n_passes = argc > 2 ? atoi(argv[2]) : 100;
    if (argc < 2 || n_passes < 1 || n_passes > MOST_PASSES)
        give_up("usage: cuda_check MODEL [PASSES], 1 to 1000", NULL);
    const pf_cuda_options options = { .max_tokens = 2 * PF_CUDA_DEFAULT_ROWS, .isa = pf_cpu_best_isa() };
    demand(pf_cuda_backend_open(argv[1], &options, &cuda, &error), "the CUDA backend", &error);
    const pf_forward_backend backend = pf_cuda_forward_backend(cuda);
    float *alone = read_text(&backend, 1), *together = read_text(&backend, BLOCK);
    const size_t n_bytes = TEXT * (size_t)backend.limits.n_vocab * sizeof *alone;
    if (getenv("CUDA_CHECK_WITHOUT_CPU")) {
        printf("cpu_skipped 1\n");
    } else {
        float *expected = read_on_cpu(argv[1]);
        compare(&backend, alone, expected);
        free(expected);
    }
    printf("same_rows %d\n", memcmp(alone, together, n_bytes) == 0);
    printf("decode_ms %.4f\n", time_pass(&backend, 1, n_passes));
    printf("verify_8_ms %.4f\n", time_pass(&backend, BLOCK, n_passes));
    printf("prefill_ms %.4f\n", time_pass(&backend, backend.limits.max_rows, n_passes));
    printf("weight_bytes %zu\n", pf_cuda_backend_weight_bytes(cuda));
    free(alone);
    free(together);
    pf_cuda_backend_close(cuda);
    return 0;
}
