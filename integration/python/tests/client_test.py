"""DraftClient and AsyncDraftClient against the built worker, against a verifier, and against scripted workers over gRPC.

Run as: client_test.py BINARY [unittest's arguments]
"""

import asyncio
import json
import logging
import os
import queue
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import package_path
import grpc
import tiny_llama
from cli_case import PROMPT, Case, main
from pilotfish import AsyncDraftClient, DraftClient, Row, Worker
from pilotfish.messages import METHOD_GREEDY, Batch
from pilotfish.vocabulary import fingerprint
from scripted_worker import N_IDS, ScriptedWorker, Target, chain, mislead
from worker_faults import other_vocabulary

N_NEW = 60
WAIT_S = 0.02
MARGIN_S = 0.5     # what a loaded machine may add to a wait; a client without a deadline waits for ever
GENEROUS_S = 10.0   # the wait of steps that are to have an answer


class Verifier:
    """A target behind `pilotfish verifier`, spoken to by the client's own messages: proposals in, verdicts out."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address)
        self.outbox = queue.SimpleQueue()
        self.answers = self.channel.stream_stream(
            "/pilotfish.v1.Verifier/Verify", request_serializer=Batch.SerializeToString,
            response_deserializer=Batch.FromString)(iter(self.outbox.get, None))

    def verdict(self, batch):
        self.outbox.put(batch)
        while True:
            for verdict in next(self.answers).verdicts:
                return verdict

    def generate(self, client, key, prompt, n_new):
        """The tokens of a text, with proposals by `client`, and how many of them were accepted."""
        tokens, n_accepted, first = list(prompt), 0, Batch()
        first.opens.add(sequence=1, incarnation=1, tokens=prompt, method=METHOD_GREEDY,
                        limits={"max_draft": 4, "max_tokens": len(prompt) + n_new})
        verdict = self.verdict(first)
        while True:
            tokens += verdict.tokens
            n_accepted += verdict.n_accepted
            if verdict.finish:
                return tokens[len(prompt):], n_accepted
            proposal, = client.step([Row(key, tokens)], GENEROUS_S)
            batch = Batch()
            batch.proposals.add(sequence=1, incarnation=1, round=verdict.round + 1, base_length=len(tokens), tokens=proposal.tokens)
            verdict = self.verdict(batch)

    def close(self):
        self.outbox.put(None)
        self.channel.close()


class ClientCase(Case):
    def client(self, address, kind=DraftClient, **options):
        client = kind(address, **{"wait_s": WAIT_S, "tokenizer": self.target, "n_ids": tiny_llama.VOCAB_SIZE, **options})
        self.addCleanup(client.close)
        return client

    def worker(self, address, *arguments, model=None):
        server = self.pilotfish.serve("worker", model or self.draft, address, "--threads", "1", *arguments)
        self.addCleanup(server.end, signal.SIGKILL)
        return server

    def prompt_tokens(self, text=PROMPT):
        return self.run_json("tokenize", "-m", self.target, "-p", text)["tokens"]

    def plain_text(self, prompt, n_new=N_NEW):
        """What the target generates: bytes, and a line end; `generate` shows no tokens."""
        return self.run_ok("generate", "-m", self.target, "--tokens", ",".join(map(str, prompt)), "-n", n_new).out

    def text(self, tokens):
        return self.run_ok("detokenize", "-m", self.target, "--tokens", ",".join(map(str, tokens))).out

    def steps(self, client, n=100, pause_s=0.002, key="text"):
        """Plain decoding of one text with a client: its longest wait, and the tokens proposed."""
        tokens, longest, n_proposed = self.prompt_tokens(), 0.0, 0
        for i in range(n):
            began = time.monotonic()
            proposal, = client.step([Row(key, tokens)])
            longest = max(longest, time.monotonic() - began)
            n_proposed += len(proposal.tokens)
            tokens = tokens + [10 + i % 50]
            time.sleep(pause_s)
        return longest, n_proposed


class WorkerTest(ClientCase):
    """The built worker."""

    def test_the_text_with_a_verifier_is_that_of_generate(self):
        with self.pilotfish.serve("verifier", self.target, self.socket("verifier")) as target:
            client = self.client(self.worker(self.socket("drafter")).address)
            self.assertTrue(client.wait_ready(GENEROUS_S))
            prompt = self.prompt_tokens()
            for key in range(3):
                verifier = Verifier(target.address)
                tokens, n_accepted = verifier.generate(client, key, prompt, N_NEW)
                verifier.close()
                self.assertEqual(self.text(tokens) + b"\n", self.plain_text(prompt))
                self.assertGreater(n_accepted, 20)
            self.assertEqual(client.figures["late"], 0)
            self.assertLessEqual(client.figures["accepted"], 3 * n_accepted)
            self.assertGreaterEqual(client.figures["accepted"], 3 * (n_accepted - 4))   # the last round is not told

    def test_a_batch_gets_proposals_in_one_answer_each_step(self):
        client = self.client(self.worker(self.socket("batch"), "--max-sequences", "16").address, max_draft=3)
        self.assertTrue(client.wait_ready(GENEROUS_S))
        texts = {i: self.prompt_tokens() + [20 + i] for i in range(12)}
        for step in range(10):
            proposals = client.step([Row(i, tokens) for i, tokens in texts.items()], GENEROUS_S)
            self.assertEqual([len(p.tokens) for p in proposals], [3] * 12)
            for tokens, proposal in zip(texts.values(), proposals):
                tokens += proposal.tokens[:2] + [40 + step]
        self.assertEqual(client.figures["opens"], 12)

    def test_rows_of_a_batch_name_their_drafters(self):
        worker = self.worker(self.socket("drafters"), "--drafter", "model,suffix,ngram")
        client = self.client(worker.address, drafter="suffix")
        self.assertTrue(client.wait_ready(GENEROUS_S))
        self.assertEqual(list(client.info.drafters), ["model", "suffix", "ngram"])
        repeats = self.prompt_tokens() + [70, 71, 72, 73] * 6
        rows = [Row(name, repeats, drafter=name) for name in ("", "suffix", "ngram", "model", "tree")]
        proposals = dict(zip(("", "suffix", "ngram", "model", "tree"), client.step(rows, GENEROUS_S)))
        for name in ("", "suffix", "ngram"):
            self.assertEqual(proposals[name].tokens, [70, 71, 72, 73], name)
        self.assertEqual(len(proposals["model"].tokens), 4)
        self.assertNotEqual(proposals["model"].tokens, [70, 71, 72, 73])
        self.assertEqual((proposals["tree"].tokens, client.figures["opens"], client.figures["refusals"]), ([], 4, 0))

    def test_asyncio_gives_the_same_proposals_and_keeps_the_loop_free(self):
        server = self.worker(self.socket("async"))
        tokens = self.prompt_tokens()

        async def steps():
            async with AsyncDraftClient(server.address, wait_s=GENEROUS_S) as client:
                self.assertTrue(await client.wait_ready(GENEROUS_S))
                server.process.send_signal(signal.SIGSTOP)
                first = asyncio.ensure_future(client.step([Row("a", tokens)]))
                for _ in range(5):      # a loop that the step holds comes here when the step is over
                    await asyncio.sleep(0.01)
                    self.assertFalse(first.done())
                server.process.send_signal(signal.SIGCONT)
                return [await first] + [await client.step([Row("a", tokens + [30] * i)]) for i in range(1, 8)]

        client = self.client(server.address)
        self.assertTrue(client.wait_ready(GENEROUS_S))
        self.assertEqual(asyncio.run(steps()), [client.step([Row("a", tokens + [30] * i)], GENEROUS_S) for i in range(8)])

    def test_without_a_worker_no_step_waits_and_one_that_comes_is_taken_up(self):
        address = self.socket("absent")
        with self.assertLogs("pilotfish", logging.WARNING) as logged:
            client = self.client(address)
            longest, n_proposed = self.steps(client, 300)
        self.assertEqual((n_proposed, len(logged.output)), (0, 1), logged.output)
        self.assertLess(longest, MARGIN_S)
        self.worker(address)
        self.assertTrue(client.wait_ready(GENEROUS_S))
        self.assertGreater(self.steps(client)[1], 0)

    def test_a_wrong_socket_is_one_warning_and_no_step_waits(self):
        """A verifier, a listener that says nothing, and a file that is no socket."""
        verifier = self.pilotfish.serve("verifier", self.target, self.socket("target"))
        self.addCleanup(verifier.end, signal.SIGKILL)
        silent = socket.socket(socket.AF_UNIX)
        self.addCleanup(silent.close)
        silent.bind(f"{self.root}/silent.sock")
        silent.listen()
        (self.root / "file.sock").write_text("no socket")
        for name, address in (("a verifier", verifier.address), ("silent", self.socket("silent")), ("a file", self.socket("file"))):
            with self.subTest(name), self.assertLogs("pilotfish", logging.WARNING) as logged:
                client = self.client(address)
                longest, n_proposed = self.steps(client, 300, 0.01)
                client.close()
            print(f"{name} as the worker: longest wait {longest * 1e3:.1f} ms", file=sys.stderr)
            self.assertEqual((n_proposed, len(logged.output)), (0, 1), logged.output)
            self.assertIn(address, logged.output[0])
            self.assertLess(longest, MARGIN_S)

    def test_a_stopped_worker_costs_one_wait_a_second(self):
        server = self.worker(self.socket("stopped"))
        client = self.client(server.address)
        self.assertTrue(client.wait_ready(GENEROUS_S))
        self.assertGreater(self.steps(client)[1], 0)
        server.process.send_signal(signal.SIGSTOP)
        began, late = time.monotonic(), client.figures["late"]
        longest, _ = self.steps(client, 400)
        seconds = time.monotonic() - began
        server.process.send_signal(signal.SIGCONT)
        print(f"stopped worker: longest wait {longest * 1e3:.1f} ms, deadline {WAIT_S * 1e3:.0f} ms", file=sys.stderr)
        self.assertLess(longest, WAIT_S + MARGIN_S)
        self.assertLessEqual(client.figures["late"] - late, seconds + 2)
        deadline = time.monotonic() + GENEROUS_S
        while not self.steps(client, 20)[1] and time.monotonic() < deadline:
            pass
        self.assertLess(time.monotonic(), deadline)

    def test_a_killed_worker_is_taken_up_again_and_one_with_another_vocabulary_is_not(self):
        other, _ = self.other_vocabulary(1.0)
        address = self.socket("killed")
        server = self.worker(address)
        client = self.client(address)
        self.assertTrue(client.wait_ready(GENEROUS_S))
        self.steps(client, 20)
        for model, fits in ((other, False), (self.target, True)):
            server.end(signal.SIGKILL)
            longest, _ = self.steps(client, 50)
            print(f"killed worker: longest wait {longest * 1e3:.1f} ms, deadline {WAIT_S * 1e3:.0f} ms", file=sys.stderr)
            self.assertLess(longest, WAIT_S + MARGIN_S)
            with self.assertLogs("pilotfish", logging.WARNING) as logged:
                logging.getLogger("pilotfish").warning("begin")
                server = self.worker(address, model=model)
                self.assertEqual(client.wait_ready(GENEROUS_S if fits else 2.5), fits)
            self.assertEqual(sum("another vocabulary" in line for line in logged.output), not fits, logged.output)
            self.assertEqual(self.steps(client, 50)[1] > 0, fits)

    def other_vocabulary(self, share):
        return other_vocabulary(self.draft, self.root / f"other-{share}", share)

    def proposed(self, client):
        """The ids that are proposed for a fixed text, and for how many steps something is."""
        tokens, ids, n_answers = self.prompt_tokens(), set(), 0
        for i in range(100):
            proposal, = client.step([Row("text", tokens)], GENEROUS_S)
            ids.update(proposal.tokens)
            n_answers += bool(proposal.tokens)
            tokens = tokens + [10 + i % 50]
        return ids, n_answers

    def test_a_worker_with_a_few_other_texts_drafts_the_ids_that_are_shared(self):
        same = self.client(self.worker(self.socket("same")).address)
        self.assertTrue(same.wait_ready(GENEROUS_S))
        all_ids, _ = self.proposed(same)
        model, differ = self.other_vocabulary(0.08)
        with self.assertLogs("pilotfish", logging.WARNING) as logged:
            client = self.client(self.worker(self.socket("differs"), model=model).address)
            self.assertTrue(client.wait_ready(GENEROUS_S))
            ids, n_answers = self.proposed(client)
        self.assertEqual(len(logged.output), 1, logged.output)
        self.assertIn(f"for {len(differ)} of {tiny_llama.VOCAB_SIZE} ids", logged.output[0])
        self.assertTrue(all_ids & differ)     # the same weights propose them where the texts are the same
        self.assertFalse(ids & differ)
        self.assertEqual(n_answers, 100)

    def test_a_worker_that_shares_fewer_than_nine_of_ten_ids_is_not_used(self):
        model, _ = self.other_vocabulary(0.15)
        with self.assertLogs("pilotfish", logging.WARNING) as logged:
            client = self.client(self.worker(self.socket("unfit"), model=model).address)
            self.assertFalse(client.wait_ready(2.5))
            self.assertEqual(self.steps(client, 20)[1], 0)
        self.assertEqual(len(logged.output), 1, logged.output)
        self.assertRegex(logged.output[0], "another vocabulary than the target: 8[0-9.]+ % .* expected at least 90 %")

    def test_too_few_places_are_shared_and_none_is_refused(self):
        client = self.client(self.worker(self.socket("few"), "--max-sequences", "2").address)
        self.assertTrue(client.wait_ready(GENEROUS_S))
        texts = {i: self.prompt_tokens() + [20 + i] for i in range(5)}
        drafted = set()
        for step in range(30):
            some = [i for i in texts if i not in (step % 5, (step + 1) % 5)]
            proposals = client.step([Row(i, list(texts[i])) for i in some], GENEROUS_S)
            self.assertEqual(sum(bool(p.tokens) for p in proposals), 2)   # those of a step are not closed for each other
            drafted |= {i for i, p in zip(some, proposals) if p.tokens}
            for i in some:
                texts[i].append(50 + step)
        self.assertGreater(len(drafted), 2)
        self.assertEqual(client.figures["refusals"], 0)

    def test_a_finished_text_frees_its_place_without_another_step(self):
        address = self.worker(self.socket("one"), "--max-sequences", "1").address
        first, second = self.client(address), self.client(address)
        self.assertTrue(first.wait_ready(GENEROUS_S) and second.wait_ready(GENEROUS_S))
        tokens = self.prompt_tokens()
        self.assertTrue(first.step([Row("a", tokens)], GENEROUS_S)[0].tokens)
        self.assertFalse(second.step([Row("b", tokens)], GENEROUS_S)[0].tokens)
        self.assertEqual(second.figures["refusals"], 1)
        first.finish(["a"])
        deadline = time.monotonic() + GENEROUS_S
        n = 0
        while not second.step([Row("b", tokens + [30] * n)])[0].tokens and time.monotonic() < deadline:
            time.sleep(0.05)
            n += 1
        self.assertLess(time.monotonic(), deadline)

    def test_the_fingerprint_is_that_of_the_worker(self):
        shown = self.run_json("info", "-m", self.target)["model"]
        client = self.client(self.worker(self.socket("print")).address)
        self.assertTrue(client.wait_ready(GENEROUS_S))
        mine = fingerprint(self.target, tiny_llama.VOCAB_SIZE)
        self.assertEqual(client.info.vocab_fingerprint, mine)
        self.assertIn(mine.hex(), str(shown))

    def test_a_worker_of_the_package_is_started_and_started_again(self):
        os.environ["PILOTFISH_BINARY"] = str(self.binary)
        self.addCleanup(os.environ.pop, "PILOTFISH_BINARY")
        with Worker(self.draft, threads=1, max_sequences=4) as worker:
            self.assertTrue(worker.wait_ready(GENEROUS_S))
            client = self.client(worker.address)
            self.assertTrue(client.wait_ready(GENEROUS_S))
            self.assertEqual(client.info.max_sequences, 4)
            first = worker.pid
            with self.assertLogs("pilotfish", logging.WARNING) as logged:
                os.kill(first, signal.SIGKILL)
                deadline = time.monotonic() + GENEROUS_S
                while worker.pid == first and time.monotonic() < deadline:
                    time.sleep(0.02)
            self.assertTrue(any("started again" in line for line in logged.output))
            self.assertTrue(worker.wait_ready(GENEROUS_S) and client.wait_ready(GENEROUS_S))
            last = worker.pid
        with self.assertRaises(ProcessLookupError):
            os.kill(last, 0)

    def test_a_worker_that_cannot_run_is_an_error_and_is_not_started_again(self):
        with mock.patch.dict(os.environ, {"PILOTFISH_BINARY": str(self.binary)}):
            for model, options, status in ((self.root / "no-model", {}, 1), (self.draft, {"threads": "many"}, 2)):
                with self.subTest(status=status), Worker(model, **options) as worker, \
                        self.assertRaisesRegex(RuntimeError, f"ended with status {status} before it was ready, .*worker --model {model}"):
                    worker.wait_ready(GENEROUS_S)

    def test_a_worker_ends_with_a_program_that_is_killed(self):
        code = (f"import sys, time; sys.path[:0] = {[str(package_path.PACKAGE), *sys.path]!r}; from pilotfish import Worker; "
                f"w = Worker({str(self.draft)!r}, threads=1); print(w.wait_ready(60), w.pid, flush=True); time.sleep(600)")
        program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "PILOTFISH_BINARY": str(self.binary)})
        ready, pid = program.stdout.readline().split()
        program.kill()
        program.communicate()
        self.assertEqual(ready, "True")
        deadline = time.monotonic() + GENEROUS_S
        while Path(f"/proc/{pid}/exe").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertFalse(Path(f"/proc/{pid}/exe").exists())

    def test_pilotfish_worker_is_the_binary_that_the_environment_names(self):
        command = [sys.executable, "-m", "pilotfish.worker", "--help"]
        path = {"PYTHONPATH": os.pathsep.join([str(package_path.PACKAGE), *sys.path]), "PATH": "/nowhere"}
        for binary, code, says in ((str(self.binary), 0, "Usage: pilotfish worker"), ("/dev/null", 1, "PILOTFISH_BINARY"),
                                   ("", 1, "no pilotfish in PATH")):
            done = subprocess.run(command, env={**path, "PILOTFISH_BINARY": binary}, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(says, done.stdout + done.stderr)


class ScriptedTest(ClientCase):
    """A worker that misbehaves."""

    def scripted(self, name, **options):
        worker = ScriptedWorker(self.socket(name), **options)
        self.addCleanup(worker.server.stop, 0)
        return self.client(self.socket(name), tokenizer=None, n_ids=N_IDS), worker

    def test_whatever_a_worker_sends_a_proposal_continues_its_row_and_no_step_waits_past_its_deadline(self):
        client, worker = self.scripted("liar", seed=5, change=mislead, max_sequences=3,
                                       delay_s=lambda rng: rng.choice((0, 0, 0, 0.005, 0.03)))
        self.assertTrue(client.wait_ready(GENEROUS_S))
        rng, longest, n_proposed = random.Random(1), 0.0, 0
        targets = [Target(i, [rng.randrange(N_IDS) for _ in range(5)], rng) for i in range(5)]
        for step in range(400):
            some = [t for t in targets if rng.random() < 0.7]
            began = time.monotonic()
            proposals = client.step([Row(t.key, list(t.tokens)) for t in some])
            longest = max(longest, time.monotonic() - began)
            for target, proposal in zip(some, proposals):
                self.assertEqual(proposal.tokens, chain(target.tokens, 4)[:len(proposal.tokens)])
                n_proposed += len(proposal.tokens)
                target.verify(proposal.tokens)
            time.sleep(0.005)
            if step % 100 == 99:
                worker.cut()
                time.sleep(0.3)
                self.assertTrue(client.wait_ready(GENEROUS_S))
        print(f"scripted worker: longest wait {longest * 1e3:.1f} ms, {n_proposed} tokens proposed, {client.figures}",
              file=sys.stderr)
        self.assertLess(longest, WAIT_S + MARGIN_S)
        self.assertGreater(n_proposed, 500)
        self.assertGreater(client.figures["late"], 0)
        self.assertEqual(client.figures["breaks"], 4)
        self.assertLessEqual(max(s.most_open for s in worker.scripts), 3)

    def test_a_worker_that_does_not_fit_is_named_once_and_never_asked(self):
        for name, fields, says in (("old", {"protocol_version": 0}, "version 0"), ("new", {"protocol_version": 2}, "version 2"),
                                   ("larger", {"vocab_size": N_IDS + 1}, str(N_IDS)), ("none", {"max_sequences": 0}, "no sequences")):
            with self.subTest(name), self.assertLogs("pilotfish", logging.WARNING) as logged:
                client, worker = self.scripted(name, **fields)
                self.assertFalse(client.wait_ready(2.5))
                self.assertEqual(self.steps(client, 20)[1], 0)
                self.assertEqual(worker.scripts, [])
                self.assertEqual(len(logged.output), 1, logged.output)
                self.assertIn(says, logged.output[0])

    def test_a_step_after_close_and_one_with_an_error_give_empty_proposals(self):
        client, _ = self.scripted("closed")
        self.assertTrue(client.wait_ready(GENEROUS_S))
        with self.assertLogs("pilotfish", logging.WARNING):
            self.assertEqual(client.step([Row("a", None)])[0].tokens, [])
        self.assertEqual(len(client.step([Row("a", [1, 2, 3])], GENEROUS_S)[0].tokens), 4)
        client.close()
        self.assertEqual(client.step([Row("a", [1, 2, 3, 4])])[0].tokens, [])

    def test_steps_of_several_threads_do_not_mix(self):
        client, _ = self.scripted("threads")
        self.assertTrue(client.wait_ready(GENEROUS_S))

        def run(key):
            rng = random.Random(key)
            target = Target(key, [key, 2, 3], rng)
            for _ in range(50):
                proposal, = client.step([Row(key, list(target.tokens))], GENEROUS_S)
                if proposal.tokens != chain(target.tokens, 4):
                    return f"{key}: {proposal.tokens}"
                target.verify(proposal.tokens)
            return None

        with ThreadPoolExecutor(4) as pool:
            self.assertEqual(list(pool.map(run, range(4))), [None] * 4)


logging.getLogger("pilotfish").addHandler(logging.NullHandler())   # tests that expect a warning look for it

if __name__ == "__main__":
    main()
