#!/usr/bin/env python3
"""Writes tests/golden/tokenizer_forms/: tokenizers in forms other than BPE in tokenizer.json, and the ids that their own
libraries give.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3 tiktoken==0.14.0 transformers==5.23.0 gguf==0.19.0
    python tests/golden/make_tokenizer_forms_golden.py

Each case is a directory (or a GGUF file) of a model with some 400 tokens. expected.json: {"texts": [...], "cases": {name:
{"plain": [ids of each text], "special": [ids with the tokens around a text], "decoded": [text of the plain ids]}}}. A case without a
field is not compared there.
"""
import base64
import io
import json
import pathlib
import shutil
import tempfile
import unicodedata

import sentencepiece
import tiktoken
from make_tokenizer_golden import CORPUS, QWEN2, LLAMA3, TEXTS
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.tokenization_utils_base import generate_merges

OUT = pathlib.Path(__file__).resolve().parent / "tokenizer_forms"
MARK = "\u2581"
EXTRA_TEXTS = ["\uff21\u0301\uff22 \uff43x\u0301 e\u0301 a\u030a\u0301", "\r\n\r\nx\r\ny", "a\u200bb\u3000c\u00a0\u00bd \ufb01n",
               "x" * 40, "a<unk>b</s><s>", f"{MARK}a {MARK}{MARK} b{MARK}", "  a   b  ", "\u00e9<tool>\u00e9"]


def rules_file(directory):
    """A table with some rules of nmt_nfkc, and some that show which prefix of a grapheme is taken."""
    pairs = [("41", "61"), ("65 301", "E9"), ("3000", "20"), ("A0", "20"), ("9", "20"), ("A", "20"), ("D", "20"), ("D A", "20 2E"),
             ("BD", "31 2F 32"), ("FB01", "66 69"), ("FF21", "41"), ("FF21 301", "C1"), ("FF22", "42"), ("FF43", "63 63"),
             ("61 30A", "E5"), ("212B", "C5"), ("78", "58"), ("200B", "")]
    path = pathlib.Path(directory) / "rules.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    return str(path)


def train(kind, prefix=True, squeeze=False, user=(), rules=False, bytes_too=True, n_vocab=480):
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as scratch:
        rule = {"normalization_rule_tsv": rules_file(scratch)} if rules else {"normalization_rule_name": "identity"}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS), model_writer=model, model_type=kind, vocab_size=n_vocab, byte_fallback=bytes_too,
            character_coverage=0.98, add_dummy_prefix=prefix, remove_extra_whitespaces=squeeze, hard_vocab_limit=False,
            user_defined_symbols=list(user), max_sentence_length=100000, minloglevel=2, num_threads=1, **rule)
    return model.getvalue()


def write(name, files):
    directory = OUT / name
    directory.mkdir()
    for file, content in files.items():
        path = directory / file
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n"
            path.write_text(text, newline="")


def by_tokenizers(t, texts):
    plain = [t.encode(x, add_special_tokens=False).ids for x in texts]
    return {"plain": plain, "special": [t.encode(x).ids for x in texts],
            "decoded": [t.decode(x, skip_special_tokens=False) for x in plain]}


def pieces_of(model):
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    return sp, [(sp.id_to_piece(i), sp.get_score(i)) for i in range(sp.get_piece_size())]


def converted(model, legacy=True, prefix=True, gemma=False):
    """As LlamaConverter and GemmaConverter of transformers 4 build it."""
    sp, pieces = pieces_of(model)
    vocab = {text: i for i, (text, _) in enumerate(pieces)}
    t = Tokenizer(models.BPE(vocab, generate_merges(vocab, dict(pieces)), unk_token=sp.id_to_piece(sp.unk_id()), fuse_unk=True,
                             byte_fallback=True))
    control = [sp.id_to_piece(i) for i in range(len(pieces)) if sp.is_control(i) or sp.is_unknown(i)]
    t.add_special_tokens([AddedToken(x, normalized=False, special=True) for x in control])
    t.add_tokens([AddedToken(x, normalized=False) for x in ("<tool>", "\n\n") if x in vocab])
    back = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    if gemma:
        t.normalizer = normalizers.Replace(" ", MARK)
        t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    elif legacy:
        parts = [normalizers.Prepend(MARK)] if prefix else []
        t.normalizer = normalizers.Sequence(parts + [normalizers.Replace(" ", MARK)])
    else:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first" if prefix else "never", split=False)
    t.decoder = decoders.Sequence(back + ([decoders.Strip(" ", 1, 0)] if prefix and not gemma else []))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", vocab["<s>"])])
    return t


