/*
 * The CUDA backend on the emulation of tests/cuda-shim: its logits against those of the CPU's, the claims of every backend, texts
 * of a verifier with and without speculation, and calls of the runtime that fail at every point.
 */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "draft/model_drafter.h"
#include "model/backend/cpu_backend.h"
#include "model/forward/context.h"
#include "model/weights/model.h"
#include "tests/cuda-shim/shim_control.h"
#include "tests/support/backend_claims.h"
#include "tests/support/duet.h"
#include "tests/support/random_model.h"
#include "tests/support/tiny_side.h"
#include "verify/cuda/cuda_backend.h"
#include "verify/model_verifier.h"

enum { TILE = 32, TOKENS = CLAIM_TEXT + CLAIM_ROWS, N_NEW = 16, N_PROMPT = 7 };

#define SHAPE                                                                                                 \
    "\"hidden_size\": 76, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"head_dim\": 32, \"intermediate_size\": 100, \"vocab_size\": 97, \"max_position_embeddings\": 160, "    \
    "\"bos_token_id\": 1, \"eos_token_id\": 2, "
#define LLAMA         "\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": \"silu\""
#define LARGE_EPSILON "\"rms_norm_eps\": 0.3, " /* its place shows */

static const struct {
    const char *name, *config;
} PLANS[] = {
    { "Llama", "{" SHAPE LARGE_EPSILON LLAMA "}" },
    { "Llama 3's frequencies, tied",
      "{" SHAPE LLAMA ", \"tie_word_embeddings\": true, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4.0, "
      "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 40}}" },
    { "Qwen 2: biases",
      "{" SHAPE "\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\", \"hidden_act\": \"silu\"}" },
    { "Qwen 3: norms of heads",
      "{" SHAPE LARGE_EPSILON
      "\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", \"hidden_act\": \"silu\"}" },
    { "Mistral: a window",
      "{" SHAPE "\"architectures\": [\"MistralForCausalLM\"], \"model_type\": \"mistral\", \"hidden_act\": \"silu\", "
      "\"sliding_window\": 11}" },
    { "Gemma 2: norms behind blocks, windows, soft caps",
      "{" SHAPE "\"architectures\": [\"Gemma2ForCausalLM\"], \"model_type\": \"gemma2\", \"sliding_window\": 11, "
      "\"hidden_activation\": \"gelu_pytorch_tanh\", \"attn_logit_softcapping\": 3.0, \"final_logit_softcapping\": "
      "4.0, \"query_pre_attn_scalar\": 37}" },
    { "Gemma 3: two rotary tables",
      "{" SHAPE "\"architectures\": [\"Gemma3ForCausalLM\"], \"model_type\": \"gemma3_text\", \"sliding_window\": 11, "
      "\"sliding_window_pattern\": 2, \"query_pre_attn_scalar\": 37, \"hidden_activation\": \"gelu_pytorch_tanh\"}" },
    { "Granite: scales of everything",
      "{" SHAPE "\"architectures\": [\"GraniteForCausalLM\"], \"model_type\": \"granite\", \"hidden_act\": \"silu\", "
      "\"attention_multiplier\": 0.1, \"embedding_multiplier\": 3.0, \"residual_multiplier\": 0.3, "
      "\"logits_scaling\": 3.0}" },
};

static const char MIXTRAL[] =
    "{" SHAPE "\"architectures\": [\"MixtralForCausalLM\"], \"model_type\": \"mixtral\", \"hidden_act\": \"silu\", "
    "\"num_local_experts\": 5, \"num_experts_per_tok\": 2}";

static const pf_cuda_options OPTIONS = { .max_tokens = TOKENS,
                                         .max_sequences = CLAIM_SEQUENCES,
                                         .kv_sequences = 3,
                                         .max_rows = CLAIM_ROWS,
                                         .segment_tokens = TILE };

static pf_cuda_backend *open_cuda(const char *directory, const pf_cuda_options *options)
{
    pf_cuda_backend *backend = NULL;
    pf_error error = { 0 };
    pf_cuda_options o = *options;
    o.isa = pf_cpu_best_isa();
    assert_ok(pf_cuda_backend_open(directory, &o, &backend, &error), error);
    return backend;
}

