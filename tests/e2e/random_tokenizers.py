"""Makes random tokenizer.json files with Hugging Face's library, and texts for them.

Maker: byte-level, with the pre-tokenizers of models in use. CharacterMaker: SentencePiece's form, with Metaspace or the
equivalent normalizers, and every other supported part. UnigramMaker: the same parts around a Unigram model, with tables of replaced
characters. All have added tokens with any flags, post-processors and options of
the model. Excluded are cases in which the library is random (two added tokens that a normalizer makes equal), fails (white
space that strips adjacent white space), or loses text (characters without a token).
"""
import base64
import json
import struct
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
          r"|\s+(?!\S)|\s")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK_CODER = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"

WORDS = """the The THE don't DON'T we'LL they\u2019ve na\u00efve caf\u00e9 cafe\u0301 A\u030a \ufb01 \uff46\uff55 \uff11\uff12 \u00bd \u00b2 \u2167 \u2460
 \u6f22\u5b57 \u304b\u306a \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab \u0420\u0443\u0441 \u0627\u0644\u0639 \u0939\u093f\u0928\u094d \u0e44\u0e17\u0e22 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44b\U0001f3fd \u2764\ufe0f \u2026 \u00ab\u00bb !!! ?! ()[]{}
 12 123 1234567 3.14 0x1F https://a.b/c?d=e&f#g C:\\x __init__ $ + <=> ^ ` | ~ \u00b0 's \u2019s \u017f \u0130 \u0131 \u00df \u01c5 e\u0323\u0307 \u0958 \ufb2c \u06f3
 \U0001d7d8 \u00aa \U00020000 \U0010ffff \ue000""".split()
SPACES = [" ", "  ", " " * 40, "\t", "\n", "\r\n", "\r", "\n\n", "\u00a0", "\u2003", "\u3000", "\u200b", "\u2028", "\u0085", "\x0b", "\x1c", "\x00", "\ufeff"]
ADDED = ["<mask>", "<sep>", "<a>", "<ab>", "<abc>", "foo", "foobar", "the", "\n\n", "  ", "caf\u00e9", "\u0120", " x", "y ", "a b",
         " ", "1", "\u0301", "\t"]
CORPUS = [" ".join(WORDS), "".join(SPACES), "Permission is hereby granted, free of charge, to any person obtaining a copy "
          "of this software; 1999 2024 x86_64\n\n\tif (x == y) return 'don\u2019t';\r\n"] * 3


class CharsMap:
    """Builds a precompiled_charsmap from pairs of texts: a double array of darts-clone, and the replacements."""

    def __init__(self, pairs):
        self.units, self.taken, self.texts = [0] * 256, {0}, b""
        trie = {}
        for key, text in pairs:
            node = trie
            for byte in key.encode():
                node = node.setdefault(byte, {})
            node[0] = len(self.texts)
            self.texts += text.encode() + b"\0"
        self.place(0, trie)

    def place(self, at, node):
        """The children of the unit `at` lie at base ^ byte; the value of a text at base."""
        base = next(b for b in range(1, 1 << 20) if not any(b ^ byte in self.taken for byte in node))
        self.units += [0] * ((base | 255) + 1 - len(self.units))
        self.taken.update(base ^ byte for byte in node)
        self.units[at] |= (at ^ base) << 10 | (0 in node) << 8
        for byte, child in node.items():
            self.units[base ^ byte] = child | 1 << 31 if byte == 0 else byte
        for byte, child in node.items():
            if byte != 0:
                self.place(base ^ byte, child)

    def bytes(self):
        array = b"".join(struct.pack("<I", unit) for unit in self.units)
        return struct.pack("<I", len(array)) + array + self.texts

    def base64(self):
        return base64.b64encode(self.bytes()).decode()


