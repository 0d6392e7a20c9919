/* Every option there is: a row each, in the groups that subcommands take. */
#include <limits.h>
#include <stddef.h>

#include "bench/acceptance.h"
#include "bench/pass_bench.h"
#include "cli/option_values.h"

/* ---- words ------------------------------------------------------------------------------------------------------- */

static const pf_option_choice kv_choices[] = { { "auto", 0 }, { "f32", 0 }, { "bf16", 0 }, { NULL, 0 } };
static const pf_option_choice method_choices[] = { { "greedy", PF_METHOD_GREEDY },
                                                   { "rejection", PF_METHOD_REJECTION },
                                                   { "block", PF_METHOD_BLOCK },
                                                   { "coupled", PF_METHOD_COUPLED },
                                                   { "traversal", PF_METHOD_TRAVERSAL },
                                                   { "typical", PF_METHOD_TYPICAL },
                                                   { NULL, 0 } };
static const pf_option_choice sibling_choices[] = { { "auto", 0 },
                                                    { "off", PF_NO_SIBLINGS },
                                                    { "pay", PF_SIBLINGS_THAT_PAY },
                                                    { "1", 1 },
                                                    { "2", 2 },
                                                    { "3", 3 },
                                                    { "4", 4 },
                                                    { NULL, 0 } };
static const pf_option_choice isa_choices[] = { { "auto", 0 },       { "scalar", 0 }, { "avx2", 0 }, { "avx512", 0 },
                                                { "avx512bf16", 0 }, { "amx", 0 },    { NULL, 0 } };
static const pf_option_choice gemm_choices[] = { { "auto", 0 }, { "own", 0 }, { "onednn", 0 }, { NULL, 0 } };
static const pf_option_choice threading_choices[] = { { "own", PF_THREADING_OWN },
                                                      { "openmp", PF_THREADING_OPENMP },
                                                      { NULL, 0 } };
static const pf_option_choice verifier_choices[] = { { "cpu", PF_VERIFIES_ON_CPU },
                                                     { "cuda", PF_VERIFIES_ON_CUDA },
                                                     { NULL, 0 } };
static const pf_option_choice drafter_choices[] = { { "model", PF_DRAFTER_MODEL },
                                                    { "ngram", PF_DRAFTER_NGRAM },
                                                    { "suffix", PF_DRAFTER_SUFFIX },
                                                    { "cascade", PF_DRAFTER_CASCADE },
                                                    { NULL, 0 } };
static const pf_option_choice draft_ahead_choices[] = { { "on", PF_DRAFT_AHEAD_ON },
                                                        { "off", PF_DRAFT_AHEAD_OFF },
                                                        { NULL, 0 } };
static const pf_option_choice draft_passes_choices[] = {
    { "auto", 0 }, { "1", 0 }, { "2", 0 }, { "k", 0 }, { NULL, 0 }
};
static const pf_option_choice prefix_cache_choices[] = { { "on", 0 }, { "off", 1 }, { NULL, 0 } };
static const pf_option_choice draft_head_choices[] = { { "full", 0 }, { "screened", 0 }, { NULL, 0 } };
static const pf_option_choice target_head_choices[] = { { "auto", 0 }, { "full", 0 }, { "bounded", 0 }, { NULL, 0 } };
static const pf_option_choice head_choices[] = {
    { "auto", 0 }, { "full", 0 }, { "bounded", 0 }, { "screened", 0 }, { NULL, 0 }
};
static const pf_option_choice color_choices[] = {
    { "auto", PF_COLOR_AUTO }, { "always", PF_COLOR_ALWAYS }, { "never", PF_COLOR_NEVER }, { NULL, 0 }
};

/* ---- groups ------------------------------------------------------------------------------------------------------ */

#define AT(field) offsetof(pf_options, field)
/* clang-format off */
#define ROW(the_letter, the_name, the_argument, the_help, the_kind, ...)                                      \
    {                                                                                                         \
        .name = the_name, .letter = the_letter, .argument = the_argument, .help = the_help, .kind = PF_OPTION_##the_kind, \
        __VA_ARGS__                                                                                           \
    }
/* clang-format on */
/* Of whatever takes --drafter. */
#define DRAFTER_ROW(help)                                                                         \
    ROW(0, "drafter", "LIST", help, KIND_CHOICE, .offset = AT(drafters), .count = AT(n_drafters), \
        .choices = drafter_choices)
