/*
 * Row invariance and exact rollback of every kind of layer plan, on random models: norms of heads and behind blocks, parallel
 * blocks, windows, slopes, sinks, soft caps, several rotary tables, learnt positions, projections, experts. What a plan computes
 * is compared with the naive pass here, and with other implementations in tests/e2e/family_golden_test.py.
 */
#include <math.h>
#include <stdlib.h>

#include "model/forward/forward_ref.h"
#include "tests/support/forward_rig.h"
#include "tests/support/random_model.h"

/* Heads that part evenly over two members, in whole panels, and do not over three; nothing else is a multiple of anything. */
#define SHAPE                                                                                                 \
    "\"hidden_size\": 76, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"head_dim\": 32, \"intermediate_size\": 100, \"vocab_size\": 97, \"max_position_embeddings\": 160, "    \
    "\"bos_token_id\": 1, \"eos_token_id\": 2, "
/* Where head_dim follows from these. */
#define SHAPE_OF_HEADS                                                                                         \
    "\"hidden_size\": 128, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"intermediate_size\": 100, \"vocab_size\": 97, \"max_position_embeddings\": 160, "                       \
    "\"bos_token_id\": 1, \"eos_token_id\": 2, "
#define GPT_SHAPE                                                                                                 \
    "\"n_embd\": 96, \"n_layer\": 2, \"n_head\": 3, \"n_positions\": 160, \"vocab_size\": 97, \"n_inner\": 100, " \
    "\"activation_function\": \"gelu_new\", \"bos_token_id\": 1, \"eos_token_id\": 2, "

static const struct {
    const char *name, *config;
} PLANS[] = {
    { "norms of heads",
      "{" SHAPE "\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", \"hidden_act\": \"silu\"}" },
    { "learnt positions, a plain block",
      "{" GPT_SHAPE "\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\"}" },
    { "parallel blocks of one norm, a head with a bias",
      "{" GPT_SHAPE "\"architectures\": [\"GPTJForCausalLM\"], \"model_type\": \"gptj\", \"rotary_dim\": 6, "
      "\"tie_word_embeddings\": false}" },
    { "parallel blocks of two norms",
      "{\"architectures\": [\"GPTNeoXForCausalLM\"], \"model_type\": \"gpt_neox\", \"hidden_act\": \"gelu\", "
      "\"hidden_size\": 96, \"num_hidden_layers\": 2, \"num_attention_heads\": 3, \"intermediate_size\": 100, "
      "\"vocab_size\": 97, \"max_position_embeddings\": 160, \"rotary_pct\": 0.25, \"use_parallel_residual\": true, "
      "\"tie_word_embeddings\": false, \"bos_token_id\": 1, \"eos_token_id\": 2}" },
    { "scales of everything",
      "{" SHAPE "\"architectures\": [\"GraniteForCausalLM\"], \"model_type\": \"granite\", \"hidden_act\": \"silu\", "
      "\"attention_multiplier\": 0.1, \"embedding_multiplier\": 3.0, \"residual_multiplier\": 0.3, "
      "\"logits_scaling\": 3.0}" },
    { "norms of whole rows, behind blocks alone",
      "{" SHAPE "\"architectures\": [\"Olmo2ForCausalLM\"], \"model_type\": \"olmo2\", \"hidden_act\": \"silu\"}" },
    { "a norm for each head, parallel blocks",
      "{" SHAPE_OF_HEADS "\"architectures\": [\"StableLmForCausalLM\"], \"model_type\": \"stablelm\", "
      "\"hidden_act\": \"silu\", \"qk_layernorm\": true, \"use_parallel_residual\": true, "
      "\"partial_rotary_factor\": 0.25}" },
    { "projections of the embedding, norms of the residual",
      "{\"architectures\": [\"OPTForCausalLM\"], \"model_type\": \"opt\", \"hidden_size\": 96, "
      "\"num_hidden_layers\": 2, \"num_attention_heads\": 3, \"ffn_dim\": 100, \"vocab_size\": 97, "
      "\"max_position_embeddings\": 160, \"word_embed_proj_dim\": 20, \"do_layer_norm_before\": false, "
      "\"activation_function\": \"relu\", \"bos_token_id\": 1, \"eos_token_id\": 2}" },
    { "a scale of the logits, parallel blocks of one norm",
      "{" SHAPE_OF_HEADS "\"architectures\": [\"CohereForCausalLM\"], \"model_type\": \"cohere\", "
      "\"hidden_act\": \"silu\", \"logit_scale\": 0.3}" },
    { "norms behind blocks, windows, soft caps",
      "{" SHAPE "\"architectures\": [\"Gemma2ForCausalLM\"], \"model_type\": \"gemma2\", \"sliding_window\": 11, "
      "\"hidden_activation\": \"gelu_pytorch_tanh\", \"attn_logit_softcapping\": 3.0, \"final_logit_softcapping\": "
      "4.0, "
      "\"query_pre_attn_scalar\": 37}" },
    { "two rotary tables",
      "{" SHAPE "\"architectures\": [\"Gemma3ForCausalLM\"], \"model_type\": \"gemma3_text\", \"sliding_window\": 11, "
      "\"sliding_window_pattern\": 3, \"query_pre_attn_scalar\": 37, \"hidden_activation\": \"gelu_pytorch_tanh\"}" },
    { "sinks, experts with biases",
      "{" SHAPE "\"architectures\": [\"GptOssForCausalLM\"], \"model_type\": \"gpt_oss\", \"hidden_act\": \"silu\", "
      "\"num_local_experts\": 5, \"num_experts_per_tok\": 2, \"sliding_window\": 11, \"attention_bias\": true, "
      "\"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\"], "
      "\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 150000.0, \"factor\": 4.0, "
      "\"original_max_position_embeddings\": 40, \"beta_fast\": 32.0, \"beta_slow\": 1.0, \"truncate\": false}}" },
    { "slopes, a norm of the embedding",
      "{\"architectures\": [\"BloomForCausalLM\"], \"model_type\": \"bloom\", \"hidden_size\": 96, \"n_layer\": 2, "
      "\"n_head\": 3, \"vocab_size\": 97, \"layer_norm_epsilon\": 1e-5, \"bos_token_id\": 1, \"eos_token_id\": 2}" },
    { "experts",
      "{" SHAPE "\"architectures\": [\"MixtralForCausalLM\"], \"model_type\": \"mixtral\", \"hidden_act\": \"silu\", "
      "\"num_local_experts\": 5, \"num_experts_per_tok\": 2}" },
    { "a shared expert, and one layer without experts",
      "{" SHAPE
      "\"architectures\": [\"Qwen2MoeForCausalLM\"], \"model_type\": \"qwen2_moe\", \"hidden_act\": \"silu\", "
      "\"num_experts\": 7, \"num_experts_per_tok\": 3, \"moe_intermediate_size\": 44, "
      "\"shared_expert_intermediate_size\": 28, \"mlp_only_layers\": [1]}" },
};

