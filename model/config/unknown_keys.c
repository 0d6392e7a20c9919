#include "model/config/unknown_keys.h"

#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

/* ---- words of a key ------------------------------------------------------------------------------------------------ */

static bool has_fragment(const char *key, const char *const *fragments)
{
    for (; *fragments; fragments++)
        if (strcasestr(key, *fragments)) return true;
    return false;
}

static bool is_word(const char *at, size_t n, const char *word)
{
    const size_t n_word = strcspn(word, "*");
    return (word[n_word] == '*' ? n >= n_word : n == n_word) && strncasecmp(at, word, n_word) == 0;
}

/* Whether a word of the key is in the list, where "rope*" stands for all that begins so. Words end at anything but a letter,
 * and before a capital behind a small letter. */
static bool has_word(const char *key, const char *const *words)
{
    for (const char *at = key; *at;) {
        size_t n = 0;
        while (isalpha((unsigned char)at[n]) &&
               !(n > 0 && isupper((unsigned char)at[n]) && islower((unsigned char)at[n - 1])))
            n++;
        for (const char *const *word = words; n > 0 && *word; word++)
            if (is_word(at, n, *word)) return true;
        at += n > 0 ? n : 1;
    }
    return false;
}

static bool starts_with(const char *key, const char *const *prefixes)
{
    for (; *prefixes; prefixes++)
        if (strncasecmp(key, *prefixes, strlen(*prefixes)) == 0) return true;
    return false;
}

static bool ends_with(const char *key, const char *const *suffixes)
{
    for (const size_t n = strlen(key); *suffixes; suffixes++) {
        const size_t n_suffix = strlen(*suffixes);
        if (n >= n_suffix && strcasecmp(key + n - n_suffix, *suffixes) == 0) return true;
    }
    return false;
}

/* Names that are never read at inference. Some suffixes count for texts only: num_experts_per_token is a number. */
static bool is_inert(const char *key, const json_t *value)
{
    static const char *const prefixes[] = { "summary_",    "initializer",         "init_",
                                            "use_flash",   "gradient_checkpoint", "tokenizer",
                                            "n_positions", "max_position",        "training",
                                            NULL };
    static const char *const suffixes[] = { "_token_id", "_token_ids", "_token_index", "_init_std", "dropout",
                                            "dropout_p", "_pdrop",     "dropout_prob", NULL };
    static const char *const suffixes_of_texts[] = { "_token", "_impl", "_backend", "_by", NULL };
    static const char *const words[] = { "loss", "implementation", NULL };
    return starts_with(key, prefixes) || ends_with(key, suffixes) || has_word(key, words) ||
           (json_is_string(value) && ends_with(key, suffixes_of_texts));
}

/* Names of sizes, training settings and origins, without a word for a part of a model. */
static bool is_metadata_name(const char *key)
{
    static const char *const parts[] = { "layer",      "layers", "head",   "heads",  "kv",   "embed", "embedding",
                                         "embeddings", "chunk",  "sink",   "sinks",  "meta", "local", "interval",
                                         "memory",     "time",   "skip",   "shared", "rank", "dim",   "conv",
                                         "state",      "block",  "hidden", "theta",  "base", NULL };
    static const char *const subjects[] = {
        "seq",        "sequence",    "length",     "len",        "ctx",       "train",      "trained",  "pretraining",
        "pretrained", "finetune",    "finetuned",  "finetuning", "optimizer", "lr",         "learning", "epoch",
        "epochs",     "step",        "steps",      "seed",       "batch",     "world",      "version",  "revision",
        "date",       "year",        "id",         "ids",        "dtype",     "fp16",       "bf16",     "precision",
        "recompute",  "gradient",    "checkpoint", "wandb",      "vocab",     "vocabulary", "label",    "labels",
        "dataset",    "cache",       "beams",      "pad",        "padding",   "ignore",     "compile",  "device",
        "offload",    "debug",       "deepspeed",  "fsdp",       "megatron",  "tokenizer",  "tp",       "pp",
        "degree",     "composition", "unsloth",    "remote",     NULL
    };
    return has_word(key, subjects) && !has_word(key, parts);
}

/* ---- values -------------------------------------------------------------------------------------------------------- */