#define SUFFIX_CORPUS_ROW                                                                                          \
    ROW(0, "suffix-corpus", "SIZE", "suffix, cascade: earlier outputs too, in so many bytes: 64k, 16M, 1G (none)", \
        KIND_SIZE, .of = PF_OPTION_OF_SUFFIX, .offset = AT(suffix_corpus_bytes), .min = 1 << 16, .max = 0x1p40)
/* Of a drafter with a model, which belongs to what `by` names. */
#define DRAFT_MODEL_ROWS(by)                                                                                         \
    ROW(0, "draft-branches", "N", "with --draft-ahead: outcomes of a sequence that are drafted for, at most (16)",   \
        KIND_INT, .of = (by), .offset = AT(draft_branches), .min = 1, .max = 64),                                    \
        ROW(0, "draft-passes", "N", "of a draft with pard_token, a proposal: 1, 2, k (one a token), auto (auto)",    \
            KIND_WORD, .of = (by), .offset = AT(draft_passes), .choices = draft_passes_choices),                     \
        ROW(0, "target-tokenizer", "DIR", "the target has another: draft over the tokens of both (the draft's own)", \
            KIND_STRING, .of = (by), .offset = AT(target_tokenizer))
#define GROUP(variable, heading, table) \
    const pf_option_group variable = { heading, table, sizeof(table) / sizeof *(table) }

static const struct pf_option_row model_rows[] = {
    ROW('m', "model", "MODEL", "a Hugging Face directory, a GGUF file, or org/name from the local cache", KIND_STRING,
        .offset = AT(model)),
};
GROUP(pf_options_model, "Model", model_rows);

static const struct pf_option_row prompt_rows[] = {
    ROW('p', "prompt", "TEXT", "the text to go on from", KIND_STRING, .offset = AT(prompt)),
    ROW('f', "file", "FILE", "the same from a file or a pipe; - is standard input", KIND_FILE,
        .offset = AT(prompt_file)),
    ROW(0, "tokens", "IDS", "the same as token ids: 12,7,99 (nothing is added)", KIND_IDS),
    ROW(0, "chat", "FILE", "messages as JSON, put into the model's chat template", KIND_FILE, .offset = AT(chat_file)),
};
GROUP(pf_options_prompt, "Prompt", prompt_rows);

static const struct pf_option_row id_rows[] = {
    ROW(0, "tokens", "IDS", "token ids, separated by commas", KIND_IDS),
};
GROUP(pf_options_ids, "Input", id_rows);

static const struct pf_option_row text_rows[] = {
    ROW('p', "prompt", "TEXT", "the text; without it, standard input to its end", KIND_STRING, .offset = AT(prompt)),
    ROW(0, "no-special", NULL, "leave out what the tokenizer adds (BOS and the like)", KIND_FLAG,
        .offset = AT(no_special)),
    ROW(0, "chat", "FILE", "messages as JSON, put into the model's chat template", KIND_FILE, .offset = AT(chat_file)),
};
GROUP(pf_options_text, "Input", text_rows);

static const struct pf_option_row generating_rows[] = {
    ROW('n', "new-tokens", "N", "new tokens (128)", KIND_INT, .offset = AT(n_new), .min = 1, .max = 1 << 20),
    ROW(0, "stop", "TEXT", "end before this text; up to 16 times", KIND_STRINGS, .offset = AT(stops)),
    ROW(0, "ignore-eos", NULL, "go on after an end-of-text token", KIND_FLAG, .offset = AT(ignore_eos)),
    ROW(0, "num-samples", "R", "R continuations, seeds S to S+R-1 (1)", KIND_INT, .offset = AT(n_samples), .min = 1,
        .max = 1 << 20),
    ROW(0, "logprobs", "N", "log-probabilities of each token and of the N likeliest there, 0 to 20", KIND_INT,
        .offset = AT(n_logprobs), .max = PF_MAX_LOGPROBS),
};
GROUP(pf_options_generating, "Generation", generating_rows);