static void assert_no_violation(void)
{
    const int n = pf_shim_violations();
    if (n > 0) fail_msg("%d violations, the first: %s", n, pf_shim_first_violation());
}

static int before_each(void **state)
{
    (void)state;
    pf_shim_reset();
    return 0;
}

/* Everything that was made is gone. */
static int after_each(void **state)
{
    (void)state;
    assert_no_violation();
    assert_int_equal(pf_shim_live(), 0);
    return 0;
}

/* ---- against the CPU ---------------------------------------------------------------------------------------------- */

/* The same text on the CPU in BF16, whose sums differ in order alone. */
static float *cpu_logits(const char *directory)
{
    pf_team *team;
    pf_model *model;
    pf_context *context;
    pf_error error = { 0 };
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    const pf_model_options options = { .dtype = PF_DTYPE_BF16, .isa = pf_cpu_best_isa(), .team = team };
    assert_ok(pf_model_load(directory, &options, &model, &error), error);
    const pf_context_config config = {
        .max_tokens = TOKENS, .max_sequences = 1, .max_rows = 16, .max_logit_rows = 16, .kv_type = PF_TYPE_BF16
    };
    assert_ok(pf_context_create(model, team, &config, &context, &error), error);
    const pf_forward_backend backend = pf_cpu_backend(context);
    float *logits = claim_plain_logits(&backend);
    pf_context_destroy(context);
    pf_model_release(model);
    pf_team_destroy(team);
    return logits;
}

/* The error in units of the deviation of all logits. */
static void assert_near(const char *name, const float *a, const float *expected, size_t n, double most)
{
    double squares = 0.0, errors = 0.0;
    for (size_t i = 0; i < n; i++) {
        assert_true(isfinite(a[i]));
        squares += (double)expected[i] * (double)expected[i];
        errors += ((double)a[i] - (double)expected[i]) * ((double)a[i] - (double)expected[i]);
    }
    const double error = sqrt(errors / squares);
    if (error > most) fail_msg("%s: the logits differ by %.5f of their size, expected %.5f at most", name, error, most);
}

static void logits_of_every_plan_are_near_those_of_the_cpu(void **state)
{
    (void)state;
    pf_shim_set_order(PF_SHIM_SHUFFLED, 3);
    for (size_t i = 0; i < PF_COUNT(PLANS); i++) {
        char directory[PF_TINY_PATH];
        pf_cuda_options options = OPTIONS;
        options.segment_tokens = i % 2 ? TILE : 2 * TILE; /* segments of a tile, and of several */
        pf_random_model_create(PLANS[i].config, 5 + i, directory);
        float *expected = cpu_logits(directory);
        pf_cuda_backend *cuda = open_cuda(directory, &options);
        const pf_forward_backend backend = pf_cuda_forward_backend(cuda);
        float *logits = claim_plain_logits(&backend);
        assert_near(PLANS[i].name, logits, expected, (size_t)CLAIM_TEXT * (size_t)backend.limits.n_vocab, 0.03);
        pf_cuda_backend_close(cuda);
        free(logits);
        free(expected);
        pf_tiny_model_remove(directory);
    }
}

/* ---- claims of every backend --------------------------------------------------------------------------------------- */

static void check_claims(const char *directory, const pf_cuda_options *options)
{
    pf_cuda_backend *cuda = open_cuda(directory, options);
    const pf_forward_backend backend = pf_cuda_forward_backend(cuda);
    float *plain = claim_plain_logits(&backend);
    for (int32_t i = 0; i < n_backend_claims; i++) backend_claims[i].check(&backend, plain);
    pf_cuda_backend_close(cuda);
    free(plain);
}

static void check_plan(size_t plan, const pf_cuda_options *options)
{
    char directory[PF_TINY_PATH];
    pf_random_model_create(PLANS[plan].config, 5 + plan, directory);
    check_claims(directory, options);
    pf_tiny_model_remove(directory);
}