static bool is_empty(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) || (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static bool is_number(const json_t *value, double number)
{
    return json_is_number(value) && json_number_value(value) == number;
}

static bool is_number_of(const json_t *root, const char *key, const json_t *value)
{
    const json_t *other = json_object_get(root, key);
    return json_is_number(other) && is_number(value, json_number_value(other));
}

static bool is_string_of(const json_t *value, const char *const *words)
{
    const char *text = json_string_value(value);
    for (; text && *words; words++)
        if (strcasecmp(text, *words) == 0) return true;
    return false;
}

/* ---- keys that look like arithmetic -------------------------------------------------------------------------------- */

/* Fragments and words of features that a Llama lacks: switched off, they have no effect. */
static const char *const FEATURES[] = { "softcap", "soft_cap", "window",    "sliding", "alibi",         "mask",
                                        "expert",  "bias",     "sparse",    "router",  "bidirectional", "quant",
                                        "mixture", "hadamard", "interleav", NULL };
static const char *const FEATURE_WORDS[] = { "moe",   "swa", "clip", "cap",   "gate",  "gating",
                                             "chunk", "mup", "skip", "lora*", "sink*", NULL };
/* Fragments of multipliers: one has no effect. */
static const char *const MULTIPLIERS[] = { "scale",  "scaling",  "scalar", "multiplier",
                                           "factor", "rotary_p", "rope_p", NULL };
/* Fragments and words of parts that a Llama has in one form. */
static const char *const PARTS[] = { "norm", "rotary", "activation", "attention", "attn", "residual", "causal", NULL };
static const char *const PART_WORDS[] = { "rope*", "mrope*", "position*", "act", "eps", "epsilon", "gated",
                                          "qk",    "qkv",    "mlp",       "ffn", "glu", "theta",   NULL };

static bool is_feature(const char *key)
{
    return has_fragment(key, FEATURES) || has_word(key, FEATURE_WORDS);
}

static bool looks_like_arithmetic(const char *key)
{
    return is_feature(key) || has_fragment(key, MULTIPLIERS) || has_fragment(key, PARTS) || has_word(key, PART_WORDS);
}

/* Whether a text names the form that a Llama has. */
static bool is_llama_form(const char *key, const json_t *value)
{
    static const char *const norms[] = { "rmsnorm", "rms_norm", "rms", NULL };
    static const char *const acts[] = { "silu", "swish", "swiglu", NULL };
    static const char *const positions[] = { "rope", "rotary", "rotary_embedding", NULL };
    static const char *const attentions[] = { "full", "full_attention", "causal", NULL };
    static const char *const rotations[] = { "default", NULL };
    if (has_word(key, (const char *const[]){ "rope*", "rotary", NULL })) return is_string_of(value, rotations);
    if (has_word(key, (const char *const[]){ "position*", NULL })) return is_string_of(value, positions);
    if (strcasestr(key, "norm")) return is_string_of(value, norms);
    if (has_word(key, (const char *const[]){ "act", "activation*", NULL })) return is_string_of(value, acts);
    return strcasestr(key, "att") && is_string_of(value, attentions);
}

static bool is_neutral(const json_t *root, const char *key, const json_t *value)
{
    static const char *const off[] = { "none", "no", "off", "disabled", NULL };
    if (is_empty(value) || is_llama_form(key, value)) return true;
    if (strcmp(key, "sliding_window") == 0 && json_is_false(json_object_get(root, "use_sliding_window"))) return true;
    if (has_fragment(key, MULTIPLIERS)) return is_number(value, 1.0);
    if (is_feature(key)) return is_number(value, 0.0) || is_number(value, -1.0) || is_string_of(value, off);
    if (has_word(key, (const char *const[]){ "eps", "epsilon", NULL }))
        return is_number_of(root, "rms_norm_eps", value);
    if (has_word(key, (const char *const[]){ "base", "theta", NULL })) return is_number_of(root, "rope_theta", value);
    return false;
}

/* ---- the decision -------------------------------------------------------------------------------------------------- */

static bool is_harmless(const json_t *root, const char *key, const json_t *value, int depth);

/* Each of a list's values under the list's key, each of an object's under its own. */
static bool are_all_harmless(const char *key, const json_t *value, int depth)
{
    size_t i;
    const char *inner;
    json_t *item;
    json_array_foreach(value, i, item) if (!is_harmless(value, key, item, depth)) return false;
    json_object_foreach((json_t *)(uintptr_t)value, inner,
                        item) if (!is_harmless(value, inner, item, depth)) return false;
    return true;
}

static bool is_harmless(const json_t *root, const char *key, const json_t *value, int depth)
{
    enum { MAX_DEPTH = 16 };
    if (is_empty(value) || is_inert(key, value)) return true;
    if (looks_like_arithmetic(key)) return is_neutral(root, key, value);
    if (json_is_string(value) || is_metadata_name(key)) return true;
    if (!json_is_array(value) && !json_is_object(value)) return false;
    return depth < MAX_DEPTH && are_all_harmless(key, value, depth + 1);
}

bool pf_config_may_ignore(const json_t *root, const char *key, const json_t *value)
{
    return is_harmless(root, key, value, 0);
}

bool pf_generation_may_ignore(const char *key, const json_t *value)
{
    static const char *const neutral_at_one[] = { "penalty", "guidance", "num_beams", "num_beam_groups", NULL };
    static const char *const neutral_at_zero[] = { "ngram", "min_length", "min_new_tokens", "diversity", NULL };
    static const char *const lists[] = { "bad_words",   "suppress",  "forced",    "force_words", "sequence_bias",
                                         "constraints", "watermark", "processor", "dola_layers", NULL };
    if (is_empty(value)) return true;
    if (has_fragment(key, neutral_at_zero)) return is_number(value, 0.0);
    if (strcmp(key, "penalty_alpha") == 0) return is_number(value, 0.0);
    if (strcmp(key, "length_penalty") == 0) return true; /* affects beam search only */
    if (has_fragment(key, neutral_at_one)) return is_number(value, 1.0);
    return !has_fragment(key, lists);
}
