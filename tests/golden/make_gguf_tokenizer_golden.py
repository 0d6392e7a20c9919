#!/usr/bin/env python3
"""Writes tests/golden/gguf_tokenizer/: vocabularies of SentencePiece as GGUF files, and the ids that SentencePiece gives.

    pip install gguf sentencepiece tokenizers==0.23.3
    python tests/golden/make_gguf_tokenizer_golden.py

prefix.gguf begins a text with a space (Llama), plain.gguf does not and has tokens that the user defines, spaces among them
(Gemma). expected.json: {"texts": [...], "prefix": [ids of each text], "plain": [...]}. Special tokens in a text are text to
SentencePiece, so the texts have none.
"""
import io
import json
import pathlib

import gguf
import sentencepiece
from make_tokenizer_golden import CORPUS, TEXTS

OUT = pathlib.Path(__file__).resolve().parent / "gguf_tokenizer"
TYPES = [("is_unknown", 2), ("is_control", 3), ("is_unused", 5), ("is_byte", 6)]


def train(prefix, user):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, model_type="bpe", vocab_size=480, byte_fallback=True,
        character_coverage=0.98, add_dummy_prefix=prefix, remove_extra_whitespaces=False, normalization_rule_name="identity",
        user_defined_symbols=user, split_digits=True, max_sentence_length=100000, minloglevel=2)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def write(name, sp, prefix, user):
    w = gguf.GGUFWriter(str(OUT / f"{name}.gguf"), "llama")
    n = sp.get_piece_size()
    kinds = [next((kind for method, kind in TYPES if getattr(sp, method)(i)), 1) for i in range(n)]
    texts = [sp.id_to_piece(i) for i in range(n)]
    for i, text in enumerate(texts):
        if text in user:   # as convert_hf_to_gguf.py writes them
            kinds[i], texts[i] = 4, text.replace("\u2581", " ")
    w.add_tokenizer_model("llama")
    w.add_token_list(texts)
    w.add_token_scores([sp.get_score(i) for i in range(n)])
    w.add_token_types(kinds)
    w.add_bos_token_id(sp.bos_id())
    w.add_eos_token_id(sp.eos_id())
    w.add_unk_token_id(sp.unk_id())
    w.add_add_bos_token(True)
    if not prefix:
        w.add_add_space_prefix(False)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    OUT.mkdir(exist_ok=True)
    texts = [t for t in TEXTS if "\0" not in t and "<" not in t]
    expected = {"texts": texts}
    for name, prefix, user in (("prefix", True, []), ("plain", False, ["\n\n", "<tool>", "\u2581\u2581"])):
        sp = train(prefix, user)
        write(name, sp, prefix, user)
        expected[name] = [sp.encode(t) for t in texts]
    (OUT / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


main()