static const struct pf_option_row chat_rows[] = {
    ROW(0, "system", "TEXT", "the system message", KIND_STRING, .offset = AT(system)),
    ROW(0, "chat-template", "FILE", "a template in Jinja, in the place of the model's", KIND_FILE,
        .offset = AT(chat_template)),
    ROW('n', "new-tokens", "N", "tokens of an answer, at most (what the context has room for)", KIND_INT,
        .offset = AT(n_new), .min = 1, .max = 1 << 20),
    ROW(0, "stop", "TEXT", "end an answer before this text; up to 16 times", KIND_STRINGS, .offset = AT(stops)),
    ROW(0, "ignore-eos", NULL, "go on after an end-of-text token", KIND_FLAG, .offset = AT(ignore_eos)),
};
GROUP(pf_options_chat, "Chat", chat_rows);

static const struct pf_option_row sampling_rows[] = {
    ROW(0, "temperature", "T", "0 is greedy (0)", KIND_FLOAT, .offset = AT(sampling.temperature), .max = 1000),
    ROW(0, "top-k", "K", "keep the K most probable tokens; 0 off (0)", KIND_INT, .offset = AT(sampling.top_k),
        .max = INT_MAX),
    ROW(0, "top-p", "P", "keep the smallest set of this probability; 1 off (1)", KIND_FLOAT,
        .offset = AT(sampling.top_p), .max = 1, .above_min = true),
    ROW(0, "min-p", "P", "drop below this share of the most probable; 0 off (0)", KIND_FLOAT,
        .offset = AT(sampling.min_p), .max = 1),
    ROW(0, "typical-p", "P", "keep the most typical set of this probability; 1 off (1)", KIND_FLOAT,
        .offset = AT(sampling.typical_p), .max = 1, .above_min = true),
    ROW(0, "repetition-penalty", "P", "divides logits of tokens that the text has, above 0; 1 off (1)", KIND_FLOAT,
        .offset = AT(rules.repetition_penalty), .max = 1000, .above_min = true),
    ROW(0, "frequency-penalty", "P", "subtracted for each time a token was generated, -2 to 2 (0)", KIND_FLOAT,
        .offset = AT(rules.frequency_penalty), .min = -2, .max = 2),
    ROW(0, "presence-penalty", "P", "subtracted once where it was, -2 to 2 (0)", KIND_FLOAT,
        .offset = AT(rules.presence_penalty), .min = -2, .max = 2),
    ROW(0, "logit-bias", "LIST", "ID=BIAS,...: added to logits; -inf bans a token", KIND_BIASES),
    ROW(0, "min-tokens", "N", "no end-of-text token before N new ones (0)", KIND_INT, .offset = AT(rules.min_tokens),
        .max = 1 << 20),
    ROW(0, "seed", "S", "of all randomness; drawn and reported when absent", KIND_SEED),
};
GROUP(pf_options_sampling, "Sampling", sampling_rows);

static const struct pf_option_row speculation_rows[] = {
    ROW('d', "draft", "DRAFT", "a small model in this process proposes", KIND_STRING, .offset = AT(draft)),
    ROW(0, "draft-worker", "ADDR", "a worker there proposes (host:port or unix:/path)", KIND_ADDRESS,
        .offset = AT(draft_worker)),
    DRAFTER_ROW("model; ngram, suffix: lookups; cascade: both; a worker is asked for it (model)"),
    SUFFIX_CORPUS_ROW,
    ROW(0, "verifier", "ADDR", "a target there disposes; with -d, without -m", KIND_ADDRESS, .offset = AT(verifier)),
    ROW(0, "draft-len", "K|auto", "1 to 64, or by what is measured (auto; 4: rejection with --seed)", KIND_LENGTH,
        .of = PF_OPTION_OF_DRAFTER, .offset = AT(draft_len), .min = 1, .max = PF_MAX_DRAFT_TOKENS),
    ROW(0, "method", "M", "block, traversal, coupled; lossy: typical (greedy at 0, else rejection)", KIND_CHOICE,
        .of = PF_OPTION_OF_DRAFTER, .offset = AT(method), .choices = method_choices),
    ROW(0, "siblings", "N", "beside each drawn token: 1 to 4, pay: where they pay; off: no trees (auto)", KIND_CHOICE,
        .of = PF_OPTION_OF_DRAFTER, .offset = AT(siblings), .choices = sibling_choices),
    ROW(0, "typical-epsilon", "P", "of typical: tokens more probable than this are kept (0.09)", KIND_FLOAT,
        .of = PF_OPTION_OF_DRAFTER, .offset = AT(typical.epsilon), .max = 1, .above_min = true),
    ROW(0, "typical-delta", "D", "of typical: and than D times e to minus the entropy (0.3)", KIND_FLOAT,
        .of = PF_OPTION_OF_DRAFTER, .offset = AT(typical.delta), .max = 1, .above_min = true),
};
GROUP(pf_options_speculation, "Speculation", speculation_rows);

