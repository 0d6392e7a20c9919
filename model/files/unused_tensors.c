#include "model/files/unused_tensors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "model/config/gguf_config.h"

static bool ends_with(const char *name, const char *suffix)
{
    const size_t n = strlen(name), n_suffix = strlen(suffix);
    return n >= n_suffix && strcmp(name + n - n_suffix, suffix) == 0;
}

static bool begins_with(const char *name, const char *const *prefixes)
{
    for (; *prefixes; prefixes++)
        if (strncmp(name, *prefixes, strlen(*prefixes)) == 0) return true;
    return false;
}

/* Buffers that older PyTorch modules saved with the weights: frequencies, cosines and causal masks. */
static bool is_buffer(const char *name, int32_t n_dimensions)
{
    static const char *const ends[] = { "masked_bias", ".causal_mask", ".attn_mask", "position_ids", NULL };
    if (strstr(name, "rotary_emb.") != NULL || begins_with(name, (const char *const[]){ "rotary_emb", NULL }))
        return true;
    if (ends_with(name, "rotary_pos_emb.inv_freq")) return true; /* ChatGLM */
    for (const char *const *end = ends; *end; end++)
        if (ends_with(name, *end)) return true;
    return n_dimensions > 2 && (ends_with(name, "attn.bias") || ends_with(name, "attention.bias")); /* [1, 1, n, n] */
}

/* Behind "layers.": whether it is a layer that the model does not have. */
static bool is_of_later_layer(const pf_config *config, const char *number)
{
    char *end;
    if (number[0] < '0' || number[0] > '9') return false;
    const unsigned long long layer = strtoull(number, &end, 10);
    return *end == '.' && layer >= (unsigned long long)config->n_layers;
}

/* Whether the first component of a name below "model." is that of a module beside the decoder: a head for another task, drafting
 * heads, towers for images and sound. */
static bool is_of_other_module(const char *name)
{
    static const char *const modules[] = { "v_head",
                                           "value_head",
                                           "score",
                                           "classif",
                                           "reward",
                                           "regression",
                                           "qa_outputs",
                                           "mtp",
                                           "medusa",
                                           "eagle",
                                           "vision",
                                           "visual",
                                           "image",
                                           "audio",
                                           "speech",
                                           "mm_projector",
                                           "multi_modal_projector",
                                           "summary",
                                           "pooler",
                                           "critic",
                                           "q_head",
                                           "dropout",
                                           NULL };
    return begins_with(name, modules);
}

/* Scales by which activations, keys and values would be rounded, which they are not here. */
static bool is_scale_of_activations(const pf_config *config, const char *name)
{
    static const char *const ends[] = { ".input_scale",       ".input_zero_point", ".output_scale",
                                        ".output_zero_point", ".activation_scale", ".q_scale",
                                        ".k_scale",           ".v_scale",          NULL };
    for (const char *const *end = ends; *end && config->quantization.scheme != PF_SCHEME_NONE; end++)
        if (ends_with(name, *end)) return true;
    return false;
}

/* Names that a decoder's own parts have, at the top of a file without the prefix. */
static bool is_of_decoder(const char *name)
{
    static const char *const parts[] = { "layers.",   "h.",  "blocks.", "embed", "norm",   "final", "lm_head", "ln_",
                                         "layernorm", "wte", "wpe",     "pos",   "output", "head.", "logit",   NULL };
    return begins_with(name, parts);
}

/* The bytes of a name before the number of its layer: "model.layers." of "model.layers.%d.self_attn.q_proj". */
static size_t layers_prefix(const pf_config *config, const char **name)
{
    *name = pf_config_pattern(config, PF_TENSOR_O)->name;
    const char *number = strchr(*name, '%');
    return number == NULL ? 0 : (size_t)(number - *name);
}

/* The bytes of the first component, which a file may lack: "model.". */
static size_t model_prefix(const char *layers, size_t n_layers)
{
    const char *dot = memchr(layers, '.', n_layers);
    return dot == NULL || (size_t)(dot - layers) + 1 == n_layers ? 0 : (size_t)(dot - layers) + 1;
}

/* llama.cpp's files hold nothing but the decoder. */
static pf_extra_tensor judge_of_gguf(const pf_config *config, const char *name)
{
    static const char block[] = "blk.";
    if (pf_gguf_is_rope_tensor(name)) return PF_EXTRA_BUFFER;
    const bool is_later = strncmp(name, block, strlen(block)) == 0 && is_of_later_layer(config, name + strlen(block));
    return is_later ? PF_EXTRA_UNUSED : PF_EXTRA_REFUSED;
}

pf_extra_tensor pf_judge_extra_tensor(const pf_config *config, const char *name, int32_t n_dimensions)
{
    const char *layers;
    const size_t n_layers = layers_prefix(config, &layers), n_model = model_prefix(layers, n_layers);
    if (config->gguf) return judge_of_gguf(config, name);
    if (ends_with(name, "rotary_emb.inv_freq")) return PF_EXTRA_BUFFER;
    if (is_buffer(name, n_dimensions) || is_scale_of_activations(config, name)) return PF_EXTRA_UNUSED;
    const bool is_below = n_model > 0 && strncmp(name, layers, n_model) == 0;
    const char *rest = is_below ? name + n_model : name;
    if (n_layers > n_model && strncmp(rest, layers + n_model, n_layers - n_model) == 0)
        return is_of_later_layer(config, rest + n_layers - n_model) ? PF_EXTRA_UNUSED : PF_EXTRA_REFUSED;
    if (strcasestr(name, "lora_") != NULL) return PF_EXTRA_REFUSED;
    if (is_of_other_module(rest)) return PF_EXTRA_UNUSED;
    return is_below || is_of_decoder(rest) ? PF_EXTRA_REFUSED : PF_EXTRA_UNUSED;
}