static void the_claims_of_a_backend_hold(void **state)
{
    (void)state;
    check_plan(0, &OPTIONS);
    if (!pf_shim_checks_races()) check_plan(5, &OPTIONS); /* windows and soft caps */
}

static void they_hold_without_graphs_in_another_order_of_threads(void **state)
{
    (void)state;
    if (pf_shim_checks_races()) skip(); /* the kernels of the tests above */
    pf_cuda_options options = OPTIONS;
    options.without_graphs = true;
    options.segment_tokens = 2 * TILE;
    pf_shim_set_order(PF_SHIM_REVERSE, 0);
    check_plan(3, &options); /* norms of heads */
}

/* The list is the CPU's too. */
static void they_hold_for_the_cpu(void **state)
{
    (void)state;
    const pf_context_config config = {
        .max_tokens = TOKENS, .max_sequences = CLAIM_SEQUENCES, .kv_sequences = 3, .max_rows = CLAIM_ROWS
    };
    pf_tiny_side side = pf_tiny_side_open(&(pf_tiny_model){ .seed = 3 }, 1, &config);
    const pf_forward_backend backend = pf_cpu_backend(side.context);
    float *plain = claim_plain_logits(&backend);
    for (int32_t i = 0; i < n_backend_claims; i++) backend_claims[i].check(&backend, plain);
    pf_tiny_side_close(&side);
    free(plain);
}

/* ---- the host's work beside the device's --------------------------------------------------------------------------- */

static pf_status draw_one(const pf_forward_backend *b, pf_draw_kind kind, pf_drawn *out)
{
    static const pf_sampling sampling = { .temperature = 1.0f, .seed = 3 };
    return pf_forward_draw(b, &(pf_draw){ .kind = kind, .sampling = &sampling, .token = -1 }, 1, out);
}

/* The emulation runs what is queued when the host waits. */
static void check_overlap(const char *directory, bool without_graphs)
{
    enum { N_PIECES = 6, PIECE = 8 };
    const pf_cuda_options options = { .max_tokens = 64, .max_rows = PIECE, .without_graphs = without_graphs };
    pf_cuda_backend *cuda = open_cuda(directory, &options);
    const pf_forward_backend b = pf_cuda_forward_backend(cuda);
    int32_t tokens[PIECE] = { 0 };
    int64_t sequence;
    pf_drawn drawn;
    assert_status(pf_forward_acquire(&b, &sequence), PF_OK);
    long seen[N_PIECES];
    const long before = pf_shim_kernels();
    for (int32_t i = 0; i < N_PIECES; i++) {
        for (int32_t j = 0; j < PIECE; j++) tokens[j] = 3 * i + j;
        const pf_span span = {
            .sequence = sequence, .tokens = tokens, .n_tokens = PIECE, .n_logits = i + 1 == N_PIECES
        };
        assert_status(pf_forward_run(&b, &span, 1), PF_OK);
        seen[i] = pf_shim_kernels() - before;
    }
    assert_int_equal(seen[1], 0); /* both are queued, and none has run */
    const long n_kernels = seen[3];
    assert_true(n_kernels > 0); /* the first pass, before its stage is written a second time */
    assert_int_equal(seen[5], 3 * n_kernels);
    assert_status(draw_one(&b, PF_DRAW_RACE, &drawn), PF_OK); /* queued behind the last pass, and waited for with it */
    assert_true(pf_shim_kernels() - before > 6 * n_kernels);
    pf_cuda_backend_close(cuda);
}

static void a_pass_is_prepared_while_the_device_works(void **state)
{
    (void)state;
    char directory[PF_TINY_PATH];
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 4, .layers = 1, .hidden = 32, .intermediate = 32 }, directory);
    check_overlap(directory, false);
    check_overlap(directory, true);
    pf_tiny_model_remove(directory);
}

/* ---- texts of a verifier ------------------------------------------------------------------------------------------- */

static const int32_t PROMPTS[][N_PROMPT] = { { 1, 2, 3, 4, 5, 6, 7 }, { 100, 3, 100, 3, 100, 3, 99 } };

