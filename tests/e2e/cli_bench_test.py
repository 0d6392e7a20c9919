"""The bench commands: every figure is present and consistent."""

import json
import math
import os
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import tiny_llama  # noqa: E402
from cli_case import Case, main  # noqa: E402
from command_line import QUICKLY, Pilotfish, read_line  # noqa: E402


class Benchmarks(Case):
    def test_round_trips(self):
        loop = self.run_json("bench", "rpc", "--loopback", "--rounds", "50")
        with self.pilotfish.serve("worker", self.draft, self.socket("bench"), "--max-sequences", "3") as worker:
            def trips(*options):
                return ["bench", "rpc", "--worker", worker.address, "--rounds", "100", *options]
            far = self.run_json(*trips())
            many = self.run_json(*trips("--sequences", "3", "--draft-len", "4", "--temperature", "0.7"))
            self.assert_fails(*trips("--sequences", "4"), saying=["takes 3 sequences", "--max-sequences"])
            self.assert_fails(*trips("--context", "100000"), saying=["the worker's context holds"])
        self.assertEqual((many["sequences"], many["draft_len"], many["temperature"]), (3, 4, 0.7))
        self.assertAlmostEqual(many["tokens_per_s"] / many["per_s"], 12, places=3)
        for document in (loop, far, many):
            self.assertGreater(document["p50_us"], 0)
            self.assertGreaterEqual(document["p99_us"], document["p50_us"])
            self.assertGreater(document["per_s"], 0)
        self.assert_fails("bench", "rpc", "--worker", self.socket("absent"), saying=["absent.sock"])

    def test_round_trips_fit_the_workers_context(self):
        def trips(context, *options):
            with self.pilotfish.serve("worker", self.draft, self.socket(f"of-{context}"), "--context", context) as worker:
                return self.pilotfish.run("bench", "rpc", "--worker", worker.address, "--rounds", "100", "--json", *options)
        for context, options, draft_len in [("23", [], 1), ("64", ["--draft-len", "8"], 8), ("255", ["--context", "200"], 1)]:
            result = trips(context, *options)
            self.assertEqual(result.code, 0, result.err)
            self.assertEqual(result.json["rounds"], 100)
            self.assertAlmostEqual(result.json["tokens_per_s"] / result.json["per_s"], draft_len, places=3)
        result = trips("22")
        self.assertEqual(result.code, 1, result.err)
        self.assertIn("grow to 23 tokens, the worker's context holds 22", result.err)

    def test_a_socket_path_too_long_is_an_error_that_names_it(self):
        self.assert_fails("bench", "rpc", "--loopback", "--rounds", "10", environment={"TMPDIR": "/dev/null"},
                          saying=["/dev/null"])

    def test_the_loopback_socket_is_in_tmpdir_if_its_path_fits(self):
        loopback = ["bench", "rpc", "--loopback", "--rounds", "10"]
        here = {"cwd": self.root, "environment": {"TMPDIR": 88 * "d"}}
        self.assert_fails(*loopback, saying=[f"{88 * 'd'}: no directory for the socket"], **here)
        (self.root / (88 * "d")).mkdir()
        self.run_ok(*loopback, **here)
        self.assert_fails(*loopback, environment={"TMPDIR": 89 * "d"}, saying=["TMPDIR is ddd", "89 bytes, expected at most 88"])

    def test_acceptance_over_a_grid_by_category(self):
        prompts = self.root / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"question_id": i, "category": "ab"[i % 2], "turns": [f"the {i}", "in"]}) + "\n"
                                   for i in range(4)))
        document = self.run_json("bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts,
                                 "--draft-len", "2,4", "--method", "rejection,coupled,typical", "--temperature", "0,0.7", "--top-p", "0.9", "--min-p", "0.05", "--typical-p", "0.95",
                                 "-n", "16")
        self.assertEqual([(r["temperature"], r["method"], r["draft_len"]) for r in document["runs"]][:2],
                         [(0, "greedy", 2), (0, "greedy", 4)])
        self.assertEqual(len(document["runs"]), 8)
        self.assertEqual([r["lossy"] for r in document["runs"]], [r["method"] == "typical" for r in document["runs"]])
        self.assertEqual({(r["temperature"], r["top_p"], r["min_p"], r["typical_p"]) for r in document["runs"]},
                         {(0, 0.9, 0.05, 0.95), (0.7, 0.9, 0.05, 0.95)})
        for run in document["runs"]:
            self.assertEqual(run["requests"], 8)
            if run["method"] not in ("rejection", "typical"):
                self.assertEqual(run["identical"], 8)
            self.assertEqual(set(run["by_category"]), {"a", "b"})
            self.assertGreater(run["speculation"]["accepted"], 0)
            self.assertAlmostEqual(run["speedup"], run["speculative_tokens_per_s"] / run["plain_tokens_per_s"], places=4)
            self.assertGreater(run["predicted_speedup"], 0)
            s = run["speculation"]
            self.assertTrue(math.isclose(s["acceptance_rate"], s["accepted"] / s["drafted"], rel_tol=1e-14))
            self.assertTrue(math.isclose(s["mean_accepted_length"], 1 + s["accepted"] / s["rounds"], rel_tol=1e-14))

    def test_acceptance_of_a_drafter_without_a_model(self):
        prompts = self.root / "again.txt"
        prompts.write_text("the cat sat. the cat sat. the cat\n")
        run, = self.run_json("bench", "acceptance", "-m", self.target, "--drafter", "ngram", "--prompts", prompts, "-n",
                             "32")["runs"]
        self.assertEqual((run["requests"], run["identical"]), (1, 1))
        self.assertGreater(run["speculation"]["drafted"], 0)

    def test_a_simulated_pair_needs_no_model_and_repeats(self):
        grid = ["bench", "acceptance", "--simulate", "--simulate-acceptance", "0.5,0.9", "--simulate-batch", "1,4",
                "--draft-len", "4,auto", "--simulate-token-ms", "1", "--simulate-step-ms", "10"]
        points = self.run_json(*grid)["simulated"]
        self.assertEqual([(p["acceptance"], p["batch"], p["draft_len"]) for p in points],
                         [(a, b, k) for a in (0.5, 0.9) for b in (1, 4) for k in (4, "auto")])
        for p in points:
            self.assertEqual((p["draft_ms"], p["verify_ms"], p["round_trip_us"]), (1, 10, 100))
            self.assertAlmostEqual(p["speedup"], p["speculative_tokens_per_s"] / p["plain_tokens_per_s"], places=9)
            if p["draft_len"] == 4:
                length = sum(p["acceptance"] ** i for i in range(5))
                self.assertAlmostEqual(p["bound"], length * 10 / 14.1, places=6)
                self.assertGreater(p["speedup"], 0.85 * p["bound"])
                self.assertLess(p["speedup"], 1.1 * p["ahead_bound"])
                self.assertGreater(p["speedup_ahead"], 0.95 * p["speedup"])
                self.assertLess(p["speedup_ahead"], 1.1 * p["ahead_bound"])
        self.assertEqual(self.run_json(*grid)["simulated"], points)
        self.assertIn(b"speed-up", self.run_ok(*grid).out)
        self.assert_fails(*grid, "-m", self.target, code=2, saying=["--simulate has no model"])
        self.assert_fails("bench", "acceptance", "--simulate", "--draft-len", "17", code=2, saying=["--draft-len is 17, expected 1 to 16"])

    def test_acceptance_stops_when_stdout_is_closed(self):
        prompts = self.root / "one.txt"
        prompts.write_text("the\n")
        lengths, temperatures = ",".join(map(str, range(1, 17))), "0,0.1,0.2,0.3"   # 64 points of 1.26 s at least
        with open("/dev/full", "wb") as full:
            result = self.pilotfish.run("bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts,
                                        "--draft-len", lengths, "--temperature", temperatures, "-n", "64", "--ignore-eos",
                                        "--simulate-step-ms", "20", stdout=full, timeout=QUICKLY)
        self.assertEqual((result.code, result.err), (1, "pilotfish: cannot write to standard output: No space left on device\n"))

    def test_acceptance_that_fails_later_prints_the_finished_runs(self):
        lines = ["the thin other", "another"]
        prompts = self.root / "later.txt"
        prompts.write_text("\n".join(lines))
        model = tiny_llama.make(self.root / "fails-later", context=2048)
        header, data, write = tiny_llama.open_weights(model)
        texts = [self.generate("-n", "4", prompt=("-p", line)) for line in lines]
        known = {token for text in texts for token in text["prompt_tokens"] + text["tokens"]}
        for token in set(range(tiny_llama.VOCAB_SIZE)) - known:   # behind another no logit is a number
            at = header["model.embed_tokens.weight"]["data_offsets"][0] + 4 * 64 * token
            data[at:at + 4] = struct.pack("<f", math.nan)
        write()
        bench = ["bench", "acceptance", "-m", model, "-d", self.draft, "--prompts", prompts, "-n", "4", "--temperature", "0,1000"]
        failed, table = self.pilotfish.run(*bench, "--json"), self.pilotfish.run(*bench)
        self.assertEqual([(run["temperature"], run["requests"]) for run in failed.json["runs"]], [(0, 2)])
        self.assertEqual(table.out.count(b"\n"), 2, table.out)
        for result in (failed, table):
            self.assertEqual(result.code, 1, result.err)
            self.assertIn("logits", result.err)
            self.assertEqual(result.err.count("\n"), 1, result.err)

    def test_acceptance_reads_prompts_from_a_pipe(self):
        prompts, pipe = self.root / "piped.jsonl", self.root / "pipe"
        prompts.write_text('{"turns": ["the thin other", "is"]}\n{"turns": ["an other"]}\n')
        bench = ["bench", "acceptance", "-m", self.target, "-d", self.draft, "-n", "4", "--prompts"]
        text = self.run_json(*bench, prompts)["runs"][0]["text_checksum"]
        for name in ("-", "/dev/stdin"):
            self.assertEqual(self.run_json(*bench, name, stdin=prompts.read_bytes())["runs"][0]["text_checksum"], text)
        os.mkfifo(pipe)
        process = self.pilotfish.start(*bench, pipe, "--json")
        time.sleep(0.3)   # it waits for a writer
        pipe.write_bytes(prompts.read_bytes())
        out, err = process.communicate(timeout=QUICKLY)
        self.assertEqual(json.loads(out)["runs"][0]["text_checksum"], text, err)
        self.assert_fails(*bench, "-", stdin=b"the thin\0other", saying=["standard input: byte 8 is NUL"])
        self.assert_fails(*bench, self.root, saying=[f"{self.root}: cannot be read: Is a directory"])

    def test_ctrl_c_ends_the_wait_for_prompts_from_a_pipe(self):
        pipe = self.root / "no_writer"
        os.mkfifo(pipe)

        def told():   # before it opens the pipe
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            os.kill(os.getpid(), signal.SIGINT)
        for wait, preexec in ((0.0, told), (0.5, None)):
            process = self.pilotfish.start("bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", pipe, "--json",
                                           preexec_fn=preexec)
            time.sleep(wait)
            if wait:
                process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=QUICKLY)
            self.assertEqual((process.returncode, json.loads(out), err), (130, {"runs": []}, b""))

    def test_acceptance_takes_any_number_of_categories(self):
        prompts = self.root / "categories.jsonl"
        prompts.write_text("".join(json.dumps({"category": str(i), "turns": ["the"]}) + "\n" for i in range(70)))
        run, = self.run_json("bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts, "-n", "2")["runs"]
        self.assertEqual(list(run["by_category"]), [str(i) for i in range(70)])

    def test_categories_are_reported_only_if_every_prompt_has_one(self):
        prompts = self.root / "mixed.jsonl"
        unnamed, null, a = {}, {"category": None}, {"category": "a"}
        for lines, counted in [([unnamed, a, null], {"": 2, "a": 1}), ([null, unnamed], {})]:
            prompts.write_text("".join(json.dumps({"turns": [f"the {i}"], **line}) + "\n" for i, line in enumerate(lines)))
            run, = self.run_json("bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts, "-n", "2")["runs"]
            self.assertEqual({c: figures["requests"] for c, figures in run["by_category"].items()}, counted)

    def test_acceptance_feeds_turns_in_order_with_a_seed_per_prompt(self):
        def bench(lines, *options):
            prompts = self.root / "conversation.jsonl"
            prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
            return self.run_json("bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts, "-n", "8",
                                 *options)["runs"][0]

        def ids(text, *options):
            return self.run_json("tokenize", "-m", self.target, "-p", text, *options)["tokens"]

        def answer(prompt, *options):
            return self.run_json("generate", "-m", self.target, "--tokens", ",".join(map(str, prompt)), "-n", "8",
                                 *options)["tokens"]

        def checksum(tokens):
            sum = 0xCBF29CE484222325
            for token in tokens:
                sum = (sum ^ token) * 0x100000001B3 % 2**64
            return f"{sum:016x}"

        first = ids("the other")
        said = answer(first)
        then = answer(first + said + ids("\n\n", "--no-special") + ids("thin", "--no-special"))
        self.assertEqual(bench([{"turns": ["the other", "thin"]}])["text_checksum"], checksum(said + then))
        drawn = [answer(ids(text), "--temperature", "1", "--seed", seed) for text, seed in (("the other", 7), ("the thin", 8))]
        run = bench([{"turns": ["the other"]}, {"turns": ["the thin"]}], "--method", "coupled", "--temperature", "1", "--seed", "7")
        self.assertEqual(run["text_checksum"], checksum(drawn[0] + drawn[1]))

    def test_acceptance_finds_the_bundled_prompts_from_any_directory(self):
        result = subprocess.run([self.pilotfish.path, "bench", "acceptance", "-m", self.target, "-d", self.draft, "-n", "4",
                                 "--limit", "2", "--json"], cwd=self.root, capture_output=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["runs"][0]["requests"], 2)

    def test_acceptance_predicts_other_deployments_and_writes_a_report(self):
        prompts, page = self.root / "two.jsonl", self.root / "report.html"
        prompts.write_text("".join(json.dumps({"category": f"<{c}>", "turns": [f"the {c}"]}) + "\n" for c in "ab"))
        bench = ["bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts, "-n", "40", "--draft-len", "3,auto"]
        runs = self.run_json(*bench, "--warm-up", "--what-if", "20:3:100", "--what-if", "20:90:0", "--report", page)["runs"]
        for run in runs:
            self.assertEqual(run["requests"], 2)
            marginal, conditional = run["speculation"]["per_position"], run["per_position_conditional"]
            for i, rate in enumerate(conditional[:3]):
                before = marginal[i - 1] if i else 1
                if rate is not None and before:
                    self.assertAlmostEqual(rate, min(1, marginal[i] / before), places=6)
            self.assertEqual(len(run["reached"]), len(marginal))
            self.assertEqual(sum(run["reached"]), run["speculation"]["drafted"] - run["speculation"]["branches"])
            self.assertEqual(run["expected_length"] is None, run["draft_len"] == "auto")
            if run["draft_len"] == "auto":
                self.assertNotIn("what_if", run)
                continue
            self.assertEqual([p["verify_ms"] for p in run["what_if"]], [20, 20])
            self.assertEqual((run["what_if"][1]["best_draft_len"], run["what_if"][1]["speedup"]), (0, 1))
        text = page.read_text()
        self.assertEqual(text.count("<svg"), 2)
        self.assertIn("&lt;a&gt;", text)
        self.assertNotIn("<a>", text)
        self.assertNotIn("http", text)
        self.assertIn("prefers-color-scheme:dark", text)
        for said in (f"<dd>{self.draft}</dd>", f"<dd>{prompts}</dd>", "<dt>method</dt><dd>greedy</dd>",  # the same in all runs
                     "<dt>drafter</dt><dd>model</dd>", "<td>length 3</td>", "<td>length auto</td>", "<td>2 of 2</td>", "best length"):
            self.assertIn(said, text)
        self.assertNotIn("greedy, ", text)
        self.assertIn(b"best length", self.run_ok(*bench, "--what-if", "20:3:100").out)
        self.assert_fails(*bench, "--what-if", "20:3", code=2, saying=["expected STEP:PASS:TRIP"])
        self.assert_fails(*bench, "--report", self.root / "none" / "x.html", saying=["cannot be written"])

    def test_acceptance_over_several_drafters(self):
        prompts = self.root / "three.jsonl"
        prompts.write_text("".join(json.dumps({"category": "ab"[i % 2], "turns": [f"the {i} the {i}"]}) + "\n" for i in range(3)))
        bench = ["bench", "acceptance", "-m", self.target, "--prompts", prompts, "-n", "24"]
        drafters = ["ngram", "model", "suffix", "cascade", "model"]
        result = self.pilotfish.run(*bench, "-d", self.draft, "--drafter", ",".join(drafters), "--suffix-corpus", "1M",
                                    "--draft-len", "2,3", "--json")
        self.assertEqual((result.code, result.err), (0, ""))
        runs = result.json["runs"]
        self.assertEqual([(r["drafter"], r["draft_len"]) for r in runs], [(d, k) for d in drafters for k in (2, 3)])
        self.assertEqual({r["text_checksum"] for r in runs}, {runs[0]["text_checksum"]})
        self.assertEqual(runs[2]["speculation"]["drafted"], runs[8]["speculation"]["drafted"])
        self.assertNotEqual(runs[0]["speculation"]["drafted"], runs[2]["speculation"]["drafted"])
        for run in runs:
            self.assertEqual((run["identical"], set(run["by_category"])), (3, {"a", "b"}))
        table = self.run_ok(*bench, "-d", self.draft, "--drafter", "ngram,model").out.decode().splitlines()
        self.assertEqual([line.split()[0] for line in table], ["drafter", "ngram", "model"])
        self.assert_fails(*bench, "--drafter", "ngram,model", code=2, saying=["give one of -d DRAFT"])
        self.assert_fails(*bench, "-d", self.draft, "--drafter", "ngram,suffix", code=2, saying=["two drafters"])
        self.assert_fails(*bench, "-d", self.draft, "--drafter", "model,none", code=2, saying=["none"])

    def test_acceptance_repeats_the_grid_and_gives_the_range(self):
        prompts = self.root / "repeated.txt"
        prompts.write_text("the other\nthin\n")
        bench = ["bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts, "-n", "16", "--draft-len", "2,4"]
        once, page = self.run_json(*bench)["runs"], self.root / "repeated.html"
        runs = self.run_json(*bench, "--repeats", "3", "--report", page)["runs"]
        self.assertEqual([run["draft_len"] for run in runs], [2, 4])
        for one, run in zip(once, runs):
            self.assertNotIn("speedup_range", one)
            self.assertEqual((run["repeats"], run["requests"], run["identical"]), (3, 6, 6))
            self.assertEqual(run["text_checksum"], one["text_checksum"])
            self.assertEqual(run["speculation"]["drafted"], 3 * one["speculation"]["drafted"])
            for rate in ("plain_tokens_per_s", "speculative_tokens_per_s", "speedup"):
                low, high = run[rate + "_range"]
                self.assertTrue(0 < low <= run[rate] <= high, rate)
        self.assertIn("class=range", page.read_text())
        self.assertIn(b"range of speed-up", self.run_ok(*bench, "--repeats", "2").out)
        self.assert_fails(*bench, "--repeats", "33", code=2, saying=['--repeats is "33"', "1 to 32"])

    def test_synthetic_acceptance_is_what_was_asked_for(self):
        prompts, page = self.root / "any.txt", self.root / "synthetic.html"
        prompts.write_text("the other\nthin\nthe\n")
        bench = ["bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts, "-n", "400", "--ignore-eos"]

        def measure(rates, draft_len, *options):
            run, = self.run_json(*bench, "--draft-len", draft_len, "--synthetic-acceptance", rates, *options)["runs"]
            self.assertEqual(run["synthetic_acceptance"], rates)
            return run["speculation"]
        self.assertEqual(measure("1", "3")["acceptance_rate"], 1)
        none = measure("0", "3")
        self.assertEqual((none["accepted"], none["mean_accepted_length"]), (0, 1))
        self.assertAlmostEqual(measure("vllm-length:3", "4", "--temperature", "0.8")["mean_accepted_length"], 3, delta=0.05)
        # The draws come from the seed: these figures do not change.
        for method in ("rejection", "coupled"):
            s = measure("0.9,0.5,0.2", "3", "--report", page, "--temperature", "0.7", "--method", method)
            for rate, wanted in zip(s["per_position"], (0.9, 0.5, 0.2)):
                self.assertAlmostEqual(rate, wanted, delta=0.06)
        text = page.read_text()
        self.assertIn("<p class=warning><b>Synthetic acceptance (0.9,0.5,0.2)", text)
        self.assertNotIn("(lossy)", text)  # said once, above
        self.assertIn(b"the text is not the model's", self.run_ok(*bench, "--draft-len", "2", "--synthetic-acceptance", "0.5").out)
        for rates, draft_len, says in [("0.5,0.6", "2", "expected a rate"), ("0.5,0.4", "3", "one for each of the 3"),
                                       ("length:4", "2", "at most 3"), ("0.5", "auto", "needs a length")]:
            self.assert_fails(*bench, "--synthetic-acceptance", rates, "--draft-len", draft_len, code=2, saying=[says])

    def test_a_run_is_not_helped_by_the_outputs_of_the_one_before(self):
        prompts = self.root / "few.txt"
        prompts.write_text("the\nthin\n")
        runs = self.run_json("bench", "acceptance", "-m", self.target, "--drafter", "suffix", "--suffix-corpus", "1M", "--prompts",
                             prompts, "-n", "60", "--draft-len", "4,4", "--warm-up")["runs"]
        accepted = [run["speculation"]["accepted"] for run in runs]
        self.assertLess(abs(accepted[1] - accepted[0]), 10)  # of 118; what verdicts have shown is kept

    def test_acceptance_refuses_repeated_prompts(self):
        prompts = self.root / "twice.txt"
        prompts.write_text("the\n\nthin\nthe\n")
        self.assert_fails("bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts,
                          saying=["the prompt of line 4 repeats line 1"])

    def test_acceptance_names_a_line_that_is_not_a_prompt(self):
        prompts = self.root / "bad.jsonl"
        prompts.write_text('{"turns": ["a"]}\n{"turns": []}\n')
        self.assert_fails("bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts,
                          saying=["line 2", "turns"])
        prompts.write_text('{"turns": ["a"]}\n{"category": 7, "turns": ["a"]}\n')
        self.assert_fails("bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts,
                          saying=["line 2", '"category" is not a text'])
        prompts.write_bytes(b"one\ntwo\0three\n")
        self.assert_fails("bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts,
                          saying=["bad.jsonl", "byte 7 is NUL"])

    def test_acceptance_skips_prompts_longer_than_the_context_near_and_far(self):
        prompts = self.root / "lengths.txt"
        prompts.write_text("the thin\n" + 40 * "the thin " + "\n")
        with self.pilotfish.serve("verifier", self.target, self.socket("roomy")) as verifier:
            for target in (["-m", self.target], ["--verifier", verifier.address]):
                bench = ["bench", "acceptance", *target, "-d", self.draft, "--prompts", prompts, "-n", "4"]
                run, = self.run_json(*bench, "--context", "32")["runs"]
                self.assertEqual((run["requests"], run["skipped"]), (1, 1))
                self.assertRegex(self.run_ok(*bench, "--context", "32").out, rb" 1 of 1, 1 skipped\n$")
                self.assertNotIn(b"skipped", self.run_ok(*bench).out)

    def test_acceptance_fails_if_no_prompt_fits_the_context(self):
        prompts = self.root / "long.txt"
        prompts.write_text(40 * "the thin " + "\n")
        self.assert_fails("bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts, "-n", "4",
                          "--context", "32", saying=["none of the prompts", "context of 32"])

    def test_a_draft_length_above_the_peers_limit_is_cut_with_a_warning_and_refused_by_the_bench(self):
        with self.pilotfish.serve("worker", self.draft, self.socket("short")) as worker, \
                self.pilotfish.serve("verifier", self.target, self.socket("brief")) as verifier:
            for role, peers in [("worker", ["-m", self.target, "--draft-worker", worker.address]),
                               ("verifier", ["--verifier", verifier.address, "-d", self.draft])]:
                for length, warned in [("16", False), ("17", True)]:
                    text = ["generate", *peers, "--tokens", "5", "-n", "20", "--ignore-eos", "--draft-len", length]
                    self.assertEqual(f"the {role}" in self.run_ok(*text).err, warned)
                self.assert_fails("bench", "acceptance", *peers, "--draft-len", "4,17", "-n", "4",
                                  saying=[role, "at most 16", "--draft-len is 17"])

    def test_acceptance_skips_a_byte_order_mark_and_refuses_a_json_array(self):
        prompts = self.root / "marked"
        bench = ["bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts, "-n", "2"]
        checksums = set()
        for text in ("the", '{"turns": ["the"]}'):
            for mark in ("", "\ufeff"):
                prompts.write_text(mark + text + "\n")
                checksums.add(self.run_json(*bench)["runs"][0]["text_checksum"])
        self.assertEqual(len(checksums), 1)
        for array in ('[{"turns": ["the"]}]', '[\n  "the",\n  "other"\n]\n'):
            prompts.write_text(array)
            self.assert_fails(*bench, saying=["marked: is a JSON array", "each line"])
        prompts.write_text("[INST] the [/INST]\n")
        self.assertEqual(self.run_json(*bench)["runs"][0]["requests"], 1)

    def test_acceptance_skips_blank_lines(self):
        prompts = self.root / "spaced"
        for text, other in (("the", "thin"), ('{"turns": ["the"]}', '{"turns": ["thin"]}')):
            prompts.write_text(f"\n{text}\n \n\t\n \t \r\n{other}\t \n\t")
            run, = self.run_json("bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts, "-n", "2")["runs"]
            self.assertEqual(run["requests"], 2)

    def test_acceptance_names_the_turn_that_cannot_be_tokenised(self):
        prompts = self.root / "turns.jsonl"
        prompts.write_text('{"turns": ["one"]}\n{"turns": ["one", "a x"]}\n')
        for lacks, saying in [("x", "the text of turn 2 of prompt 2, 3 bytes"),
                              ("\u010a", "the empty line before turn 2 of prompt 2, 2 bytes")]:
            models = {"-m": self.root / f"target-{ord(lacks)}", "-d": self.root / f"draft-{ord(lacks)}"}
            for of, model in models.items():
                shutil.copytree(self.target if of == "-m" else self.draft, model)
                document = json.loads((model / "tokenizer.json").read_text())
                del document["model"]["vocab"][lacks]
                (model / "tokenizer.json").write_text(json.dumps(document))
            self.assert_fails("bench", "acceptance", *sum(models.items(), ()), "--prompts", prompts, "-n", "4", "--json",
                              saying=[saying, "lacks a token"])

    def test_acceptance_without_a_proposal_reports_no_speed_up(self):
        bench = ["bench", "acceptance", "-m", self.target, "-n", "4", "--limit", "1"]
        self.assert_fails(*bench, "--draft-worker", self.socket("absent"), saying=["absent.sock", "no answer"])
        prompts = self.root / "long.txt"
        prompts.write_text("the thin other\n")
        draft = tiny_llama.make(self.root / "draft-of-4", noise=0.05, context=4)   # full before the prompt is over
        run, = self.run_json(*bench, "-d", draft, "--prompts", prompts)["runs"]
        self.assertEqual((run["requests"], run["speculation"]["drafted"], run["speedup"]), (1, 0, None))
        _, row = self.run_ok(*bench, "-d", draft, "--prompts", prompts).out.decode().splitlines()
        self.assertEqual([row.split()[i] for i in (3, 4, 7, 8)], ["-"] * 4, row)

    def test_tables_are_aligned_for_any_content(self):
        prompts = self.root / "table.txt"
        prompts.write_text("the thin other\n")
        bench = ["bench", "acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts, "-n", "4"]
        head, *rows = self.run_ok(*bench, "--temperature", "0,0.001,1000", "--draft-len", "1,auto").out.decode().splitlines()
        self.assertEqual([row.split()[1] for row in rows], ["0", "0", "0.001", "0.001", "1000", "1000"])
        for word in ("temp", "length", "accept", "mean", "plain/s", "spec/s", "speed-up", "predicted"):
            end = head.index(word) + len(word)
            for row in rows:
                self.assertRegex(row[end - 1:end + 1], r"\S ", f"{word}:\n{head}\n{row}")

        kernels = self.run_json("info")["kernels"]
        head = self.pilotfish.run("bench", "kernels", "--quick", "--op", "rmsnorm").out.decode().splitlines()[0]
        self.assertGreater(head.index("format"), max(len(k["name"]) for k in kernels))
        self.assertGreater(head.index("shape"), head.index("format") + max(len(k["type"]) - 1 for k in kernels))   # ", " for " x "

    def test_every_kernel_has_a_figure_and_a_limit(self):
        result = self.pilotfish.run("bench", "kernels", "--quick", "--threads", "1", "--json")
        if not (result.code == 1 and "measured badly" in result.err):
            self.assertEqual(result.code, 0, result.err)
        figures = [json.loads(line) for line in result.out.decode().splitlines()]
        self.assertEqual({f["op"] for f in figures}, {"gemm", "pack_weights", "rmsnorm", "layernorm", "rope", "gated", "activate", "attn",
                                                      "attn_store", "argmax", "find_invalid", "softmax", "top", "race", "rescore",
                                                      "bounds"})
        for figure in figures:
            self.assertGreater(figure["fraction"], 0)
            self.assertGreater(figure["gbps"], 0)
            self.assertIn(figure["limit"], ("read", "multiply", "copy"))
            self.assertEqual(figure["threads"], 1)
            self.assertTrue(figure["shape"] and figure["isa"] and figure["kernel"])
        products = [f for f in figures if f["op"] == "gemm"]
        self.assertTrue(all(f["gflops"] > 0 and f["act"] for f in products))
        self.assertLessEqual({"f32", "bf16"}, {f["format"] for f in products})

    def test_a_pass_is_compared_with_the_sum_of_its_kernels(self):
        result = self.pilotfish.run("bench", "kernels", "-m", self.target, "--dtype", "int8", "--rows", "1,4", "--context",
                                    "32", "--threads", "1", "--quick", "--json")
        self.assertEqual(result.code, 0, result.err)
        lines = [json.loads(line) for line in result.out.decode().splitlines()]
        of_pass = [line["op"] for line in lines].index("pass")
        self.assertEqual(len(lines), 2 * (of_pass + 1))
        self.assertEqual([line["rows"] for line in lines], [1] * (of_pass + 1) + [4] * (of_pass + 1))
        self.assertLessEqual({"gemm", "pack", "rmsnorm", "rope", "gated", "attn", "attn_store", "argmax"},
                             {line["op"] for line in lines})
        for kernel in lines[:of_pass]:
            self.assertTrue(kernel["shape"] and kernel["isa"] and kernel["kernel"] and kernel["part"])
            self.assertIn("fraction", kernel)
            self.assertEqual(kernel["format"] == "int8", kernel["op"] in ("gemm", "pack"))
        whole = lines[of_pass]
        self.assertAlmostEqual(whole["sum_us"], sum(kernel["pass_us"] for kernel in lines[:of_pass]), places=3)
        self.assertAlmostEqual(whole["ratio"] * whole["sum_us"], whole["us"], places=3)
        self.assertTrue(whole["us"] > 0 and whole["once_ratio"] > 0 and whole["threads"] == 1 and whole["context"] == 32)

    def test_a_context_too_long_for_the_model_names_the_option_and_the_limit(self):
        bench = ["bench", "kernels", "--threads", "1", "--quick", "--json"]
        short = tiny_llama.make(self.root / "passes", context=64)
        self.run_ok(*bench, "-m", short, "--context", "48")
        for context in ("49", "64"):
            self.assert_fails(*bench, "-m", short, "--context", context, saying=[f"--context is {context}, expected 1 to 48"])
        shorter = tiny_llama.make(self.root / "rows", context=16)
        self.assert_fails(*bench, "-m", shorter, "--context", "1", saying=["positions go to 16", "16 rows"])

    def test_only_a_screened_head_has_a_rescoring_kernel(self):
        for head in ("full", "screened"):
            result = self.pilotfish.run("bench", "kernels", "-m", self.draft, "--dtype", "int8", "--head", head, "--rows", "2",
                                        "--context", "8", "--threads", "1", "--quick", "--json")
            self.assertEqual(result.code, 0, result.err)
            figures = {line.get("part"): line for line in map(json.loads, result.out.decode().splitlines())}
            self.assertEqual("rescore" in figures, head == "screened")
            self.assertEqual(figures["head"]["format"], "int8" if head == "full" else "int4-channel")
            self.assertEqual(figures["qkv"]["format"], "int8")

    def test_steps_answers_each_line_with_a_number(self):
        def converse(requests, context="128"):
            return self.pilotfish.run("bench", "steps", "-m", self.target, "--context", context, "--threads", "1",
                                      stdin=requests.encode())
        result = converse("begin 32\nstep 1 4\nstep 16 1\nread\nbegin 8\n")
        self.assertEqual(result.code, 0, result.err)
        ready, *numbers = result.out.decode().splitlines()
        self.assertRegex(ready, r"^ready [1-9]\d*$")
        self.assertEqual(len(numbers), 5)
        self.assertTrue(all(float(number) > 0 for number in numbers))
        for requests, says in [("step 1 1\n", "begin"), ("begin 0\n", "1 to 95 tokens"), ("begin 96\n", "1 to 95 tokens"),
                               ("begin 8\nstep 17 1\n", "16 rows"), ("begin 64\nstep 1 99\n", "context"), ("stop\n", "stop"),
                               ("begin5\n", '"begin5" is not understood'), ("begin 5\nstep 1+1\n", '"step 1+1" is not understood')]:
            with self.subTest(requests):
                failed = converse(requests)
                self.assertEqual(failed.code, 1)
                self.assertIn(says, failed.err)
        result = converse("begin 95\nstep 16 1\n")
        self.assertEqual((result.code, result.out.count(b"\n")), (0, 3), result.err)
        self.assertEqual(converse("begin 1\nstep 1 1\n", context="34").code, 0)
        failed = converse("begin 1\n", context="33")
        self.assertEqual(failed.code, 1)
        self.assertIn("the context is 33, expected at least 34", failed.err)

    def test_steps_waits_for_a_line_until_ctrl_c(self):
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)   # as a parent that shares it may have left it
        process = subprocess.Popen([self.pilotfish.path, "bench", "steps", "-m", self.target, "--context", "64", "--threads", "1"],
                                   stdin=read_end, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(read_end)
        self.assertRegex(read_line(process.stdout, QUICKLY), rb"^ready \d+\n$")
        time.sleep(0.3)   # it waits
        for part in (b"begin", b" 8\nre", b"ad\n"):
            os.write(write_end, part)
        for _ in range(2):
            self.assertGreater(float(read_line(process.stdout, QUICKLY)), 0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=QUICKLY)
        os.close(write_end)
        self.assertEqual((process.returncode, out, err), (130, b"", b""))

    def test_ctrl_c_prints_what_was_measured(self):
        def interrupted(*arguments):
            process = self.pilotfish.start("bench", *arguments, "--json")
            time.sleep(1.5)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=QUICKLY)
            self.assertEqual(process.returncode, 130, err)
            return json.loads(out)

        document = interrupted("throughput", "-m", self.target, "--gen-len", "8", "--prompt-len", "64")
        self.assertGreater(document["weight_bytes"], 0)
        self.assertIsNone(document["verify"]["16"])   # the last to be measured
        document = interrupted("rpc", "--loopback", "--rounds", "10000000")
        self.assertLess(document["rounds"], 10000000)
        self.assertEqual(document["p50_us"] is None, document["rounds"] == 0)
        prompts = self.root / "many.txt"
        prompts.write_text("".join(f"the {i}\n" for i in range(4000)))
        run, = interrupted("acceptance", "-m", self.target, "-d", self.draft, "--prompts", prompts, "-n", "100",
                           "--draft-len", "2,4")["runs"]
        self.assertTrue(0 < run["requests"] < 4000, run["requests"])
        self.assertEqual(run["identical"], run["requests"])
        self.assertGreater(run["speedup"], 0)
        self.assertGreater(run["speculation"]["rounds"], 0)

    def test_an_interrupted_loopback_removes_its_directory(self):
        temporary = self.root / "temporary"
        temporary.mkdir()
        pilotfish = Pilotfish(self.pilotfish.path, self.root)
        pilotfish.environment["TMPDIR"] = str(temporary)
        process = pilotfish.start("bench", "rpc", "--loopback", "--rounds", "10000000")
        time.sleep(1.5)
        self.assertEqual(len(list(temporary.iterdir())), 1)
        process.send_signal(signal.SIGQUIT)
        _, err = process.communicate(timeout=QUICKLY)
        self.assertEqual(process.returncode, -signal.SIGQUIT, err)
        self.assertEqual(list(temporary.iterdir()), [])

    def test_throughput_measures_every_row_count_of_a_model_that_accepts_everything(self):
        model = tiny_llama.make(self.root / "one-token", vocab_size=1, tokenizer=False, eos=None)
        document = self.run_bench("throughput", "-m", model, "--gen-len", "2", "--prompt-len", "16", "--context", "16")
        if not document:
            self.skipTest("measured badly")
        for rows, ms in document["verify"].items():
            self.assertGreater(ms, 0, rows)

    def test_throughput_has_every_figure(self):
        # A model of a few hundred kilobytes stays in the first cache, where a fraction says little: the widest prompt
        # and a few steps show that everything is measured.
        document = self.run_bench("throughput", "-m", self.target, "--gen-len", "8", "--prompt-len", "64", "--threads", "1")
        if not document:
            self.skipTest("measured badly")
        self.assertGreater(document["limits"]["read_gbps"], 0)
        self.assertEqual(document["limits"]["threads"], 1)
        self.assertGreater(document["weight_bytes"], 0)
        self.assertLessEqual(document["decode"]["bandwidth_fraction"], 1.05)
        self.assertGreater(document["decode"]["step_ms"], 0)
        # the mean of what is not negative is half of its median at least
        self.assertGreater(document["decode"]["tokens_per_s"], 0)
        self.assertLessEqual(document["decode"]["tokens_per_s"] * document["decode"]["step_ms"], 2000)
        self.assertEqual(document["prefill"]["tokens"], 64)
        self.assertEqual(set(document["verify"]), {"1", "2", "4", "8", "16"})
        self.assertEqual(set(document["verify_of_limit"]), {"1", "2", "4", "8", "16"})
        self.assertTrue(all(document["verify"].values()) and all(document["verify_of_limit"].values()))
        self.assertGreater(document["decode"]["kv_read_ms"], 0)
        self.assertGreater(document["decode"]["bandwidth_fraction_with_kv"], document["decode"]["bandwidth_fraction"])

    def test_throughput_measures_a_full_context_prefill_and_names_an_option_too_long(self):
        short = tiny_llama.make(self.root / "short", context=64)
        bench = ["bench", "throughput", "-m", short, "--gen-len", "2", "--threads", "1", "--json"]
        document = self.run_bench(*bench[1:-1], "--prompt-len", "64", "--context", "30")
        if document:
            self.assertEqual(document["prefill"]["tokens"], 64)
        self.assert_fails(*bench, "--prompt-len", "65", "--context", "30", saying=["--prompt-len is 65", "1 to 64"])
        self.assert_fails(*bench, "--prompt-len", "64", "--context", "31",
                          saying=["--context is 31 and --gen-len 2", "65 tokens", "1 to 64"])


if __name__ == "__main__":
    main()