static const struct pf_option_row running_rows[] = {
    ROW(0, "dtype", "T", "weights: exact, f32, f16, bf16[-12], int8, int4[-asym][-g128|-channel] (auto)", KIND_DTYPE,
        .of = PF_OPTION_OF_MODEL, .offset = AT(dtype)),
    ROW(0, "act", "T", "activations of integer weights: auto, int8, bf16, f32 (auto)", KIND_ACT,
        .of = PF_OPTION_OF_MODEL, .offset = AT(activations)),
    ROW(0, "gemm", "LIBRARY", "products: auto, own, onednn (compares speed: not exact) (own)", KIND_WORD,
        .of = PF_OPTION_OF_ENGINE, .offset = AT(gemm), .choices = gemm_choices),
    ROW(0, "kv-dtype", "T", "KV cache: auto, f32, bf16 (auto: what suits --dtype)", KIND_WORD,
        .of = PF_OPTION_OF_ENGINE, .offset = AT(kv_dtype), .choices = kv_choices),
    ROW(0, "threads", "N", "threads (the cores there are; fewer while that is faster)", KIND_INT,
        .of = PF_OPTION_OF_ENGINE, .offset = AT(n_threads), .min = 1, .max = 1024),
    ROW(0, "threading", "T", "own threads, or openmp: those of the OpenMP runtime (own)", KIND_CHOICE,
        .of = PF_OPTION_OF_TEAM, .offset = AT(threading), .choices = threading_choices),
    ROW(0, "cores", "LIST", "pin threads to these CPUs, one to each: 0,2-5", KIND_CORES, .of = PF_OPTION_OF_ENGINE),
    ROW(0, "isa", "NAME", "auto, scalar, avx2, avx512, avx512bf16, amx (auto)", KIND_WORD, .offset = AT(isa_word),
        .choices = isa_choices),
    ROW(0, "strict", NULL, "refuse keys and tensors of the model's files that are not read (a warning)", KIND_FLAG,
        .of = PF_OPTION_OF_ENGINE, .offset = AT(strict)),
};
GROUP(pf_options_running, "Running", running_rows);

static const struct pf_option_row draft_head_rows[] = {
    ROW(0, "head", "H", "logits: full; screened, coarse, then the best exactly: faster (full)", KIND_WORD,
        .of = PF_OPTION_OF_MODEL, .offset = AT(head), .choices = draft_head_choices, .otherwise = "full"),
};
GROUP(pf_options_draft_head, "Of a draft", draft_head_rows);

static const struct pf_option_row target_head_rows[] = {
    ROW(0, "head", "H", "greedy: full; bounded, the same tokens by fewer bytes (auto)", KIND_WORD,
        .of = PF_OPTION_OF_MODEL, .offset = AT(head), .choices = target_head_choices),
};
GROUP(pf_options_target_head, "Of a target", target_head_rows);

static const struct pf_option_row head_rows[] = {
    ROW(0, "head", "H", "as of a target, auto, full, bounded; as of a draft, full, screened (auto)", KIND_WORD,
        .of = PF_OPTION_OF_MODEL, .offset = AT(head), .choices = head_choices),
};
GROUP(pf_options_head, "Of the head", head_rows);

static const struct pf_option_row context_rows[] = {
    ROW(0, "context", "N", "tokens that a sequence may have (the model's, at most 8192)", KIND_INT,
        .of = PF_OPTION_OF_CONTEXT, .offset = AT(context), .min = 1, .max = PF_MAX_POSITIONS),
};
GROUP(pf_options_context, "Context", context_rows);