/* What plain decoding gives: the same verifier, without proposals. */
static void check_texts(pf_peer *verifier, pf_peer *drafter, pf_method method, pf_sampling sampling)
{
    for (size_t i = 0; i < PF_COUNT(PROMPTS); i++) {
        pf_duet_request request = { .sequence = i,
                                    .prompt = PROMPTS[i],
                                    .n_prompt = N_PROMPT,
                                    .n_new = N_NEW,
                                    .sampling = sampling,
                                    .method = method,
                                    .max_declared = 64 };
        pf_duet_text plain, text;
        pf_duet_run(verifier, NULL, &request, 1, NULL, NULL, &plain);
        assert_int_equal(plain.n_tokens, N_NEW);
        for (request.draft_len = 2; request.draft_len <= 8; request.draft_len += 5) {
            pf_duet_run(verifier, drafter, &request, 1, NULL, NULL, &text);
            assert_int_equal(text.n_tokens, N_NEW);
            assert_memory_equal(text.tokens, plain.tokens, N_NEW * sizeof *text.tokens);
        }
    }
}

static void speculation_changes_no_token_of_greedy_and_coupled_text(void **state)
{
    (void)state;
    if (pf_shim_checks_races()) skip(); /* the kernels of the tests above */
    const pf_tiny_model target = { .seed = 11 }, drafts[] = { { .seed = 11 }, { .seed = 12, .layers = 1 } };
    char directory[PF_TINY_PATH];
    pf_error error = { 0 };
    pf_tiny_model_create(&target, directory);
    for (size_t i = 0; i < PF_COUNT(drafts); i++) {
        pf_cuda_backend *cuda = open_cuda(directory, &(pf_cuda_options){ .max_tokens = 128, .max_rows = 16 });
        pf_tiny_side draft = pf_tiny_side_open(&drafts[i], 1, &(pf_context_config){ .max_sequences = 1 });
        pf_peer *verifier, *drafter;
        const pf_model_verifier_config v = { .max_sequences = 1, .max_draft = 8 };
        const pf_model_drafter_config d = { .max_sequences = 1, .max_draft = 8, .seed = 99 };
        assert_ok(pf_model_verifier_create(pf_cuda_forward_backend(cuda), &v, &verifier, &error), error);
        assert_ok(pf_model_drafter_create(pf_cpu_backend(draft.context), &d, &drafter, &error), error);
        check_texts(verifier, drafter, PF_METHOD_GREEDY, (pf_sampling){ .top_p = 1.0f });
        check_texts(verifier, drafter, PF_METHOD_COUPLED,
                    (pf_sampling){ .temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .seed = 5 });
        pf_peer_destroy(verifier);
        pf_peer_destroy(drafter);
        pf_tiny_side_close(&draft);
        pf_cuda_backend_close(cuda);
    }
    pf_tiny_model_remove(directory);
}

/* A backend that leaves its rows to the judge. */
static pf_forward_backend without_draws(pf_forward_backend backend, pf_forward_ops *ops)
{
    *ops = *backend.ops;
    ops->draw = NULL;
    backend.ops = ops;
    return backend;
}

static void run_rejection(pf_forward_backend target, pf_forward_backend draft, pf_duet_text texts[PF_COUNT(PROMPTS)])
{
    pf_peer *verifier, *drafter;
    pf_error error = { 0 };
    const pf_model_verifier_config v = { .max_sequences = PF_COUNT(PROMPTS), .max_draft = 8 };
    const pf_model_drafter_config d = { .max_sequences = PF_COUNT(PROMPTS), .max_draft = 8, .seed = 99 };
    assert_ok(pf_model_verifier_create(target, &v, &verifier, &error), error);
    assert_ok(pf_model_drafter_create(draft, &d, &drafter, &error), error);
    pf_duet_request requests[PF_COUNT(PROMPTS)];
    for (size_t i = 0; i < PF_COUNT(PROMPTS); i++)
        requests[i] = (pf_duet_request){
            .sequence = i,
            .prompt = PROMPTS[i],
            .n_prompt = N_PROMPT,
            .n_new = N_NEW,
            .sampling = { .temperature = 1.2f, .top_k = (int32_t)i * 40, .top_p = 0.95f, .seed = 5 + i },
            .method = PF_METHOD_REJECTION,
            .draft_len = 4,
            .max_declared = (int32_t)i * 64, /* bare tokens, and with their distributions */
        };
    pf_duet_run(verifier, drafter, requests, PF_COUNT(PROMPTS), NULL, NULL, texts);
    pf_peer_destroy(verifier);
    pf_peer_destroy(drafter);
}

