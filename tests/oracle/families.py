#!/usr/bin/env python3
"""Writes tiny random models of every family, in the config spelling and with the tensor names of the published files.

    python3 tests/oracle/families.py --list
    python3 tests/oracle/families.py --family gemma2 --out DIR [--seed N]

A case is one row of CASES: a config.json, the renaming from the tensor names that transformers saves to those of the
published files, and config changes that must move the logits (a model on which a wrong window cannot be seen tests
nothing). The oracle of a case is transformers (eager attention, float32) where it has the family, else reference.py.
Sizes are no multiples of anything. Every weight is a bfloat16 value.
"""
import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable

POSITIONS = 160  # positions of a model: more than the longest prompt and its 24 tokens


@dataclasses.dataclass(frozen=True)
class Sizes:
    vocab: int
    inter: int
    hidden: int  # of three heads
    wide: int  # of three heads, a part of each of which is rotated
    quad: int  # of four heads


LIVE = Sizes(vocab=301, inter=72, hidden=36, wide=48, quad=48)
GOLDEN = Sizes(vocab=113, inter=44, hidden=24, wide=24, quad=32)  # small files


@dataclasses.dataclass(frozen=True)
class Case:
    config: Callable  # Sizes -> the config.json of the files
    oracle: dict | None = None  # changes to it before transformers reads it: spellings that transformers does not know
    reference: bool = False  # computed by reference.py: transformers does not have the family
    tensors: Callable | None = None  # of a reference family: config -> {name: shape}
    rename: tuple = ()  # (pattern, replacement): from the names that transformers saves to the published names
    extra: Callable | None = None  # (config, tensors) -> tensors of published files that no pass reads
    flips: tuple = ()  # config changes, each of which must move the logits
    live_only: bool = False  # no golden vectors: another case has the same model in another spelling
    length_dependent: bool = False  # the rotation depends on the length of the text: no greedy text is compared


def llama_config(s, architecture="LlamaForCausalLM", model_type="llama", **changes):
    """The keys that most families share."""
    config = {
        "architectures": [architecture], "model_type": model_type, "hidden_act": "silu", "hidden_size": s.hidden,
        "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": s.inter,
        "vocab_size": s.vocab, "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "initializer_range": 0.02, "use_cache": True, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
        "torch_dtype": "bfloat16", "transformers_version": "4.46.0"} | changes
    return {key: value for key, value in config.items() if value != "absent"}


def spelled5(config, **parameters):
    """The same as transformers 5 writes it."""
    config = dict(config)
    theta = config.pop("rope_theta", 10000.0)
    config.pop("rope_scaling", None)
    config["dtype"] = config.pop("torch_dtype")
    return config | {"rope_parameters": {"rope_theta": theta, "rope_type": "default"} | parameters,
                     "transformers_version": "5.0.0"}


LLAMA3_SCALING = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 40}
YARN_SCALING = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 40, "beta_fast": 32.0,
                "beta_slow": 1.0}


def gemma(s, architecture, model_type, **changes):
    return llama_config(s, architecture, model_type, **{
        "head_dim": 20, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6,
        "tie_word_embeddings": "absent", "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 2,
        "eos_token_id": 1, "pad_token_id": 0} | changes)


def gemma2(s, **changes):
    return gemma(s, "Gemma2ForCausalLM", "gemma2", num_hidden_layers=3, sliding_window=11, query_pre_attn_scalar=37,
                 attn_logit_softcapping=3.0, final_logit_softcapping=4.0, cache_implementation="hybrid", **changes)


def gemma3(s, **changes):
    return gemma(s, "Gemma3ForCausalLM", "gemma3_text", hidden_activation="gelu_pytorch_tanh", hidden_act="absent",
                 num_hidden_layers=3, sliding_window=11, query_pre_attn_scalar=37, attn_logit_softcapping=None,
                 final_logit_softcapping=None, rope_theta=1000000.0, **changes)


