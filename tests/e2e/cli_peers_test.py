"""Drafters and verifiers here and in other processes: equal texts, and workers that die, stall or are not there."""

import collections
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import tiny_llama  # noqa: E402
from cli_case import GREEN, PROMPT, Case, SlowCase, without_colours, main  # noqa: E402
from command_line import QUICKLY, Server, read_some  # noqa: E402


def frames(line):
    """HTTP/2's, as a server writes them: head and body."""
    with line.makefile("rb") as bytes_in:
        while head := bytes_in.read(9):
            yield head, bytes_in.read(int.from_bytes(head[:3], "big"))


class Line:
    """A way to a server, at a socket of its own."""

    def __init__(self, path, server_path):
        self.server_path = server_path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, server = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
            server.connect(self.server_path)
            threading.Thread(target=self.ask, args=(client, server), daemon=True).start()
            threading.Thread(target=self.answer, args=(server, client), daemon=True).start()

    def ask(self, source, sink):
        while some := source.recv(1 << 16):
            sink.sendall(some)

    answer = ask


class PaddingLine(Line):
    """Each connection's fifth message is padded: which HTTP/2 allows, and gRPC does not read."""

    n_padded = 0

    def answer(self, source, sink):
        n_messages = 0
        for head, body in frames(source):
            n_messages += head[3] == 0
            if head[3] == 0 and n_messages == 5:
                self.n_padded += 1
                head, body = (len(body) + 2).to_bytes(3, "big") + bytes([0, head[4] | 8]) + head[5:], b"\1" + body + b"\0"
            sink.sendall(head + body)


class FullLine(Line):
    """The first call is refused, as by a server with too many calls."""

    n_refused = 0

    def accept(self):
        client = self.listener.accept()[0]
        client.sendall(b"\0\0\0\4\0\0\0\0\0" + b"\0\0\0\4\1\0\0\0\0")   # SETTINGS, theirs acknowledged
        client.recv(24, socket.MSG_WAITALL)
        stream = next(head[5:] for head, _ in frames(client) if head[3] == 1)
        fields = [(b"content-type", b"application/grpc"), (b"grpc-status", b"8"), (b"grpc-message", b"try again")]
        block = b"\x88" + b"".join(bytes([0, len(k)]) + k + bytes([len(v)]) + v for k, v in fields)
        client.sendall(len(block).to_bytes(3, "big") + b"\1\5" + stream + block)
        self.n_refused += 1
        time.sleep(0.05)
        client.close()
        super().accept()


class FloodingLine(Line):
    """The first answer of a stream is said to have 4 GiB, which come as fast as the client's windows let them."""

    def __init__(self, path, server_path):
        self.windows, self.news, self.n_flooded = collections.Counter(), threading.Condition(), 0
        super().__init__(path, server_path)

    def ask(self, source, sink):
        sink.sendall(source.recv(24, socket.MSG_WAITALL))
        for head, body in frames(source):
            if head[3] == 4 and not head[4] & 1:   # SETTINGS: of a stream's window, the last one that is said
                said = [body[i:i + 6] for i in range(0, len(body), 6)]
                self.initial = next((int.from_bytes(s[2:], "big") for s in said if s[:2] == b"\0\4"), 65535)
            if head[3] == 8:   # WINDOW_UPDATE
                with self.news:
                    self.windows[head[5:]] += int.from_bytes(body, "big")
                    self.news.notify()
            sink.sendall(head + body)

    def answer(self, source, sink):
        n_messages = 0
        for head, body in frames(source):
            n_messages += head[3] == 0
            if n_messages == 2:
                with contextlib.suppress(OSError):
                    self.flood(sink, head[5:])
                return
            sink.sendall(head + body)

    def flood(self, sink, stream):
        connection, piece = bytes(4), 16384
        with self.news:
            self.windows[stream] += self.initial
            self.windows[connection] += 65535 - 4096   # what the first answers took
        body = b"\0\xff\xff\xff\xff" + bytes(piece - 5)
        while True:
            with self.news:
                if not self.news.wait_for(lambda: min(self.windows[stream], self.windows[connection]) >= piece, 5):
                    return
                self.windows[stream] -= piece
                self.windows[connection] -= piece
            sink.sendall(piece.to_bytes(3, "big") + b"\0\0" + stream + body)
            self.n_flooded += piece
            body = bytes(piece)