class Maker:
    def __init__(self, random):
        self.random = random
        self.added = ["<|begin|>", "<|end|>"]

    def often(self, share):
        return self.random.random() < share

    def pre_tokenizer(self):
        def split(pattern):
            return pre_tokenizers.Split(Regex(pattern), "isolated")

        def byte_level(use_regex):
            return pre_tokenizers.ByteLevel(add_prefix_space=self.often(0.25), use_regex=use_regex)

        digits, three = pre_tokenizers.Digits(individual_digits=self.often(0.5)), split("[0-9][0-9][0-9]")
        return pre_tokenizers.Sequence(self.random.choice([
            [byte_level(True)], [byte_level(False)], [digits, byte_level(True)], [split(LLAMA3), byte_level(False)],
            [split(LLAMA3.replace("{1,3}", "")), byte_level(False)], [split(CL100K), byte_level(False)],
            [split(O200K), byte_level(False)], [*map(split, DEEPSEEK_CODER), digits, byte_level(False)],
            [split(BLOOM), split(r"\p{N}"), byte_level(False)],
            [pre_tokenizers.Punctuation("contiguous"), byte_level(True), digits, three]]))

    def model(self, tokenizer):
        """The alphabet is complete, or there is an unk_token."""
        whole = self.often(0.8)
        special = [] if whole else ["<unk>"]
        options = {} if whole else {"unk_token": "<unk>", "fuse_unk": self.often(0.5)}
        tokenizer.model = models.BPE(ignore_merges=self.often(0.3), **options)
        alphabet = pre_tokenizers.ByteLevel.alphabet() if whole else []
        tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
            vocab_size=self.random.choice([300, 500, 800]), initial_alphabet=alphabet, special_tokens=special,
            limit_alphabet=1000 if whole else 100, show_progress=False))

    def add_tokens(self, tokenizer, is_normalised):
        tokenizer.add_special_tokens(list(self.added))
        for text in self.random.sample(ADDED, self.random.randint(0, 6)):
            names = ["single_word", "special"] if text.isspace() else ["single_word", "special", "lstrip", "rstrip"]
            flags = {name: True for name in names if self.often(0.25)}
            if is_normalised and unicodedata.normalize("NFKD", text) != text:
                flags["normalized"] = False
            tokenizer.add_tokens([AddedToken(text, **{"normalized": self.often(0.5), **flags})])
            self.added.append(text)

    def post_processor(self, tokenizer):
        begin, end = [(text, tokenizer.token_to_id(text)) for text in ("<|begin|>", "<|end|>")]
        singles = ["$A", "<|begin|> $A", "<|begin|> $A:1 <|end|>:1 <|end|>"]
        adding = self.random.choice([
            None, *[processors.TemplateProcessing(single=single, special_tokens=[begin, end]) for single in singles],
            processors.BertProcessing(end, begin),
            processors.RobertaProcessing(end, begin, self.often(0.5), self.often(0.5))])
        if adding is None:
            return processors.ByteLevel()
        return processors.Sequence([processors.ByteLevel(), adding]) if self.often(0.5) else adding

    def finish(self, document, path):
        """Returns the tokenizer as the library reads it back."""
        if self.often(0.3):  # as older files have them
            pairs = document["model"]["merges"]
            if not any(" " in part for pair in pairs for part in pair):
                document["model"]["merges"] = [" ".join(pair) for pair in pairs]
        path.write_text(json.dumps(document))
        return Tokenizer.from_file(str(path))

    def write(self, path):
        forms = [normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD()]
        parts = self.random.sample(forms, self.random.choice([0, 0, 0, 1, 1, 2]))
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = self.pre_tokenizer()
        tokenizer.decoder = decoders.ByteLevel()
        if parts:
            tokenizer.normalizer = normalizers.Sequence(parts)
        self.model(tokenizer)
        self.add_tokens(tokenizer, bool(parts))
        tokenizer.post_processor = self.post_processor(tokenizer)
        return self.finish(json.loads(tokenizer.to_str()), path)

    def ids(self, tokenizer, n):
        return [self.random.randrange(tokenizer.get_vocab_size()) for _ in range(n)]

    def text(self):
        kinds = [WORDS, SPACES, self.added, "ab1. \n"]
        return "".join(self.random.choice(self.random.choice(kinds)) for _ in range(self.random.randint(0, 30)))


