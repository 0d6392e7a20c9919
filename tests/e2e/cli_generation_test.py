"""`tokenize`, `detokenize`, and `generate` in one process."""

import base64
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import tiny_llama  # noqa: E402
from cli_case import GREEN, PROMPT, REPLACEMENT, Case, without_colours, main  # noqa: E402
from command_line import QUICKLY  # noqa: E402


class Tokens(Case):
    def test_penalties_and_biases_are_obeyed_with_and_without_a_draft(self):
        rules = {"ban": ["--logit-bias"], "repetition": ["--repetition-penalty", "1.8"], "counts": ["--frequency-penalty", "1.5", "--presence-penalty", "0.5"]}
        plain = self.generate("-n", "40", "--ignore-eos")["tokens"]
        rules["ban"].append(f"{plain[3]}=-inf,5=0.25")
        for name, options in rules.items():
            with self.subTest(name):
                text = self.generate("-n", "40", "--ignore-eos", *options)["tokens"]
                self.assertNotEqual(text, plain)
                drafted = self.generate("-n", "40", "--ignore-eos", "-d", self.draft, "--draft-len", "4", *options)
                self.assertEqual(drafted["tokens"], text)
                if name == "ban":
                    self.assertNotIn(plain[3], text)
        for option, value, says in (("--logit-bias", "5", "expected ID=BIAS"), ("--logit-bias", "x=1", "expected ID=BIAS"), ("--logit-bias", "1=nan", "expected ID=BIAS"),
                                    ("--frequency-penalty", "3", "from -2 to 2"), ("--repetition-penalty", "0", "above 0")):
            self.assert_fails("generate", "-m", self.target, "-p", "the", option, value, code=2, saying=[option, says])
        self.assert_fails("generate", "-m", self.target, "-p", "the", "--logit-bias", "99999999=1", saying=["logit bias 0 is of token 99999999"])

    def test_any_bytes_round_trip(self):
        for data in [b"", b"the other thin\n\n  in", "caf\u00e9 \U0001f41f \u4e2d".encode(), bytes(range(256)), b"\xff\xc3"]:
            with self.subTest(data):
                ids = self.run_ok("tokenize", "-m", self.target, stdin=data).out.decode().strip()
                self.assertTrue(ids.startswith("0"), "the tokenizer's <|begin|> is there by default")
                bare = self.run_ok("tokenize", "-m", self.target, "--no-special", stdin=data).out.decode().strip()
                self.assertEqual(self.run_ok("detokenize", "-m", self.target, "--tokens", bare).out, data)

    def test_an_argument_equals_the_same_text_on_stdin(self):
        argument = self.run_json("tokenize", "-m", self.target, "-p", PROMPT)
        stdin = self.run_json("tokenize", "-m", self.target, stdin=PROMPT.encode())
        self.assertEqual(argument, stdin)
        self.assertEqual(list(argument), ["tokens"])

    def test_special_tokens_are_shown_and_invalid_utf8_is_also_given_as_base64(self):
        ids = self.run_ok("tokenize", "-m", self.target, "--no-special", stdin=b"<|end|>\xff").out.decode().strip()
        self.assertEqual(self.run_ok("detokenize", "-m", self.target, "--tokens", ids).out, b"<|end|>\xff")
        document = self.run_json("detokenize", "-m", self.target, "--tokens", ids)
        self.assertEqual(document["text"], "<|end|>" + REPLACEMENT)
        self.assertEqual(base64.b64decode(document["text_base64"]), b"<|end|>\xff")
        self.assertNotIn("text_base64", self.run_json("detokenize", "-m", self.target, "--tokens", "0,1"))

    def test_an_unknown_id_is_named(self):
        self.assert_fails("detokenize", "-m", self.target, "--tokens", "5,100000", saying=["100000"])

    def test_a_byte_without_a_token_is_named(self):
        model = self.root / "poor"
        shutil.copytree(self.target, model)
        document = json.loads((model / "tokenizer.json").read_text())
        del document["model"]["vocab"]["x"]
        (model / "tokenizer.json").write_text(json.dumps(document))
        for arguments in [["tokenize"], ["generate"]]:
            self.assert_fails(*arguments, "-m", model, "-p", "a x", saying=["3 bytes", "lacks a token"])

    def test_a_slow_stdin_is_waited_for_and_ctrl_c_ends_the_wait(self):
        for number, code in [(None, 0), (signal.SIGINT, 130)]:
            read_end, write_end = os.pipe()
            os.set_blocking(read_end, False)   # as a parent that shares it may have left it
            process = subprocess.Popen([self.pilotfish.path, "tokenize", "-m", self.target], stdin=read_end,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.pilotfish.environment)
            os.close(read_end)
            os.write(write_end, b"the ")
            time.sleep(0.2)
            if number:
                process.send_signal(number)
            else:
                os.write(write_end, b"other")
                os.close(write_end)
            out, err = process.communicate(timeout=QUICKLY)
            self.assertEqual(process.returncode, code, err)
            self.assertEqual(out, b"" if number else self.run_ok("tokenize", "-m", self.target, "-p", "the other").out)
            if number:
                os.close(write_end)


