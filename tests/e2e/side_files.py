"""Generates random files beside a tokenizer.json: tokenizer_config.json, special_tokens_map.json, added_tokens.json.

Names, lists and flags at random over a few texts, some of which the vocabulary has. What transformers 4 and 5 read
differently (docs/numerics.md) is left out.
"""
import json

NAMES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
TOKENS = ["<t0>", "<t1>", "<t0><t1>", "the", " of ", "  ", "1", "\u00e9t\u00e9", "<|begin_of_text|>"]
WORDS = ["the ", " of", " of ", "other ", "1999", " ", "  ", "\n", "\t", "caf\u00e9 ", "\u00e9t\u00e9", "<", "t0>", "a"]


def make_texts(random, n):
    return ["", *("".join(random.choice(TOKENS if random.random() < 0.4 else WORDS) for _ in range(random.randint(1, 9)))
                  for _ in range(n))]


class Maker:
    """Generates the files of one directory. A token has the same flags in every file."""

    def __init__(self, random):
        self.random = random
        flags = ["single_word", "lstrip", "rstrip", "normalized", "special"]
        self.flags = {text: {flag: self.often(0.3) for flag in flags if self.often(0.8)} for text in TOKENS}

    def often(self, share):
        return self.random.random() < share

    def some(self, most):
        return self.random.sample(TOKENS, self.random.randint(0, most))

    def token(self, **more):
        text = self.random.choice(TOKENS)
        return {"content": text, **self.flags[text], **more} if self.often(0.3) else text

    def names(self, more, **typed):
        return {name: None if self.often(0.2) else self.token(**typed) for name in [*NAMES, *more] if self.often(0.4)}

    def config(self):
        config = self.names(["image_token", "turn_token"], __type="AddedToken")
        for key in ("extra_special_tokens", "additional_special_tokens"):
            if self.often(0.3):
                config[key] = [self.token(__type="AddedToken") for _ in range(self.random.randint(0, 3))]
        if self.often(0.15):
            config["extra_special_tokens"] = {f"tool{i}": self.token(__type="AddedToken") for i in range(2)}
        if self.often(0.4):
            ids = self.random.sample(range(5000), 9)
            config["added_tokens_decoder"] = {str(i): {"content": t, **self.flags[t]} for i, t in zip(ids, self.some(5))}
        for key, values in {"split_special_tokens": [True, False], "add_bos_token": [True, False],
                            "add_eos_token": [True, False], "add_prefix_space": [True, False],
                            "clean_up_tokenization_spaces": [True, False], "legacy": [True, False],
                            "model_max_length": [3, int(1e30), None], "padding_side": ["left", "right"],
                            "tokenizer_class": ["PreTrainedTokenizerFast", "TokenizersBackend", "LlamaTokenizerFast",
                                                "LlamaTokenizer", "NoSuchTokenizer"]}.items():
            if self.often(0.3):
                config[key] = self.random.choice(values)
        items = list(config.items())
        self.random.shuffle(items)
        return dict(items)

    def change(self, tokenizer):
        """Changes parts of tokenizer.json that readers may override."""
        if self.often(0.2):
            tokenizer["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
        if self.often(0.2):
            tokenizer["padding"] = {"strategy": {"Fixed": 40}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0,
                                    "pad_type_id": 0, "pad_token": self.random.choice(TOKENS)}
        if self.often(0.3):
            tokenizer["post_processor"] = None
        return tokenizer

    def write(self, directory, tokenizer):
        files = {"tokenizer.json": self.change(tokenizer), "config.json": {"model_type": "llama"}}
        if self.often(0.9):
            files["tokenizer_config.json"] = self.config()
        if self.often(0.4):
            files["special_tokens_map.json"] = {**self.names(["image_token"]), "additional_special_tokens": self.some(3)}
        elif self.often(0.3):
            files["added_tokens.json"] = {text: 9000 + i for i, text in enumerate(["<t2>", "<t3>"])}
        for name, document in files.items():
            (directory / name).write_text(json.dumps(document))
