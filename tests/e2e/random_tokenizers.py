"""Random tokenizer.json files of byte-level BPE, made by Hugging Face's library, and texts for them.

The pre-tokenizers of models in use, with random normalizers, added tokens with any flags, post-processors and options of
the model. Left out is what is random in the library itself, which takes either of two added tokens that a normalizer makes
equal, and what it fails on, white space that strips the white space beside it.
"""
import json
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
        """The alphabet is whole, or there is a token for the bytes that it lacks."""
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
        single = self.random.choice([None, "$A", "<|begin|> $A", "<|begin|> $A:1 <|end|>:1 <|end|>"])
        if single is None:
            return processors.ByteLevel()
        ids = [(text, tokenizer.token_to_id(text)) for text in ("<|begin|>", "<|end|>")]
        template = processors.TemplateProcessing(single=single, special_tokens=ids)
        return processors.Sequence([processors.ByteLevel(), template]) if self.often(0.5) else template

    def write(self, path):
        """Returns the tokenizer as the library reads it back."""
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
        document = json.loads(tokenizer.to_str())
        if self.often(0.3):  # as older files have them
            document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
        path.write_text(json.dumps(document))
        return Tokenizer.from_file(str(path))

    def text(self):
        kinds = [WORDS, SPACES, self.added, "ab1. \n"]
        return "".join(self.random.choice(self.random.choice(kinds)) for _ in range(self.random.randint(0, 30)))