static const struct pf_option_row draft_running_rows[] = {
    ROW(0, "draft-dtype", "T", "the draft's weights, as --dtype (auto)", KIND_DTYPE, .of = PF_OPTION_OF_DRAFT,
        .offset = AT(draft_dtype)),
    ROW(0, "draft-act", "T", "the draft's activations, as --act (auto)", KIND_ACT, .of = PF_OPTION_OF_DRAFT,
        .offset = AT(draft_activations)),
    ROW(0, "draft-head", "H", "the draft's logits: full; screened, coarse, then the best exactly (full)", KIND_WORD,
        .of = PF_OPTION_OF_DRAFT, .offset = AT(draft_head), .choices = draft_head_choices, .otherwise = "full"),
    ROW(0, "draft-ahead", "WHEN", "with -d and --verifier: draft likely outcomes while it verifies: on, off (off)",
        KIND_CHOICE, .of = PF_OPTION_OF_DRAFT, .offset = AT(draft_ahead), .choices = draft_ahead_choices),
    DRAFT_MODEL_ROWS(PF_OPTION_OF_DRAFT),
    ROW(0, "simulate-token-ms", "X", "with -d: a pass of the draft takes at least X ms", KIND_MS,
        .offset = AT(simulate_token_ns), .max = 60000),
    ROW(0, "simulate-step-ms", "X", "with -m: a pass of the target takes at least X ms", KIND_MS,
        .offset = AT(simulate_step_ns), .max = 60000),
};
GROUP(pf_options_draft_running, "Draft, and trial", draft_running_rows);

static const struct pf_option_row service_rows[] = {
    ROW(0, "listen", "ADDR", "host:port (port 0: any) or unix:/path", KIND_LISTEN, .offset = AT(listen)),
    ROW(0, "max-sequences", "N", "sequences at once (256; serve: 64)", KIND_INT, .offset = AT(max_sequences), .min = 1,
        .max = PF_MAX_OPEN_SEQUENCES),
    ROW(0, "kv-sequences", "N", "of full length that the KV cache has room for (8; serve: by memory)", KIND_INT,
        .offset = AT(kv_sequences), .min = 1, .max = PF_MAX_OPEN_SEQUENCES),
    ROW(0, "prefix-cache", "WHEN", "off: read every prompt whole; on: not what another began with (on)", KIND_CHOICE,
        .offset = AT(prefix_cache_off), .choices = prefix_cache_choices),
};
GROUP(pf_options_service, "Service", service_rows);

static const struct pf_option_row metrics_rows[] = {
    ROW(0, "metrics", "ADDR", "serve /metrics and /health over HTTP there (nowhere)", KIND_LISTEN,
        .offset = AT(metrics)),
};
GROUP(pf_options_metrics, "Metrics", metrics_rows);

static const struct pf_option_row top_rows[] = {
    ROW(0, "once", NULL, "show the totals since the server began, and end", KIND_FLAG, .offset = AT(once)),
};
GROUP(pf_options_top, "Watching", top_rows);

static const struct pf_option_row http_rows[] = {
    ROW(0, "tls-cert", "FILE", "speak TLS, with this certificate or chain (PEM) ...", KIND_STRING,
        .offset = AT(tls_cert)),
    ROW(0, "tls-key", "FILE", "... and its key (PEM)", KIND_STRING, .offset = AT(tls_key)),
    ROW(0, "api-key-file", "FILE", "take only requests with a key of this file, one a line (any request)", KIND_STRING,
        .offset = AT(api_key_file)),
    ROW(0, "chat-template", "FILE", "a template in Jinja, in the place of the model's", KIND_STRING,
        .offset = AT(chat_template)),
};
GROUP(pf_options_http, "HTTP", http_rows);

static const struct pf_option_row worker_drafter_rows[] = {
    ROW(0, "draft-ahead", "WHEN", "draft for likely outcomes while engines verify: on, off (off)", KIND_CHOICE,
        .of = PF_OPTION_OF_MODEL, .offset = AT(draft_ahead), .choices = draft_ahead_choices),
    DRAFT_MODEL_ROWS(PF_OPTION_OF_MODEL),
    DRAFTER_ROW("model; ngram, suffix: lookups, alone without -m; cascade: both; a choice (model)"),
    SUFFIX_CORPUS_ROW,
};
GROUP(pf_options_worker_drafter, "Drafter", worker_drafter_rows);

static const struct pf_option_row target_backend_rows[] = {
    ROW(0, "backend", "NAME", "where the target runs: cpu, or cuda, in BF16 on the first GPU (cpu)", KIND_CHOICE,
        .offset = AT(verifies_on), .choices = verifier_choices),
};
GROUP(pf_options_target_backend, "Backend", target_backend_rows);

