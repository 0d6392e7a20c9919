/* Rows of Baichuan and InternLM, whose published code is not part of transformers. */
#include <string.h>

#include "model/config/architecture_rows.h"

#define LAYER "model.layers.%d."

/* Whether the class has the spelling of all models but the first, Baichuan 7B, which is a BaiChuanForCausalLM. */
static bool has_later_spelling(const json_t *root)
{
    const json_t *names = json_object_get(root, "architectures");
    const char *name = json_string_value(json_is_array(names) ? json_array_get(names, 0) : names);
    return name && strcmp(name, "BaichuanForCausalLM") == 0;
}

/* Four models share one class name but for a capital. The configuration class of the 13B models has model_max_length and no
 * max_position_embeddings, as ALiBi needs none. Baichuan 2 has a normalised head: its configuration class has z_loss_weight, and
 * its vocabulary 125696 tokens; and of the two 7B models the second has the later spelling. */
static pf_status read_baichuan(pf_reader *r, pf_config *c)
{
    enum { VOCAB_OF_2 = 125696 };
    const bool has_alibi = pf_key_find(r, "max_position_embeddings") == NULL;
    c->plan.normalised_head = pf_key_find(r, "z_loss_weight") != NULL || c->vocab_size == VOCAB_OF_2 ||
                              (!has_alibi && has_later_spelling(r->doc->root));
    if (!has_alibi) return PF_OK;
    c->plan.positions = PF_POSITIONS_ALIBI;
    return pf_key_int(r, "model_max_length", 1, PF_MAX_POSITIONS, &c->max_position);
}

/* InternLM's own dictionary: "dynamic" is PF_ROPE_DYNAMIC with the factor 1, which changes nothing within max_position. */
static pf_status read_internlm(pf_reader *r, pf_config *c)
{
    (void)c;
    const pf_json doc = pf_json_within(r->doc, pf_key_find(r, "rotary"), "rotary");
    if (doc.root == NULL || json_is_true(doc.root)) return PF_OK;
    if (!json_is_object(doc.root)) return pf_fail(r->error, PF_FORMAT, "%s: rotary must be an object", r->doc->name);
    const char *type = "origin", *key;
    double factor = 1.0;
    json_t *value;
    PF_TRY(pf_json_get_string(&doc, doc.root, "type", false, &type, r->error));
    PF_TRY(pf_json_get_double(&doc, doc.root, "base", false, 1.0, 1e15, &r->theta, r->error));
    PF_TRY(pf_json_get_double(&doc, doc.root, "scaling_factor", false, 1e-6, 1e6, &factor, r->error));
    json_object_foreach(doc.root, key, value)
    {
        static const char *const known[] = { "type", "base", "scaling_factor", NULL };
        if (!json_is_null(value) && !pf_config_lists(known, key))
            return pf_fail(r->error, PF_UNSUPPORTED, "%s: the field %.60s is not known and could change the results",
                           doc.name, key);
    }
    if (strcmp(type, "origin") != 0 && strcmp(type, "dynamic") != 0)
        return pf_fail(r->error, PF_UNSUPPORTED, "%s: type is \"%.40s\", only \"origin\" and \"dynamic\" are known",
                       doc.name, type);
    if (factor != 1.0)
        return pf_fail(r->error, PF_UNSUPPORTED, "%s: scaling_factor is %g, only 1 is known", doc.name, factor);
    return PF_OK;
}

static const pf_architecture ROWS[] = {
    {
        .classes = { "BaichuanForCausalLM" }, /* and BaiChuanForCausalLM */
        .model_types = { "baichuan" },
        .defaults = { [PF_KEY_POSITIONS] = 4096 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .read = read_baichuan,
        .plan = { PF_LLAMA_PLAN },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_NORMS(LAYER), PF_LLAMA_MLP(LAYER),
                     PF_FUSED_QKV(LAYER "self_attn.W_pack", PF_LAYOUT_QKV),
                     [PF_TENSOR_O] = { LAYER "self_attn.o_proj" } },
    },
    {
        .classes = { "InternLMForCausalLM" },
        .model_types = { "internlm" },
        .defaults = { [PF_KEY_POSITIONS] = 2048 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .biases = { { "bias", true, PF_QKVO } },
        .read = read_internlm,
        .plan = { PF_LLAMA_PLAN },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_LAYER(LAYER) },
    },
    {
        .classes = { "InternLM2ForCausalLM" },
        .model_types = { "internlm2" },
        .defaults = { [PF_KEY_POSITIONS] = 2048 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .biases = { { "bias", true, PF_QKVO } },
        .plan = { PF_LLAMA_PLAN },
        .tensors = { [PF_TENSOR_EMBEDDING] = { "model.tok_embeddings" },
                     [PF_TENSOR_FINAL_NORM] = { "model.norm" },
                     [PF_TENSOR_HEAD] = { "output" },
                     [PF_TENSOR_ATTENTION_NORM] = { LAYER "attention_norm" },
                     PF_FUSED_QKV(LAYER "attention.wqkv", PF_LAYOUT_QKV_GROUPS),
                     [PF_TENSOR_O] = { LAYER "attention.wo" },
                     [PF_TENSOR_MLP_NORM] = { LAYER "ffn_norm" },
                     [PF_TENSOR_GATE] = { LAYER "feed_forward.w1" },
                     [PF_TENSOR_UP] = { LAYER "feed_forward.w3" },
                     [PF_TENSOR_DOWN] = { LAYER "feed_forward.w2" } },
    },
};

const pf_architecture_list pf_baichuan_architectures = PF_LIST(ROWS);