class CharacterMaker(Maker):
    BEHAVIORS = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]
    PATTERNS = [Regex(r"\s+"), Regex(r"[0-9]"), Regex(r"\p{L}+"), Regex("(?i)the"), Regex(r" {2,}"), Regex("[\r\n]"), " ", "the",
                "\u2581", ".", "\n", "aa"]
    EMPTY = [Regex("^|$"), Regex(r"\b"), ""]  # the library's next normalizer writes their replacement at the start twice
    LLAMA = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]

    def normalizer(self):
        def one():
            return self.random.choice([
                lambda: normalizers.Prepend(self.random.choice(["\u2581", "ab", " "])),
                lambda: normalizers.Replace(" ", "\u2581"),
                lambda: normalizers.Replace(self.random.choice(self.PATTERNS), self.random.choice(["\u2581", "", " ", "xyz", "\u00e9"])),
                normalizers.Lowercase, normalizers.StripAccents, normalizers.Nmt, normalizers.NFC, normalizers.NFD,
                normalizers.NFKC, normalizers.NFKD,
                lambda: normalizers.Strip(left=self.often(0.5), right=self.often(0.5))])()

        if self.often(0.25):
            return normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        n = self.random.choice([0, 0, 1, 1, 2, 3])
        last = [normalizers.Replace(self.random.choice(self.EMPTY), "xy")] if self.often(0.1) else []
        return normalizers.Sequence([one() for _ in range(n)] + last) if n + len(last) else None

    def metaspace(self):
        return pre_tokenizers.Metaspace(replacement=self.random.choice(["\u2581", "\u2581", "_", "\U0001f600"]),
                                        prepend_scheme=self.random.choice(["first", "always", "never"]),
                                        split=self.often(0.5))

    def pre_tokenizer(self):
        def one():
            behavior = self.random.choice(self.BEHAVIORS)
            return self.random.choice([
                self.metaspace, self.metaspace, pre_tokenizers.Whitespace, pre_tokenizers.WhitespaceSplit,
                pre_tokenizers.BertPreTokenizer, lambda: pre_tokenizers.Punctuation(behavior),
                lambda: pre_tokenizers.Digits(individual_digits=self.often(0.5)),
                lambda: pre_tokenizers.CharDelimiterSplit(self.random.choice(" ,a\u2581")),
                lambda: pre_tokenizers.FixedLength(self.random.randint(1, 9)),
                lambda: pre_tokenizers.Split(self.random.choice(self.PATTERNS + self.EMPTY), behavior, self.often(0.3))])()

        n = self.random.choice([0, 0, 1, 1, 1, 2, 3])
        return one() if n == 1 else pre_tokenizers.Sequence([one() for _ in range(n)]) if n else None

    def decoder(self):
        if self.often(0.3):
            return decoders.Sequence(self.LLAMA[:self.random.choice([3, 4])])
        if self.often(0.3):
            return decoders.Metaspace(replacement=self.random.choice(["\u2581", "_"]),
                                      prepend_scheme=self.random.choice(["first", "always", "never"]))
        if self.often(0.1):
            return None

        def text(*choices):
            return self.random.choice(choices)

        def replace():
            return decoders.Replace(text("\u2581", "a", "the", " ", "aba", "aab"), text(" ", "", "xy", "a", "\u2581"))

        def strip():
            return decoders.Strip(text(" ", "a", "\u2581"), self.random.randint(0, 3), 0)

        parts = [text(replace, strip)() for _ in range(self.random.randint(0, 2))]
        if self.often(0.3):
            parts.append(decoders.Replace(self.random.choice(self.PATTERNS[:8]), text("", "xy")))
        if self.often(0.6):
            parts.append(decoders.ByteFallback())
        behind = [decoders.Fuse, replace, strip, lambda: decoders.Metaspace(prepend_scheme=text("first", "never"))]
        parts += [self.random.choice(behind)() for _ in range(self.random.randint(0, 3))]
        return decoders.Sequence(parts)

    def byte_tokens(self, document):
        """Most often all byte tokens; if some are missing there is an unk_token."""
        model = document["model"]
        model["byte_fallback"] = self.often(0.8)
        missing = self.random.sample(range(256), self.random.choice([0, 0, 0, 1, 100, 256]))
        for byte in sorted(set(range(256)) - set(missing)):
            model["vocab"].setdefault(f"<0x{byte:02X}>", len(model["vocab"]))
        if model["byte_fallback"] and not missing and self.often(0.5):
            model["unk_token"] = None

    def model(self, _=None):
        return models.BPE(unk_token="<unk>", fuse_unk=self.often(0.5), ignore_merges=self.often(0.3))

    def trainer(self):
        return trainers.BpeTrainer(
            vocab_size=self.random.choice([100, 300, 800]), special_tokens=["<unk>", "<s>", "</s>"],
            limit_alphabet=self.random.choice([20, 60, 1000]), show_progress=False, max_token_length=self.random.choice([None, 8]))

    def write(self, path):
        tokenizer = Tokenizer(self.model())
        for name, part in [("normalizer", self.normalizer()), ("pre_tokenizer", self.pre_tokenizer()), ("decoder", self.decoder())]:
            if part is not None:
                setattr(tokenizer, name, part)
        tokenizer.train_from_iterator([text.replace("\0", "") for text in CORPUS], self.trainer())
        document = json.loads(tokenizer.to_str())
        document["added_tokens"] = []
        self.byte_tokens(document)
        if self.often(0.3) and (document["pre_tokenizer"] or {}).get("type") == "Metaspace":  # as older files have it
            space = document["pre_tokenizer"]
            space["str_rep"], space["add_prefix_space"] = space["replacement"], space["prepend_scheme"] != "never"
        tokenizer = Tokenizer.from_str(json.dumps(document))
        self.added = ["<s>", "</s>", "<|begin|>", "<|end|>"]
        self.add_tokens(tokenizer)
        tokenizer.post_processor = self.post_processor(tokenizer)
        return self.finish(json.loads(tokenizer.to_str()), path)

    def add_tokens(self, tokenizer):
        """Excludes two tokens that the normalizer makes equal: the library matches either."""
        normal = tokenizer.normalizer or normalizers.Sequence([])
        tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in self.added])
        taken = set()
        for text in self.random.sample(ADDED + ["<unk>", "\u2581", "\u2581x", "The"], self.random.randint(0, 6)):
            names = ["single_word", "special"] if text.isspace() else ["single_word", "special", "lstrip", "rstrip"]
            flags = {name: True for name in names if self.often(0.25)}
            form = normal.normalize_str(text)
            normalized = self.often(0.5) and form != "" and form not in taken and not form.isspace()
            taken.add(form)
            tokenizer.add_tokens([AddedToken(text, normalized=normalized, **flags)])
            self.added.append(text)