static void compare_all(rig *r, const float *plain)
{
    compare_cuts(r, plain);
    compare_cut(r, plain, 55, 1);
    compare_in_company(r, plain);
    compare_after_detours(r, plain);
    compare_trees(r, plain);
}

static void for_plans(int32_t n_threads, const pf_dtype *dtypes, size_t n_dtypes)
{
    for (size_t i = 0; i < PF_COUNT(PLANS); i++) {
        char directory[PF_TINY_PATH];
        pf_random_model_create(PLANS[i].config, 5 + i, directory);
        for (size_t d = 0; d < n_dtypes; d++) {
            const pf_model_options options = { .dtype = dtypes[d], .isa = pf_cpu_best_isa() };
            rig one, r;
            rig_open(&one, directory, options, 1);
            float *plain = plain_logits(&one);
            tear_down(&one);
            rig_open(&r, directory, options, n_threads);
            compare_all(&r, plain);
            tear_down(&r);
            free(plain);
        }
        pf_tiny_model_remove(directory);
    }
}

static const pf_dtype FLOATS[] = { PF_DTYPE_F32, PF_DTYPE_BF16 }, INTEGERS[] = { PF_DTYPE_INT8, PF_DTYPE_INT4 };

static void logits_of_every_plan_depend_on_the_tokens_before_alone(void **state)
{
    (void)state;
    for_plans(1, FLOATS, PF_COUNT(FLOATS));
    for_plans(1, INTEGERS, PF_COUNT(INTEGERS));
}

static void logits_of_every_plan_do_not_depend_on_the_number_of_threads(void **state)
{
    (void)state;
    for_plans(2, FLOATS, PF_COUNT(FLOATS));
    for_plans(3, FLOATS, PF_COUNT(FLOATS));
    for_plans(2, INTEGERS, PF_COUNT(INTEGERS));
}

