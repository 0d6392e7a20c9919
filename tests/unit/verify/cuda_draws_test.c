/*
 * The draws of the CUDA backend on the emulation of tests/cuda-shim, against the CPU's judge on the same logits: every kind of draw,
 * filter and proposal, rows with ties, infinities and NaN, token for token.
 */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "tests/cuda-shim/shim_control.h"
#include "tests/support/draw.h"
#include "verify/cuda/cuda_device.h"
#include "verify/cuda/cuda_draws.h"
#include "verify/judge.h"

enum { MOST_VOCAB = 4099, ROWS = 4, N_IDS = 9 };

/* Logits on the host and on the device, and a backend on each. */
typedef struct {
    int32_t n_vocab;
    float *logits; /* [ROWS, n_vocab] */
    float *pinned, *device;
    cudaStream_t stream;
    pf_cuda_draws draws;
    pf_kernels kernels;
} bench;

static float *logits_of(void *state, int32_t row)
{
    const bench *b = state;
    return b->logits + (size_t)row * (size_t)b->n_vocab;
}

static pf_status draw_on_device(void *state, const pf_draw *draws, int32_t n, pf_drawn *out)
{
    bench *b = state;
    assert_int_equal(pf_cuda_draws_queue(&b->draws, draws, n, b->device, b->stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(b->stream), cudaSuccess);
    pf_cuda_draws_read(&b->draws, n, out);
    return PF_OK;
}

static const pf_forward_ops HOST = { .logits = logits_of }, DEVICE = { .draw = draw_on_device };

static pf_forward_backend backend_of(bench *b, const pf_forward_ops *ops)
{
    return (pf_forward_backend){
        .ops = ops, .state = b, .limits = { .n_vocab = b->n_vocab, .max_logit_rows = ROWS }, .kernels = &b->kernels
    };
}

static void open_bench(bench *b, int32_t n_vocab)
{
    pf_error error = { 0 };
    const size_t n_bytes = ROWS * (size_t)n_vocab * sizeof(float);
    *b = (bench){ .n_vocab = n_vocab, .logits = malloc(n_bytes) };
    assert_ok(pf_kernels_select(pf_cpu_best_isa(), &b->kernels, &error), error);
    assert_ok(pf_cuda_device_open(0, &error), error);
    assert_int_equal(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), cudaSuccess);
    assert_ok(pf_cuda_allocate_pinned((void **)&b->pinned, n_bytes, &error), error);
    assert_ok(pf_cuda_allocate((void **)&b->device, n_bytes, "logits", &error), error);
    assert_ok(pf_cuda_draws_create(&b->draws, ROWS, n_vocab, &error), error);
}

static void close_bench(bench *b)
{
    pf_cuda_draws_destroy(&b->draws);
    (void)cudaFreeHost(b->pinned);
    (void)cudaFree(b->device);
    (void)cudaStreamDestroy(b->stream);
    free(b->logits);
    assert_int_equal(pf_shim_violations(), 0);
    assert_int_equal(pf_shim_live(), 0);
}

