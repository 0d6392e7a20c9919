/*
 * Which keys config.json may have besides those that were read. A key is one of three things: inert (written by transformers, not
 * read at inference), fixed (only the value that this engine computes is accepted), or unknown: then it is reported where it is
 * harmless (unknown_keys.h), and refused by name where it is not. null is a key that is absent.
 */
#include "model/config/config_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/config/unknown_keys.h"

/* Written by transformers 4 or 5, or found in published models, and not read by a causal language model at inference: the
 * origin of the file, training, classification, the defaults of `generate`, and how PyTorch or a browser runs the model
 * (pretraining_tp: in how many parts transformers 4 computes the same products). */
static const char *const INERT[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_flash_attn_2_enabled",
    "_from_model_config",
    "_name_or_path",
    "activation_dropout",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_dropout_prob",
    "attn_implementation",
    "attn_pdrop",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dropout",
    "dtype",
    "early_stopping",
    "emb_dropout_prob",
    "emb_pdrop",
    "embd_pdrop",
    "embedding_dropout",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "init_config",
    "init_device",
    "init_std",
    "initializer_range",
    "is_decoder",
    "keys_to_ignore_at_inference",
    "label2id",
    "layerdrop",
    "length_penalty",
    "loss_type",
    "mask_token_id",
    "max_length",
    "max_new_tokens",
    "max_sequence_length",
    "max_window_layers",
    "min_length",
    "min_new_tokens",
    "model_max_length",
    "name_or_path",
    "neftune_noise_alpha",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "residual_dropout",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_last_hidden_states",
    "tokenizer_class",
    "tokenizer_name",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "type_vocab_size",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_flash_attention",
    "use_flash_attention_2",
    "use_flash_attn",
    "use_sdpa",
    NULL,
};

/* Keys that change the logits of any architecture, with the values that are implemented. */
static const pf_fixed_key FIXED[] = {
    { "activation", { "\"silu\"", "\"swiglu\"" } },
    { "add_cross_attention", { "false" } },
    { "alibi", { "false" } },
    { "bias", { "false" } },
    { "causal", { "true" } },
    { "causal_mask", { "true" } },
    { "gated_mlp", { "true" } },
    { "hidden_act", { "\"silu\"", "\"swish\"" } },
    { "is_causal", { "true" } },
    { "is_encoder_decoder", { "false" } },
    { "is_llama_config", { "true" } },
    { "per_layer_config", { "{}" } },
    { "pruned_heads", { "{}" } },
    { "qk_norm", { "false" } },
    { "qkv_bias", { "false" } },
    { "rms_norm", { "true" } },
    { "rope", { "true" } },
    { "rope_interleaved", { "false" } },
    { "rotary", { "true" } },
    { "scale_attn_weights", { "true" } },
    { "swiglu", { "true" } },
    { "tie_encoder_decoder", { "false" } },
    { "use_causal_mask", { "true" } },
    { "use_mrope", { "false" } },
    { "use_qk_norm", { "false" } },
    { "use_rms_norm", { "true" } },
    { "use_rope", { "true" } },
    { "use_rotary", { "true" } },
    { "use_rotary_embedding", { "true" } },
    { "use_rotary_embeddings", { "true" } },
    { "use_sliding_window", { "false" } },
    { "use_swiglu", { "true" } },
    { NULL, { NULL } },
};

bool pf_config_lists(const char *const *list, const char *text)
{
    for (; *list; list++)
        if (strcmp(*list, text) == 0) return true;
    return false;
}

bool pf_config_is_inert(const char *key)
{
    return pf_config_lists(INERT, key);
}

bool pf_config_show(const json_t *value, char out[PF_SHOWN_BYTES])
{
    char *text = pf_json_print(value, JSON_COMPACT | JSON_ENCODE_ANY);
    const bool is_shown = text != NULL;
    snprintf(out, PF_SHOWN_BYTES, "%s", is_shown ? text : "?");
    free(text);
    return is_shown;
}

static pf_status check_fixed(const pf_json *doc, const pf_fixed_key *fixed, const char *key, const json_t *value,
                             bool *is_fixed, pf_error *error)
{
    for (; fixed && fixed->key; fixed++) {
        if (strcmp(key, fixed->key) != 0) continue;
        *is_fixed = true;
        char found[PF_SHOWN_BYTES];
        if (!pf_config_show(value, found)) return pf_fail(error, PF_NOMEM, "%s: no memory to check %s", doc->name, key);
        for (int v = 0; v < 3 && fixed->values[v]; v++)
            if (strcmp(found, fixed->values[v]) == 0) return PF_OK;
        return pf_fail(error, PF_UNSUPPORTED, "%s: %s is %s, only %s is known here", doc->name, key, found,
                       fixed->values[0]);
    }
    return PF_OK;
}

/* Keys for one sentence: the first few, and how many there are. */
typedef struct {
    char names[256];
    int n;
} key_list;

static void list_key(key_list *list, const char *key)
{
    enum { SHOWN = 12 };
    char word[48];
    snprintf(word, sizeof word, "%s", key);
    if (list->n++ < SHOWN && strlen(list->names) + strlen(word) + 3 < sizeof list->names)
        pf_list_word(list->names, sizeof list->names, ", ", word);
    else if (strlen(list->names) + 6 < sizeof list->names && strstr(list->names, ", ...") == NULL)
        pf_list_word(list->names, sizeof list->names, ", ", "...");
}

/* Refuses a key that could change the logits, and lists it where it is merely not known. */
static pf_status check_key(const pf_reader *r, const char *key, const json_t *value, key_list *unknown)
{
    const pf_architecture *row = r->row;
    bool is_fixed = false;
    if (json_is_null(value) || (row->ignored && pf_config_lists(row->ignored, key))) return PF_OK;
    PF_TRY(check_fixed(r->doc, row->fixed, key, value, &is_fixed, r->error));
    if (is_fixed || pf_config_is_inert(key)) return PF_OK;
    PF_TRY(check_fixed(r->doc, FIXED, key, value, &is_fixed, r->error));
    if (is_fixed) return PF_OK;
    if (pf_config_may_ignore(r->doc->root, key, value)) {
        list_key(unknown, key);
        return PF_OK;
    }
    char found[PF_SHOWN_BYTES];
    pf_config_show(value, found);
    return pf_fail(r->error, PF_UNSUPPORTED,
                   "%s: the field %.80s (%s) is not known for %s and could change its results", r->doc->name, key,
                   found, row->classes[0]);
}

pf_status pf_config_check_keys(const pf_reader *r, const pf_load_policy *policy)
{
    key_list unknown = { .n = 0 };
    const char *key;
    json_t *value;
    json_object_foreach(r->left, key, value) PF_TRY(check_key(r, key, value, &unknown));
    if (unknown.n == 0) return PF_OK;
    return pf_load_warn(policy, r->error, "%s: %d %s not known and not read: %s", r->doc->name, unknown.n,
                        unknown.n == 1 ? "key is" : "keys are", unknown.names);
}

pf_status pf_generation_check_keys(const pf_json *doc, const pf_load_policy *policy, pf_error *error)
{
    key_list ignored = { .n = 0 };
    const char *key;
    json_t *value;
    json_object_foreach(doc->root, key, value) if (!pf_generation_may_ignore(key, value)) list_key(&ignored, key);
    if (ignored.n == 0) return PF_OK;
    return pf_load_warn(policy, error, "%s: %d %s not read and would change the text in transformers: %s", doc->name,
                        ignored.n, ignored.n == 1 ? "key is" : "keys are", ignored.names);
}