/* Of the last rows alone: rows without logits leave the pass behind the last attention. */
static void the_last_rows_have_the_logits_that_they_have_among_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < PF_COUNT(PLANS); i++)
        for (int32_t n_threads = 1; n_threads <= 3; n_threads++) {
            char directory[PF_TINY_PATH];
            pf_random_model_create(PLANS[i].config, 5 + i, directory);
            rig r;
            rig_open(&r, directory, (pf_model_options){ .dtype = PF_DTYPE_F32, .isa = pf_cpu_best_isa() }, n_threads);
            float *plain = plain_logits(&r), *logits = new_logits(&r);
            const size_t row = (size_t)r.n_vocab;
            int32_t tokens[RIG_TEXT];
            make_text(&r, 0, tokens);
            for (int32_t n = 2; n <= RIG_TEXT; n += 1 + n / 3) {
                const int32_t n_logits = n > 20 ? 17 : 1;
                const pf_kv_seq seq = acquire(&r);
                const pf_span span = { seq, tokens, n, n_logits, NULL, 0 };
                assert_int_equal(pf_context_forward(r.context, &span, 1), PF_OK);
                for (int32_t k = 0; k < n_logits; k++)
                    memcpy(logits + (size_t)(n - n_logits + k) * row, pf_context_logits(r.context, k),
                           row * sizeof *logits);
                assert_same_logits(&r, logits, plain, n - n_logits, n, PLANS[i].name);
                pf_kv_release(r.kv, seq);
            }
            free(plain);
            free(logits);
            tear_down(&r);
            pf_tiny_model_remove(directory);
        }
}

/* Of one thread in F32, in passes of many rows and of one. */
static void logits_of_every_plan_are_those_of_the_naive_pass(void **state)
{
    (void)state;
    for (size_t i = 0; i < PF_COUNT(PLANS); i++) {
        char directory[PF_TINY_PATH];
        int32_t tokens[RIG_TEXT];
        pf_error error = { 0 };
        pf_checkpoint checkpoint;
        rig r;
        pf_random_model_create(PLANS[i].config, 5 + i, directory);
        rig_open(&r, directory, (pf_model_options){ .dtype = PF_DTYPE_F32, .isa = pf_cpu_best_isa() }, 1);
        float *logits = plain_logits(&r);
        double *naive = calloc((size_t)RIG_TEXT * (size_t)r.n_vocab, sizeof *naive), largest = 0.0, worst = 0.0;
        assert_non_null(naive);
        make_text(&r, 0, tokens);
        assert_ok(pf_checkpoint_open(directory, NULL, NULL, &checkpoint, &error), error);
        assert_ok(pf_forward_ref(&checkpoint, tokens, RIG_TEXT, RIG_TOKENS, naive, &error), error);
        for (size_t k = 0; k < (size_t)RIG_TEXT * (size_t)r.n_vocab; k++) {
            largest = fmax(largest, fabs(naive[k]));
            if (!(fabs((double)logits[k] - naive[k]) <= worst)) worst = fabs((double)logits[k] - naive[k]);
        }
        if (!(worst <= 1e-4 * largest))
            fail_msg("%s: off by %.2g of the largest logit", PLANS[i].name, worst / largest);
        pf_checkpoint_close(&checkpoint);
        free(naive);
        free(logits);
        tear_down(&r);
        pf_tiny_model_remove(directory);
    }
}

#ifdef __SANITIZE_THREAD__ /* twenty times slower; the other cases have no more threads than the first */
enum { IS_TSAN = 1 };
#else
enum { IS_TSAN = 0 };
#endif

int main(void)
{
    const struct CMUnitTest of_threads[] = {
        cmocka_unit_test(logits_of_every_plan_do_not_depend_on_the_number_of_threads),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(logits_of_every_plan_are_those_of_the_naive_pass),
        cmocka_unit_test(logits_of_every_plan_depend_on_the_tokens_before_alone),
        cmocka_unit_test(the_last_rows_have_the_logits_that_they_have_among_all),
    };
    const int n_failed = cmocka_run_group_tests(of_threads, NULL, NULL);
    return n_failed + (IS_TSAN ? 0 : cmocka_run_group_tests(others, NULL, NULL));
}
