"""Ctrl-C at any moment, and memory, descriptors, disks and pipes that give out: one sentence, and JSON whole or none."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
import tiny_llama  # noqa: E402
from cli_case import PROMPT, Case, SlowCase, main  # noqa: E402
from command_line import QUICKLY, read_line, read_some  # noqa: E402


def cpu_seconds(process):
    """What a process has computed so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Interrupts(SlowCase):
    def test_ctrl_c_shows_what_there_is_and_is_status_130(self):
        expected = self.plain_text()
        address = self.socket("none")
        process = self.start_generation(address)
        shown = read_some(process.stdout, QUICKLY)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=QUICKLY)
        self.assertEqual(process.returncode, 130, err)
        text = (shown + rest).rstrip(b"\n")
        self.assertTrue(text)
        self.assertTrue(expected.startswith(text), (text, expected))

    def test_ctrl_c_closes_the_json(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start_generation(self.socket("none"), "--json")
            read_line(process.stderr, QUICKLY)   # the warning: from here on tokens are made
            time.sleep(0.3)
            process.send_signal(number)
            out, err = process.communicate(timeout=QUICKLY)
            self.assertEqual(process.returncode, 130, err)
            document = json.loads(out)
            self.assertEqual(document["finish_reason"], "interrupted")
            self.assertLess(len(document["tokens"]), self.N)

    def test_a_hangup_that_is_ignored_stays_ignored(self):
        process = self.pilotfish.start("generate", "-m", self.target, "-p", PROMPT, "-n", "40", "--simulate-step-ms", "5",
                                       preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))   # as nohup does
        shown = read_some(process.stdout, QUICKLY)
        process.send_signal(signal.SIGHUP)
        rest, err = process.communicate(timeout=QUICKLY)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(shown + rest, self.run_ok("generate", "-m", self.target, "-p", PROMPT, "-n", "40").out)

    def test_what_ends_it_at_once_ends_the_first_process_of_a_container(self):
        """Which the kernel spares where a signal has no handler."""
        process = subprocess.Popen(["unshare", "--map-root-user", "--pid", "--fork", self.pilotfish.path, "worker", "-m", self.draft,
                                    "--listen", f"unix:{self.root}/first.sock"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.pilotfish.environment,
                                   preexec_fn=lambda: signal.signal(signal.SIGQUIT, signal.SIG_DFL))
        if not read_line(process.stdout, QUICKLY).startswith(b"ready "):
            _, err = process.communicate(timeout=QUICKLY)
            self.assertIn(b"unshare", err)
            self.skipTest("there is no namespace of processes to be had here")
        first = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        try:
            os.kill(first, signal.SIGQUIT)
            _, err = process.communicate(timeout=QUICKLY)
        except subprocess.TimeoutExpired:
            os.kill(first, signal.SIGKILL)
            process.communicate()
            raise
        self.assertEqual(process.returncode, 128 + signal.SIGQUIT, err)

    def test_ctrl_c_before_the_first_token_is_a_document_without_tokens(self):
        for arguments, expected in [([], [[]]), (["--num-samples", "2"], [])]:
            read_end, write_end = os.pipe()
            process = subprocess.Popen([self.pilotfish.path, "generate", "-m", self.target, "-f", "-", "--json", *arguments],
                                       stdin=read_end, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env=self.pilotfish.environment)
            os.close(read_end)
            time.sleep(0.3)   # it waits for the rest of the prompt
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=QUICKLY)
            os.close(write_end)
            self.assertEqual(process.returncode, 130, err)
            documents = [json.loads(line) for line in out.splitlines()]
            self.assertEqual([d["tokens"] for d in documents], expected)
            for d in documents:
                self.assertEqual((d["text"], d["finish_reason"]), ("", "interrupted"))
                self.assertIsNone(d["timing"]["tokens_per_s"])

    def test_ctrl_c_before_the_first_token_is_no_line_of_text(self):
        deep = tiny_llama.make(self.root / "deep", layers=8, context=2048)
        process = self.pilotfish.start("generate", "-m", deep, "--draft-worker", self.socket("none"), "--num-samples", "2",
                                       "--tokens", ",".join(["5"] * 2000), "--isa", "scalar", "--threads", "1")
        read_line(process.stderr, QUICKLY)   # the warning: from here on the prompt is read, for seconds
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=QUICKLY)
        self.assertEqual((process.returncode, out, err), (130, b"", b""))   # nor figures of what was not done

    def test_ctrl_c_before_a_worker_answers_is_a_document_of_the_same_shape(self):
        mute = tiny_llama.make(self.root / "mute", tokenizer=False)
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(f"{self.root}/silent.sock")
            silent.listen()
            for model, text in [(mute, None), (self.target, "")]:
                process = self.pilotfish.start("generate", "--json", "-m", model, "--draft-worker", self.socket("silent"),
                                               "--tokens", "0,5")
                silent.settimeout(QUICKLY)
                with silent.accept()[0]:   # it is loaded, and asks for the service
                    process.send_signal(signal.SIGINT)
                    out, err = process.communicate(timeout=QUICKLY)
                self.assertEqual(process.returncode, 130, err)
                document = json.loads(out)
                self.assertEqual((document["prompt_tokens"], document["tokens"], document["text"]), ([0, 5], [], text))
                self.assertEqual(document["speculation"]["rounds"], 0)
                self.assertEqual(document["finish_reason"], "interrupted")

    def test_ctrl_c_at_any_moment_leaves_whole_json_or_none(self):
        for delay in [0.0, 0.004, 0.008, 0.015, 0.03, 0.06]:
            process = self.pilotfish.start("generate", "-m", self.target, "-d", self.draft, "-p", PROMPT, "-n", self.N,
                                           "--simulate-step-ms", "5", "--json")
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=QUICKLY)
            self.assertIn(process.returncode, (130, -signal.SIGINT), err)   # the latter before main has begun
            if out:
                self.assertEqual(json.loads(out)["finish_reason"], "interrupted")

    def test_ctrl_c_at_any_moment_of_a_bench_leaves_whole_json_or_none(self):
        for delay in range(8, 38, 1):   # ms: before it measures, and in the run that only warms up
            process = self.pilotfish.start("bench", "throughput", "-m", self.target, "--json")
            time.sleep(delay / 1000)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=QUICKLY)
            self.assertIn(process.returncode, (130, -signal.SIGINT), err)
            if out:
                self.assertIn("read", json.loads(out)["decode"])

    def test_ctrl_c_while_no_process_reads_leaves_whole_json(self):
        process = self.pilotfish.start("logits", "-m", self.target, "--tokens", ",".join(["1"] * 40), "--all", "--json",
                                       pipesize=4096)   # less than is written at a time
        begin = read_some(process.stdout, QUICKLY)
        time.sleep(0.3)
        for number in (signal.SIGINT, signal.SIGTERM):   # in the middle of a write, and before anything of one is written
            process.send_signal(number)
            time.sleep(0.3)
        rest, err = process.communicate(timeout=QUICKLY)
        self.assertEqual((process.returncode, err), (130, b""))
        self.assertGreater(len(json.loads(begin + rest)["logits"]), 1)

    def test_ctrl_c_ends_it_when_no_process_will_ever_read(self):
        process = self.pilotfish.start("logits", "-m", self.target, "--tokens", ",".join(["1"] * 40), "--all", pipesize=4096)
        read_some(process.stdout, QUICKLY)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(QUICKLY), 130)
        self.assertIn(b"standard output was not read", process.communicate()[1])

    def test_ctrl_c_while_a_text_is_cut_into_tokens(self):
        text = self.root / "long"
        text.write_bytes((PROMPT.encode() + b" of it.\n") * (1 << 20))   # seconds
        for arguments in (["tokenize"], ["generate", "-n", "1"]):
            with open(text, "rb") as stdin:
                process = subprocess.Popen([self.pilotfish.path, *arguments, "-m", self.target,
                                            *(["-f", "-"] if arguments[0] == "generate" else [])],
                                           stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                while cpu_seconds(process) < 0.2:
                    time.sleep(0.01)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=QUICKLY)
                self.assertEqual((process.returncode, out, err), (130, b"", b""))