class Lossless(Case):
    def check_figures(self, document, n):
        s = document["speculation"]
        self.assertEqual(len(document["tokens"]), n)
        self.assertIn(1 + s["rounds"] + s["fallback_rounds"] + s["accepted"], (n, n + 1))   # the last round may be cut
        if s["drafted"] == 0:   # a worker that the machine gave no time to: no proposal came
            self.assertEqual((s["rounds"], s["accepted"], s["acceptance_rate"]), (0, 0, None))
            return
        self.assertAlmostEqual(s["acceptance_rate"], s["accepted"] / s["drafted"])
        self.assertAlmostEqual(s["mean_accepted_length"], 1 + s["accepted"] / s["rounds"])
        self.assertTrue(all(0 <= share <= 1 for share in s["per_position"]), s["per_position"])

    def test_greedy_texts_are_equal_in_one_process_and_over_the_wire_either_way_round(self):
        n = 48
        plain = self.generate("-n", n)["tokens"]
        accepted = 0
        with self.pilotfish.serve("worker", self.draft, self.socket("worker")) as worker, \
                self.pilotfish.serve("verifier", self.target, "127.0.0.1:0") as verifier:
            for length in [1, 2, 5, 8, "auto"]:
                for threads in [1, 2]:
                    shared = ["-n", n, "--draft-len", length, "--threads", threads]
                    near = self.generate("-d", self.draft, *shared)
                    drafted_there = self.generate("--draft-worker", worker.address, *shared)
                    judged_there = self.run_json("generate", "--verifier", verifier.address, "-d", self.draft, "-p",
                                                 PROMPT, *shared)
                    for name, document in [("near", near), ("worker", drafted_there), ("verifier", judged_there)]:
                        with self.subTest(name, length=length, threads=threads):
                            self.assertEqual(document["tokens"], plain)
                            self.check_figures(document, n)
                            accepted += document["speculation"]["accepted"]
        self.assertGreater(accepted, 0, "nothing was ever accepted: the texts are equal for want of a proposal")

    def test_a_lookup_needs_no_model_and_changes_no_token(self):
        n = 160
        for drafter in (["ngram"], ["suffix"], ["suffix", "--suffix-corpus", "1M"], ["cascade", "-d", self.draft]):
            lookup = ["--drafter", *drafter]
            for options in [[], ["--temperature", "0.4", "--seed", "5", "--method", "coupled"]]:
                with self.subTest(drafter, options=options):
                    plain = self.generate("-n", n, *[word for word in options if word not in ("--method", "coupled")])
                    document = self.generate("-n", n, *lookup, *options)
                    self.assertEqual(document["tokens"], plain["tokens"])
                    self.check_figures(document, n)
                    self.assertGreater(document["speculation"]["drafted"], 0)
            document = self.generate("-n", n, *lookup, "--draft-len", "3")
            self.assertEqual(len(document["speculation"]["per_position"]), 3)
            if drafter[0] == "cascade":
                continue  # it decides by times
            repeated = self.generate("-n", 40, "--temperature", "0.8", "--seed", "3", *lookup)
            self.assertEqual(self.generate("-n", 40, "--temperature", "0.8", "--seed", "3", *lookup)["tokens"],
                             repeated["tokens"])

    def test_a_corpus_makes_the_second_sample_of_a_text_cheaper(self):
        options = ["-n", 80, "--temperature", "0.05", "--seed", "5", "--num-samples", 3, "--method", "coupled", "--json"]
        command = ["generate", "-m", self.target, "-p", PROMPT, "--drafter", "suffix", "--draft-len", 4, *options]
        rounds = []
        for corpus in ([], ["--suffix-corpus", "1M"]):
            documents = [json.loads(line) for line in self.run_ok(*command, *corpus).out.splitlines()]
            rounds.append([d["speculation"]["rounds"] + d["speculation"]["fallback_rounds"] for d in documents])
        self.assertEqual(rounds[0][0], rounds[1][0])
        self.assertLess(sum(rounds[1][1:]), sum(rounds[0][1:]))

    def test_a_worker_without_a_model_serves_targets_of_every_vocabulary(self):
        other = tiny_llama.make(self.root / "other-ids", seed=4, vocab_size=tiny_llama.VOCAB_SIZE + 200, context=2048)
        repetitive = ["--tokens", ",".join(map(str, [0, *[70, 71, 72, 73, 74] * 8])), "-n", "200", "--ignore-eos"]
        for drafter, *arguments in (["ngram"], ["suffix", "--suffix-corpus", "64k"]):
            with self.pilotfish.serve_lookup(drafter, self.socket(drafter), *arguments) as worker:
                for target in (self.target, other):
                    plain = self.run_json("generate", "-m", target, *repetitive)["tokens"]
                    for options in ([], ["--draft-len", "3"]):
                        result = self.run_ok("generate", "-m", target, "--draft-worker", worker.address, *repetitive, *options, "--json")
                        self.assertEqual(result.json["tokens"], plain)
                        self.assertEqual(result.err, "")
                        self.assertGreater(result.json["speculation"]["accepted"], 0)
                self.assertEqual(worker.end(), 0)
                self.assertEqual(worker.err, "")
        for arguments, word in (([], "a model is needed"), (["--drafter", "ngram", "-m", self.draft], "takes no -m"),
                                (["--drafter", "suffix", "-m", self.draft], "takes no -m"),
                                (["--drafter", "suffix", "--suffix-corpus", "9"], "expected bytes from 65536"),
                                (["--drafter", "suffix", "--suffix-corpus", "4T"], "a number with k, M or G"),
                                (["--drafter", "ngram", "--simulate-token-ms", "2"], "needs -m")):
            self.assert_fails("worker", *arguments, "--listen", self.socket("none"), code=2, saying=[word])

    def test_a_cascade_is_served_by_a_worker_with_a_draft(self):
        options = ["-n", 120, "--draft-len", "4"]
        plain = self.generate("-n", 120)["tokens"]
        with self.pilotfish.serve("worker", self.draft, self.socket("cascade"), "--drafter", "cascade", "--suffix-corpus",
                                  "64k") as worker:
            for _ in range(2):
                document = self.run_json("generate", "-m", self.target, "-p", PROMPT, *options, "--draft-worker",
                                         worker.address)
                self.assertEqual(document["tokens"], plain)
                self.assertGreater(document["speculation"]["accepted"], 0)
            self.assertEqual(worker.end(), 0)
        for command in (["worker", "--drafter", "cascade", "--listen", self.socket("none")],
                        ["generate", "-m", self.target, "-p", "a", "--drafter", "cascade"]):
            self.assert_fails(*command, code=2, saying=["-m MODEL" if command[0] == "worker" else "needs -d DRAFT"])

    def test_a_worker_of_several_drafters_has_the_one_that_is_asked_for(self):
        command = ["generate", "-m", self.target, "-p", PROMPT, "-n", 120, "--draft-len", "4"]
        plain = self.generate("-n", 120)["tokens"]
        offered = ["suffix", "model", "cascade", "ngram"]
        with self.pilotfish.serve("worker", self.draft, self.socket("several"), "--drafter", ",".join(offered)) as worker:
            there = ["--draft-worker", worker.address]
            passes = {}
            for drafter in ([], *(["--drafter", word] for word in offered)):
                with self.subTest(drafter):
                    result = self.run_ok(*command, *there, *drafter, "--json")
                    self.assertEqual((result.json["tokens"], result.err), (plain, ""))
                    self.assertEqual(result.json["speculation"]["drafter"], drafter[1] if drafter else offered[0])
                    passes[drafter[1] if drafter else ""] = result.json["speculation"]["draft_passes"]
            self.assertEqual((passes[""], passes["suffix"], passes["ngram"]), (0, 0, 0))
            self.assertGreater(passes["model"], 0)
            prompts = self.root / "asked.txt"
            prompts.write_text("the the the\nother\n")
            runs = self.run_json("bench", "acceptance", "-m", self.target, *there, "--prompts", prompts, "-n", "24", "--drafter",
                                 ",".join(offered), "--draft-len", "2,3")["runs"]
            self.assertEqual([(r["drafter"], r["draft_len"]) for r in runs], [(d, k) for d in offered for k in (2, 3)])
            self.assertEqual({(r["identical"], r["text_checksum"]) for r in runs}, {(2, runs[0]["text_checksum"])})
            self.assertEqual(worker.end(), 0)
        with self.pilotfish.serve_lookup("ngram,suffix", self.socket("lookups")) as worker:
            self.assert_fails(*command, "--draft-worker", worker.address, "--drafter", "model",
                              saying=["drafter is model, but what is offered is ngram, suffix"])
            self.assertEqual(self.run_json(*command, "--draft-worker", worker.address, "--drafter", "suffix")["tokens"], plain)
        near = self.run_json(*command, "-d", self.draft, "--drafter", ",".join(offered))
        self.assertEqual((near["tokens"], near["speculation"]["draft_passes"]), (plain, 0))
        self.assert_fails("worker", "--drafter", "suffix,model", "--listen", self.socket("none"), code=2, saying=["-m MODEL"])

    def test_clients_of_one_worker_do_not_share_a_corpus(self):
        """The second stream gets as little from the corpus as the first: both have one request, of the same text."""
        command = ["generate", "-m", self.target, "-p", PROMPT, "-n", 80, "--json"]
        with self.pilotfish.serve_lookup("suffix", self.socket("corpora"), "--suffix-corpus", "1M") as worker:
            drafted = [self.run_json(*command[:-1], "--draft-worker", worker.address, "--draft-len", 4)["speculation"]
                       for _ in range(3)]
        near = self.run_json(*command[:-1], "--drafter", "suffix", "--draft-len", 4)["speculation"]
        for each in drafted:
            self.assertLessEqual(each["accepted"], near["accepted"])

    def test_trees_are_proposed_where_rows_cost_nothing_and_leave_the_text_as_it_is(self):
        n = 200
        plain = self.generate("-n", n)["tokens"]
        with self.pilotfish.serve("verifier", self.target, self.socket("slow"), "--simulate-step-ms", "5") as verifier:
            document = self.run_json("generate", "--verifier", verifier.address, "-d", self.draft, "-p", PROMPT, "-n", n,
                                     "--draft-len", "auto")
            chains = self.run_json("generate", "--verifier", verifier.address, "-d", self.draft, "-p", PROMPT, "-n", n,
                                   "--draft-len", 8)
        for each in (document, chains):
            self.assertEqual(each["tokens"], plain)
            self.check_figures(each, n)
        self.assertGreater(document["speculation"]["branches"], 0)
        self.assertEqual(chains["speculation"]["branches"], 0)

    def test_a_verifier_elsewhere_gives_the_same_log_probabilities(self):
        options = ["-p", PROMPT, "-n", 24, "--logprobs", 3, "--repetition-penalty", "1.2"]
        here = self.run_json("generate", "-m", self.target, *options)
        with self.pilotfish.serve("verifier", self.target, self.socket("logprobs")) as verifier:
            there = self.run_json("generate", "--verifier", verifier.address, "-d", self.draft, *options)
        self.assertEqual(there["tokens"], here["tokens"])
        self.assertGreater(there["speculation"]["rounds"], 0)
        self.assertEqual(there["logprobs"], here["logprobs"])

    def test_drafting_ahead_leaves_the_text_as_it_is(self):
        """Whether it hits depends on times: a machine that is loaded may need several texts until there was time for it once."""
        n, here = 60, ["-m", self.target, "--simulate-step-ms", 10]
        sampled = ["--temperature", "0.9", "--seed", "11", "--method", "coupled"]
        plain = {False: self.generate("-n", n)["tokens"], True: self.generate("-n", n, *sampled[:4])["tokens"]}

        def used(way, length, is_sampled):
            document = self.run_json("generate", *way, "-p", PROMPT, "-n", n, "--draft-len", length, *(sampled if is_sampled else []))
            self.assertEqual(document["tokens"], plain[is_sampled])
            self.check_figures(document, n)
            return document["speculation"]["ahead_hits"] + document["speculation"]["ahead_misses"]

        with self.pilotfish.serve("worker", self.draft, self.socket("behind"), "--draft-ahead", "off") as off, \
                self.pilotfish.serve("verifier", self.target, self.socket("judge"), "--simulate-step-ms", 10) as verifier:
            far = ["--verifier", verifier.address, "-d", self.draft, "--draft-ahead"]
            self.assertEqual(used([*here, "--draft-worker", off.address], 4, False) + used([*far, "off"], 4, False), 0)
            n_here = n_far = 0
            for i in range(12):
                with self.pilotfish.serve("worker", self.draft, self.socket(f"ahead{i}"), "--draft-ahead", "on") as worker:
                    for is_sampled in (False, True):
                        length = 4 if i % 2 == 0 else "auto"
                        n_here += used([*here, "--draft-worker", worker.address], length, is_sampled)
                        n_far += used([*far, "on"], length, is_sampled)
                if i > 0 and n_here > 0 and n_far > 0:
                    break
            self.assertGreater(n_here, 0)
            self.assertGreater(n_far, 0)

    def test_a_draft_with_a_mask_token_drafts_in_the_passes_that_are_asked_for(self):
        n, draft = 60, self.root / "parallel"
        shutil.copytree(self.draft, draft)
        config = json.loads((draft / "config.json").read_text())
        (draft / "config.json").write_text(json.dumps({**config, "pard_token": 7}))
        plain = self.generate("-n", n)["tokens"]
        with self.pilotfish.serve("worker", draft, self.socket("parallel"), "--draft-passes", "1") as worker:
            here = ["-m", self.target, "-d", draft, "--draft-len", 4, "--draft-passes"]
            for way, passes in (([*here, "1"], 1), ([*here, "2"], 2), ([*here, "k"], 4), ([*here, "auto"], None),
                                (["-m", self.target, "--draft-worker", worker.address, "--draft-len", 4], 1),
                                (["-m", self.target, "-d", draft, "--draft-passes", "1"], 1)):
                with self.subTest(way=way):
                    document = self.run_json("generate", *way, "-p", PROMPT, "-n", n)
                    self.assertEqual(document["tokens"], plain)
                    self.check_figures(document, n)
                    s = document["speculation"]
                    if passes in (1, 2):   # two where a second token is drafted: not in the last round
                        self.assertLessEqual(s["draft_passes"], passes * s["rounds"])
                        self.assertGreater(s["draft_passes"], passes * (s["rounds"] - 2) if s["fallback_rounds"] == 0 else 0)
        for passes in ("1", "2"):
            self.assert_fails("generate", "-m", self.target, "-d", self.draft, "-p", PROMPT, "--draft-passes", passes,
                              saying=["draft_passes", "pard_token"])

    def test_coupled_sampling_is_equal_to_plain_sampling(self):
        options, accepted = ["-n", 40, "--temperature", "0.9", "--top-p", "0.95", "--seed", "11"], 0
        plain = self.generate(*options)["tokens"]
        with self.pilotfish.serve("worker", self.draft, self.socket("coupled")) as worker, \
                self.pilotfish.serve("verifier", self.target, self.socket("judge")) as verifier:
            for way in [["-m", self.target, "-d", self.draft], ["-m", self.target, "--draft-worker", worker.address],
                        ["--verifier", verifier.address, "-d", self.draft]]:
                with self.subTest(way):
                    document = self.run_json("generate", *way, "-p", PROMPT, *options, "--method", "coupled")
                    self.assertEqual(document["tokens"], plain)
                    accepted += document["speculation"]["accepted"]
        self.assertGreater(accepted, 0, "nothing was ever accepted: the texts are equal for want of a proposal")

    def test_rejection_sampling_repeats_with_its_seed_and_accepts(self):
        options = ["-n", 40, "--temperature", "0.8", "--seed", "3", "-d", self.draft]
        document = self.generate(*options)
        self.check_figures(document, 40)
        self.assertGreater(document["speculation"]["accepted"], 0)
        self.assertEqual(self.generate(*options)["tokens"], document["tokens"])

    def test_a_verifier_that_is_started_again_judges_by_another_secret(self):
        texts = []
        for _ in range(2):
            with self.pilotfish.serve("verifier", self.target, self.socket("secret")) as verifier:
                texts.append(self.run_json("generate", "--verifier", verifier.address, "-d", self.draft, "-p", PROMPT,
                                           "-n", 40, "--draft-len", 4, "--temperature", "1", "--seed", "3")["tokens"])
        self.assertNotEqual(*texts)

    def with_end(self, model, name, token):
        """A copy of a model whose texts end at another token."""
        copy = self.root / name
        shutil.copytree(model, copy)
        config = json.loads((copy / "config.json").read_text())
        (copy / "config.json").write_text(json.dumps({**config, "eos_token_id": token}))
        return copy

    def test_a_text_ends_where_the_target_ends_it_with_any_drafter(self):
        tokens = self.generate("-n", 24)["tokens"]
        end = next(t for t in tokens[4:] if tokens.index(t) > 3)
        draft = self.with_end(self.draft, "draft-that-ends", end)
        target = self.with_end(self.target, "target-that-ends", end)
        for model, reason in [(self.target, "length"), (target, "eos")]:
            plain = self.run_json("generate", "-m", model, "-p", PROMPT, "-n", 24)
            self.assertEqual(plain["finish_reason"], reason)
            with self.pilotfish.serve("verifier", model, self.socket("ends")) as verifier:
                for drafter in (self.draft, draft):
                    with self.subTest(reason, drafter=drafter.name):
                        there = self.run_json("generate", "--verifier", verifier.address, "-d", drafter, "-p", PROMPT,
                                              "-n", 24)
                        self.assertEqual((there["tokens"], there["finish_reason"]), (plain["tokens"], reason))

    def test_a_context_bounds_the_sequence_wherever_the_target_is(self):
        with self.pilotfish.serve("verifier", self.target, self.socket("bound")) as verifier:
            for target in (["-m", self.target], ["--verifier", verifier.address]):
                self.assert_fails("generate", *target, "-d", self.draft, "--context", "8", "--tokens",
                                  ",".join(["5"] * 9), "-n", "1", saying=["8"])

    def test_an_option_without_effect_is_a_warning(self):
        here, draft_here = ["--dtype", "int8", "--act", "bf16", "--head", "full"], ["--draft-dtype", "int8", "--draft-act", "bf16"]
        speculation = ["--draft-len", "2", "--method", "coupled"]
        with self.pilotfish.serve("worker", self.draft, self.socket("idle")) as worker, \
                self.pilotfish.serve("verifier", self.target, self.socket("idle-too")) as verifier:
            for way, idle, lacks in [
                (["-m", self.target], [*speculation, *draft_here], ["a drafter"] * 2 + ["-d DRAFT"] * 2),
                (["-m", self.target, "--draft-worker", worker.address], draft_here, ["-d DRAFT"] * 2),
                (["--verifier", verifier.address, "-d", self.draft], here, ["-m MODEL"] * 3),
                (["-m", self.target, "-d", self.draft], [], []),
            ]:
                with self.subTest(way):
                    used = [*here, *draft_here, *speculation] if not idle else []
                    err = self.run_ok("generate", *way, *idle, *used, "-p", PROMPT, "-n", "2").err
                    self.assertEqual([line for line in err.splitlines() if "warning" in line],
                                     [f"pilotfish: warning: {option} has no effect without {what}"
                                      for option, what in zip(idle[::2], lacks)])