class UnigramMaker(CharacterMaker):
    CLUSTERS = ["e\u0301", "a\u030a", "A\u030a\u0301", "\r\n", "\u00e9\u0301", "x\u200d", "\u0915\u094d", "1\ufe0f"]

    def normalizer(self):
        parts = super().normalizer()
        if self.often(0.5):
            return parts
        sources = {self.random.choice(self.random.choice([WORDS, SPACES, self.CLUSTERS, "abcXYZ \n\r\t\u3000\u00bd\ufb01"]))[:3]
                   for _ in range(self.random.randint(1, 25))} - {"", "\0"}
        pairs = [(x, self.random.choice(["", " ", "a", "\u00e9", "xy", "\u2581", x + x])) for x in sorted(sources) if "\0" not in x]
        made = normalizers.Precompiled(CharsMap(pairs).bytes())
        return normalizers.Sequence([made, parts] if parts else [made])

    def model(self, _=None):
        return models.Unigram()

    def trainer(self):
        return trainers.UnigramTrainer(vocab_size=self.random.choice([500, 700, 1000]), special_tokens=["<unk>", "<s>", "</s>"],
                                       unk_token="<unk>", max_piece_length=self.random.choice([3, 8, 16]), show_progress=False)

    def byte_tokens(self, document):
        """Some characters become unknown; scores may be rounded, so that many ways have equal sums."""
        model = document["model"]
        rounded = self.often(0.5)
        kept = [x for x in model["vocab"][3:] if len(x[0]) > 1 or self.often(0.8)]
        model["vocab"] = model["vocab"][:3] + [[text, float(round(score)) if rounded else score] for text, score in kept]
        model["byte_fallback"] = self.often(0.6)
        missing = self.random.sample(range(256), self.random.choice([0, 0, 0, 1, 100, 256]))
        model["vocab"] += [[f"<0x{byte:02X}>", 0.0] for byte in sorted(set(range(256)) - set(missing))]

    def finish(self, document, path):
        path.write_text(json.dumps(document))
        return Tokenizer.from_file(str(path))