def gemma3_multimodal(s):
    text = gemma3(s, rope_local_base_freq=10000.0, sliding_window_pattern=2,
                  rope_scaling={"rope_type": "linear", "factor": 8.0})
    vision = {"model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 1,
              "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
    return {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text,
            "vision_config": vision, "mm_tokens_per_image": 4, "boi_token_index": 5, "eoi_token_index": 6,
            "image_token_index": 7, "eos_token_id": [1, 2], "initializer_range": 0.02, "torch_dtype": "bfloat16",
            "transformers_version": "4.50.0.dev0"}


def gpt2_keys(s, architecture, model_type, **changes):
    config = {
        "architectures": [architecture], "model_type": model_type, "activation_function": "gelu_new", "n_embd": s.hidden,
        "n_head": 3, "n_layer": 2, "n_positions": POSITIONS, "vocab_size": s.vocab, "n_inner": None,
        "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1,
        "bos_token_id": 2, "eos_token_id": 2, "torch_dtype": "float32", "transformers_version": "4.30.0"} | changes
    return {key: value for key, value in config.items() if value != "absent"}


SUMMARY = {"summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
           "summary_type": "cls_index", "summary_use_proj": True}


def gpt2(s):
    return gpt2_keys(s, "GPT2LMHeadModel", "gpt2", n_ctx=POSITIONS, torch_dtype="absent", transformers_version="absent",
                     n_inner="absent", task_specific_params={"text-generation": {"do_sample": True, "max_length": 50}},
                     **SUMMARY)


def gpt_bigcode(s, **changes):
    return gpt2_keys(s, "GPTBigCodeForCausalLM", "gpt_bigcode", activation_function="gelu_pytorch_tanh", n_inner=s.inter,
                     multi_query=True, attention_softmax_in_fp32=True, scale_attention_softmax_in_fp32=True,
                     scale_attn_weights=True, inference_runner=0, max_batch_size=None, max_sequence_length=None,
                     pad_key_length=True, pre_allocate_kv_cache=False, validate_runner_input=True, use_cache=True,
                     **SUMMARY, **changes)


def gptj(s, architecture="GPTJForCausalLM", model_type="gptj", **changes):
    return gpt2_keys(s, architecture, model_type, n_embd=s.quad, n_head=4, rotary_dim=6, rotary=True,
                     gradient_checkpointing=False, scale_attn_weights=True, tie_word_embeddings=False, use_cache=True,
                     **SUMMARY, **changes)


def gpt_neox(s, **changes):
    config = {
        "architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "hidden_act": "gelu", "hidden_size": s.wide,
        "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": s.inter, "vocab_size": s.vocab,
        "max_position_embeddings": POSITIONS, "layer_norm_eps": 1e-5, "rotary_emb_base": 10000, "rotary_pct": 0.25,
        "use_parallel_residual": True, "initializer_range": 0.02, "tie_word_embeddings": False, "use_cache": True,
        "bos_token_id": 0, "eos_token_id": 0, "torch_dtype": "float16", "transformers_version": "4.24.0"} | changes
    return {key: value for key, value in config.items() if value != "absent"}


def neox_buffers(config, tensors):
    import numpy as np
    n, at = config["max_position_embeddings"], "gpt_neox.layers.0.attention."  # those of one layer keep the files small
    return {at + "bias": np.tril(np.ones((1, 1, n, n), np.bool_)), at + "masked_bias": np.array(-1e9, np.float32),
            at + "rotary_emb.inv_freq": np.ones(2, np.float32)}


def gpt2_buffers(config, tensors):
    import numpy as np
    n = config["n_positions"]
    return {"h.0.attn.bias": np.tril(np.ones((1, 1, n, n), np.bool_))}  # one keeps the files small


def opt(s, **changes):
    return {
        "architectures": ["OPTForCausalLM"], "model_type": "opt", "activation_function": "relu", "hidden_size": s.hidden,
        "num_hidden_layers": 2, "num_attention_heads": 3, "ffn_dim": s.inter, "vocab_size": s.vocab,
        "max_position_embeddings": POSITIONS, "word_embed_proj_dim": s.hidden, "do_layer_norm_before": True, "init_std": 0.02,
        "attention_dropout": 0.0, "dropout": 0.1, "layerdrop": 0.0, "activation_dropout": 0.0, "prefix": "</s>",
        "_remove_final_layer_norm": False, "use_cache": True, "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1,
        "torch_dtype": "float16", "transformers_version": "4.21.0"} | changes


def bloom(s, **changes):
    config = {
        "architectures": ["BloomForCausalLM"], "model_type": "bloom", "hidden_size": s.hidden, "n_layer": 2, "n_head": 3,
        "vocab_size": s.vocab, "layer_norm_epsilon": 1e-5, "apply_residual_connection_post_layernorm": False,
        "hidden_dropout": 0.0, "attention_dropout": 0.0, "attention_softmax_in_fp32": True, "bias_dropout_fusion": True,
        "masked_softmax_fusion": True, "initializer_range": 0.02, "pretraining_tp": 1, "slow_but_exact": False,
        "seq_length": POSITIONS, "unk_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3,
        "use_cache": True, "torch_dtype": "bfloat16"} | changes
    return {key: value for key, value in config.items() if value != "absent"}


def falcon(s, **changes):
    config = {
        "architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": s.hidden, "num_hidden_layers": 2,
        "num_attention_heads": 3, "vocab_size": s.vocab, "alibi": False, "bias": False, "multi_query": True,
        "new_decoder_architecture": False, "parallel_attn": True, "layer_norm_epsilon": 1e-5, "hidden_dropout": 0.0,
        "attention_dropout": 0.0, "apply_residual_connection_post_layernorm": False, "initializer_range": 0.02,
        "use_cache": True, "bos_token_id": 11, "eos_token_id": 11, "torch_dtype": "bfloat16",
        "transformers_version": "4.27.4"} | changes
    return {key: value for key, value in config.items() if value != "absent"}


def mpt(s, attention=(), **changes):
    return {
        "architectures": ["MPTForCausalLM"], "model_type": "mpt", "d_model": s.hidden, "n_heads": 3, "n_layers": 2,
        "expansion_ratio": 4, "max_seq_len": POSITIONS, "vocab_size": s.vocab, "no_bias": True, "norm_type":
        "low_precision_layernorm", "learned_pos_emb": True, "emb_pdrop": 0, "resid_pdrop": 0, "embedding_fraction": 1.0,
        "logit_scale": None, "init_device": "cpu", "use_cache": False, "verbose": 0, "tokenizer_name":
        "EleutherAI/gpt-neox-20b", "init_config": {"name": "kaiming_normal_", "init_nonlinearity": "relu"},
        "attn_config": {"alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0, "attn_type":
                        "multihead_attention", "attn_uses_sequence_id": False, "clip_qkv": None, "prefix_lm": False,
                        "qk_ln": False, "softmax_scale": None} | dict(attention),
        "torch_dtype": "bfloat16", "transformers_version": "4.28.1"} | changes


def stablelm(s, **changes):
    return llama_config(s, "StableLmForCausalLM", "stablelm", **{
        "hidden_size": s.wide, "num_key_value_heads": 3, "layer_norm_eps": 1e-5, "rms_norm_eps": "absent",
        "partial_rotary_factor": 0.25, "use_qkv_bias": False, "bos_token_id": 0, "eos_token_id": 0} | changes)


def phi(s, **changes):
    return llama_config(s, "PhiForCausalLM", "phi", **{
        "hidden_size": s.wide, "num_key_value_heads": None, "hidden_act": "gelu_new", "layer_norm_eps": 1e-5,
        "rms_norm_eps": "absent", "partial_rotary_factor": 0.5, "qk_layernorm": False, "embd_pdrop": 0.0,
        "resid_pdrop": 0.1, "attention_dropout": 0.0, "rope_scaling": None} | changes)


def phi3(s, **changes):
    return llama_config(s, "Phi3ForCausalLM", "phi3", **{
        "num_key_value_heads": 3, "sliding_window": 11, "original_max_position_embeddings": POSITIONS,
        "rope_scaling": None, "attention_bias": False, "attention_dropout": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
        "pad_token_id": 0} | changes)


def longrope(n):
    return {"type": "longrope", "long_factor": [1.0 + 0.9 * i for i in range(n)],
            "short_factor": [1.0 + 0.1 * i for i in range(n)]}


def olmo(s, **changes):
    return llama_config(s, "OlmoForCausalLM", "olmo", **{
        "num_key_value_heads": 3, "rms_norm_eps": "absent", "attention_bias": False, "attention_dropout": 0.0,
        "clip_qkv": None, "rope_scaling": None, "pad_token_id": 1} | changes)


def cohere(s, architecture="CohereForCausalLM", model_type="cohere", **changes):
    return llama_config(s, architecture, model_type, **{
        "hidden_size": s.wide, "rms_norm_eps": "absent", "tie_word_embeddings": "absent", "layer_norm_eps": 1e-5,
        "logit_scale": 0.0625 * 3, "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 5,
        "eos_token_id": 6, "pad_token_id": 0, "use_qk_norm": False} | changes)


def moe(s, architecture, model_type, **changes):
    return llama_config(s, architecture, model_type, **{
        "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 20, "decoder_sparse_step": 1,
        "norm_topk_prob": False, "mlp_only_layers": [], "output_router_logits": False, "router_aux_loss_coef": 0.001,
        "use_sliding_window": False, "sliding_window": 11, "max_window_layers": 2, "attention_dropout": 0.0} | changes)


def gpt_oss(s, **changes):
    return llama_config(s, "GptOssForCausalLM", "gpt_oss", **{
        "head_dim": 20, "num_hidden_layers": 2, "num_local_experts": 5, "num_experts_per_tok": 2, "experts_per_token": 2,
        "intermediate_size": 20, "sliding_window": 11, "layer_types": ["sliding_attention", "full_attention"],
        "attention_bias": True, "attention_dropout": 0.0, "initial_context_length": 40, "swiglu_limit": 7.0,
        "rope_theta": 150000, "rope_scaling": YARN_SCALING | {"truncate": False, "factor": 4.0},
        "router_aux_loss_coef": 0.9, "output_router_logits": False, "pad_token_id": 0} | changes)


def granite(s, **changes):
    return llama_config(s, "GraniteForCausalLM", "granite", attention_bias=False, attention_dropout=0.0,
                        attention_multiplier=0.4, embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.6,
                        mlp_bias=False, rope_scaling=None, tie_word_embeddings=True, **changes)


def glm(s, architecture="GlmForCausalLM", model_type="glm", **changes):
    return llama_config(s, architecture, model_type, **{
        "head_dim": 16, "partial_rotary_factor": 0.5, "attention_bias": True, "attention_dropout": 0.0,
        "eos_token_id": [2, 3], "pad_token_id": 2, "bos_token_id": "absent"} | changes)


# ---- families that only remote code has ---------------------------------------------------------------------------------

def internlm(s, **changes):
    return llama_config(s, "InternLMForCausalLM", "internlm", **{
        "num_key_value_heads": "absent", "bias": True, "rope_theta": "absent", "rotary": {"base": 10000, "type": "dynamic"},
        "pad_token_id": 2, "auto_map": {"AutoConfig": "configuration_internlm.InternLMConfig"}} | changes)


def internlm2(s, **changes):
    return llama_config(s, "InternLM2ForCausalLM", "internlm2", **{
        "hidden_size": s.quad, "num_attention_heads": 4, "num_key_value_heads": 2, "bias": False, "rope_theta": 1000000,
        "rope_scaling": None, "attn_implementation": "eager", "pad_token_id": 2} | changes)


def qwen(s, **changes):
    return {
        "architectures": ["QWenLMHeadModel"], "model_type": "qwen", "hidden_size": s.hidden, "num_hidden_layers": 2,
        "num_attention_heads": 3, "kv_channels": 12, "intermediate_size": 2 * s.inter, "vocab_size": s.vocab,
        "max_position_embeddings": POSITIONS, "seq_length": POSITIONS, "layer_norm_epsilon": 1e-6, "rotary_emb_base": 10000,
        "rotary_pct": 1.0, "scale_attn_weights": True, "use_dynamic_ntk": True, "use_logn_attn": True, "no_bias": True,
        "use_flash_attn": "auto", "attn_dropout_prob": 0.0, "emb_dropout_prob": 0.0, "initializer_range": 0.02,
        "bf16": False, "fp16": False, "fp32": False, "onnx_safe": None, "tie_word_embeddings": False, "use_cache": True,
        "tokenizer_class": "QWenTokenizer", "transformers_version": "4.32.0"} | changes


def baichuan(s, architecture="BaichuanForCausalLM", **changes):
    return llama_config(s, architecture, "baichuan", **{
        "num_key_value_heads": "absent", "rope_theta": "absent", "rms_norm_eps": 1e-6, "pad_token_id": 0} | changes)


BAICHUAN_13B = {"max_position_embeddings": "absent", "model_max_length": POSITIONS, "gradient_checkpointing": False}


def chatglm(s, **changes):
    return {
        "architectures": ["ChatGLMModel"], "model_type": "chatglm", "num_layers": 2, "hidden_size": s.hidden,
        "num_attention_heads": 3, "kv_channels": 16, "ffn_hidden_size": s.inter, "padded_vocab_size": s.vocab,
        "seq_length": POSITIONS, "layernorm_epsilon": 1e-5, "rmsnorm": True, "add_bias_linear": False, "add_qkv_bias": True,
        "multi_query_attention": True, "multi_query_group_num": 1, "post_layer_norm": True, "original_rope": True,
        "apply_query_key_layer_scaling": True, "apply_residual_connection_post_layernorm": False,
        "attention_softmax_in_fp32": True, "fp32_residual_connection": False, "bias_dropout_fusion": True,
        "attention_dropout": 0.0, "hidden_dropout": 0.0, "interleaved_qkv": False, "quantization_bit": 0,
        "pre_seq_len": None, "prefix_projection": False, "use_cache": True, "tie_word_embeddings": False,
        "eos_token_id": 2, "pad_token_id": 0, "torch_dtype": "float16", "transformers_version": "4.27.1"} | changes


def chatglm_buffers(config, tensors):
    import numpy as np
    return {"transformer.rotary_pos_emb.inv_freq": np.ones(config["kv_channels"] // 4, np.float32)}


def llama_shapes(c):
    hidden, inter, vocab = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    shapes = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,), "lm_head.weight": (vocab, hidden)}
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        shapes |= {at + "input_layernorm.weight": (hidden,), at + "post_attention_layernorm.weight": (hidden,),
                   at + "mlp.gate_proj.weight": (inter, hidden), at + "mlp.up_proj.weight": (inter, hidden),
                   at + "mlp.down_proj.weight": (hidden, inter), at + "self_attn.o_proj.weight": (hidden, hidden)}
        if c["model_type"] == "baichuan":
            shapes[at + "self_attn.W_pack.weight"] = (3 * hidden, hidden)
            continue
        for name in "qkvo":
            shapes[f"{at}self_attn.{name}_proj.weight"] = (hidden, hidden)
            if c["bias"]:
                shapes[f"{at}self_attn.{name}_proj.bias"] = (hidden,)
        shapes[at + "self_attn.rotary_emb.inv_freq"] = ()
    return {name: shape for name, shape in shapes.items() if shape}


def internlm2_shapes(c):
    hidden, inter, vocab = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
    shapes = {"model.tok_embeddings.weight": (vocab, hidden), "model.norm.weight": (hidden,), "output.weight": (vocab, hidden)}
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        shapes |= {at + "attention_norm.weight": (hidden,), at + "ffn_norm.weight": (hidden,),
                   at + "attention.wqkv.weight": (hidden // heads * (heads + 2 * kv_heads), hidden),
                   at + "attention.wo.weight": (hidden, hidden), at + "feed_forward.w1.weight": (inter, hidden),
                   at + "feed_forward.w3.weight": (inter, hidden), at + "feed_forward.w2.weight": (hidden, inter)}
        if c["bias"]:
            shapes |= {at + "attention.wqkv.bias": (hidden // heads * (heads + 2 * kv_heads),),
                       at + "attention.wo.bias": (hidden,)}
    return shapes


def qwen_shapes(c):
    hidden, inter, vocab = c["hidden_size"], c["intermediate_size"] // 2, c["vocab_size"]
    wide = c["kv_channels"] * c["num_attention_heads"]
    shapes = {"transformer.wte.weight": (vocab, hidden), "transformer.ln_f.weight": (hidden,), "lm_head.weight": (vocab, hidden)}
    for i in range(c["num_hidden_layers"]):
        at = f"transformer.h.{i}."
        shapes |= {at + "ln_1.weight": (hidden,), at + "ln_2.weight": (hidden,), at + "attn.c_attn.weight": (3 * wide, hidden),
                   at + "attn.c_attn.bias": (3 * wide,), at + "attn.c_proj.weight": (hidden, wide),
                   at + "mlp.w1.weight": (inter, hidden), at + "mlp.w2.weight": (inter, hidden),
                   at + "mlp.c_proj.weight": (hidden, inter)}
    return shapes


def chatglm_shapes(c):
    hidden, inter, vocab, dim = c["hidden_size"], c["ffn_hidden_size"], c["padded_vocab_size"], c["kv_channels"]
    heads = c["num_attention_heads"]
    kv_heads = c["multi_query_group_num"] if c["multi_query_attention"] else heads
    shapes = {"transformer.embedding.word_embeddings.weight": (vocab, hidden),
              "transformer.encoder.final_layernorm.weight": (hidden,), "transformer.output_layer.weight": (vocab, hidden)}
    for i in range(c["num_layers"]):
        at = f"transformer.encoder.layers.{i}."
        wide = dim * (heads + 2 * kv_heads)
        shapes |= {at + "input_layernorm.weight": (hidden,), at + "post_attention_layernorm.weight": (hidden,),
                   at + "self_attention.query_key_value.weight": (wide, hidden),
                   at + "self_attention.query_key_value.bias": (wide,),
                   at + "self_attention.dense.weight": (hidden, heads * dim),
                   at + "mlp.dense_h_to_4h.weight": (2 * inter, hidden), at + "mlp.dense_4h_to_h.weight": (hidden, inter)}
    return shapes


def moss_shapes(c):
    hidden, vocab, inter = c["n_embd"], c["vocab_size"], 4 * c["n_embd"]
    shapes = {"transformer.wte.weight": (vocab, hidden), "transformer.ln_f.weight": (hidden,),
              "transformer.ln_f.bias": (hidden,), "lm_head.weight": (vocab, hidden), "lm_head.bias": (vocab,)}
    for i in range(c["n_layer"]):
        at = f"transformer.h.{i}."
        shapes |= {at + "ln_1.weight": (hidden,), at + "ln_1.bias": (hidden,), at + "attn.qkv_proj.weight": (3 * hidden, hidden),
                   at + "attn.out_proj.weight": (hidden, hidden), at + "mlp.fc_in.weight": (inter, hidden),
                   at + "mlp.fc_in.bias": (inter,), at + "mlp.fc_out.weight": (hidden, inter), at + "mlp.fc_out.bias": (hidden,)}
    return shapes


def moss_buffers(config, tensors):
    import numpy as np
    n = config["n_positions"]
    return {"transformer.h.0.attn.causal_mask": np.tril(np.ones((1, 1, n, n), np.bool_))}  # one keeps the files small


# ---- the table ------------------------------------------------------------------------------------------------------------

def off(**changes):
    """Config changes that a wrong engine would make."""
    return changes


NO_WINDOW = off(sliding_window=None)
FALCON_OLD = dict(n_layer=2, n_head=3, num_hidden_layers="absent", num_attention_heads="absent")
FALCON_OLD_ORACLE = dict(architectures=["FalconForCausalLM"], model_type="falcon", num_hidden_layers=2,
                         num_attention_heads=3)

CASES = {
    # Llama and the families with its tensors
    "llama": Case(lambda s: llama_config(s, num_key_value_heads="absent", rope_theta="absent", hidden_size=s.wide, pad_token_id=0,
                                         transformers_version="4.28.0", max_sequence_length=POSITIONS)),
    "llama2": Case(lambda s: llama_config(s, rope_scaling=None, pretraining_tp=1, attention_bias=False, head_dim=20)),
    "llama3": Case(lambda s: llama_config(s, rope_scaling=LLAMA3_SCALING, rope_theta=500000.0, tie_word_embeddings=True,
                                          eos_token_id=[2, 5]), flips=(off(rope_scaling=None), off(rope_theta=10000.0))),
    "llama3_5": Case(lambda s: spelled5(llama_config(s, rope_theta=500000.0), **LLAMA3_SCALING), live_only=True),
    "yi": Case(lambda s: llama_config(s, rope_theta=5000000.0, rms_norm_eps=1e-6, pad_token_id=0, pretraining_tp=1,
                                      rope_scaling=None)),
    "deepseek_llm": Case(lambda s: llama_config(s, num_key_value_heads=3, rms_norm_eps=1e-6, pretraining_tp=1,
                                                rope_scaling={"type": "linear", "factor": 4.0}),
                         flips=(off(rope_scaling=None),)),
    "mistral": Case(lambda s: llama_config(s, "MistralForCausalLM", "mistral", sliding_window=11, head_dim=20),
                    flips=(NO_WINDOW, off(sliding_window=12))),
    "mistral_full": Case(lambda s: llama_config(s, "MistralForCausalLM", "mistral", sliding_window=None, rope_theta=1000000.0,
                                                head_dim=None, attention_dropout=0.0)),
    "mistral_5": Case(lambda s: spelled5(llama_config(s, "MistralForCausalLM", "mistral", sliding_window=11)),
                      flips=(NO_WINDOW,), live_only=True),
    "ministral": Case(lambda s: spelled5(llama_config(
        s, "MinistralForCausalLM", "ministral", sliding_window=11, num_hidden_layers=3, head_dim=20,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"])),
        flips=(off(layer_types=["full_attention"] * 3),)),
    "ministral3": Case(lambda s: spelled5(
        llama_config(s, "Ministral3ForCausalLM", "ministral3", head_dim=20, rope_theta=1000000.0),
        **YARN_SCALING | {"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1})),
    "smollm3": Case(lambda s: llama_config(s, "SmolLM3ForCausalLM", "smollm3", num_hidden_layers=3, rope_theta=2000000.0,
                                           no_rope_layers=[1, 0, 1], no_rope_layer_interval=4, use_sliding_window=False,
                                           sliding_window=None, max_window_layers=2, attention_bias=False, mlp_bias=False,
                                           layer_types=["full_attention"] * 3, rope_scaling=None, tie_word_embeddings=True,
                                           pad_token_id=4),
                    flips=(off(no_rope_layers=[1, 1, 1]), off(no_rope_layers=[1, 0, 0]))),
    "smollm3_interval": Case(lambda s: spelled5(llama_config(
        s, "SmolLM3ForCausalLM", "smollm3", num_hidden_layers=3, no_rope_layer_interval=2, tie_word_embeddings="absent",
        pad_token_id=4)),
        flips=(off(no_rope_layer_interval=3),)),
    "qwen2": Case(lambda s: llama_config(s, "Qwen2ForCausalLM", "qwen2", use_sliding_window=False, sliding_window=11,
                                         max_window_layers=1, attention_dropout=0.0, tie_word_embeddings=True)),
    "qwen2_window": Case(lambda s: llama_config(s, "Qwen2ForCausalLM", "qwen2", use_sliding_window=True, sliding_window=11,
                                                max_window_layers=1, num_hidden_layers=3, attention_dropout=0.0,
                                                rope_theta=1000000.0),
                         flips=(off(use_sliding_window=False), off(max_window_layers=0), off(max_window_layers=2))),
    "qwen2_moe": Case(lambda s: moe(s, "Qwen2MoeForCausalLM", "qwen2_moe", shared_expert_intermediate_size=28,
                                    num_key_value_heads=3), flips=(off(norm_topk_prob=True), off(num_experts_per_tok=1))),
    "qwen2_moe_dense": Case(lambda s: moe(s, "Qwen2MoeForCausalLM", "qwen2_moe", shared_expert_intermediate_size=28,
                                          num_hidden_layers=3, mlp_only_layers=[0], decoder_sparse_step=1,
                                          norm_topk_prob=True)),
    "qwen2_moe_window": Case(lambda s: moe(s, "Qwen2MoeForCausalLM", "qwen2_moe", shared_expert_intermediate_size=28,
                                           num_hidden_layers=3, use_sliding_window=True, max_window_layers=2)),
    "qwen3": Case(lambda s: llama_config(s, "Qwen3ForCausalLM", "qwen3", head_dim=20, attention_bias=False, sliding_window=None,
                                         use_sliding_window=False, max_window_layers=2, rope_scaling=None,
                                         rope_theta=1000000, rms_norm_eps=1e-6, tie_word_embeddings=True)),
    "qwen3_5spelling": Case(lambda s: spelled5(llama_config(
        s, "Qwen3ForCausalLM", "qwen3", head_dim=20, attention_bias=False, layer_types=["full_attention"] * 2,
        rope_theta=1000000))),
    "qwen3_moe": Case(lambda s: moe(s, "Qwen3MoeForCausalLM", "qwen3_moe", head_dim=20, norm_topk_prob=True,
                                    sliding_window=None), flips=(off(norm_topk_prob=False),)),
    "qwen3_moe_sparse": Case(lambda s: spelled5(moe(
        s, "Qwen3MoeForCausalLM", "qwen3_moe", head_dim=20, decoder_sparse_step=2, num_hidden_layers=3, sliding_window=None))),
    "mixtral": Case(lambda s: llama_config(s, "MixtralForCausalLM", "mixtral", num_local_experts=5, num_experts_per_tok=2,
                                           intermediate_size=20, sliding_window=None, rope_theta=1000000.0,
                                           output_router_logits=False, router_aux_loss_coef=0.02, attention_dropout=0.0),
                    flips=(off(num_experts_per_tok=1), off(num_experts_per_tok=3))),
    "mixtral_window": Case(lambda s: spelled5(llama_config(
        s, "MixtralForCausalLM", "mixtral", num_local_experts=5, num_experts_per_tok=3, intermediate_size=20,
        sliding_window=11, head_dim=20)), flips=(NO_WINDOW,)),
    "gpt_oss": Case(gpt_oss, flips=(off(layer_types=["full_attention"] * 2), off(rope_scaling=None), off(swiglu_limit=50.0))),
    "gpt_oss_5": Case(lambda s: spelled5(gpt_oss(s), **YARN_SCALING | {"truncate": False}), live_only=True),
    # Gemma
    "gemma": Case(lambda s: gemma(s, "GemmaForCausalLM", "gemma", hidden_act="gelu", hidden_activation="absent"),),
    "gemma_tanh": Case(lambda s: gemma(s, "GemmaForCausalLM", "gemma", hidden_act="gelu_pytorch_tanh", num_key_value_heads=3)),
    "gemma2": Case(gemma2, flips=(off(sliding_window=POSITIONS), off(attn_logit_softcapping=None),
                                  off(final_logit_softcapping=None), off(query_pre_attn_scalar=20))),
    "gemma2_5": Case(lambda s: spelled5(gemma2(
        s, layer_types=["sliding_attention", "full_attention", "sliding_attention"])), live_only=True),
    "gemma3": Case(lambda s: gemma3(s, rope_local_base_freq=10000.0, sliding_window_pattern=3,
                                    rope_scaling={"rope_type": "linear", "factor": 8.0}),
                   flips=(off(sliding_window=POSITIONS), off(rope_local_base_freq=1000000.0), off(rope_theta=10000.0),
                          off(rope_scaling=None), off(query_pre_attn_scalar=20), off(sliding_window_pattern=2))),
    "gemma3_layer_types": Case(lambda s: gemma3(s, rope_local_base_freq=10000.0, _sliding_window_pattern=2, rope_scaling=None,
                                                layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    "gemma3_5": Case(lambda s: spelled5(gemma3(
        s, layer_types=["sliding_attention", "full_attention", "sliding_attention"])) | {"rope_parameters": {
            "full_attention": {"rope_theta": 1000000.0, "rope_type": "linear", "factor": 8.0},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}}),
    "gemma3_multimodal": Case(lambda s: gemma3_multimodal(s)),
    # Phi
    "phi": Case(phi, flips=(off(partial_rotary_factor=1.0),)),
    "phi_5": Case(lambda s: spelled5(phi(s, partial_rotary_factor="absent", num_key_value_heads=3), partial_rotary_factor=0.5),
                  live_only=True),
    "phi3": Case(phi3, flips=(NO_WINDOW,)),
    "phi3_longrope": Case(lambda s: phi3(s, original_max_position_embeddings=64, rope_scaling=longrope(s.hidden // 6), sliding_window=None),
                          flips=(off(rope_scaling=None),)),
    "phi4_mini": Case(lambda s: phi3(s, hidden_size=s.wide, num_key_value_heads=1, partial_rotary_factor=0.75,
                                     original_max_position_embeddings=64, rope_scaling=longrope(s.wide // 8), sliding_window=POSITIONS,
                                     tie_word_embeddings=True), flips=(off(partial_rotary_factor=1.0, rope_scaling=None),)),
    # GPT-2 and its time
    "gpt2": Case(gpt2, rename=((r"^transformer\.", ""),), extra=gpt2_buffers),
    "gpt2_inner": Case(lambda s: gpt2_keys(s, "GPT2LMHeadModel", "gpt2", n_inner=s.inter, tie_word_embeddings=True,
                                           scale_attn_by_inverse_layer_idx=False, reorder_and_upcast_attn=False, **SUMMARY)),
    "gpt_bigcode": Case(gpt_bigcode),
    "gpt_bigcode_mha": Case(lambda s: gpt_bigcode(s) | {"multi_query": False}),
    "starcoder2": Case(lambda s: llama_config(
        s, "Starcoder2ForCausalLM", "starcoder2", hidden_act="gelu_pytorch_tanh", rms_norm_eps="absent", norm_epsilon=1e-5,
        norm_type="layer_norm", mlp_type="default", sliding_window=11, use_bias=True, attention_dropout=0.1,
        embedding_dropout=0.1, residual_dropout=0.1, tie_word_embeddings="absent", rope_theta=999999.4420358813),
        flips=(NO_WINDOW,)),
    "gptj": Case(gptj, flips=(off(rotary_dim=4),)),
    "codegen": Case(lambda s: gptj(s, "CodeGenForCausalLM", "codegen", n_ctx=POSITIONS)),
    "gpt_neox": Case(gpt_neox, flips=(off(use_parallel_residual=False), off(rotary_pct=1.0)), extra=neox_buffers),
    "gpt_neox_serial": Case(lambda s: gpt_neox(s, use_parallel_residual=False, rotary_pct=0.5)),
    "gpt_neox_5": Case(lambda s: gpt_neox(s, rotary_pct="absent", rotary_emb_base="absent", attention_bias=True,
                                          rope_parameters={"rope_theta": 10000, "rope_type": "default",
                                                           "partial_rotary_factor": 0.25})),
    "opt": Case(opt, rename=((r"^model\.decoder\.", "decoder."),)),
    "opt_350m": Case(lambda s: opt(s, word_embed_proj_dim=20, do_layer_norm_before=False)),
    "bloom": Case(bloom, rename=((r"^transformer\.", ""),)),
    "bloom_n_embed": Case(lambda s: bloom(s, hidden_size="absent", n_embed=20, n_head="absent", num_attention_heads=5),
                          oracle=dict(n_head=5, hidden_size=20)),
    "falcon_7b": Case(falcon, flips=(off(parallel_attn=False),)),
    "falcon_7b_old": Case(lambda s: falcon(s, architectures=["RWForCausalLM"], model_type="RefinedWebModel", **FALCON_OLD),
                          oracle=FALCON_OLD_ORACLE),
    "falcon_40b": Case(lambda s: falcon(s, new_decoder_architecture=True, num_attention_heads=4, num_kv_heads=2,
                                        hidden_size=s.quad)),
    "falcon_40b_old": Case(lambda s: falcon(s, architectures=["RWForCausalLM"], model_type="RefinedWeb", n_head_kv=1,
                                            multi_query="absent", parallel_attn=True, new_decoder_architecture="absent",
                                            **FALCON_OLD),
                           oracle=FALCON_OLD_ORACLE | dict(new_decoder_architecture=True, num_kv_heads=1)),
    "falcon_rw": Case(lambda s: falcon(s, alibi=True, bias=True, multi_query=False, parallel_attn=False)),
    "falcon_11b": Case(lambda s: falcon(s, new_decoder_architecture=True, num_kv_heads=1, num_ln_in_parallel_attn=1,
                                        ffn_hidden_size=s.inter, ff_factor=4, max_position_embeddings=POSITIONS,
                                        tie_word_embeddings=False, rope_theta=500042.0, activation="gelu",
                                        rope_scaling=None)),
    "mpt": Case(mpt, oracle=dict(architectures=["MptForCausalLM"])),
    "mpt_clip": Case(lambda s: mpt(s, (("clip_qkv", 1.0),)), oracle=dict(architectures=["MptForCausalLM"])),
    "mpt_5": Case(lambda s: mpt(s, {  # transformers 5 saves the keys of every configuration in attn_config too
        "_name_or_path": "", "architectures": None, "chunk_size_feed_forward": 0, "dtype": "bfloat16",
        "id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "is_encoder_decoder": False, "label2id": {"LABEL_0": 0, "LABEL_1": 1},
        "model_type": "", "output_attentions": False, "output_hidden_states": False, "problem_type": None,
        "return_dict": True}.items()) | {"architectures": ["MptForCausalLM"]}),
    "stablelm": Case(stablelm, flips=(off(partial_rotary_factor=1.0),)),
    "stablelm_epoch": Case(lambda s: stablelm(s, layer_norm_eps="absent", norm_eps=1e-5, partial_rotary_factor="absent",
                                              rope_pct=0.25, rotary_scaling_factor=1.0) | {
        "architectures": ["StableLMEpochForCausalLM"], "model_type": "stablelm_epoch"},
        oracle=dict(architectures=["StableLmForCausalLM"], model_type="stablelm", layer_norm_eps=1e-5,
                    partial_rotary_factor=0.25)),
    "stablelm2": Case(lambda s: stablelm(s, use_qkv_bias=True, num_key_value_heads=1, qk_layernorm=False,
                                         use_parallel_residual=False)),
    "stablelm2_12b": Case(lambda s: stablelm(s, qk_layernorm=True, use_parallel_residual=True, num_key_value_heads=1,
                                             attention_dropout=0.0, hidden_dropout=0.0),
                          flips=(off(use_parallel_residual=False),)),
    # the rest
    "olmo": Case(olmo),
    "olmo_clip": Case(lambda s: olmo(s, clip_qkv=1.0, tie_word_embeddings=True), flips=(off(clip_qkv=None),)),
    "olmo2": Case(lambda s: llama_config(s, "Olmo2ForCausalLM", "olmo2", attention_bias=False, attention_dropout=0.0,
                                         rope_scaling=None, rope_theta=500000)),
    "cohere": Case(cohere, flips=(off(logit_scale=1.0),)),
    "cohere_plus": Case(lambda s: cohere(s, use_qk_norm=True)),
    "cohere2": Case(lambda s: cohere(s, "Cohere2ForCausalLM", "cohere2", sliding_window=11, sliding_window_pattern=2,
                                     use_qk_norm="absent", head_dim=s.wide // 3, num_hidden_layers=3, rope_scaling=None, position_embedding_type=
                                     "rope_gptj", order_of_interleaved_layers="local_attn_first", rotary_pct=1.0,
                                     use_embedding_sharing=True, use_gated_activation=True, use_parallel_block=True,
                                     use_parallel_embedding=False, layer_switch=2, cache_implementation="hybrid"),
                    flips=(off(sliding_window=POSITIONS), off(sliding_window_pattern=3))),
    "granite": Case(granite, flips=(off(attention_multiplier=12 ** -0.5), off(embedding_multiplier=1.0),
                                    off(logits_scaling=1.0), off(residual_multiplier=1.0))),
    "glm": Case(glm, flips=(off(partial_rotary_factor=1.0),)),
    "glm4": Case(lambda s: glm(s, "Glm4ForCausalLM", "glm4", rms_norm_eps=1e-5)),
    "glm_5": Case(lambda s: spelled5(glm(s, partial_rotary_factor="absent"), partial_rotary_factor=0.5), live_only=True),
    # remote code
    "internlm": Case(internlm, reference=True, tensors=llama_shapes),
    "internlm_no_bias": Case(lambda s: internlm(s, bias=False, rotary="absent"), reference=True, tensors=llama_shapes),
    "internlm2": Case(internlm2, reference=True, tensors=internlm2_shapes),
    "internlm2_bias": Case(lambda s: internlm2(s, bias=True, rope_scaling={"type": "dynamic", "factor": 2.0},
                                               num_key_value_heads=1), reference=True, tensors=internlm2_shapes),
    "qwen": Case(qwen, reference=True, tensors=qwen_shapes),
    "baichuan_7b": Case(lambda s: baichuan(s, "BaiChuanForCausalLM"), reference=True, tensors=llama_shapes),
    "baichuan_13b": Case(lambda s: baichuan(s, **BAICHUAN_13B), reference=True, tensors=llama_shapes),
    "baichuan2_7b": Case(lambda s: baichuan(s, model_max_length=POSITIONS, z_loss_weight=0), reference=True,
                         tensors=llama_shapes),
    "baichuan2_13b": Case(lambda s: baichuan(s, z_loss_weight=0, **BAICHUAN_13B), reference=True, tensors=llama_shapes),
    "chatglm2": Case(chatglm, reference=True, tensors=chatglm_shapes, extra=chatglm_buffers),
    "chatglm3_32k": Case(lambda s: chatglm(s, rope_ratio=50, num_attention_heads=4, multi_query_group_num=2,
                                           classifier_dropout=None), reference=True, tensors=chatglm_shapes),
    "moss": Case(lambda s: gptj(s, "MossForCausalLM", "moss", n_ctx=POSITIONS, wbits=32, groupsize=128), reference=True,
                 tensors=moss_shapes, extra=moss_buffers),
}


# ---- making a model --------------------------------------------------------------------------------------------------------

def oracle_config(case, config):
    changed = config | (case.oracle or {})
    return {key: value for key, value in changed.items() if value != "absent"}


def main():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    from capable import become_capable
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="the cases, and which oracle each has")
    parser.add_argument("--family", help="a case of --list, or the beginning of several")
    parser.add_argument("--out", type=pathlib.Path, help="the model's directory (DIR/CASE where several cases match)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.list:
        for name, case in CASES.items():
            print(f"{name:20} {'reference.py' if case.reference else 'transformers'}")
        return
    if not arguments.family or not arguments.out:
        parser.error("--family and --out are needed")
    names = [arguments.family] if arguments.family in CASES else [n for n in CASES if n.startswith(arguments.family)]
    if not names:
        parser.error(f"no case begins with {arguments.family} (see --list)")
    become_capable()
    from oracles import write_case
    for name in names:
        directory = arguments.out if len(names) == 1 else arguments.out / name
        write_case(name, directory, arguments.seed, LIVE)
        print(directory)


if __name__ == "__main__":
    main()
