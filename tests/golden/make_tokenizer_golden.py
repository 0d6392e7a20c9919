#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/: tokenizer.json files of Hugging Face's library, and the ids that it gives.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers==0.23.3
    /tmp/venv/bin/python tests/golden/make_tokenizer_golden.py

Each case is a BPE of some 400 tokens, trained on the texts below: byte-level with the pre-tokenizer of a model in common use,
or of characters with the parts of SentencePiece models. expected.json: {"texts": [...], "cases": {name: {"plain": [ids of
each text], "special": [ids with the post-processor's tokens], "decoded": [text of the plain ids]}}}.
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).resolve().parent / "tokenizer"

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
          r"|\s+(?!\S)|\s")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"

TEXTS = [
    "",
    " ",
    "Hello, world! The quick brown fox jumps over the lazy dog.",
    "don't DON'T I'm we'LL they\u2019ve 'tis o'clock's 'S 'sx it's",
    "1 12 123 1234 12345 1234567 3.14159 -2e10 0x1F \u00bd \u00b2\u00b3 \u0663\u0664 \u2167 \u2460",
    "a  b   c    d\te\t\tf \t g\n\nh\r\n\r\ni \n j  \n  k   ",
    "   leading, trailing   ",
    "\n\n\n",
    "x\u00a0y\u2003z\u3000w\u1680v\u180eu\u200bt\u2028s\u0085r",
    "def f(x):\n    return x ** 2  # square\n\n\nclass A(B):\n\tpass\n",
    "https://example.org/a/b?c=d&e=f#g user@example.com C:\\path\\to /usr/lib/x86_64",
    "Z\u00fcrich na\u00efve caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m A\u030a \u01c5 \u1e9e stra\u00dfe \u017fo K",
    "\u6f22\u5b57\u304b\u306a\u4ea4\u3058\u308a\u6587\u3002\u30ab\u30bf\u30ab\u30ca\u3001\uff21\uff22\uff23 \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab",
    "\u0420\u0443\u0441\u0441\u043a\u0438\u0439 \u0442\u0435\u043a\u0441\u0442, \u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac; \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea \u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22",
    "\U0001f642\U0001f468\u200d\U0001f469\u200d\U0001f467\U0001f1e9\U0001f1ea\u2764\ufe0f \U0001f44b\U0001f3fd!!! \u2026 \u2014 \u00ab\u00bb",
    "\x00\x01\x02\x1b[31mred\x1b[0m\x7f\ufeff\ue000\U000e0001\U0010ffff",
    "CamelCaseHTTPServer snake_case SCREAMING_CASE iPhone12Pro XMLHttpRequest2",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "<|begin|>Hello<|end|><|end|> <|begin|>\n<|unknown|> <tool> call</tool> a<tool>b",
    "  <mask>  word<mask>word <mask>, x <sep>  \n y\u3000<sep>\u2003z <pad><pad>",
    "!!??!!((((]]]]]]{}{}{}<<>>||&&++--==!= ... ,,,, ;;;\n\n!!!\n...\r\n",
]

CORPUS = TEXTS + [
    "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated "
    "documentation files, to deal in the software without restriction, including without limitation the rights to use, "
    "copy, modify, merge, publish, distribute, sublicense, and to permit persons to whom the software is furnished.",
    "The function returns the number of items, or -1 on error. If the file does not exist, the error is reported.\n" * 3,
] * 2


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def bytes_only():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def train(pre, normalizer=None, n_vocab=384, ignore_merges=False):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=n_vocab, show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def train_characters(normalizer, pre, decoder, fuse_unk=True):
    """Most characters of the texts have no token: they become their bytes, and the last of them has none either."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse_unk))
    for name, part in (("normalizer", normalizer), ("pre_tokenizer", pre), ("decoder", decoder)):
        if part:
            setattr(t, name, part)
    t.train_from_iterator([x.replace("\0", "") for x in CORPUS], trainers.BpeTrainer(
        vocab_size=330, limit_alphabet=70, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False, max_token_length=12))
    d = json.loads(t.to_str())
    d["model"]["byte_fallback"] = True
    for byte in range(256):
        if byte != 0xF4:
            d["model"]["vocab"].setdefault(f"<0x{byte:02X}>", len(d["model"]["vocab"]))
    t = special(Tokenizer.from_str(json.dumps(d)), "<|begin|>", "<|end|>")
    t.post_processor = template(t, "<|begin|> $A")
    return t


def special(t, *texts):
    t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in texts])
    return t


def template(t, single):
    ids = [(x, t.token_to_id(x)) for x in ("<|begin|>", "<|end|>")]
    return processors.TemplateProcessing(single=single, special_tokens=ids)


def cases():
    gpt2 = train(pre_tokenizers.ByteLevel(add_prefix_space=False))
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    yield "gpt2", special(gpt2, "<|end|>")

    t = special(train(pre_tokenizers.Sequence([split(LLAMA3), bytes_only()]), ignore_merges=True), "<|begin|>", "<|end|>")
    t.post_processor = processors.Sequence([processors.ByteLevel(), template(t, "<|begin|> $A")])
    yield "llama3", t

    t = special(train(pre_tokenizers.Sequence([split(QWEN2), bytes_only()]), normalizers.NFC()), "<|begin|>", "<|end|>")
    t.add_tokens([AddedToken("<tool>", special=False, normalized=False), AddedToken("caf\u00e9", normalized=True)])
    yield "qwen2", t

    t = special(train(pre_tokenizers.Sequence([split(O200K), bytes_only()])), "<|begin|>", "<|end|>")
    t.post_processor = template(t, "<|begin|> $A <|end|> <|end|>")
    yield "o200k", t

    yield "cl100k", special(train(pre_tokenizers.Sequence([split(CL100K), bytes_only()])), "<|end|>")

    yield "deepseek", special(train(pre_tokenizers.Sequence([
        split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(DEEPSEEK), bytes_only()])), "<|end|>")

    yield "falcon", special(train(pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(individual_digits=False), split("[0-9][0-9][0-9]")])), "<|end|>")

    yield "bloom", special(train(pre_tokenizers.Sequence([split(BLOOM), bytes_only()]), normalizers.NFC()), "<|end|>")

    yield "digits", train(pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=True)]))

    t = train(pre_tokenizers.Sequence([split(r"\w+|[^\w\s]+", "removed", True), split(r"[aeiou]", "merged_with_next"),
                                       split(r"\b(?m:.)\h{,1}", "merged_with_previous"), bytes_only()]))
    yield "behaviors", t

    t = train(pre_tokenizers.ByteLevel(add_prefix_space=False))
    t.add_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False),
                  AddedToken("<sep>", rstrip=True, lstrip=True, special=True, normalized=False),
                  AddedToken("word", single_word=True, normalized=False), AddedToken("<pad>", special=True),
                  AddedToken("<pad><pad>", special=False), AddedToken("\n\n", normalized=False, rstrip=True),
                  AddedToken("the", single_word=True)])
    yield "flags", t

    fallback = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    spaces = normalizers.Replace(" ", "\u2581")
    llama2 = train_characters(normalizers.Sequence([normalizers.Prepend("\u2581"), spaces]), None,
                              decoders.Sequence(fallback + [decoders.Strip(" ", 1, 0)]))
    llama2.add_tokens([AddedToken("word", normalized=True)])
    yield "llama2", llama2
    yield "mistral", train_characters(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                                      decoders.Sequence(fallback + [decoders.Strip(" ", 1, 0)]), fuse_unk=False)
    yield "gemma", train_characters(spaces, pre_tokenizers.Split(" ", "merged_with_previous"), decoders.Sequence(fallback))
    yield "metaspace", train_characters(
        normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]),
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Metaspace()]),
        decoders.Metaspace())
    yield "words", train_characters(
        normalizers.Sequence([normalizers.Nmt(), normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]),
        pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation(), pre_tokenizers.FixedLength(9)]), None)


def main():
    OUT.mkdir(exist_ok=True)
    expected = {"texts": TEXTS, "cases": {}}
    for name, t in cases():
        if name in ("gpt2", "digits"):   # merges as older files write them
            d = json.loads(t.to_str())
            d["model"]["merges"] = [" ".join(pair) for pair in d["model"]["merges"]]
            t = Tokenizer.from_str(json.dumps(d))
            text = json.dumps(d, ensure_ascii=False)
        else:
            text = t.to_str()
        (OUT / f"{name}.json").write_text(json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")) + "\n")
        expected["cases"][name] = {
            "plain": [t.encode(x, add_special_tokens=False).ids for x in TEXTS],
            "special": [t.encode(x).ids for x in TEXTS],
            "decoded": [t.decode(t.encode(x, add_special_tokens=False).ids, skip_special_tokens=False) for x in TEXTS],
        }
    (OUT / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