static const struct pf_option_row worker_trial_rows[] = {
    ROW(0, "simulate-token-ms", "X", "a pass takes at least X ms, as a larger draft's would", KIND_MS,
        .offset = AT(simulate_token_ns), .max = 60000),
};
GROUP(pf_options_worker_trial, "Trial", worker_trial_rows);

static const struct pf_option_row verifier_trial_rows[] = {
    ROW(0, "simulate-step-ms", "X", "a verification takes at least X ms, as a larger target's would", KIND_MS,
        .offset = AT(simulate_step_ns), .max = 60000),
};
GROUP(pf_options_verifier_trial, "Trial", verifier_trial_rows);

static const struct pf_option_row quantize_rows[] = {
    ROW('o', "output", "DIR", "the directory to be made: absent, or empty", KIND_STRING, .offset = AT(output)),
    ROW(0, "dtype", "T", "f32, f16, bf16, int8, int4[-asym][-g128|-channel]", KIND_DTYPE, .offset = AT(dtype)),
    ROW(0, "threads", "N", "threads (the cores there are)", KIND_INT, .offset = AT(n_threads), .min = 1, .max = 1024),
    ROW(0, "threading", "T", "own threads, or openmp: those of the OpenMP runtime (own)", KIND_CHOICE,
        .offset = AT(threading), .choices = threading_choices),
    ROW(0, "strict", NULL, "refuse keys and tensors of the model's files that are not read (a warning)", KIND_FLAG,
        .offset = AT(strict)),
};
GROUP(pf_options_quantize, "Quantization", quantize_rows);

static const struct pf_option_row logits_rows[] = {
    ROW(0, "all", NULL, "after each token, one row a line, not only after the last", KIND_FLAG, .offset = AT(all)),
};
GROUP(pf_options_logits, "Logits", logits_rows);

static const struct pf_option_row throughput_rows[] = {
    ROW(0, "prompt-len", "N", "tokens of the prefill (512)", KIND_INT, .offset = AT(bench_prompt_len), .min = 1,
        .max = 1 << 20),
    ROW(0, "gen-len", "N", "decode steps of a run (64)", KIND_INT, .offset = AT(bench_gen_len), .min = 2,
        .max = 1 << 20),
    ROW(0, "context", "N", "tokens before the first decode step (128)", KIND_INT, .offset = AT(bench_context), .min = 1,
        .max = 1 << 20),
};
GROUP(pf_options_throughput, "Measurement", throughput_rows);

static const struct pf_option_row kernels_rows[] = {
    ROW(0, "isa", "NAME", "what is chosen there; auto: all that run here, with --quick the best (auto)", KIND_WORD,
        .offset = AT(isa_word), .choices = isa_choices),
    ROW(0, "op", "NAME", "one operation alone: gemm, attn, rmsnorm, top, ...", KIND_STRING, .offset = AT(bench_op)),
    ROW(0, "format", "NAME", "products with such weights alone: bf16, int8, int4-g128, ...", KIND_STRING,
        .offset = AT(bench_format)),
    ROW(0, "threads", "N", "threads of a product, or of a pass (the cores there are)", KIND_INT,
        .offset = AT(n_threads), .min = 1, .max = 1024),
    ROW(0, "threading", "T", "own threads, or openmp: those of the OpenMP runtime (own)", KIND_CHOICE,
        .offset = AT(threading), .choices = threading_choices),
    ROW(0, "cores", "LIST", "pin threads to these CPUs, one to each: 0,2-5", KIND_CORES),
    ROW(0, "quick", NULL, "few samples, one shape, what is chosen alone", KIND_FLAG, .offset = AT(quick)),
};
GROUP(pf_options_kernels, "Measurement", kernels_rows);