static void send_logits(bench *b)
{
    const size_t n_bytes = ROWS * (size_t)b->n_vocab * sizeof(float);
    memcpy(b->pinned, b->logits, n_bytes);
    assert_int_equal(cudaMemcpyAsync(b->device, b->pinned, n_bytes, cudaMemcpyHostToDevice, b->stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(b->stream), cudaSuccess);
}

static float uniform(uint64_t *rng)
{
    return (float)(draw(rng) >> 40) * 0x1p-24f;
}

typedef enum { SMOOTH, TIED, EQUAL, FAR_APART, INVALID, INFINITE, WITHOUT_NUMBER, N_SHAPES } shape;

static float make_logit(shape s, uint64_t *rng)
{
    const float u = uniform(rng);
    switch (s) {
    case TIED: return floorf(4.0f * u) - (u < 0.5f ? 0.0f : 2.0f); /* zeros of both signs among them */
    case EQUAL: return 1.5f;
    case FAR_APART: return 300.0f * u;
    case INVALID: return u < 0.2f ? NAN : u < 0.4f ? -INFINITY : 5.0f * u;
    case INFINITE: return u < 0.1f ? INFINITY : u < 0.2f ? NAN : u;
    case WITHOUT_NUMBER: return u < 0.5f ? NAN : -INFINITY;
    default: return 6.0f * u + 3.0f * uniform(rng);
    }
}

static void fill_logits(bench *b, shape s, uint64_t *rng)
{
    for (size_t i = 0; i < ROWS * (size_t)b->n_vocab; i++) b->logits[i] = make_logit(s, rng);
    send_logits(b);
}

/* ---- proposals -------------------------------------------------------------------------------------------------- */

typedef struct {
    int32_t tokens[ROWS - 1], parents[ROWS - 1], ids[ROWS - 1][N_IDS];
    float q[ROWS - 1][N_IDS];
    pf_declared declared[ROWS - 1];
} proposal;

/* Ids twice, and probabilities that a hostile drafter may send, are among them. */
static void make_proposal(proposal *p, int32_t n_vocab, uint64_t *rng)
{
    static const float odd[] = { 0.0f, -1.0f, NAN, INFINITY };
    for (int32_t i = 0; i < ROWS - 1; i++) {
        p->parents[i] = (int32_t)(draw(rng) % (uint64_t)(i + 1)) - 1;
        for (int32_t j = 0; j < N_IDS; j++) {
            p->ids[i][j] = (int32_t)(draw(rng) % (uint64_t)n_vocab);
            p->q[i][j] = draw(rng) % 16 == 0 ? odd[draw(rng) % 4] : uniform(rng) / N_IDS;
        }
        p->tokens[i] = draw(rng) % 4 == 0 ? (int32_t)(draw(rng) % (uint64_t)n_vocab) : p->ids[i][draw(rng) % N_IDS];
        p->declared[i] = (pf_declared){ p->ids[i], p->q[i], 1 + (int32_t)(draw(rng) % N_IDS) };
    }
}

/* The likeliest ids are proposed, so that some are kept. */
static void make_likely(proposal *p, bench *b)
{
    for (int32_t i = 0; i < ROWS - 1; i++) {
        const int32_t best = b->kernels.argmax(logits_of(b, i), b->n_vocab);
        if (best >= 0) p->tokens[i] = p->ids[i][0] = best;
    }
}

typedef struct {
    pf_judge host, device;
    pf_arena arenas[2];
} judges;

static pf_judge make_judge(pf_forward_backend backend, pf_arena *arena)
{
    pf_arena measure = pf_arena_measure();
    (void)pf_judge_create(backend, NULL, &measure);
    assert_status(pf_arena_create(measure.used, arena), PF_OK);
    return pf_judge_create(backend, NULL, arena);
}

static void assert_same_judgement(judges *j, const pf_sampling *sampling, pf_method method, const pf_drafted *drafted,
                                  int32_t position, const char *what, int32_t counts[ROWS + 1])
{
    pf_acceptance expected, got;
    int32_t expected_path[ROWS] = { 0 }, path[ROWS] = { 0 };
    const pf_rules none = { 0 };
    const pf_judged sequence = { .sampling = sampling, .method = method, .rules = &none };
    const pf_status status = pf_judge_proposal(&j->host, &sequence, drafted, 0, position, &expected, expected_path);
    pf_judge_ask(&j->device, &sequence, drafted, 0, position);
    assert_status(pf_judge_draw(&j->device, drafted->n + 1), PF_OK);
    assert_status(pf_judge_proposal(&j->device, &sequence, drafted, 0, position, &got, path), status);
    if (got.n_accepted != expected.n_accepted || got.next != expected.next)
        fail_msg("%s: %d tokens and %d, expected %d and %d", what, got.n_accepted, got.next, expected.n_accepted,
                 expected.next);
    assert_memory_equal(path, expected_path, sizeof path);
    counts[status == PF_OK ? got.n_accepted : ROWS]++;
}

static const struct {
    const char *name;
    pf_sampling sampling;
} SAMPLINGS[] = {
    { "plain", { .temperature = 1.0f } },
    { "hot", { .temperature = 3.0f, .top_p = 1.0f } },
    { "cold", { .temperature = 0.2f } },
    { "all but greedy", { .temperature = 1e-6f } },
    { "top-k", { .temperature = 1.0f, .top_k = 5 } },
    { "top-k of one", { .temperature = 1.0f, .top_k = 1 } },
    { "top-p", { .temperature = 1.5f, .top_p = 0.6f } },
    { "top-p of one", { .temperature = 1.5f, .top_p = 1e-9f } },
    { "nearly all of top-p", { .temperature = 1.5f, .top_p = 0.999f } },
    { "min-p", { .temperature = 1.0f, .min_p = 0.3f } },
    { "all filters", { .temperature = 2.0f, .top_k = 40, .top_p = 0.8f, .min_p = 0.05f } },
};

static void the_device_draws_what_the_judge_draws_from_logits(void **state)
{
    (void)state;
    static const int32_t vocabularies[] = { 1, 3, 97, 1000, MOST_VOCAB };
    int32_t counts[ROWS + 1] = { 0 };
    uint64_t rng = 7;
    for (size_t v = 0; v < PF_COUNT(vocabularies); v++) {
        bench b;
        judges j;
        open_bench(&b, vocabularies[v]);
        j.host = make_judge(backend_of(&b, &HOST), &j.arenas[0]);
        j.device = make_judge(backend_of(&b, &DEVICE), &j.arenas[1]);
        for (int s = 0; s < N_SHAPES; s++) {
            for (size_t i = 0; i < PF_COUNT(SAMPLINGS); i++) {
                if (vocabularies[v] == MOST_VOCAB && (i + (size_t)s) % 4 != 0) continue;
                proposal p;
                fill_logits(&b, (shape)s, &rng);
                make_proposal(&p, b.n_vocab, &rng);
                make_likely(&p, &b);
                pf_sampling sampling = SAMPLINGS[i].sampling;
                sampling.seed = draw(&rng);
                const int32_t position = (int32_t)(draw(&rng) % 5000);
                const pf_drafted chain = { p.tokens, NULL, NULL, ROWS - 1 }, none = { p.tokens, NULL, NULL, 0 },
                                 tree = { p.tokens, p.parents, NULL, ROWS - 1 },
                                 declared = { p.tokens, NULL, p.declared, ROWS - 1 };
                const char *what = SAMPLINGS[i].name;
                assert_same_judgement(&j, &sampling, PF_METHOD_COUPLED, &tree, position, what, counts);
                assert_same_judgement(&j, &sampling, PF_METHOD_REJECTION, &none, position, what, counts);
                assert_same_judgement(&j, &sampling, PF_METHOD_REJECTION, &chain, position, what, counts);
                assert_same_judgement(&j, &sampling, PF_METHOD_REJECTION, &declared, position, what, counts);
            }
        }
        pf_arena_destroy(&j.arenas[0]);
        pf_arena_destroy(&j.arenas[1]);
        close_bench(&b);
    }
    for (int32_t n = 0; n <= ROWS; n++) assert_true(counts[n] > 10); /* each end of a round, and refusals */
}

/* Ids of a position whose words are below 2^-16 of their range: of these the noise takes a second block. */
typedef struct {
    int32_t ids[2], n;
    uint32_t words[2];
} small_words;

static small_words find_small_words(uint64_t seed, int32_t position, int32_t n_vocab)
{
    small_words found = { .n = 0 };
    for (int32_t block = 0; block < n_vocab / PF_NOISE_BLOCK; block++) {
        uint32_t words[PF_NOISE_BLOCK];
        pf_noise_block(seed, PF_NOISE_TARGET, position, (uint32_t)block, 0, words);
        for (int32_t i = 0; i < PF_NOISE_BLOCK; i++)
            if (words[i] >> 16 == 0 && found.n < 2) {
                found.ids[found.n] = block * PF_NOISE_BLOCK + i;
                found.words[found.n++] = words[i];
            }
    }
    return found;
}

/* Two candidates whose shares lie so that the refined noise chooses one, and the words alone the other. Returns the one that wins;
 * -1: the two kinds of noise are too near each other. */
static int32_t set_apart(bench *b, const small_words *s, uint64_t seed, int32_t position)
{
    double fine[2], rough[2];
    for (int32_t i = 0; i < 2; i++) {
        fine[i] = log(pf_noise_open_unit(s->words[i], seed, PF_NOISE_TARGET, position, s->ids[i]));
        rough[i] = log(((double)s->words[i] + 0.5) * 0x1p-32);
    }
    const double by_fine = fine[0] - fine[1], by_rough = rough[0] - rough[1];
    if (fabs(by_fine - by_rough) < 1e-5) return -1;
    for (int32_t i = 0; i < b->n_vocab; i++) b->logits[i] = -INFINITY;
    b->logits[s->ids[0]] = (float)(0.5 * (by_fine + by_rough));
    b->logits[s->ids[1]] = 0.0f;
    return s->ids[by_fine < by_rough ? 0 : 1];
}

static void noise_of_small_words_is_refined_as_on_the_cpu(void **state)
{
    (void)state;
    enum { V = 4096, WANTED = 8, MOST_POSITIONS = 1 << 16 };
    bench b;
    open_bench(&b, V);
    const pf_sampling sampling = { .temperature = 1.0f, .seed = 99 };
    int32_t n_checked = 0;
    for (int32_t position = 0; position < MOST_POSITIONS && n_checked < WANTED; position++) {
        const small_words s = find_small_words(sampling.seed, position, V);
        const int32_t winner = s.n == 2 ? set_apart(&b, &s, sampling.seed, position) : -1;
        if (winner < 0) continue;
        static float p[V];
        pf_drawn drawn;
        void *scratch = malloc(pf_sampling_scratch_bytes(V));
        send_logits(&b);
        assert_status(pf_sampling_distribution(&sampling, &b.kernels, b.logits, V, p, scratch), PF_OK);
        free(scratch);
        const pf_draw race = { .kind = PF_DRAW_RACE, .sampling = &sampling, .position = position, .token = -1 };
        assert_status(draw_on_device(&b, &race, 1, &drawn), PF_OK);
        assert_int_equal(b.kernels.race(p, V, sampling.seed, PF_NOISE_TARGET, position), winner);
        assert_int_equal(drawn.token, winner);
        n_checked++;
    }
    assert_int_equal(n_checked, WANTED);
    close_bench(&b);
}

/* ---- the best token --------------------------------------------------------------------------------------------- */

typedef struct {
    float *chunk_values;
    int32_t *input, *chunks, *chosen;
} choice_memory;

static void choose_on_device(bench *b, int32_t n, int32_t out[2])
{
    pf_error error = { 0 };
    choice_memory m = { 0 };
    int32_t *pinned = NULL;
    assert_ok(pf_cuda_allocate_pinned((void **)&pinned, 8 * sizeof *pinned, &error), error);
    assert_ok(pf_cuda_allocate((void **)&m.input, 8 * sizeof *m.input, "rows", &error), error);
    assert_ok(pf_cuda_allocate((void **)&m.chunk_values, PF_CUDA_CHOICE_CHUNKS * sizeof(float), "rows", &error), error);
    assert_ok(pf_cuda_allocate((void **)&m.chunks, 2 * PF_CUDA_CHOICE_CHUNKS * sizeof(int32_t), "rows", &error), error);
    assert_ok(pf_cuda_allocate((void **)&m.chosen, 2 * sizeof(int32_t), "rows", &error), error);
    pinned[0] = pinned[1] = 1;
    pinned[2] = n;
    assert_int_equal(cudaMemcpyAsync(m.input, pinned, 8 * sizeof *pinned, cudaMemcpyHostToDevice, b->stream),
                     cudaSuccess);
    const pf_cuda_rows rows = { .counts = m.input, .best_of = m.input + 2 };
    const pf_cuda_choice choice = { .logits = b->device,
                                    .n_vocab = b->n_vocab,
                                    .scale = 1.0f,
                                    .chunk_values = m.chunk_values,
                                    .chunk_best = m.chunks,
                                    .chunk_invalid = m.chunks + PF_CUDA_CHOICE_CHUNKS,
                                    .best = m.chosen,
                                    .invalid = m.chosen + 1 };
    assert_int_equal(pf_cuda_launch_choose(&choice, &rows, 1, b->stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(b->stream), cudaSuccess);
    assert_int_equal(cudaMemcpyAsync(pinned, m.chosen, 2 * sizeof *pinned, cudaMemcpyDeviceToHost, b->stream),
                     cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(b->stream), cudaSuccess);
    memcpy(out, pinned, 2 * sizeof *out);
    (void)cudaFreeHost(pinned);
    (void)cudaFree(m.input);
    (void)cudaFree(m.chunk_values);
    (void)cudaFree(m.chunks);
    (void)cudaFree(m.chosen);
}

static void the_best_token_is_the_first_of_equals_and_no_nan(void **state)
{
    (void)state;
    static const int32_t vocabularies[] = { 1, 3, 97, 1000, MOST_VOCAB };
    uint64_t rng = 3;
    for (size_t v = 0; v < PF_COUNT(vocabularies); v++) {
        bench b;
        open_bench(&b, vocabularies[v]);
        for (int s = 0; s < N_SHAPES; s++) {
            int32_t got[2];
            const int32_t n = 1 + (int32_t)(draw(&rng) % (uint64_t)b.n_vocab);
            fill_logits(&b, (shape)s, &rng);
            choose_on_device(&b, n, got);
            assert_int_equal(got[0], b.kernels.argmax(b.logits, n));
            assert_int_equal(got[1], b.kernels.find_invalid(b.logits, n));
        }
        close_bench(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_draws_what_the_judge_draws_from_logits),
        cmocka_unit_test(noise_of_small_words_is_refined_as_on_the_cpu),
        cmocka_unit_test(the_best_token_is_the_first_of_equals_and_no_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