static void text_by_rejection_is_that_of_a_judge_on_the_host(void **state)
{
    (void)state;
    if (pf_shim_checks_races()) skip(); /* the kernels of the tests above */
    char directory[PF_TINY_PATH];
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 11 }, directory);
    pf_cuda_backend *cuda =
        open_cuda(directory, &(pf_cuda_options){ .max_tokens = 128, .max_sequences = 2, .max_rows = 16 });
    pf_tiny_side draft =
        pf_tiny_side_open(&(pf_tiny_model){ .seed = 11 }, 1, &(pf_context_config){ .max_sequences = 2 });
    pf_duet_text drawn[PF_COUNT(PROMPTS)], judged[PF_COUNT(PROMPTS)];
    pf_forward_ops ops;
    const pf_forward_backend backend = pf_cuda_forward_backend(cuda);
    run_rejection(backend, pf_cpu_backend(draft.context), drawn);
    run_rejection(without_draws(backend, &ops), pf_cpu_backend(draft.context), judged);
    int32_t n_accepted = 0, n_refused = 0;
    for (size_t i = 0; i < PF_COUNT(PROMPTS); i++) {
        assert_int_equal(drawn[i].n_tokens, N_NEW);
        assert_int_equal(drawn[i].accepted, judged[i].accepted);
        n_accepted += drawn[i].accepted;
        n_refused += drawn[i].drafted - drawn[i].accepted;
        assert_memory_equal(drawn[i].tokens, judged[i].tokens, N_NEW * sizeof *drawn[i].tokens);
    }
    assert_true(n_accepted > 0 && n_refused > 0);
    pf_tiny_side_close(&draft);
    pf_cuda_backend_close(cuda);
    pf_tiny_model_remove(directory);
}

/* ---- failures ------------------------------------------------------------------------------------------------------ */

enum { WALKED = 128 + 1 };

/* A prompt, a fork, a tree of which a path is kept, a step, a draw. Returns the first failure; the logits of the last row to out,
 * and the token drawn from it. */
static pf_status walk(const pf_forward_backend *b, float out[WALKED])
{
    static const int32_t tokens[] = { 5, 9, 2, 7, 1, 8, 3, 4, 6, 0 }, parents[] = { -1, -1, 1, 0 }, path[] = { 1, 2 };
    int64_t sequence, fork;
    PF_TRY(pf_forward_acquire(b, &sequence));
    const pf_span prompt = { sequence, tokens, 10, 1, NULL, 0 };
    PF_TRY(pf_forward_run(b, &prompt, 1));
    PF_TRY(pf_forward_fork(b, sequence, 9, &fork));
    const pf_span spans[] = { { sequence, tokens, 4, 4, parents, 0 }, { fork, tokens + 3, 2, 1, NULL, 0 } };
    pf_status status = pf_forward_run(b, spans, 2);
    if (status != PF_OK) { /* as before, unless the device is lost: then it says so again */
        assert_int_equal(pf_forward_length(b, sequence), 10);
        assert_int_equal(pf_forward_length(b, fork), 9);
        PF_TRY(pf_forward_run(b, spans, 2));
    }
    PF_TRY(pf_forward_keep(b, sequence, 10, path, 2));
    const pf_span step = { sequence, tokens, 1, 1, NULL, 0 };
    status = pf_forward_run(b, &step, 1);
    if (status != PF_OK) {
        assert_int_equal(pf_forward_length(b, sequence), 12);
        PF_TRY(pf_forward_run(b, &step, 1));
    }
    memcpy(out, pf_forward_logits(b, 0), (size_t)b->limits.n_vocab * sizeof *out);
    if (isnan(out[0])) return PF_UNAVAILABLE; /* their copy failed */
    const pf_sampling sampling = { .temperature = 1.0f, .top_k = 9, .seed = 3 };
    const pf_draw race = { .kind = PF_DRAW_RACE, .sampling = &sampling, .token = -1 };
    pf_drawn drawn;
    if (pf_forward_draw(b, &race, 1, &drawn) != PF_OK) PF_TRY(pf_forward_draw(b, &race, 1, &drawn));
    out[WALKED - 1] = (float)drawn.token;
    return PF_OK;
}