def by_sentencepiece(model, texts, before, after=()):
    """Special tokens of a text are text to SentencePiece, so texts with one are left out."""
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    plain = [sp.encode(x) for x in texts]
    return {"plain": plain, "special": [[*before, *x, *after] for x in plain]}


def unigram(normalizer, pre, decoder, byte_fallback=False):
    t = Tokenizer(models.Unigram())
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer, t.decoder = pre, decoder
    t.train_from_iterator([x.replace("\0", "") for x in CORPUS], trainers.UnigramTrainer(
        vocab_size=260, show_progress=False, unk_token="<unk>", special_tokens=["<unk>", "<|begin|>", "<|end|>"], max_piece_length=8))
    d = json.loads(t.to_str())
    common = {c for c in "\u0420\u0443\u0441\u6f22\u5b57\ud55c"}   # characters that the model shall not know
    d["model"]["vocab"] = [x for x in d["model"]["vocab"] if not set(x[0]) & common]
    if byte_fallback:
        d["model"]["byte_fallback"] = True
        d["model"]["vocab"] += [[f"<0x{b:02X}>", 0.0] for b in range(256) if b != 0xF4]
    t = Tokenizer.from_str(json.dumps(d))
    t.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A <|end|>", special_tokens=[(x, t.token_to_id(x)) for x in ("<|begin|>", "<|end|>")])
    return t


def unigram_cases():
    yield "unigram", unigram(None, pre_tokenizers.Metaspace(), decoders.Metaspace())
    yield "unigram_bytes", unigram(normalizers.Replace(" ", MARK), pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                                   decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")]), True)
    sp = train("unigram", rules=True)
    charsmap = charsmap_of(sp)
    t = unigram(normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Strip(left=False, right=True),
                                      normalizers.Replace(" ", MARK)]), pre_tokenizers.Metaspace(prepend_scheme="first"),
                decoders.Metaspace(prepend_scheme="first"))
    yield "precompiled", t


def charsmap_of(model):
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    return proto.normalizer_spec.precompiled_charsmap