static const struct pf_option_row pass_rows[] = {
    ROW('m', "model", "MODEL", "measure those of a pass of this model instead", KIND_STRING, .offset = AT(model)),
    ROW(0, "dtype", "T", "its weights, as in generate (auto)", KIND_DTYPE, .of = PF_OPTION_OF_MODEL,
        .offset = AT(dtype)),
    ROW(0, "act", "T", "activations of integer weights, as in generate (auto)", KIND_ACT, .of = PF_OPTION_OF_MODEL,
        .offset = AT(activations)),
    ROW(0, "kv-dtype", "T", "its KV cache, as in generate (auto)", KIND_WORD, .of = PF_OPTION_OF_MODEL,
        .offset = AT(kv_dtype), .choices = kv_choices),
    ROW(0, "head", "H", "its logits: full, screened, as in worker (full)", KIND_WORD, .of = PF_OPTION_OF_MODEL,
        .offset = AT(head), .choices = draft_head_choices, .otherwise = "full"),
    ROW(0, "rows", "LIST", "rows of a pass: 1,4,8 (1)", KIND_INT, .of = PF_OPTION_OF_MODEL, .offset = AT(rows),
        .count = AT(n_rows), .min = 1, .max = PF_PASS_MAX_ROWS),
    ROW(0, "context", "N", "tokens before the pass (128)", KIND_INT, .of = PF_OPTION_OF_MODEL,
        .offset = AT(bench_context), .min = 1, .max = 1 << 20),
    ROW(0, "strict", NULL, "refuse keys and tensors of the model's files that are not read (a warning)", KIND_FLAG,
        .of = PF_OPTION_OF_MODEL, .offset = AT(strict)),
};
GROUP(pf_options_pass, "A pass", pass_rows);

static const struct pf_option_row rpc_rows[] = {
    ROW(0, "worker", "ADDR", "round trips to the worker there", KIND_ADDRESS, .offset = AT(worker)),
    ROW(0, "loopback", NULL, "to a server in this process, over a unix socket", KIND_FLAG, .offset = AT(loopback)),
    ROW(0, "rounds", "N", "round trips (2000)", KIND_INT, .offset = AT(trips.n_rounds), .min = 10, .max = 1 << 24),
    ROW(0, "sequences", "N", "that each message speaks of (1)", KIND_INT, .offset = AT(trips.n_sequences), .min = 1,
        .max = PF_MAX_BATCH_SEQUENCES),
    ROW(0, "draft-len", "K", "tokens that are asked for each of them (1)", KIND_INT, .offset = AT(trips.draft_len),
        .min = 1, .max = PF_MAX_DRAFT_TOKENS),
    ROW(0, "context", "N", "tokens of each prompt (16)", KIND_INT, .offset = AT(trips.context), .min = 1,
        .max = PF_MAX_PROMPT_TOKENS),
    ROW(0, "temperature", "T", "above 0: proposals are sampled and declared (0)", KIND_FLOAT,
        .offset = AT(trips.temperature), .max = 1000),
};
GROUP(pf_options_rpc, "Measurement", rpc_rows);

