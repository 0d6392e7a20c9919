#!/usr/bin/env python3
"""Compares pilotfish's tokenizers with tokenizers, sentencepiece and tiktoken on long texts: a part of `./dev test oracle`.

    python3 tests/oracle/compare_tokenizers.py --pilotfish build/release/pilotfish [--form NAME] [--megabytes N] [--seed N]

For each form a tokenizer is trained on a part of a random text of many scripts. The ids of the whole text, of hard strings and of
words of 100,000 bytes must be the library's, and decoding the ids must give the text that the library gives. A form whose
characters all have tokens must give the text back. A report of one line a form: ok, with the speed of `pilotfish tokenize`
(opening and printing included), or differs (where).
"""
import argparse
import base64
import io
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(ROOT / "tests" / "golden"), str(ROOT / "tests" / "e2e")]
from capable import become_capable  # noqa: E402

SCRIPTS = [(0x61, 0x7A, 9), (0x41, 0x5A, 5), (0x430, 0x44F, 8), (0x3B1, 0x3C9, 8), (0x4E00, 0x4FFF, 20), (0x3041, 0x3096, 12),
           (0x30A1, 0x30FA, 8), (0xAC00, 0xAFFF, 5), (0x627, 0x64A, 7), (0x5D0, 0x5EA, 6), (0x905, 0x939, 6), (0xE01, 0xE2E, 15),
           (0x1F600, 0x1F64F, 2), (0x300, 0x345, 2), (0xC0, 0x17F, 6), (0xFF01, 0xFF5E, 6), (0x10400, 0x1044F, 4)]
BETWEEN = [" ", " ", " ", " ", " ", "  ", "\n", "\n\n", ", ", ". ", "\t", "\r\n", "\u3000", "\u3002", "-", "'s ", "12 ", "2024", "\u00a0"]


class Differs(Exception):
    pass


def make_words(rng, n):
    """Words of one script each; few are frequent."""
    made = []
    for _ in range(n):
        first, last, most = rng.choice(SCRIPTS[:2] * 4 + SCRIPTS)
        made.append("".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, most))))
    return made


def make_text(rng, n_bytes):
    words, parts, size = make_words(rng, 30000), [], 0
    while size < n_bytes:
        part = words[int(len(words) * rng.random() ** 3)] + rng.choice(BETWEEN)
        parts.append(part)
        size += len(part.encode())
    return "".join(parts)


def hard_texts(rng, alphabet):
    from make_tokenizer_golden import TEXTS
    from make_tokenizer_forms_golden import EXTRA_TEXTS
    made = [x for x in TEXTS + EXTRA_TEXTS if "\0" not in x and "<" not in x and "\u2581" not in x]
    made += ["a" * 100000, "ab" * 50000, "\u6f22" * 33000, "".join(rng.choice("abcde") for _ in range(100000))]
    made += ["".join(rng.choice(alphabet) for _ in range(rng.randint(1, 60))) for _ in range(60)]
    return made


# ---- forms: each writes a directory and returns encode and decode of its library -----------------------------------------------

def train_pieces(kind, corpus, **options):
    import sentencepiece
    model = io.BytesIO()
    rule = {} if "normalization_rule_tsv" in options else {"normalization_rule_name": "identity"}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(x for x in corpus.split("\n") if x), model_writer=model, model_type=kind, vocab_size=6000,
        byte_fallback=True, character_coverage=0.995, hard_vocab_limit=False, minloglevel=2, max_sentence_length=100000,
        **{"remove_extra_whitespaces": False, **rule, **options})
    return model.getvalue()


def write(directory, model, config):
    (directory / "tokenizer.model").write_bytes(model)
    (directory / "tokenizer_config.json").write_text(json.dumps(config))


def by_document(t):
    return lambda x: t.encode(x, add_special_tokens=False).ids, lambda x: t.decode(x, skip_special_tokens=False)


def by_pieces(model):
    import sentencepiece
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    return sp.encode, sp.decode


def llama(directory, corpus):
    """As SentencePiece encodes, and as the document of the conversion does: both are compared."""
    model = train_pieces("bpe", corpus)
    write(directory, model, {"tokenizer_class": "LlamaTokenizer"})
    return by_pieces(model)


def llama_first(directory, corpus):
    from make_tokenizer_forms_golden import converted
    model = train_pieces("bpe", corpus)
    write(directory, model, {"tokenizer_class": "LlamaTokenizer", "legacy": False})
    return by_document(converted(model, legacy=False))


def gemma(directory, corpus):
    model = train_pieces("bpe", corpus, add_dummy_prefix=False, split_digits=True)
    write(directory, model, {"tokenizer_class": "GemmaTokenizer"})
    return by_pieces(model)


def internlm(directory, corpus):
    from make_tokenizer_forms_golden import rules_file
    with tempfile.TemporaryDirectory() as scratch:
        model = train_pieces("bpe", corpus, normalization_rule_tsv=rules_file(scratch), remove_extra_whitespaces=True)
    write(directory, model, {"tokenizer_class": "InternLMTokenizer"})
    return by_pieces(model)


def nmt_nfkc(directory, corpus):
    model = train_pieces("bpe", corpus, normalization_rule_name="nmt_nfkc", remove_extra_whitespaces=True)
    write(directory, model, {"tokenizer_class": "InternLM2Tokenizer"})
    return by_pieces(model)