def ranks_of(n_vocab):
    """A tiktoken vocabulary: a byte-level BPE whose merges are ranks."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=n_vocab, show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    to_byte = {c: b for b, c in bytes_to_unicode().items()}
    return {bytes(to_byte[c] for c in text): rank for text, rank in t.get_vocab().items()}


def bytes_to_unicode():
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    made, n = {b: chr(b) for b in kept}, 0
    for b in range(256):
        if b not in made:
            made[b] = chr(256 + n)
            n += 1
    return made


def tiktoken_file(ranks):
    lines = (f"{base64.b64encode(text).decode()} {rank}\n" for text, rank in sorted(ranks.items(), key=lambda x: x[1]))
    return "".join(lines).encode()


def by_tiktoken(ranks, pattern, special, texts, before=(), nfc=False):
    t = tiktoken.Encoding("golden", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    plain = [t.encode(unicodedata.normalize("NFC", x) if nfc else x, allowed_special="all") for x in texts]
    return {"plain": plain, "special": [[*before, *x] for x in plain], "decoded": [t.decode(x) for x in plain]}


def tiktoken_cases(texts):
    ranks = ranks_of(420)
    n = len(ranks)
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]
    write("qwen", {"qwen.tiktoken": tiktoken_file(ranks), "tokenizer_config.json": {"tokenizer_class": "QWenTokenizer"}})
    yield "qwen", by_tiktoken(ranks, QWEN2, {x: n + i for i, x in enumerate(names)}, texts, nfc=True)
    names = ["<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|begin|>"]
    listed = {str(n + i): {"content": x, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False,
                           "special": True} for i, x in enumerate(names)}
    write("glm4", {"tokenizer.model": tiktoken_file(ranks), "tokenizer_config.json":
                   {"tokenizer_class": "ChatGLM4Tokenizer", "added_tokens_decoder": listed}})
    yield "glm4", by_tiktoken(ranks, LLAMA3, {x: n + i for i, x in enumerate(names)}, texts, (n + 2, n + 4))
    names = (["<|begin_of_text|>", "<|end_of_text|>"] + [f"<|reserved_special_token_{i}|>" for i in range(4)] +
             ["<|start_header_id|>", "<|end_header_id|>", "<|reserved_special_token_4|>", "<|eot_id|>"] +
             [f"<|reserved_special_token_{i}|>" for i in range(5, 251)])
    write("llama3", {"tokenizer.model": tiktoken_file(ranks)})
    yield "llama3", by_tiktoken(ranks, LLAMA3, {x: n + i for i, x in enumerate(names)}, texts, (n,))


def merges_cases(texts):
    from transformers import AutoTokenizer
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, show_progress=False, special_tokens=["<|endoftext|>", "</s>"],
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    d = json.loads(t.to_str())["model"]
    merges = "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in d["merges"])
    configs = {"gpt2_files": {"tokenizer_class": "GPT2Tokenizer"},
               "opt_files": {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "add_prefix_space": True,
                             "bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>"},
               "qwen2_files": {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
                               "bos_token": None, "additional_special_tokens": ["<|im_start|>", "<|im_end|>"]}}
    for name, config in configs.items():
        write(name, {"vocab.json": d["vocab"], "merges.txt": merges, "tokenizer_config.json": config})
        found = AutoTokenizer.from_pretrained(OUT / name)
        yield name, by_tokenizers(found._tokenizer, texts)


def write_gguf(name, model, charsmap):
    import gguf
    sp, pieces = pieces_of(model)
    kinds = [("is_unknown", 2), ("is_control", 3), ("is_unused", 5), ("is_byte", 6)]
    w = gguf.GGUFWriter(str(OUT / f"{name}.gguf"), "t5")
    w.add_tokenizer_model("t5")
    w.add_token_list([text for text, _ in pieces])
    w.add_token_scores([score for _, score in pieces])
    w.add_token_types([next((kind for method, kind in kinds if getattr(sp, method)(i)), 1) for i in range(len(pieces))])
    w.add_eos_token_id(sp.eos_id())
    w.add_unk_token_id(sp.unk_id())
    w.add_add_space_prefix(True)
    w.add_remove_extra_whitespaces(True)
    w.add_precompiled_charsmap(charsmap)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def sentencepiece_cases(texts):
    clean = [x for x in texts if not any(s in x for s in ("\0", "<s>", "</s>", "<unk>", "<tool>", "\n\n"))]
    llama = train("bpe")
    for name, config, options in (
            ("llama", {"tokenizer_class": "LlamaTokenizer"}, {}),
            ("llama_first", {"tokenizer_class": "LlamaTokenizerFast", "legacy": False}, {"legacy": False}),
            ("llama_bare", {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False}, {"prefix": False})):
        write(name, {"tokenizer.model": llama, "tokenizer_config.json": config})
        yield name, by_tokenizers(converted(llama, **options), texts)
    gemma = train("bpe", prefix=False, user=["\n\n", "<tool>", MARK * 2])
    write("gemma", {"tokenizer.model": gemma, "tokenizer_config.json": {"tokenizer_class": "GemmaTokenizer"}})
    yield "gemma", by_tokenizers(converted(gemma, gemma=True), [x for x in texts if MARK not in x])
    bare = train("bpe", prefix=False)
    write("baichuan", {"tokenizer.model": bare, "tokenizer_config.json": {"tokenizer_class": "BaichuanTokenizer", "add_bos_token": False}})
    yield "baichuan", by_sentencepiece(bare, clean, ())
    mapped = train("bpe", rules=True, squeeze=True)
    write("internlm", {"tokenizer.model": mapped, "tokenizer_config.json": {"tokenizer_class": "InternLMTokenizer", "add_eos_token": True}})
    yield "internlm", by_sentencepiece(mapped, clean, (1,), (2,))
    words = train("unigram", rules=True, squeeze=True)
    write("orion", {"tokenizer.model": words, "tokenizer_config.json": {"tokenizer_class": "OrionTokenizer"}})
    yield "orion", by_sentencepiece(words, clean, (1,))
    n = len(pieces_of(llama)[1])
    write("chatglm", {"tokenizer.model": llama, "tokenizer_config.json": {"tokenizer_class": "ChatGLMTokenizer"}})
    yield "chatglm", by_sentencepiece(llama, clean, (n + 1, n + 3))
    write_gguf("t5", words, charsmap_of(words))
    yield "t5.gguf", by_sentencepiece(words, clean, (), (2,))


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    texts = TEXTS + EXTRA_TEXTS
    clean = [x for x in texts if not any(s in x for s in ("\0", "<s>", "</s>", "<unk>", "<tool>", "\n\n"))]
    marked = [x for x in texts if MARK not in x]
    expected = {"texts": texts, "clean": clean, "marked": marked, "cases": {}}
    for name, t in unigram_cases():
        write(name, {"tokenizer.json": json.loads(t.to_str())})
        expected["cases"][name] = by_tokenizers(t, texts)
    for made in (sentencepiece_cases, tiktoken_cases, merges_cases):
        for name, case in made(texts):
            n = len(case["plain"])
            case["texts"] = next(x for x in ("texts", "clean", "marked") if len(expected[x]) == n)
            expected["cases"][name] = case
    (OUT / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