/* The nth call fails, for every n; without graphs from the first pass on, as all before it is the same. */
static void check_failures(const char *directory, bool without_graphs)
{
    const pf_cuda_options options = {
        .max_tokens = 64, .max_sequences = 2, .max_rows = 10, .without_graphs = without_graphs, .isa = pf_cpu_best_isa()
    };
    pf_shim_fail_call(0);
    pf_cuda_backend *cuda = open_cuda(directory, &options);
    pf_forward_backend backend = pf_cuda_forward_backend(cuda);
    float expected[WALKED], got[WALKED];
    const long first = without_graphs ? pf_shim_calls() + 1 : 1;
    assert_int_equal(walk(&backend, expected), PF_OK);
    pf_cuda_backend_close(cuda);

    bool has_passed = false;
    int n_failed_opens = 0, n_recovered = 0;
    for (long nth = first; !has_passed; nth++) {
        pf_error error = { 0 };
        cuda = NULL;
        pf_shim_fail_call(nth);
        if (pf_cuda_backend_open(directory, &options, &cuda, &error) != PF_OK) {
            assert_null(cuda);
            assert_true(strlen(error.text) > 10);
            n_failed_opens++;
        } else {
            backend = pf_cuda_forward_backend(cuda);
            const pf_status status = walk(&backend, got);
            if (status == PF_OK) {
                n_recovered++;
                assert_memory_equal(got, expected, sizeof got);
            } else {
                assert_true(strlen(pf_cuda_backend_refusal(cuda)) > 10);
            }
            has_passed = pf_shim_calls() < nth;
            pf_cuda_backend_close(cuda);
        }
        assert_int_equal(pf_shim_live(), 0);
        if (nth > 100000) fail_msg("no end of fallible calls");
    }
    pf_shim_fail_call(0);
    assert_true(without_graphs ? n_failed_opens == 0 : n_failed_opens > 20);
    assert_true(n_recovered > 2); /* calls of a pass that fail leave the sequences as they were */
}

static void a_call_that_fails_is_told_and_leaves_sequences_as_they_were(void **state)
{
    (void)state;
    if (pf_shim_checks_races()) skip(); /* the kernels of the tests above */
    const pf_tiny_model model = { .seed = 4, .layers = 1, .hidden = 32, .intermediate = 32 };
    char directory[PF_TINY_PATH];
    pf_tiny_model_create(&model, directory);
    check_failures(directory, false);
    check_failures(directory, true);
    pf_tiny_model_remove(directory);
}