static const struct pf_option_row acceptance_rows[] = {
    ROW('d', "draft", "DRAFT", "a small model in this process proposes", KIND_STRING, .offset = AT(draft)),
    ROW(0, "draft-worker", "ADDR", "a worker there proposes", KIND_ADDRESS, .offset = AT(draft_worker)),
    DRAFTER_ROW("model; ngram, suffix: lookups; cascade: both; a worker is asked for it (model)"),
    SUFFIX_CORPUS_ROW,
    ROW(0, "verifier", "ADDR", "a target there disposes; with -d, without -m", KIND_ADDRESS, .offset = AT(verifier)),
    ROW(0, "prompts", "FILE", "Spec-Bench JSONL, or one prompt a line; - is standard input (the bundled set)",
        KIND_FILE, .offset = AT(prompts_file)),
    ROW(0, "what-if", "V:D:R", "best length for a step of V ms, a pass of D ms, a trip of R us; repeatable",
        KIND_STRINGS, .offset = AT(what_if)),
    ROW(0, "report", "FILE", "write the runs as an HTML page with plots, too", KIND_FILE, .offset = AT(report_file)),
    ROW(0, "warm-up", NULL, "run the first prompt once before, uncounted", KIND_FLAG, .offset = AT(warm_up)),
    ROW(0, "repeats", "N", "measure the grid N times, warmed up: medians, and their range (1)", KIND_INT,
        .offset = AT(repeats), .min = 1, .max = PF_ACCEPTANCE_REPEATS),
    ROW(0, "synthetic-acceptance", "RATE",
        "accept draft tokens by this rate, whatever they are: 0.8, 0.9,0.5, length:L", KIND_STRING,
        .offset = AT(synthetic)),
    ROW(0, "limit", "N", "only the first N prompts", KIND_INT, .offset = AT(limit), .min = 1, .max = INT_MAX),
    ROW('n', "new-tokens", "N", "new tokens a prompt (64)", KIND_INT, .offset = AT(n_new), .min = 2, .max = 1 << 20),
    ROW(0, "draft-len", "LIST", "lengths of a proposal: 2,4,auto (auto)", KIND_LENGTH, .offset = AT(draft_lens),
        .count = AT(n_draft_lens), .min = 1, .max = PF_MAX_DRAFT_TOKENS),
    ROW(0, "method", "LIST", "as in generate (greedy at 0, else rejection)", KIND_CHOICE, .offset = AT(methods),
        .count = AT(n_methods), .choices = method_choices),
    ROW(0, "siblings", "LIST", "as in generate (auto)", KIND_CHOICE, .offset = AT(siblings_list),
        .count = AT(n_siblings_list), .choices = sibling_choices),
    ROW(0, "typical-epsilon", "P", "of typical: tokens more probable than this are kept (0.09)", KIND_FLOAT,
        .offset = AT(typical.epsilon), .max = 1, .above_min = true),
    ROW(0, "typical-delta", "D", "of typical: and than D times e to minus the entropy (0.3)", KIND_FLOAT,
        .offset = AT(typical.delta), .max = 1, .above_min = true),
    ROW(0, "temperature", "LIST", "temperatures (0)", KIND_FLOAT, .offset = AT(temperatures),
        .count = AT(n_temperatures), .max = 1000),
    ROW(0, "top-k", "K", "as in generate", KIND_INT, .offset = AT(sampling.top_k), .max = INT_MAX),
    ROW(0, "top-p", "P", "as in generate", KIND_FLOAT, .offset = AT(sampling.top_p), .max = 1, .above_min = true),
    ROW(0, "min-p", "P", "as in generate", KIND_FLOAT, .offset = AT(sampling.min_p), .max = 1),
    ROW(0, "typical-p", "P", "as in generate", KIND_FLOAT, .offset = AT(sampling.typical_p), .max = 1,
        .above_min = true),
    ROW(0, "seed", "S", "of all randomness (1)", KIND_SEED),
    ROW(0, "ignore-eos", NULL, "go on after an end-of-text token", KIND_FLAG, .offset = AT(ignore_eos)),
    ROW(0, "simulate", NULL, "no model: a synthetic pair in virtual time, beside what the formulas allow", KIND_FLAG,
        .offset = AT(simulate)),
    ROW(0, "simulate-acceptance", "LIST", "of a draft token, with --simulate (0.8)", KIND_FLOAT,
        .offset = AT(sim_acceptances), .count = AT(n_sim_acceptances), .max = 1),
    ROW(0, "simulate-batch", "LIST", "sequences at the same time, with --simulate (1)", KIND_INT,
        .offset = AT(sim_batches), .count = AT(n_sim_batches), .min = 1, .max = 64),
    ROW(0, "simulate-rtt-us", "LIST", "round trips to the worker, with --simulate (100)", KIND_FLOAT,
        .offset = AT(sim_round_trips), .count = AT(n_sim_round_trips), .max = 10000000),
};
GROUP(pf_options_acceptance, "Measurement", acceptance_rows);

static const struct pf_option_row info_rows[] = {
    ROW('d', "draft", "DRAFT", "another model, whose vocabulary is compared with MODEL's", KIND_STRING,
        .offset = AT(draft)),
    ROW(0, "max-sequences", "N", "sequences at once that memory is counted for (1)", KIND_INT, .of = PF_OPTION_OF_MODEL,
        .offset = AT(max_sequences), .min = 1, .max = PF_MAX_OPEN_SEQUENCES),
};
GROUP(pf_options_info, "Report", info_rows);

static const struct pf_option_row json_rows[] = {
    ROW(0, "json", NULL, "one JSON document on standard output", KIND_FLAG, .offset = AT(json)),
};
GROUP(pf_options_json, "Output", json_rows);

static const struct pf_option_row json_lines_rows[] = {
    ROW(0, "json", NULL, "one JSON object a line on standard output", KIND_FLAG, .offset = AT(json)),
};
GROUP(pf_options_json_lines, "Output", json_lines_rows);

static const struct pf_option_row color_rows[] = {
    ROW(0, "json", NULL, "one JSON document (with --num-samples: one a line)", KIND_FLAG, .offset = AT(json)),
    ROW(0, "color", "WHEN", "auto, always, never: accepted draft tokens in colour (auto)", KIND_CHOICE,
        .offset = AT(color), .choices = color_choices),
};
GROUP(pf_options_color, "Output", color_rows);