class Generation(Case):
    def test_the_json_document_has_the_fields_of_the_contract(self):
        document = self.generate("-n", "20")
        self.assertEqual(len(document["tokens"]), 20)
        self.assertEqual(document["prompt_tokens"], self.run_json("tokenize", "-m", self.target, "-p", PROMPT)["tokens"])
        self.assertEqual(document["finish_reason"], "length")
        self.assertIsInstance(document["seed"], int)
        self.assertEqual(set(document["timing"]) & {"prefill_ms", "decode_ms", "tokens_per_s", "ttft_ms"},
                         {"prefill_ms", "decode_ms", "tokens_per_s", "ttft_ms"})
        self.assertNotIn("speculation", document)
        self.assertIsNone(self.generate("-n", "1")["timing"]["tokens_per_s"])

    def test_stdout_has_the_bytes_of_the_text_and_a_newline(self):
        document = self.generate("-n", "40")
        data = base64.b64decode(document["text_base64"]) if "text_base64" in document else document["text"].encode()
        result = self.run_ok("generate", "-m", self.target, "-p", PROMPT, "-n", "40")
        self.assertEqual(result.out, data if data.endswith(b"\n") else data + b"\n")
        self.assertIn("tokens/s", result.err)
        slow = self.run_ok("generate", "-m", self.target, "-p", PROMPT, "-n", "2", "--ignore-eos", "--simulate-step-ms", "1100")
        self.assertRegex(slow.err, r"\(0\.\d{3} tokens/s\)")

    def test_file_stdin_and_ids_give_the_same_prompt(self):
        path = self.root / "prompt.txt"
        path.write_text(PROMPT)
        expected = self.generate("-n", "8")
        ids = ",".join(map(str, expected["prompt_tokens"]))
        for prompt, stdin in [(("-f", path), b""), (("-f", "-"), PROMPT.encode()), (("-f", "/dev/stdin"), PROMPT.encode()),
                              (("--tokens", ids), b"")]:
            self.assertEqual(self.generate("-n", "8", prompt=prompt, stdin=stdin)["tokens"], expected["tokens"])

    def test_a_stop_text_ends_the_text_before_it_and_keeps_the_tokens(self):
        whole = self.generate("-n", "40", "--seed", "1", "--temperature", "1", "--top-k", "20")
        data = base64.b64decode(whole["text_base64"]) if "text_base64" in whole else whole["text"].encode()
        printable = [i for i in range(3, len(data) - 3) if data[i:i + 2].isascii() and b"\0" not in data[i:i + 2]]
        self.assertTrue(printable, "the random text has no two ASCII characters in a row")
        stop = data[printable[0]:printable[0] + 2]
        cut = self.generate("-n", "40", "--seed", "1", "--temperature", "1", "--top-k", "20", "--stop", "no such text",
                            "--stop", stop.decode())
        expected = data[:data.index(stop)]
        got = base64.b64decode(cut["text_base64"]) if "text_base64" in cut else cut["text"].encode()
        self.assertEqual(got, expected)
        self.assertEqual(cut["finish_reason"], "stop")
        self.assertLess(len(cut["tokens"]), 40)
        self.assertEqual(cut["tokens"], whole["tokens"][:len(cut["tokens"])])

    def test_an_eos_token_ends_the_text_unless_ignored(self):
        tokens = self.generate("-n", "12")["tokens"]
        at = next(i for i, token in enumerate(tokens) if i >= 3 and token not in tokens[:i])
        model = self.root / "eos"
        shutil.copytree(self.target, model)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "eos_token_id": tokens[at]}))
        for drafter in [[], ["-d", self.draft, "--draft-len", "3"]]:
            ended = self.generate("-n", "12", *drafter, target=model)
            self.assertEqual(ended["tokens"], tokens[:at + 1])
            self.assertEqual(ended["finish_reason"], "eos")
            going_on = self.generate("-n", "12", "--ignore-eos", *drafter, target=model)
            self.assertEqual(going_on["tokens"], tokens)

    def test_the_largest_seed_is_accepted(self):
        largest = str(2**63 - 1)
        self.assertEqual(self.generate("-n", "2", "--seed", largest)["seed"], 2**63 - 1)
        self.assert_fails("generate", "-m", self.target, "-p", PROMPT, "--seed", largest, "--num-samples", "2", code=2,
                          saying=["--seed"])

    def test_samples_are_lines_with_seeds_that_count_up_and_can_be_repeated(self):
        options = ["-n", "12", "--temperature", "1", "--seed", "7"]
        lines = self.run_ok("generate", "-m", self.target, "-p", PROMPT, *options, "--num-samples", "3", "--json").out
        documents = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual([d["seed"] for d in documents], [7, 8, 9])
        self.assertEqual(len({tuple(d["tokens"]) for d in documents}), 3)
        again = self.generate("-n", "12", "--temperature", "1", "--seed", "8")
        self.assertEqual(again["tokens"], documents[1]["tokens"])

    def test_padding_ids_of_the_embedding_are_sampled_and_have_no_text(self):
        size = tiny_llama.VOCAB_SIZE
        padded = tiny_llama.make(self.root / "padded", vocab_size=2 * size)
        mute = tiny_llama.make(self.root / "mute-padded", vocab_size=2 * size, tokenizer=False)
        ids = ("--tokens", f"0,5,{2 * size - 1}")
        for options in (["-n", "60"], ["-n", "60", "--temperature", "1", "--seed", "5"]):
            document = self.generate(*options, "--ignore-eos", target=padded, prompt=ids)
            self.assertGreaterEqual(max(document["tokens"]), size)
            self.assertEqual(document["tokens"],
                             self.generate(*options, "--ignore-eos", target=mute, prompt=ids)["tokens"])
            shown = ",".join(str(token) for token in document["tokens"] if token > 1)
            text = self.run_ok("detokenize", "-m", padded, "--tokens", shown).out
            self.assertEqual(document["text"], text.decode(errors="replace"))
            for draft in (padded, self.target):  # the second has no such rows, and gives up
                drafted = self.generate(*options, "--ignore-eos", "--method", "greedy" if len(options) == 2 else "coupled",
                                        "-d", draft, target=padded, prompt=("--tokens", "0,5"))
                plain = self.generate(*options, "--ignore-eos", target=padded, prompt=("--tokens", "0,5"))
                self.assertEqual(drafted["tokens"], plain["tokens"])
                self.assertGreater(drafted["speculation"]["rounds"], 0)
        for command in ("generate", "detokenize"):
            self.assert_fails(command, "-m", padded, "--tokens", str(2 * size), saying=[f"from 0 to {2 * size - 1}"])

    def test_a_tiny_top_p_keeps_only_the_best_token(self):
        options = ["-n", "12", "--temperature", "1", "--seed", "5"]
        best = self.generate("-n", "12")["tokens"]
        self.assertEqual(self.generate(*options, "--top-p", "1e-60")["tokens"], best)
        self.assertNotEqual(self.generate(*options)["tokens"], best)
        block = self.generate(*options, "--top-p", "1e-60", "--method", "block", "-d", self.target)
        self.assertEqual(block["tokens"], best)
        self.assertEqual(block["speculation"]["accepted"], block["speculation"]["drafted"])

    def test_log_probabilities_of_each_token_and_of_the_likeliest(self):
        document = self.generate("-n", "8", "--logprobs", "2")
        self.assertEqual([entry["token"] for entry in document["logprobs"]], document["tokens"])
        for entry in document["logprobs"]:
            self.assertEqual([top["token"] for top in entry["top"]][:1], [entry["token"]])  # greedy
            self.assertEqual(entry["top"][0]["logprob"], entry["logprob"])
            self.assertLessEqual(entry["top"][1]["logprob"], entry["logprob"])
            self.assertLess(entry["logprob"], 0)
        logits = self.run_json("logits", "-m", self.target, "--tokens", ",".join(map(str, document["prompt_tokens"])))["logits"]
        expected = max(logits) - math.log(math.fsum(math.exp(logit) for logit in logits))
        self.assertAlmostEqual(document["logprobs"][0]["logprob"], expected, places=3)
        self.assertNotIn("logprobs", self.generate("-n", "8"))
        self.assertEqual(self.generate("-n", "8", "--logprobs", "0")["logprobs"][0]["top"], [])
        shown = self.run_ok("generate", "-m", self.target, "-p", PROMPT, "-n", "8", "--logprobs", "2").out.decode(errors="replace")
        for line, entry in zip(shown.splitlines()[-8:], document["logprobs"]):
            self.assertEqual([json.loads(text) for text in line.split("\t")[1::2]],
                             [entry["text"], *[top["text"] for top in entry["top"]]])

    def test_typical_acceptance_at_its_lowest_threshold_keeps_whatever_is_drafted(self):
        options = ["-n", "24", "--ignore-eos", "--temperature", "1", "--seed", "5", "-d", self.draft, "--draft-len", "4"]
        typical = self.generate(*options, "--method", "typical", "--typical-epsilon", "1e-30")["speculation"]
        self.assertEqual(typical["accepted"], typical["drafted"])
        self.assertNotEqual(self.generate(*options)["speculation"]["acceptance_rate"], 1)

    def test_a_drawn_seed_is_reported_and_repeats_the_text(self):
        drawn = self.generate("-n", "12", "--temperature", "1")
        self.assertEqual(self.generate("-n", "12", "--temperature", "1", "--seed", drawn["seed"])["tokens"],
                         drawn["tokens"])
        self.assertLess(drawn["seed"], 2**53)  # where others' JSON has doubles for numbers

    def test_without_a_tokenizer_ids_are_enough(self):
        model = tiny_llama.make(self.root / "mute", tokenizer=False, context=2048)
        ids = ("--tokens", "0,5,6")
        document = self.generate("-n", "6", target=model, prompt=ids)
        self.assertIsNone(document["text"])
        plain = self.run_ok("generate", "-m", model, *ids, "-n", "6").out.decode()
        self.assertEqual(plain, ",".join(map(str, document["tokens"])) + "\n")
        self.assert_fails("generate", "-m", model, "-p", "a", saying=["tokenizer"])

    def test_a_request_that_cannot_run_is_one_sentence(self):
        model = ["-m", self.target]
        self.assert_fails("generate", *model, "--tokens", "1,320", saying=["320"])
        self.assert_fails("generate", *model, "--tokens", "", saying=["empty"])
        self.assert_fails("generate", *model, "--context", "4", "--tokens", "1,2,3,4,5", saying=["5", "4"])
        self.assert_fails("generate", *model, "--context", "1", "--tokens", "1", saying=["context is 1, expected at least 2"])
        self.assert_fails("generate", *model, "--context", "100000", "-p", "a", saying=["100000"])
        self.assert_fails("generate", *model, "-f", self.root / "nothing.txt", saying=["nothing.txt"])

    def test_draft_tokens_have_their_own_colour(self):
        result = self.run_ok("generate", "-m", self.target, "-d", self.draft, "-p", PROMPT, "-n", "40", "--color", "always")
        plain = self.run_ok("generate", "-m", self.target, "-p", PROMPT, "-n", "40")
        self.assertIn(GREEN, result.out)
        self.assertEqual(without_colours(result.out), plain.out)
        self.assertIn("accepted", result.err)
        self.assertNotIn(b"\x1b", plain.out)

    def test_a_terminal_gets_colours_unless_it_is_dumb_or_they_are_disabled(self):
        for environment, coloured in [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False),
                                      ({"TERM": "dumb"}, False)]:
            with self.subTest(environment):
                screen, terminal = os.openpty()
                try:
                    err = self.run_ok("generate", "-m", self.target, "-d", self.draft, "-p", PROMPT, "-n", "40",
                                      stdout=terminal, environment=environment).err
                    self.assertEqual(GREEN in os.read(screen, 1 << 16), coloured)
                    self.assertNotIn("\x1b", err)   # is no terminal
                finally:
                    os.close(screen)
                    os.close(terminal)

    def test_a_seed_fixes_the_length_of_sampled_proposals(self):
        options = ["-d", self.target, "-n", "160", "--ignore-eos", "--temperature", "1", "--top-k", "2",
                   "--simulate-step-ms", "5"]
        seeded = self.generate(*options, "--seed", "3")["speculation"]
        self.assertEqual(len(seeded["per_position"]), 4)
        for free in (["--seed", "3", "--draft-len", "auto"], ["--seed", "3", "--method", "coupled"], []):
            self.assertGreater(len(self.generate(*options, *free)["speculation"]["per_position"]), 4, free)


if __name__ == "__main__":
    main()