/* A fault in a pass shows where its result is read: no result, then no pass. */
static void a_fault_of_the_device_ends_all_passes_with_a_sentence(void **state)
{
    (void)state;
    enum { DRAW, BEST, INVALID, LOGITS, N_WAYS };
    const pf_tiny_model model = { .seed = 4, .layers = 1 };
    char directory[PF_TINY_PATH];
    pf_tiny_model_create(&model, directory);
    for (int32_t way = 0; way < N_WAYS; way++) {
        pf_cuda_backend *cuda = open_cuda(directory, &(pf_cuda_options){ .max_tokens = 64, .max_rows = 12 });
        const pf_forward_backend backend = pf_cuda_forward_backend(cuda);
        const int32_t tokens[] = { 1, 2, 3 }, n_vocab = backend.limits.n_vocab;
        int64_t sequence;
        pf_drawn drawn;
        assert_status(pf_forward_acquire(&backend, &sequence), PF_OK);
        const pf_span span = { sequence, tokens, 3, 1, NULL, n_vocab };
        pf_shim_fault_kernel(4);
        assert_status(pf_forward_run(&backend, &span, 1), PF_OK);
        if (way == DRAW) assert_status(draw_one(&backend, PF_DRAW_NONE, &drawn), PF_UNAVAILABLE);
        if (way == BEST) assert_int_equal(pf_forward_best(&backend, 0, n_vocab), -1);
        if (way == INVALID) assert_int_equal(pf_forward_find_invalid(&backend, 0, n_vocab), 0);
        if (way == LOGITS) assert_true(isnan(pf_forward_logits(&backend, 0)[0]));
        assert_non_null(strstr(pf_cuda_backend_refusal(cuda), "the CUDA device failed in a pass"));
        assert_status(pf_forward_run(&backend, &span, 1), PF_UNAVAILABLE);
        assert_status(draw_one(&backend, PF_DRAW_RACE, &drawn), PF_UNAVAILABLE);
        assert_int_equal(pf_forward_best(&backend, 0, n_vocab), -1);
        pf_cuda_backend_close(cuda);
        pf_shim_reset();
    }
    pf_tiny_model_remove(directory);
}

/* The third pass waits until the first has left its stage; a fault of the first shows at a later one. */
static void a_fault_shows_at_a_later_pass_where_nothing_is_read(void **state)
{
    (void)state;
    char directory[PF_TINY_PATH];
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 4, .layers = 1 }, directory);
    pf_cuda_backend *cuda = open_cuda(directory, &(pf_cuda_options){ .max_tokens = 64, .max_rows = 12 });
    const pf_forward_backend backend = pf_cuda_forward_backend(cuda);
    const int32_t tokens[] = { 1, 2, 3 };
    int64_t sequence;
    assert_status(pf_forward_acquire(&backend, &sequence), PF_OK);
    const pf_span span = { .sequence = sequence, .tokens = tokens, .n_tokens = 3 };
    pf_shim_fault_kernel(4);
    for (int32_t i = 0; i < 3; i++) assert_status(pf_forward_run(&backend, &span, 1), PF_OK);
    assert_status(pf_forward_run(&backend, &span, 1), PF_UNAVAILABLE);
    assert_non_null(strstr(pf_cuda_backend_refusal(cuda), "the CUDA device failed in a pass"));
    assert_int_equal(pf_forward_length(&backend, sequence), 9); /* the refused pass left it */
    pf_cuda_backend_close(cuda);
    pf_tiny_model_remove(directory);
    pf_shim_reset();
}

static void a_client_is_told_how_the_device_failed(void **state)
{
    (void)state;
    char directory[PF_TINY_PATH];
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 4, .layers = 1 }, directory);
    static const long faults[] = { 4, 0 }; /* in the pass, and in the draw behind it */
    for (size_t i = 0; i < PF_COUNT(faults); i++) {
        pf_cuda_backend *cuda = open_cuda(directory, &(pf_cuda_options){ .max_tokens = 64, .max_rows = 12 });
        pf_peer *verifier;
        pf_error error = { 0 };
        const pf_model_verifier_config config = { .max_sequences = 1, .max_draft = 4 };
        assert_ok(pf_model_verifier_create(pf_cuda_forward_backend(cuda), &config, &verifier, &error), error);
        const pf_batch *answer;
        pf_open open = { .sequence = 1,
                         .incarnation = 1,
                         .tokens = PROMPTS[0],
                         .n_tokens = N_PROMPT,
                         .method = PF_METHOD_REJECTION,
                         .sampling = { .temperature = 1.0f },
                         .max_draft = 4 };
        const long before = pf_shim_kernels();
        if (faults[i] == 0) { /* which kernel draws is found by a pass that succeeds */
            assert_ok(pf_peer_submit(verifier, &(pf_batch){ .opens = &open, .n_opens = 1 }), error);
            assert_ok(pf_peer_collect(verifier, UINT64_MAX, &answer, &error), error);
            assert_int_equal(answer->n_verdicts, 1);
            open.sequence = 2;
            assert_ok(pf_peer_submit(verifier, &(pf_batch){ .closes = &(pf_close){ 1 }, .n_closes = 1 }), error);
        }
        const long n_kernels = pf_shim_kernels() - before;
        pf_shim_fault_kernel(faults[i] > 0 ? faults[i] : n_kernels);
        assert_ok(pf_peer_submit(verifier, &(pf_batch){ .opens = &open, .n_opens = 1 }), error);
        assert_ok(pf_peer_collect(verifier, UINT64_MAX, &answer, &error), error);
        assert_int_equal(answer->n_refusals, 1);
        assert_int_equal(answer->refusals[0].status, PF_UNAVAILABLE);
        assert_non_null(
            strstr(answer->refusals[0].text, "the target's device failed: the CUDA device failed in a pass: "));
        pf_peer_destroy(verifier);
        pf_cuda_backend_close(cuda);
        pf_shim_reset();
    }
    pf_tiny_model_remove(directory);
}

