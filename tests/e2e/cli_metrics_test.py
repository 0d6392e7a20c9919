"""Metrics of a worker, a verifier and a server over HTTP, what `top` makes of them, and the dashboard's queries."""

import json
import re
import signal
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from cli_case import PROMPT, Case, main  # noqa: E402
from command_line import QUICKLY, Server, read_line  # noqa: E402
from http_client import Client  # noqa: E402

DASHBOARD = Path(__file__).resolve().parents[2] / "integration" / "grafana" / "pilotfish-dashboard.json"
SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')


def parse(text):
    """Name to the sum of its samples; each line is a comment or a sample, in families that stand together."""
    kinds, samples, family = {}, {}, None
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split()
            assert family not in kinds, family
            kinds[family] = kind
        elif not line.startswith("# HELP "):
            match = SAMPLE.fullmatch(line)
            assert match, line
            name = match[1]
            suffixes = ("_bucket", "_sum", "_count") if kinds[family] == "histogram" else ("",)
            assert name in {family + suffix for suffix in suffixes}, line
            samples[name] = samples.get(name, 0.0) + float(match[3])
    return samples


class Metrics(Case):
    def serve(self, role, model, name, *arguments):
        return self.pilotfish.serve(role, model, self.socket(name), "--metrics", self.socket(f"{name}-metrics"), *arguments)

    def scrape(self, address):
        reply = Client(address).get("/metrics")
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        return parse(reply.body.decode())

    def test_a_worker_counts_what_it_drafts(self):
        for name, options in ("drafts", []), ("chosen", ["--drafter", "suffix,model"]):
            with self.subTest(options), self.serve("worker", self.draft, name, *options) as worker:
                asked = ["--drafter", "model"] if options else []
                made = self.generate("--draft-worker", worker.address, "-n", 40, "--draft-len", 3, *asked)["speculation"]
                self.check_drafts(made, self.scrape(self.socket(f"{name}-metrics")))

    def check_drafts(self, made, counted):
        self.assertGreater(made["accepted"], 0)
        self.assertGreaterEqual(counted["vllm:spec_decode_num_draft_tokens_total"], made["accepted"])
        self.assertGreater(counted["vllm:spec_decode_num_accepted_tokens_total"], 0)
        self.assertEqual(counted["vllm:spec_decode_num_accepted_tokens_total"],
                         counted["vllm:spec_decode_num_accepted_tokens_per_pos_total"])
        self.assertEqual(counted["pilotfish:sequences_total"], 1)
        self.assertGreater(counted["pilotfish:passes_total"], 0)

    def test_a_verifier_counts_tokens_and_their_times(self):
        with self.serve("verifier", self.target, "verifies") as verifier:
            made = self.run_json("generate", "--verifier", verifier.address, "-d", self.draft, "-p", PROMPT, "-n", 40)
            counted = self.scrape(self.socket("verifies-metrics"))
        self.assertEqual(counted["vllm:generation_tokens_total"], len(made["tokens"]))
        self.assertEqual(counted["vllm:time_to_first_token_seconds_count"], 1)
        self.assertEqual(counted["vllm:inter_token_latency_seconds_count"], len(made["tokens"]) - 1)
        self.assertGreater(counted["vllm:prompt_tokens_total"], 0)
        self.assertGreater(counted["pilotfish:kv_cache_pages"], 0)

    def test_other_paths_and_methods_are_refused(self):
        with self.serve("worker", self.draft, "paths"):
            client = Client(self.socket("paths-metrics"))
            self.assertEqual(client.get("/health").body, b"ok\n")
            self.assertEqual(client.get("/").status, 404)
            self.assertEqual(client.request("POST", "/metrics").status, 405)

    def test_a_port_that_was_chosen_is_said(self):
        worker = self.pilotfish.serve("worker", self.draft, self.socket("port"), "--metrics", "localhost:0")
        self.assertEqual(worker.end(), 0)
        self.assertRegex(worker.err, r"metrics at localhost:\d+\n")

    def test_an_address_that_is_taken_is_a_failure(self):
        with self.serve("worker", self.draft, "taken"):
            err = self.assert_fails("worker", "-m", self.draft, "--listen", self.socket("other"), "--metrics",
                                    self.socket("taken-metrics"))
        self.assertIn("in use", err)

    def test_a_server_exports_every_metric_of_the_dashboard(self):
        board = json.loads(DASHBOARD.read_text())
        with Server(self.pilotfish.start("serve", "-m", self.target, "-d", self.draft, "--listen", self.socket("serve"))) as server:
            reply = Client(server.address).post("/v1/completions", {"prompt": PROMPT, "max_tokens": 24, "temperature": 0})
            self.assertEqual(reply.status, 200)
            counted = self.scrape(server.address)
        self.assertEqual(counted["vllm:generation_tokens_total"], 24)
        self.assertGreater(counted["vllm:spec_decode_num_drafts_total"], 0)
        queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        queries += [variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
        self.assertGreater(len(queries), 10)
        for query in queries:
            names = re.findall(r"(?:vllm|pilotfish):\w+", query)
            self.assertTrue(names, query)
            for name in names:
                self.assertIn(name, counted, query)

    # ---- top ----

    def test_top_shows_totals_once(self):
        with self.serve("verifier", self.target, "once") as verifier:
            self.run_ok("generate", "--verifier", verifier.address, "-d", self.draft, "-p", PROMPT, "-n", 30)
            address = self.socket("once-metrics")
            text = self.run_ok("top", address, "--once").out.decode()
            document = self.run_json("top", "--once", address)
        self.assertIn(f"{address}, since it began\n", text)
        self.assertIn("30.0 new in all", text)
        self.assertIn("0 running, 0 waiting", text)
        self.assertEqual(document["new_tokens"], 30)
        self.assertIsNone(document["seconds"])
        self.assertGreater(document["drafts"], 0)
        self.assertEqual(document["inter_token_latency_s"]["count"], 29)

    def test_top_shows_each_second_until_it_is_interrupted(self):
        with self.serve("worker", self.draft, "live"):
            top = self.pilotfish.start("top", self.socket("live-metrics"), "--json")
            first, second = (json.loads(read_line(top.stdout, QUICKLY)) for _ in range(2))
            top.send_signal(signal.SIGINT)
            top.communicate(timeout=QUICKLY)
        self.assertEqual(top.returncode, 130)
        self.assertGreater(first["seconds"], 0.5)
        self.assertEqual(second["new_tokens"], 0)

    def test_top_refuses_what_it_cannot_read(self):
        self.assert_fails("top", code=2, saying=["an address is needed"])
        self.assert_fails("top", "here", code=1, saying=["here"])
        self.assert_fails("top", "localhost:1", "--once", "again", code=2, saying=["again"])
        self.assert_fails("top", self.socket("absent"), saying=["cannot connect"])


if __name__ == "__main__":
    main()
