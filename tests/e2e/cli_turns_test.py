"""`pilotfish chat` with lines from a pipe: answers, commands, the cache that is kept, the context that is full."""

import base64
import json
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import tiny_llama  # noqa: E402
from cli_case import Case, main  # noqa: E402
from command_line import QUICKLY, read_some  # noqa: E402

TEMPLATE = """{%- for m in messages %}
{{- '[' + m.role + '] ' + m.content }}
{% endfor %}
{%- if add_generation_prompt %}[assistant] {% endif %}
"""
COUNTS = re.compile(r"prefix cache: (\d+) of (\d+) sequences began with (\d+) of (\d+) prompt tokens in it; "
                    r"passes computed (\d+) rows")
N = 12
LINES = ["the thin other", "one more\u00e9", "and in the end"]
STATS = re.compile(r"last answer: (\d+) prompt tokens \((\d+) reused from the cache, (\d+) computed\) in [\d.]+ ms, (\d+) new "
                   r"tokens in [\d.]+ ms \([\d.-]+ tokens/s\)")


class Turns(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.target / "chat_template.jinja").write_text(TEMPLATE)

    def chat(self, lines, *arguments, code=0, **options):
        text = "".join(line + "\n" for line in lines).encode()
        result = self.pilotfish.run("chat", "-m", self.target, "-n", N, *arguments, stdin=text, **options)
        self.assertEqual(result.code, code, result.err)
        return result

    def file(self, value):
        path = self.root / "messages.json"
        path.write_text(json.dumps(value))
        return path

    def one_by_one(self, lines, *arguments, system=None):
        """The same turns by generate --chat: the messages, and each request's document."""
        messages, documents = [{"role": "system", "content": system}] if system else [], []
        for line in lines:
            messages.append({"role": "user", "content": line})
            documents.append(self.run_json("generate", "-m", self.target, "-n", N, *arguments, "--chat", self.file(messages)))
            messages.append({"role": "assistant", "content": documents[-1]["text"]})
        return messages, documents

    def shown(self, documents):
        texts = [base64.b64decode(d["text_base64"]) if "text_base64" in d else d["text"].encode() for d in documents]
        return b"".join(text if text.endswith(b"\n") else text + b"\n" for text in texts)

    def test_answers_are_those_of_generate_with_any_drafter(self):
        _, documents = self.one_by_one(LINES)
        expected = self.shown(documents)
        self.assertEqual(self.chat(LINES).out, expected)
        self.assertEqual(self.chat(LINES).err, "")
        self.assertEqual(self.chat(LINES, "--drafter", "ngram").out, expected)
        self.assertEqual(self.chat(LINES, "-d", self.draft).out, expected)
        with self.pilotfish.serve("worker", self.draft, self.socket("worker")) as worker:
            self.assertEqual(self.chat(LINES, "--draft-worker", worker.address).out, expected)
        with self.pilotfish.serve("verifier", self.target, self.socket("verifier")) as verifier:
            text = "".join(line + "\n" for line in LINES).encode()
            result = self.run_ok("chat", "--verifier", verifier.address, "-d", self.draft, "-n", N, "--chat-template",
                                 self.target / "chat_template.jinja", stdin=text)
            self.assertEqual(result.out, expected)
        sampled = ("--temperature", "0.8", "--seed", "5")
        _, documents = self.one_by_one(LINES, *sampled)
        self.assertEqual(self.chat(LINES, *sampled).out, self.shown(documents))

    def test_only_what_the_cache_does_not_have_is_computed(self):
        _, documents = self.one_by_one(LINES)
        stats = [line for text in LINES for line in (text, "/stats")]
        for drafter in ((), ("--drafter", "ngram"), ("-d", self.draft)):
            found = STATS.findall(self.chat(stats, *drafter).err)
            self.assertEqual(len(found), len(LINES))
            held = []
            for document, figures in zip(documents, found):
                prompt, shared = document["prompt_tokens"], 0
                while shared < min(len(held), len(prompt) - 1) and held[shared] == prompt[shared]:
                    shared += 1
                self.assertEqual([*map(int, figures)], [len(prompt), shared, len(prompt) - shared, len(document["tokens"])])
                self.assertTrue(not held or shared > 20, shared)
                held = prompt + document["tokens"][:-1]

    def counts(self, server):
        """Of a worker or verifier, which is ended: sequences that reused something, all; prompt tokens reused, all; rows."""
        self.assertEqual(server.end(), 0)
        return tuple(map(int, COUNTS.search(server.err).groups()))

    def test_in_a_chat_of_ten_turns_servers_read_what_is_new_whether_sequences_are_kept_or_closed(self):
        lines, k = [f"{LINES[i % 3]} {i}" for i in range(10)], 4
        _, documents = self.one_by_one(lines)
        prompts = [len(d["prompt_tokens"]) for d in documents]
        most = prompts[-1] + len(lines) * (k + 2)   # of each answer the last tokens are not in the cache
        drafting = ("--draft-len", str(k))
        with self.pilotfish.serve("worker", self.draft, self.socket("kept")) as worker:
            self.assertEqual(self.chat(lines, "--draft-worker", worker.address, *drafting).out, self.shown(documents))
            reusing, opened, reused, tokens, rows = self.counts(worker)
        self.assertEqual((reusing, opened), (9, 10))
        self.assertGreaterEqual(reused, tokens - most)
        self.assertLess(rows, most + len(lines) * 2 * (N + 1) * k)
        for role, model, here in (("worker", self.draft, lambda a: ("-m", self.target, "--draft-worker", a, *drafting)),
                                  ("verifier", self.target, lambda a: ("--verifier", a, "-d", self.draft))):
            with self.pilotfish.serve(role, model, self.socket("closed")) as server:
                for document in documents:
                    prompt = ",".join(map(str, document["prompt_tokens"]))
                    again = self.run_json("generate", *here(server.address), "-n", N, "--tokens", prompt)
                    self.assertEqual(again["tokens"], document["tokens"])
                reusing, opened, reused, tokens, rows = self.counts(server)
            self.assertEqual((reusing, opened), (9, 10), role)
            self.assertGreaterEqual(reused, tokens - most, role)
            self.assertLess(rows, most + len(lines) * 2 * (N + 1) * 16, role)

    def test_without_a_prefix_cache_every_prompt_is_read(self):
        _, documents = self.one_by_one(LINES)
        with self.pilotfish.serve("worker", self.draft, self.socket("off"), "--prefix-cache", "off") as worker:
            for document in documents:
                prompt = ",".join(map(str, document["prompt_tokens"]))
                again = self.run_json("generate", "-m", self.target, "--draft-worker", worker.address, "-n", N, "--tokens", prompt)
                self.assertEqual(again["tokens"], document["tokens"])
            reusing, opened, reused, tokens, _ = self.counts(worker)
        self.assertEqual((reusing, opened, reused), (0, 3, 0))
        self.assertEqual(tokens, sum(len(d["prompt_tokens"]) for d in documents))

    def test_the_figures_name_the_acceptance_of_a_drafter_and_all_answers(self):
        err = self.chat([LINES[0], LINES[1], "/stats"], "--drafter", "ngram").err
        self.assertIn("speculation: ", err)
        self.assertRegex(err, rf"all answers: \d+ prompt tokens .* {2 * N} new tokens")
        self.assertRegex(err, r"context: \d+ of 2048 tokens in 4 messages, seed \d+")
        self.assertIn("no answer yet", self.chat(["/stats"]).err)

    def test_the_oldest_turns_are_dropped_where_the_context_is_full(self):
        lines = [f"{i} the thin other in the end" for i in range(8)]
        result = self.chat([*lines, f"/save {self.root}/kept.json"], "--context", "260", "--system", "be thin")
        self.assertRegex(result.err, r"the context of 260 tokens is full: the oldest \d+ messages were dropped")
        kept = json.loads((self.root / "kept.json").read_text())
        self.assertEqual(kept[0], {"role": "system", "content": "be thin"})
        self.assertEqual(kept[1]["role"], "user")
        self.assertLess(len(kept), 1 + 2 * len(lines))
        self.assertEqual([m["content"] for m in kept[1::2]], lines[-len(kept[1::2]):])
        last = self.run_json("generate", "-m", self.target, "-n", N, "--chat", self.file(kept[:-1]))
        self.assertEqual(kept[-1]["content"], last["text"])
        self.assertTrue(result.out.endswith(self.shown([last])))

    def test_a_turn_that_never_fits_is_refused_and_the_rest_stays(self):
        long = "the " * 400
        result = self.chat([LINES[0], long, f"/save {self.root}/kept.json", LINES[1]], "--context", "300", code=1)
        self.assertRegex(result.err, r"the last turn alone has \d+ tokens in the template, the context has 300")
        messages, documents = self.one_by_one(LINES[:2])
        self.assertEqual(result.out, self.shown(documents))
        self.assertEqual(json.loads((self.root / "kept.json").read_text()), messages[:2])

    def test_an_answer_ends_where_the_context_does(self):
        result = self.pilotfish.run("chat", "-m", self.target, "--ignore-eos", "--context", "100", stdin=b"the\n/stats\n")
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("the answer was cut: the context of 100 tokens is full", result.err)
        n_prompt, _, _, n_new = map(int, STATS.search(result.err).groups())
        self.assertEqual(n_prompt + n_new, 100)

    def test_saved_messages_are_loaded_and_gone_on_with(self):
        messages, documents = self.one_by_one(LINES)
        path = self.root / "saved.json"
        self.chat([*LINES[:2], f"/save {path}"])
        self.assertEqual(json.loads(path.read_text()), messages[:4])
        result = self.chat([f"/load {path}", LINES[2]])
        self.assertEqual(result.out, self.shown(documents[2:]))
        path.write_text(json.dumps({"messages": messages[:5], "tools": [], "add_generation_prompt": False}))
        result = self.chat([f"/load {path}", f"/save {path}"])   # the last message waits for its answer
        self.assertEqual(result.out, self.shown(documents[2:]))
        self.assertEqual(json.loads(path.read_text()), {"messages": messages, "tools": []})

    def test_a_file_that_is_no_conversation_is_refused_and_nothing_changes(self):
        _, documents = self.one_by_one(LINES[:2])
        for value in ("[", "5", '{"a": 1}', '[{"content": "x"}]', "[1]"):
            path = self.root / "bad.json"
            path.write_text(value)
            result = self.chat([LINES[0], f"/load {path}", LINES[1]], code=1)
            self.assertIn("bad.json", result.err)
            self.assertEqual(result.out, self.shown(documents))
        self.assertIn("cannot be opened", self.chat([f"/load {self.root}/none"], code=1).err)
        self.assertIn("cannot be written", self.chat([f"/save {self.root}/none/x"], code=1).err)

    def test_the_system_message_and_a_reset(self):
        _, plain = self.one_by_one(LINES[:1])
        _, told = self.one_by_one(LINES[:1], system="be thin")
        self.assertNotEqual(plain[0]["text"], told[0]["text"])
        self.assertEqual(self.chat(LINES[:1], "--system", "be thin").out, self.shown(told))
        result = self.chat([LINES[1], "/system be thin", "/reset", LINES[0], "/reset", "/system", LINES[0]])
        self.assertTrue(result.out.endswith(self.shown(told + plain)))

    def test_commands_are_listed_and_unknown_ones_are_named(self):
        err = self.chat(["/help"]).err
        for word in ("/help", "/reset", "/system", "/save", "/load", "/stats", "/quit"):
            self.assertIn(word, err)
        for line, sentence in (("/nothing", 'there is no command "/nothing"'), ("/save", "/save needs a FILE"),
                               ("/load  ", "/load needs a FILE"), ("/stats now", "/stats takes nothing"),
                               ("/", 'there is no command "/"')):
            result = self.chat([line], code=1)
            self.assertIn(sentence, result.err)
            self.assertEqual(result.err.count("\n"), 1)
            self.assertFalse(result.out)
        self.assertFalse(self.chat(["/quit", LINES[0]]).out)
        _, documents = self.one_by_one(["/the thin other"])
        self.assertEqual(self.chat(["//the thin other"]).out, self.shown(documents))

    def test_lines_may_be_blank_end_as_in_dos_or_not_at_all_and_hold_any_bytes(self):
        _, documents = self.one_by_one([LINES[0], "a\ufffdb\0c"])
        text = b"\n  \t\n" + LINES[0].encode() + b"\r\n" + b"a\xffb\0c"
        result = self.run_ok("chat", "-m", self.target, "-n", N, stdin=text)
        self.assertEqual(result.out, self.shown(documents))
        self.assertFalse(self.run_ok("chat", "-m", self.target).out)

    def test_an_answer_ends_at_the_token_that_ends_a_message_of_the_template(self):
        long = self.run_json("generate", "-m", self.target, "-n", 60, "--ignore-eos", "--chat",
                             self.file([{"role": "user", "content": LINES[0]}]))
        model = tiny_llama.make(self.root / "ending", context=2048)
        tokenizer = json.loads((model / "tokenizer.json").read_text())
        texts = {i: text for text, i in tokenizer["model"]["vocab"].items()}
        said = TEMPLATE + LINES[0] + "system" + "user" + "pilotfish"
        at = next(i for i, t in enumerate(long["tokens"]) if i > 2 and t not in long["tokens"][:i] and
                  len(texts[t]) == 1 and "!" <= texts[t] <= "~" and texts[t] not in said)
        end = long["tokens"][at]
        tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": end, "content": texts[end]})
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        (model / "chat_template.jinja").write_text(TEMPLATE.replace(
            "+ m.content", f"+ m.content + ('{texts[end]}' if m.role == 'assistant' else '')"))
        for arguments, n in (((), at + 1), (("--ignore-eos",), 60)):
            result = self.run_ok("chat", "-m", model, "-n", 60, *arguments, stdin=f"{LINES[0]}\n/stats\n".encode())
            self.assertEqual(int(STATS.search(result.err).group(4)), n)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "eos_token_id": [1, end]}))
        (model / "chat_template.jinja").write_text(TEMPLATE)   # a list of ends says the same
        result = self.run_ok("chat", "-m", model, "-n", 60, stdin=f"{LINES[0]}\n/stats\n".encode())
        self.assertEqual(int(STATS.search(result.err).group(4)), at + 1)

    def test_a_message_that_the_template_refuses_is_taken_back(self):
        path = self.root / "strict.jinja"
        path.write_text("{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('not ' + m.content) }}{% endif %}"
                        "{% endfor %}" + TEMPLATE)
        _, documents = self.one_by_one(LINES[:2])
        result = self.chat([LINES[0], "no", LINES[1]], "--chat-template", path, code=1)
        self.assertIn("refuses its input: not no", result.err)
        self.assertEqual(result.out, self.shown(documents))

    def test_a_model_without_a_template_needs_one(self):
        text = self.assert_fails("chat", "-m", self.draft, stdin=b"a\n", saying=["no chat template", "--chat-template FILE"])
        self.assertIn(str(self.draft), text)
        self.assert_fails("chat", "-m", self.draft, "--chat-template", self.root / "none", saying=["none"])
        path = self.root / "wrong.jinja"
        path.write_text("{% if %}")
        self.assert_fails("chat", "-m", self.draft, "--chat-template", path, saying=["wrong.jinja, line 1"])
        _, documents = self.one_by_one(LINES[:1])
        result = self.chat(LINES[:1], "--chat-template", self.target / "chat_template.jinja")
        self.assertEqual(result.out, self.shown(documents))

    def test_misuse_is_said(self):
        self.assert_fails("chat", code=2, saying=["-m MODEL"])
        self.assert_fails("chat", "-m", self.target, "-n", "0", code=2)
        self.assert_fails("chat", "-m", self.target, "--method", "greedy", "--temperature", "1", code=2)

    def test_ctrl_c_ends_a_chat_whose_lines_come_from_a_pipe(self):
        process = subprocess.Popen([self.pilotfish.path, "chat", "-m", self.target, "--ignore-eos", "--simulate-step-ms", "20"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=self.pilotfish.environment)
        process.stdin.write(b"the thin other\nin\n")
        process.stdin.flush()
        self.assertTrue(read_some(process.stdout, QUICKLY))
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=QUICKLY)
        self.assertEqual(process.returncode, 130, err)
        self.assertTrue(out.endswith(b"\n"))


if __name__ == "__main__":
    main()