static void what_is_missing_is_told_by_name(void **state)
{
    (void)state;
    char directory[PF_TINY_PATH];
    pf_error error = { 0 };
    pf_cuda_backend *cuda = NULL;
    pf_cuda_device device;
    int32_t n;
    pf_random_model_create(MIXTRAL, 1, directory);
    assert_status(pf_cuda_backend_open(directory, &OPTIONS, &cuda, &error), PF_UNSUPPORTED);
    assert_says(error, "experts");
    pf_tiny_model_remove(directory);
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 4 }, directory);

    pf_shim_device figures = pf_shim_default_device();
    figures.memory_bytes = 100 << 10;
    pf_shim_set_device(figures);
    assert_status(pf_cuda_backend_open(directory, &OPTIONS, &cuda, &error), PF_NOMEM);
    assert_says(error, "the CUDA device has no memory for the weights");
    figures = pf_shim_default_device();
    figures.driver_version = 12000;
    pf_shim_set_device(figures);
    assert_status(pf_cuda_backend_open(directory, &OPTIONS, &cuda, &error), PF_UNAVAILABLE);
    assert_says(error, "driver is too old: it is of CUDA 12.0");
    figures = pf_shim_default_device();
    figures.n_devices = 0;
    pf_shim_set_device(figures);
    assert_status(pf_cuda_backend_open(directory, &OPTIONS, &cuda, &error), PF_UNAVAILABLE);
    assert_says(error, "no CUDA device");
    assert_status(pf_cuda_list_devices(&device, 1, &n, &error), PF_UNAVAILABLE);
    pf_shim_set_device(pf_shim_default_device());
    assert_ok(pf_cuda_list_devices(&device, 1, &n, &error), error);
    assert_int_equal(n, 1);
    assert_int_equal(device.major, 9);
    pf_cuda_options options = OPTIONS;
    options.device = 3;
    assert_status(pf_cuda_backend_open(directory, &options, &cuda, &error), PF_UNAVAILABLE);
    assert_says(error, "device 3");
    assert_null(cuda);
    pf_tiny_model_remove(directory);
}

/* A pattern of names, or all. */
int main(int argc, char **argv)
{
#define CLAIM(f) cmocka_unit_test_setup_teardown(f, before_each, after_each)
    const struct CMUnitTest tests[] = {
        CLAIM(logits_of_every_plan_are_near_those_of_the_cpu),
        CLAIM(the_claims_of_a_backend_hold),
        CLAIM(they_hold_without_graphs_in_another_order_of_threads),
        CLAIM(they_hold_for_the_cpu),
        CLAIM(a_pass_is_prepared_while_the_device_works),
        CLAIM(speculation_changes_no_token_of_greedy_and_coupled_text),
        CLAIM(text_by_rejection_is_that_of_a_judge_on_the_host),
        CLAIM(a_call_that_fails_is_told_and_leaves_sequences_as_they_were),
        CLAIM(a_fault_of_the_device_ends_all_passes_with_a_sentence),
        CLAIM(a_fault_shows_at_a_later_pass_where_nothing_is_read),
        CLAIM(a_client_is_told_how_the_device_failed),
        CLAIM(what_is_missing_is_told_by_name),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