class Scarcity(Case):
    def test_memory_that_is_not_there_is_a_sentence(self):
        def run(megabytes, arguments):
            limit = [megabytes << 20] * 2
            process = self.pilotfish.start(*arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
            out, err = process.communicate(timeout=QUICKLY)
            return process.returncode, out, err.decode()

        generate = ["generate", "-m", self.target, "-p", PROMPT, "-n", "4", "--json"]
        for arguments, limits in [([*generate, "-d", self.draft], range(26, 90, 4)),
                                  ([*generate, "--draft-worker", self.socket("none")], range(80, 300, 10)),   # gRPC's threads
                                  (["bench", "rpc", "--loopback", "--rounds", "10", "--json"], range(70, 400, 10))]:
            if run(4096, arguments)[0] != 0:
                self.skipTest("not to be had under a sanitizer, which reserves terabytes")
            seen = set()
            for megabytes in limits:
                code, out, err = run(megabytes, arguments)
                if err.startswith(("\nlibgomp: ", "Error in GnuTLS initialization: ")) or (code not in (0, 1) and run(megabytes, ["--version"])[0] == code):
                    continue   # before main: the loader's own (127), or what a library begins with aborts, or exits
                seen.add(code)
                self.assertIn(code, (0, 1), (megabytes, err))
                if code == 1:
                    self.assertFalse(out)
                    self.assertEqual(err.count("\n"), 1, err)
            self.assertIn(1, seen, "no limit was too small")

    def test_ids_that_there_is_no_memory_for_are_a_failure_and_not_misuse(self):
        ids = ",".join(["1"] * 60000)   # a word of 117 KiB, 469 KiB as numbers

        def run(limit):
            process = self.pilotfish.start("detokenize", "--tokens", ids,
                                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, [limit] * 2))
            _, err = process.communicate(timeout=QUICKLY)
            return process.returncode, err

        def takes_them(limit):
            return b"a model is needed" in run(limit)[1]

        too_few, enough = 8 << 20, 4 << 30
        if not takes_them(enough):
            self.skipTest("not to be had under a sanitizer, which reserves terabytes")
        while enough - too_few > 4096:
            middle = (too_few + enough) // 2
            too_few, enough = (too_few, middle) if takes_them(middle) else (middle, enough)
        code, err = run(enough - (64 << 10))
        self.assertEqual(code, 1, err)
        self.assertRegex(err.decode(), r"^pilotfish: --tokens: no memory for more than \d+ ids\n$")

    def test_descriptors_that_are_not_there_are_a_sentence(self):
        for arguments in [["bench", "rpc", "--loopback", "--rounds", "10"],
                          ["generate", "-m", self.target, "-p", "a", "-n", "2", "--draft-worker", self.socket("none")]]:
            seen = set()
            for limit in range(4, 20):
                process = self.pilotfish.start(*arguments, preexec_fn=lambda n=limit: resource.setrlimit(
                    resource.RLIMIT_NOFILE, [n] * 2))
                out, err = process.communicate(timeout=QUICKLY)
                if process.returncode == 127:   # the loader's own
                    continue
                seen.add(process.returncode)
                self.assertIn(process.returncode, (0, 1), (arguments, limit, err))
                if process.returncode == 1:
                    self.assertEqual((out, err.count(b"\n")), (b"", 1), (limit, err))
            self.assertEqual(seen, {0, 1}, arguments)

    def test_a_stack_that_is_too_small_is_made_larger_or_is_a_sentence(self):
        def run(least, most, *arguments):
            process = self.pilotfish.start(*arguments, preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_STACK, [least << 10, most]))
            out, err = process.communicate(timeout=QUICKLY)
            return process.returncode, bool(out), err.decode()

        if run(64, resource.RLIM_INFINITY, "--version")[0] != 0:
            self.skipTest("not to be had under a sanitizer, whose frames are larger")
        generate = ["generate", "-m", self.target, "-d", self.draft, "-p", "a", "-n", "4", "--threads", "2", "--json"]
        for arguments in [generate, ["tokenize", "-m", self.target, "-p", "a"], ["bench", "rpc", "--loopback", "--rounds", "10"]]:
            for least, most in [(32, resource.RLIM_INFINITY), (64, 256 << 10), (256, 256 << 10)]:
                code, out, err = run(least, most, *arguments)
                self.assertEqual((code, out), (0, True), (arguments, least, most, err))
            for most in [32, 64]:
                self.assertEqual(run(most, most << 10, *arguments),
                                 (1, False, f"pilotfish: the stack may have {most} KiB, expected 256 or more (ulimit -s)\n"))

    def test_vocabularies_that_cannot_be_told_apart_are_a_sentence(self):
        settings = self.root / "openssl.cnf"
        settings.write_text("openssl_conf=all\n[all]\nproviders=providers\n[providers]\nnull=null\n[null]\nactivate=1\n")
        for arguments in [["info", "-m", self.target], ["generate", "-m", self.target, "-d", self.draft, "-p", "a", "-n", "2"]]:
            result = self.pilotfish.run(*arguments, environment={"OPENSSL_CONF": str(settings)})
            self.assertEqual((result.code, result.out), (1, b""))
            self.assertIn("OpenSSL gives no SHA-256", result.err)

    def test_a_full_disk_and_a_closed_pipe_are_sentences(self):
        for arguments in [["generate", "-m", self.target, "-p", "a", "-n", "4"],
                          ["generate", "-m", self.target, "-p", "a", "-n", "4", "--json"],
                          ["logits", "-m", self.target, "--tokens", "1,2", "--all"], ["info"], ["--help"],
                          ["tokenize", "-m", self.target, "-p", "a"],
                          ["bench", "kernels", "--quick", "--op", "gated", "--threads", "1"],
                          ["bench", "kernels", "--quick", "-m", self.target, "--context", "8", "--threads", "1"],
                          ["worker", "-m", self.draft, "--listen", self.socket("unheard")],
                          ["verifier", "-m", self.target, "--listen", "127.0.0.1:0"]]:
            with self.subTest(arguments):
                with open("/dev/full", "wb") as full:
                    result = self.pilotfish.run(*arguments, stdout=full)
                self.assertEqual(result.code, 1)
                self.assertIn("No space left on device", result.err)
                self.assertEqual(result.err.count("\n"), 1, result.err)
                read_end, write_end = os.pipe()
                os.close(read_end)
                result = self.pilotfish.run(*arguments, stdout=write_end)
                os.close(write_end)
                self.assertEqual(result.code, 1)
                self.assertIn("standard output", result.err)
                self.assertEqual(result.err.count("\n"), 1, result.err)

    def test_a_file_that_is_full_holds_whole_lines_of_json(self):
        def run(room, *arguments):
            path = self.root / "full.json"
            with open(path, "wb") as file:
                result = self.pilotfish.run(*arguments, "--json", stdout=file, preexec_fn=lambda: resource.setrlimit(
                    resource.RLIMIT_FSIZE, [room] * 2))
            self.assertEqual((result.code, result.err), (1, "pilotfish: cannot write to standard output: File too large\n"))
            return path.read_bytes()

        samples = run(3000, "generate", "-m", self.target, "-p", "a", "-n", "20", "--num-samples", "30", "--seed", "1")
        self.assertEqual([json.loads(line)["seed"] for line in samples.splitlines()], list(range(1, samples.count(b"\n") + 1)))
        self.assertGreater(samples.count(b"\n"), 2)
        self.assertEqual(run(100, "generate", "-m", self.target, "-p", "a", "-n", "20"), b"")
        self.assertEqual(run(20000, "logits", "-m", self.target, "--all", "--tokens", ",".join(["5"] * 200)), b"")

    def test_a_closed_descriptor_is_a_sentence_and_is_given_to_nothing_else(self):
        def run(closed, *arguments):
            result = self.pilotfish.run(*arguments, preexec_fn=lambda: os.close(closed))
            return result.code, result.out, result.err

        code, out, err = run(0, "tokenize", "-m", self.target)
        self.assertEqual((code, out, err), (1, b"", "pilotfish: standard input: cannot be read: Bad file descriptor\n"))
        code, out, err = run(0, "bench", "steps", "-m", self.target)
        self.assertRegex(out, rb"^ready \d+\n$")
        self.assertEqual((code, err), (1, "pilotfish: standard input: cannot be read: Bad file descriptor\n"))
        self.assertEqual(run(0, "tokenize", "-m", self.target, "-p", "a")[0], 0)
        for arguments in [["generate", "-m", self.target, "-p", "a", "-n", "2"], ["info", "-m", self.target],
                          ["worker", "-m", self.draft, "--listen", self.socket("closed")]]:
            code, out, err = run(1, *arguments)
            self.assertEqual((code, out), (1, b""))
            self.assertIn("standard output: Bad file descriptor", err)
            self.assertEqual(err.count("\n"), 1, err)
            if arguments[0] != "worker":
                self.assertEqual(run(2, *arguments)[0], 0)

    def test_a_pipe_that_does_not_block_gets_all_of_it(self):
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        process = subprocess.Popen([self.pilotfish.path, "logits", "-m", self.target, "--all", "--json", "--tokens",
                                    ",".join(["5"] * 200)], stdout=write_end, stderr=subprocess.PIPE,
                                   env=self.pilotfish.environment)
        os.close(write_end)
        time.sleep(0.3)   # the pipe is full
        with open(read_end, "rb") as pipe:
            out = pipe.read()
        _, err = process.communicate(timeout=QUICKLY)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(len(json.loads(out)["logits"]), 200)


if __name__ == "__main__":
    main()