class Vocabularies(Case):
    """A draft whose vocabulary is not the target's."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.padded_target = tiny_llama.add_tokens(tiny_llama.make(cls.root / "padded-target"), ["[PAD]"])
        cls.padded_draft = tiny_llama.add_tokens(tiny_llama.make(cls.root / "padded-draft", noise=0.05), ["[PAD]", "[X]"])
        cls.renamed = tiny_llama.make(cls.root / "renamed", noise=0.05)
        tiny_llama.write_tokenizer(cls.renamed, special=["<|start|>", tiny_llama.SPECIAL[1]])
        cls.other = tiny_llama.make(cls.root / "other", seed=5)
        path = cls.other / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        vocabulary = tokenizer["model"]["vocab"]
        texts = [text for text in vocabulary if text not in tiny_llama.SPECIAL]
        vocabulary.update(zip(texts, [vocabulary[text] for text in reversed(texts)]))
        path.write_text(json.dumps(tokenizer))
        cls.n_ids = tiny_llama.VOCAB_SIZE

    def test_a_draft_with_other_ids_drafts_in_the_vocabulary_of_the_target(self):
        """The draft with its ids in another order, those of special tokens apart, is as good as the draft."""
        permuted = self.root / "permuted"
        shutil.copytree(self.draft, permuted)
        first, n = len(tiny_llama.SPECIAL), self.n_ids
        old = [*range(first), *range(n - 1, first - 1, -1)]   # of each id, which it was
        header, data, write = tiny_llama.open_weights(permuted)
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            begin, end = header[name]["data_offsets"]
            size = (end - begin) // n
            data[begin:end] = b"".join(bytes(data[begin + size * i:begin + size * (i + 1)]) for i in old)
        write()
        path = permuted / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        vocabulary = tokenizer["model"]["vocab"]
        new = {i: at for at, i in enumerate(old)}
        vocabulary.update({text: new[i] for text, i in vocabulary.items()})
        path.write_text(json.dumps(tokenizer))
        for sampling in ([], ["--temp", "0.7", "--seed", "3", "--method", "coupled"]):
            shared = ["-m", self.target, "-p", PROMPT, "-n", 60, *sampling]
            options = [*shared, "--draft-len", 4]
            with self.pilotfish.serve("worker", permuted, self.socket("permuted"), "--target-tokenizer", self.target) as worker:
                ordinary = self.run_json("generate", *options, "-d", self.draft)
                for way in (["-d", permuted, "--target-tokenizer", self.target], ["--draft-worker", worker.address]):
                    with self.subTest(way=way, sampling=sampling):
                        document = self.run_json("generate", *options, *way)
                        self.assertEqual(document["tokens"], ordinary["tokens"])
                        s = document["speculation"]
                        self.assertGreater(s["accepted"], 0)
                        if s["fallback_rounds"] == 0:
                            self.assertEqual(s["accepted"], ordinary["speculation"]["accepted"])
        self.assert_fails("generate", "-m", self.target, "-d", permuted, "--target-tokenizer", self.root / "none", "-p", PROMPT,
                          saying=["none"])

    def ways(self, target, draft):
        """The same pair in one process, with a worker, and with a verifier."""
        yield ["-m", target, "-d", draft]
        with self.pilotfish.serve("worker", draft, self.socket("w")) as worker:
            yield ["-m", target, "--draft-worker", worker.address]
        with self.pilotfish.serve("verifier", target, self.socket("v")) as verifier:
            yield ["--verifier", verifier.address, "-d", draft]

    def assert_drafts(self, target, draft, warning, texts):
        """The text is the plain one, greedy and coupled, something is accepted, and one warning says what differs."""
        ids = ["--tokens", ",".join(map(str, [0, 70, 71, 72, 73])), "-n", "40", "--ignore-eos"]
        warm = ["--temp", "0.7", "--seed", "3"]
        for sampling in ([], warm):
            plain = self.run_json("generate", "-m", target, *ids, *sampling)["tokens"]
            method = ["--method", "coupled"] if sampling else []
            for way in self.ways(target, draft):
                with self.subTest(way=way, sampling=sampling):
                    result = self.run_ok("generate", *way, *ids, *sampling, *method, "--json")
                    self.assertEqual(result.json["tokens"], plain)
                    self.assertGreater(result.json["speculation"]["accepted"], 0)
                    self.assertEqual(result.err.count("warning"), 1, result.err)
                    self.assertIn(warning, result.err)
                    if way[0] == "-m" and way[2] == "-d":
                        self.assertIn(texts, result.err)

    def test_a_target_with_an_added_token_is_drafted_for(self):
        self.assert_drafts(self.padded_target, self.draft, f"1 of {self.n_ids + 1} ids differ; the first is {self.n_ids}: ",
                           'no token in the draft, "[PAD]" in the target')

    def test_a_draft_with_added_tokens_drafts_without_them(self):
        self.assert_drafts(self.target, self.padded_draft, f"2 of {self.n_ids + 2} ids differ; the first is {self.n_ids}: ",
                           '"[PAD]" in the draft, no token in the target')

    def test_a_renamed_special_token_is_not_drafted(self):
        self.assert_drafts(self.target, self.renamed, f"1 of {self.n_ids} ids differ; the first is 0: ",
                           '"<|start|>" in the draft, "<|begin|>" in the target')

    def test_a_token_that_the_draft_lacks_may_stand_in_the_prompt(self):
        ids = ["--tokens", f"0,70,{self.n_ids},71,{self.n_ids},72", "-n", "40", "--ignore-eos"]
        plain = self.run_json("generate", "-m", self.padded_target, *ids)["tokens"]
        for way in self.ways(self.padded_target, self.draft):
            with self.subTest(way=way):
                out = self.run_json("generate", *way, *ids)
                self.assertEqual(out["tokens"], plain)
                self.assertGreater(out["speculation"]["drafted"], 0)

    def test_another_tokenizer_is_refused_by_the_share_of_equal_ids(self):
        saying = [" % of their vocabularies, expected at least 90 %", "the first is 2: "]
        self.assert_fails("generate", "-m", self.target, "-d", self.other, "-p", PROMPT, saying=saying)
        expected = self.run_ok("generate", "-m", self.target, "-p", PROMPT, "-n", "20").out
        with self.pilotfish.serve("worker", self.other, self.socket("unfit")) as worker:
            result = self.run_ok("generate", "-m", self.target, "--draft-worker", worker.address, "-p", PROMPT, "-n", "20")
            self.assertEqual(result.out, expected)
            self.assertEqual(result.err.count("warning"), 1, result.err)
            for words in [*saying, "decoding goes on without it"]:
                self.assertIn(words, result.err)


class Peers(SlowCase):
    def test_a_verifier_that_dies_for_good_leaves_the_tokens_so_far_in_a_closed_document(self):
        expected = self.generate("-n", 100)["tokens"]
        verifier = self.pilotfish.serve("verifier", self.target, self.socket("dies"), "--simulate-step-ms", 400)
        process = self.pilotfish.start("generate", "--verifier", verifier.address, "-d", self.draft, "-p", PROMPT, "-n", 100,
                                       "--draft-len", 1, "--json")
        time.sleep(4)
        verifier.process.kill()
        verifier.end()
        out, err = process.communicate(timeout=QUICKLY)
        self.assertEqual(process.returncode, 1, err)
        document = json.loads(out)
        made = document["tokens"]
        self.assertEqual(document["finish_reason"], "error")
        self.assertTrue(0 < len(made) < 100, len(made))
        self.assertEqual(made, expected[:len(made)])
        self.assertIn(b"the verifier is gone", err)

    def test_a_verifier_that_dies_before_the_first_token_leaves_a_closed_document_without_tokens(self):
        ids = self.run_json("tokenize", "-m", self.target, "-p", PROMPT)["tokens"]
        for options in [], ["--num-samples", "2"]:
            verifier = self.pilotfish.serve("verifier", self.target, self.socket(f"dies-{len(options)}"),
                                            "--simulate-step-ms", 40000)
            process = self.pilotfish.start("generate", "--verifier", verifier.address, "-d", self.draft, "-p", PROMPT, "-n", 10,
                                           "--json", *options)
            time.sleep(4)   # the request has begun, and waits for its first token
            verifier.process.kill()
            verifier.end()
            out, err = process.communicate(timeout=QUICKLY)
            self.assertEqual(process.returncode, 1, err)
            document = json.loads(out)   # of two samples the first: the other was not begun
            self.assertEqual((document["tokens"], document["text"], document["finish_reason"]), ([], "", "error"))
            self.assertEqual(document["prompt_tokens"], ids)
            self.assertIsNone(document["timing"]["tokens_per_s"])
            self.assertIn(b"the verifier is gone", err)

    def test_a_request_that_is_refused_for_what_it_asks_has_no_document(self):
        self.assert_fails("generate", "-m", self.target, "-p", PROMPT, "--context", "2", "-n", "4", "--json", saying=["prompt"])

    def kill_and_replace_worker(self, expected):
        """Seconds from the new worker's readiness to its first accepted token; the whole text must be `expected`."""
        address = self.socket("mortal")
        worker = self.pilotfish.serve("worker", self.draft, address)
        process = self.start_generation(address, "--color", "always", step_ms=20)
        out = b""
        while GREEN not in out:
            out += read_some(process.stdout, QUICKLY)
        worker.process.kill()
        worker.end()
        time.sleep(0.1)
        before = out = out + read_some(process.stdout, QUICKLY)
        with self.pilotfish.serve("worker", self.draft, address) as again:
            while GREEN not in out[len(before):] or time.monotonic() < again.ready_at:
                part = read_some(process.stdout, QUICKLY)
                self.assertTrue(part, "generation was over before the worker was taken up")
                out += part
            taken_up = time.monotonic() - again.ready_at
            rest, err = process.communicate(timeout=QUICKLY)
        out += rest
        out = without_colours(out)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(out, expected)
        self.assertIn(f"warning: the draft worker is gone ({address}: the stream broke (".encode(), err)
        self.assertIn(b"warning: the draft worker is back", err)
        return taken_up

    def test_a_worker_that_is_killed_costs_no_token_and_one_that_returns_is_taken_up_within_a_second(self):
        expected, tries = self.plain_text(), []
        while not tries or (tries[-1] >= 1.0 and len(tries) < 4):   # late for want of a core says nothing
            tries.append(self.kill_and_replace_worker(expected))
        self.assertLess(tries[-1], 1.0, tries)

    def test_a_stopped_worker_causes_no_delay_and_costs_no_token(self):
        expected = self.plain_text()
        with self.pilotfish.serve("worker", self.draft, self.socket("stopped")) as worker:
            process = self.start_generation(worker.address)
            read_some(process.stdout, QUICKLY)
            worker.process.send_signal(signal.SIGSTOP)
            try:
                out, err = process.communicate(timeout=QUICKLY)   # its rounds would fill the worker's socket
            finally:
                process.kill()
                worker.process.send_signal(signal.SIGCONT)
            self.assertEqual(process.returncode, 0, err)
            self.assertTrue(expected.endswith(out), (out, expected))

    def pause_worker(self, expected):
        """Seconds from a worker's going on, after a tenth of one, until a token of it is accepted."""
        with self.pilotfish.serve("worker", self.draft, self.socket("paused")) as worker:
            process = self.start_generation(worker.address, "--color", "always", step_ms=5)
            out = b""
            while GREEN not in out:
                part = read_some(process.stdout, QUICKLY)
                self.assertTrue(part, "generation was over before a token of the worker was accepted")
                out += part
            worker.process.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            out += read_some(process.stdout, QUICKLY)
            before = len(out)
            worker.process.send_signal(signal.SIGCONT)
            since = time.monotonic()
            while GREEN not in out[before:]:
                part = read_some(process.stdout, QUICKLY)
                self.assertTrue(part, "generation was over before the worker was waited for")
                out += part
            took = time.monotonic() - since
            rest, err = process.communicate(timeout=QUICKLY)
            self.assertEqual(process.returncode, 0, err)
            self.assertEqual(without_colours(out + rest), expected)
            return took

    def test_a_worker_that_paused_is_waited_for_again_at_once(self):
        expected, tries = self.plain_text(), []
        while not tries or (tries[-1] >= 0.1 and len(tries) < 4):   # late for want of a core says nothing
            tries.append(self.pause_worker(expected))
        self.assertLess(tries[-1], 0.1, tries)

    def test_no_worker_there_is_a_warning_and_plain_decoding(self):
        result = self.run_ok("generate", "-m", self.target, "--draft-worker", self.socket("unused"), "-p", PROMPT, "-n",
                             "16", "--json")
        self.assertEqual(result.json["tokens"], self.generate("-n", "16")["tokens"])
        self.assertIn("warning", result.err)
        self.assertEqual(result.json["speculation"]["rounds"], 0)

    def test_a_worker_s_address_that_is_a_verifier_s_is_a_warning_but_for_a_bench(self):
        with self.pilotfish.serve("verifier", self.target, self.socket("other")) as verifier:
            draft_worker = ["-m", self.target, "--draft-worker", verifier.address]
            result = self.run_ok("generate", *draft_worker, "-p", PROMPT, "-n", "16", "--json")
            self.assert_fails("bench", "acceptance", *draft_worker, saying=["not offered there"])
            self.assert_fails("bench", "rpc", "--worker", verifier.address, saying=["not offered there"])
        self.assertEqual(result.json["tokens"], self.generate("-n", "16")["tokens"])
        self.assertIn(f"warning: {verifier.address}: this service is not offered there", result.err)

    def test_a_stream_that_ends_without_a_word_is_opened_again(self):
        plain = self.generate("-n", 60)["tokens"]
        with self.pilotfish.serve("verifier", self.target, self.socket("padded")) as verifier:
            line = PaddingLine(self.root / "line.sock", verifier.address.removeprefix("unix:"))
            document = self.run_json("generate", "--verifier", self.socket("line"), "-d", self.draft, "-p", PROMPT, "-n", 60)
        self.assertEqual(document["tokens"], plain)
        self.assertGreater(line.n_padded, 0)

    def test_a_verifier_that_refuses_the_first_call_is_asked_again(self):
        with self.pilotfish.serve("verifier", self.target, self.socket("judging")) as verifier:
            line = FullLine(self.root / "full.sock", verifier.address.removeprefix("unix:"))
            document = self.run_json("generate", "--verifier", self.socket("full"), "-d", self.draft, "-p", PROMPT, "-n", 10)
        self.assertEqual(len(document["tokens"]), 10)
        self.assertEqual(line.n_refused, 1)

    def test_a_worker_that_sends_without_end_fills_no_memory(self):
        plain = self.run_ok("generate", "-m", self.target, "-p", PROMPT, "-n", 40).out
        with self.pilotfish.serve("worker", self.draft, self.socket("worker")) as worker:
            line = FloodingLine(self.root / "flood.sock", worker.address.removeprefix("unix:"))
            process = self.pilotfish.start("generate", "-m", self.target, "--draft-worker", self.socket("flood"), "-p", PROMPT,
                                           "-n", 40, "--simulate-step-ms", 50, stderr=subprocess.DEVNULL)
            with process.stdout as text:
                self.assertEqual(text.read(), plain)
            process.returncode, usage = os.wait4(process.pid, 0)[1:]
        self.assertEqual(process.returncode, 0)
        self.assertGreater(line.n_flooded, 4 << 20)
        self.assertLess(usage.ru_maxrss << 10, 128 << 20)

    def test_no_verifier_there_is_a_failure(self):
        self.assert_fails("generate", "--verifier", self.socket("unused"), "-d", self.draft, "-p", PROMPT,
                          saying=["unused.sock"])

    def test_a_verifier_runs_on_the_cpu_and_says_that_it_cannot_on_cuda(self):
        with self.pilotfish.serve("verifier", self.target, self.socket("cpu"), "--backend", "cpu") as verifier:
            there = self.run_json("generate", "--verifier", verifier.address, "-d", self.draft, "-p", PROMPT, "-n", 10)
        self.assertEqual(there["tokens"], self.generate("-n", 10)["tokens"])
        serve = ["verifier", "-m", self.target, "--listen", self.socket("cuda"), "--backend"]
        if not self.run_json("info")["cuda"]["devices"]:
            self.assert_fails(*serve, "cuda", saying=["CUDA"])
            self.assert_fails("generate", "-m", self.target, "-p", PROMPT, "--backend", "cuda", saying=["CUDA"])
        self.assert_fails(*serve, "rocm", code=2, saying=["cpu, cuda"])
        self.assertIn(b"--backend NAME", self.run_ok("verifier", "--help").out)

    def test_each_of_the_cpus_that_are_named_gets_a_thread(self):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            self.skipTest("on one CPU every thread is on it")
        for named in (cpus[-1:], cpus[:2]):
            with self.pilotfish.serve("worker", self.draft, self.socket("pinned"), "--cores", ",".join(map(str, named))) as worker:
                tasks = [os.sched_getaffinity(int(task)) for task in os.listdir(f"/proc/{worker.process.pid}/task")]
                self.assertEqual(sorted(min(task) for task in tasks if len(task) == 1), named)
                text = ["generate", "-m", self.target, "--tokens", "5,6", "-n", "8", "--ignore-eos", "--json"]
                run = self.run_json(*text[:-1], "--draft-worker", worker.address, "--cores", str(named[0]))
                self.assertEqual(run["tokens"], self.run_json(*text[:-1])["tokens"])

    def test_an_address_in_use_is_named(self):
        with self.pilotfish.serve("worker", self.draft, "127.0.0.1:0") as worker:
            self.assert_fails("worker", "-m", self.draft, "--listen", worker.address, saying=[worker.address.split(":")[-1]])
        with self.pilotfish.serve("verifier", self.target, self.socket("taken")) as verifier:
            self.assert_fails("verifier", "-m", self.target, "--listen", verifier.address, saying=["taken.sock"])

    def test_a_service_ends_when_it_is_told_to(self):
        self.assertEqual(self.pilotfish.serve("worker", self.draft, self.socket("a")).end(signal.SIGTERM), 0)
        self.assertEqual(self.pilotfish.serve("verifier", self.target, self.socket("b")).end(signal.SIGINT), 130)
        self.assertEqual(self.pilotfish.serve("worker", self.draft, self.socket("c")).end(signal.SIGHUP), 130)
        with self.pilotfish.serve("worker", self.draft, self.socket("a")):
            pass   # the socket of the one before is no obstacle

    def test_a_service_that_was_started_with_signals_blocked_ends_all_the_same(self):
        for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 130)):
            process = self.pilotfish.start("worker", "-m", self.draft, "--listen", self.socket("a"),
                                           preexec_fn=lambda n=number: signal.pthread_sigmask(signal.SIG_BLOCK, [n]))
            self.assertEqual(Server(process).end(number), code)


if __name__ == "__main__":
    main()