def unigram(directory, corpus):
    """The document that the library reads has double sums, and SentencePiece has float ones."""
    from tokenizers import Tokenizer, decoders, models, normalizers
    model = train_pieces("unigram", corpus)
    write(directory, model, {"tokenizer_class": "OrionTokenizer"})
    from make_tokenizer_forms_golden import pieces_of
    t = Tokenizer(models.Unigram(pieces_of(model)[1], unk_id=0, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return by_document(t)


def precompiled(directory, corpus):
    """A tokenizer.json as T5's."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from make_tokenizer_forms_golden import charsmap_of, pieces_of
    model = train_pieces("unigram", corpus, normalization_rule_name="nmt_nfkc", remove_extra_whitespaces=True)
    t = Tokenizer(models.Unigram(pieces_of(model)[1], unk_id=0, byte_fallback=False))
    t.normalizer = normalizers.Precompiled(charsmap_of(model))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    t.save(str(directory / "tokenizer.json"))
    return by_document(Tokenizer.from_file(str(directory / "tokenizer.json")))


def byte_level(directory, corpus):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from make_tokenizer_golden import LLAMA3
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus.split("\n"), trainers.BpeTrainer(vocab_size=12000, show_progress=False,
                                                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.save(str(directory / "tokenizer.json"))
    return by_document(t)


def gpt2_files(directory, corpus):
    from tokenizers import Tokenizer
    byte_level(directory, corpus)
    model = json.loads((directory / "tokenizer.json").read_text())["model"]
    (directory / "tokenizer.json").unlink()
    (directory / "vocab.json").write_text(json.dumps(model["vocab"]))
    (directory / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in model["merges"]))
    (directory / "tokenizer_config.json").write_text('{"tokenizer_class": "Qwen2Tokenizer"}')
    from transformers import AutoTokenizer
    return by_document(AutoTokenizer.from_pretrained(directory)._tokenizer)


def qwen(directory, corpus):
    import tiktoken
    from make_tokenizer_golden import QWEN2
    from make_tokenizer_forms_golden import bytes_to_unicode
    byte_level(directory, corpus)
    vocab = json.loads((directory / "tokenizer.json").read_text())["model"]["vocab"]
    (directory / "tokenizer.json").unlink()
    to_byte = {c: b for b, c in bytes_to_unicode().items()}
    ranks = {bytes(to_byte[c] for c in text): rank for text, rank in vocab.items()}
    lines = (f"{base64.b64encode(text).decode()} {rank}\n" for text, rank in sorted(ranks.items(), key=lambda x: x[1]))
    (directory / "qwen.tiktoken").write_text("".join(lines))
    t = tiktoken.Encoding("qwen", pat_str=QWEN2, mergeable_ranks=ranks, special_tokens={})
    # a word of a hundred thousand letters takes tiktoken's regular expressions beyond their stack
    return lambda x: t.encode(unicodedata.normalize("NFC", x), disallowed_special=()), t.decode


FORMS = {f.__name__: f for f in (byte_level, gpt2_files, qwen, llama, llama_first, gemma, internlm, nmt_nfkc, unigram, precompiled)}


# ---- the comparison ------------------------------------------------------------------------------------------------------------------

class Pilotfish:
    def __init__(self, binary, directory):
        self.binary, self.directory = binary, str(directory)

    def run(self, *arguments, stdin):
        done = subprocess.run([self.binary, *arguments], input=stdin, capture_output=True, check=False)
        if done.returncode != 0:
            raise Differs(f"pilotfish {arguments[0]} exits with {done.returncode}: {done.stderr.decode()[:300]}")
        return done.stdout

    def encode(self, text):
        out = self.run("tokenize", "-m", self.directory, "--no-special", "--json", stdin=text.encode())
        return json.loads(out)["tokens"]

    def decode(self, ids):
        out = self.run("detokenize", "-m", self.directory, "--json", "--tokens", ",".join(map(str, ids)), stdin=b"")
        return json.loads(out)["text"]


def compare_ids(text, found, expected):
    if found == expected:
        return
    n = next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))
    raise Differs(f"{text[:60]!r} ({len(text)} characters): token {n}: {found[n:n + 8]}, expected {expected[n:n + 8]}")


def compare_form(name, binary, rng, n_bytes):
    text = make_text(rng, n_bytes)
    corpus = text[:min(len(text) // 4, 400000)]
    with tempfile.TemporaryDirectory() as scratch:
        encode, decode = FORMS[name](pathlib.Path(scratch), corpus)
        pilotfish = Pilotfish(binary, scratch)
        for hard in hard_texts(rng, text[:20000] + "  \n"):
            found = pilotfish.encode(hard)
            compare_ids(hard, found, encode(hard))
            expected = decode(found) if found else ""
            if "\ufffd" not in expected and len(hard) < 1000 and found and pilotfish.decode(found) != expected:
                raise Differs(f"the text of {found[:20]} is {pilotfish.decode(found)!r}, expected {expected!r}")
        start = time.perf_counter()
        found = pilotfish.encode(text)
        seconds = time.perf_counter() - start
        compare_ids(text, found, encode(text))
        return f"ok: {len(found)} ids of {len(text.encode())} bytes, {len(text.encode()) / seconds / 1e6:.1f} MB/s with all around it"


def main():
    become_capable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pilotfish", required=True, help="the binary")
    parser.add_argument("--form", choices=FORMS, help="one form; all by default")
    parser.add_argument("--megabytes", type=float, default=10.0, help="of the long text")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100000)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    failed = 0
    for name in [arguments.form] if arguments.form else FORMS:
        try:
            report = compare_form(name, arguments.pilotfish, random.Random(arguments.seed), int(1e6 * arguments.megabytes))
        except Differs as why:
            report, failed = f"differs: {why}", failed + 1
        print(f"{name}: {report}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
