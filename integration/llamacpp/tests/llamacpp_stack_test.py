"""llama.cpp with drafts of a Pilotfish worker: the program on libllama, and llama-server with `--spec-type pilotfish`.

Run as: llamacpp_stack_test.py BINARY BUILD MODELS [unittest's arguments]. BUILD is what build.sh made, MODELS a folder with target.gguf and
draft.gguf of llama.cpp's own converter. Texts are compared with those of llama.cpp alone. Its passes over several rows round
otherwise than those over one: where the two best tokens are closer than NEAR, either may come.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "integration/python/tests")]
from command_line import Pilotfish  # noqa: E402
import real_gguf  # noqa: E402
from worker_faults import other_vocabulary  # noqa: E402

BUNDLED = ROOT / "models"
PROMPTS = (BUNDLED / "prompts.txt").read_text().splitlines()[:8]
N_NEW = 64
MAX_DRAFT = 4
NEAR = 1e-2      # of logits
START_S = 120
ACCEPTED = re.compile(r'^vllm:spec_decode_num_accepted_tokens_total\{[^}]*\} (\d+)$', re.MULTILINE)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=START_S) as answer:
        return answer.read().decode()


class LlamaServer:
    """llama-server; what it logs is in `log` after `end`."""

    def __init__(self, home, *arguments):
        self.port = free_port()
        self.path = Path(home) / f"llama-server-{self.port}.log"
        with open(self.path, "wb") as log:
            self.process = subprocess.Popen(
                [BUILD / "bin/llama-server", "-m", MODELS / "target.gguf", "--port", str(self.port), "--parallel", "4", "-c", "2048",
                 "--threads", "1", "--no-webui", "--temp", "0", *map(str, arguments)], stdout=log, stderr=subprocess.STDOUT)
        until = time.monotonic() + START_S
        while True:
            try:
                ask(self.port, "/health")
                return
            except (urllib.error.URLError, ConnectionError):
                if self.process.poll() is not None or time.monotonic() > until:
                    self.end()
                    raise AssertionError(f"llama-server does not answer:\n{self.log[-3000:]}") from None
                time.sleep(0.1)

    def complete(self, ids, n_new=N_NEW):
        return json.loads(ask(self.port, "/completion", {"prompt": ids, "n_predict": n_new, "temperature": 0, "return_tokens": True,
                                                         "cache_prompt": False}))

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log = self.path.read_text(errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class Stack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.pilotfish = Pilotfish(BINARY, cls.home.name)
        cls.prompts = [cls.pilotfish.run("tokenize", "-m", BUNDLED / "target", "-p", p, "--json").json["tokens"] for p in PROMPTS]
        cls.plain, _ = cls.drafted("none")

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    @classmethod
    def start_drafted(cls, address, model=None, prompts=None, n_new=N_NEW):
        process = subprocess.Popen([BUILD / "bin/llama_drafted", model or MODELS / "target.gguf", address, "1", "512", str(n_new), str(MAX_DRAFT)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines = "\n".join(" ".join(map(str, ids)) for ids in prompts or cls.prompts)
        process.stdin.write(lines + "\n")
        process.stdin.close()
        process.stdin = None
        return process

    @classmethod
    def drafted(cls, address, *arguments, **options):
        """The texts, and the figures, with what was warned of."""
        process = cls.start_drafted(address, *arguments, **options)
        out, err = process.communicate(timeout=300)
        if process.returncode != 0:
            raise AssertionError(err)
        *texts, figures = map(json.loads, out.splitlines())
        return texts, {**figures, "err": err}

    def socket(self, name):
        return f"unix:{self.home.name}/{name}.sock"

    def worker(self, name, *arguments, model=BUNDLED / "draft"):
        return self.pilotfish.serve("worker", model, self.socket(name), "--dtype", "int8", "--max-sequences", "16", "--threads", "1",
                                    *arguments)

    def assert_same(self, texts, wanted):
        """Equal but for near-ties, of which there is at most one among the texts."""
        other = [(found, plain) for found, plain in zip(texts, wanted) if found["tokens"] != plain["tokens"]]
        self.assertEqual(len(texts), len(wanted))
        self.assertLessEqual(len(other), 1, "more than one text differs")
        for _, plain in other:
            self.assertLess(plain["least_margin"], NEAR, "a text differs that has no near-tie")


class Program(Stack):
    def test_all_texts_are_those_of_llama_alone_and_both_sides_count_the_same(self):
        metrics = f"127.0.0.1:{free_port()}"
        with self.worker("program", "--head", "screened", "--metrics", metrics) as worker:
            texts, figures = self.drafted(worker.address)
            counted = int(ACCEPTED.search(ask(metrics.split(":")[1], "/metrics"))[1])
        self.assert_same(texts, self.plain)
        self.assertEqual(figures["err"], "")
        self.assertGreater(figures["accepted"], N_NEW)
        self.assertEqual(figures["accepted"], sum(t["accepted"] for t in texts))
        self.assertEqual(figures["accepted"], counted)
        self.assertEqual(figures["opens"], len(texts))
        self.assertLess(sum(t["rounds"] for t in texts), sum(t["rounds"] for t in self.plain))

    def test_a_worker_without_a_model_drafts_for_any_gguf_file(self):
        smollm2 = real_gguf.fetch()
        text = "def first(x):\n    return x[0]\n\ndef first(x):\n    return x[0]\n\ndef first(x):\n"
        ids = self.pilotfish.run("tokenize", "-m", smollm2, "-p", text, "--json").json["tokens"]
        plain, _ = self.drafted("none", smollm2, [ids])
        with self.pilotfish.serve_lookup("suffix", self.socket("lookup")) as worker:
            texts, figures = self.drafted(worker.address, smollm2, [ids])
        self.assertEqual(texts[0]["tokens"], plain[0]["tokens"])
        self.assertGreater(figures["accepted"], 0)
        self.assertEqual(figures["err"], "")

    def test_a_worker_that_dies_costs_no_token_and_one_warning(self):
        n_new = 384
        plain, _ = self.drafted("none", n_new=n_new)
        worker = self.worker("dies")
        process = self.start_drafted(worker.address, n_new=n_new)
        threading.Timer(1.0, lambda: worker.process.kill()).start()
        out, err = process.communicate(timeout=300)
        worker.end()
        *texts, figures = map(json.loads, out.splitlines())
        self.assertEqual(process.returncode, 0, err)
        self.assert_same(texts, plain)
        self.assertEqual(err.count("decoding goes on without it"), 1, err)

    def test_a_worker_of_another_vocabulary_is_refused(self):
        other, _ = other_vocabulary(BUNDLED / "draft", f"{self.home.name}/other")
        with self.worker("other", model=other) as worker:
            process = self.start_drafted(worker.address)
            _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("% of their vocabularies, expected at least 90 %", err)

    def test_no_worker_there_is_an_error(self):
        process = self.start_drafted(self.socket("nothing"))
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("nothing.sock", err)


class Server(Stack):
    def requests(self, server):
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(server.complete, self.prompts))

    def assert_texts(self, answers):
        self.assert_same([{"tokens": a["tokens"]} for a in answers], self.plain)

    def test_four_slots_draft_in_one_batch_and_leave_the_texts_as_they_are(self):
        metrics = f"127.0.0.1:{free_port()}"
        with self.worker("server", "--head", "screened", "--metrics", metrics) as worker:
            with LlamaServer(self.home.name, "--spec-type", "pilotfish", "--spec-pilotfish-address", worker.address, "--spec-draft-n-max",
                             MAX_DRAFT) as server:
                answers = self.requests(server)
            told = int(ACCEPTED.search(ask(metrics.split(":")[1], "/metrics"))[1])
        self.assert_texts(answers)
        accepted = sum(a["timings"].get("draft_n_accepted", 0) for a in answers)
        self.assertGreater(accepted, N_NEW)
        counted = re.search(r"pilotfish: (\d+) steps, (\d+) tokens drafted, (\d+) accepted", server.log)
        self.assertEqual(int(counted[3]), accepted)
        self.assertLessEqual(accepted - told, MAX_DRAFT * len(answers), "the worker hears all rounds but the last of each text")
        self.assertLessEqual(told, accepted)

    def test_a_worker_that_chooses_the_length_leaves_the_texts_as_they_are(self):
        with self.worker("adaptive") as worker:
            with LlamaServer(self.home.name, "--spec-type", "pilotfish", "--spec-pilotfish-address", worker.address, "--spec-draft-n-max", 8,
                             "--spec-pilotfish-adaptive") as server:
                self.assert_texts(self.requests(server))

    def test_a_server_without_its_worker_decodes_plainly_and_says_so(self):
        with LlamaServer(self.home.name, "--spec-type", "pilotfish", "--spec-pilotfish-address", self.socket("absent")) as server:
            answers = self.requests(server)
        self.assert_texts(answers)
        self.assertIn("failed to initialize speculative decoding context: pilotfish worker", server.log)
        self.assertIn("absent.sock", server.log)

    def test_a_server_with_a_worker_of_another_vocabulary_decodes_plainly_and_says_so(self):
        other, _ = other_vocabulary(BUNDLED / "draft", f"{self.home.name}/other-of-server")
        with self.worker("of-server", model=other) as worker, \
                LlamaServer(self.home.name, "--spec-type", "pilotfish", "--spec-pilotfish-address", worker.address) as server:
            answers = self.requests(server)
        self.assert_texts(answers)
        self.assertEqual(sum(a["timings"].get("draft_n", 0) for a in answers), 0)
        self.assertEqual(server.log.count("% of their vocabularies, expected at least 90 %"), 1)

    def test_a_server_whose_worker_dies_goes_on(self):
        worker = self.worker("gone")
        with LlamaServer(self.home.name, "--spec-type", "pilotfish", "--spec-pilotfish-address", worker.address) as server:
            first = self.requests(server)
            worker.end(signal.SIGKILL)
            second = self.requests(server)
        self.assert_texts(first)
        self.assert_texts(second)
        self.assertEqual(server.log.count("decoding goes on without it"), 1)


if __name__ == "__main__":
    BINARY, BUILD, MODELS = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
