"""Help and usage errors."""

import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from cli_case import Case, main  # noqa: E402
from command_line import QUICKLY  # noqa: E402


COMMANDS = ["generate", "chat", "worker", "verifier", "serve", "top", "logits", "tokenize", "detokenize", "quantize", "info", "bench throughput",
            "bench kernels", "bench steps", "bench rpc", "bench acceptance"]


class Usage(Case):
    def test_every_command_has_a_one_screen_help_with_examples(self):
        for command in COMMANDS:
            with self.subTest(command):
                text = self.run_ok(*command.split(), "--help").out.decode()
                self.assertIn(f"Usage: pilotfish {command} ", text)
                self.assertIn("\nExamples:\n", text)
                lines = text.splitlines()
                self.assertLessEqual(len(lines), 84)
                self.assertLessEqual(max(map(len, lines)), 110)

    def test_a_usage_line_without_options_lists_every_option(self):
        for command in COMMANDS:
            usage, *lines = self.run_ok(*command.split(), "--help").out.decode().splitlines()
            for line in lines if "[options]" not in usage else []:
                if row := re.match(r"  (?:(-\w), |    )(--[\w-]+)", line):
                    self.assertTrue(any(name and re.search(rf"{name}\b", usage) for name in row.groups()), f"{usage}: {line}")
        usage = self.run_ok("generate", "--help").out.decode().splitlines()[0]
        for target in ("-m MODEL", "--verifier ADDR -d DRAFT"):   # one of them is needed
            self.assertIn(target, usage)

    def test_the_overview_lists_every_command(self):
        text = self.run_ok("--help").out.decode()
        for command in COMMANDS:
            self.assertIn(f"  {command} ", text)
        for words in (["-h"], ["bench", "--help"], ["bench", "-h"]):
            self.assertEqual(self.run_ok(*words).out.decode(), text)
        self.assertRegex(self.run_ok("--version").out, rb"^pilotfish \d+\.\d+\.\d+\n$")

    def test_the_manual_has_every_command_and_every_option_except_bench_only_ones(self):
        manual = (Path(__file__).resolve().parents[2] / "docs/pilotfish.1").read_text().replace("\\-", "-")
        for command in COMMANDS:
            self.assertIn(f"\n.B {command}\n", manual)
            shown = self.run_ok(*command.split(), "--help").out.decode()
            for option in re.findall(r"^  (?:-\w,|   ) (--[\w-]+)", shown, re.MULTILINE) if not command.startswith("bench ") else []:
                self.assertRegex(manual, rf"{option}(?![\w-])", command)

    def test_a_usage_error_is_status_2_and_one_sentence(self):
        model = ["-m", self.target]
        for arguments in [
            [], ["chat"], ["serve"], ["serve", *model], ["bench"],
            ["generate"], ["generate", *model], ["generate", *model, "-p", "a", "-f", "b"],
            ["generate", *model, "-p", "a", "--unknown"], ["generate", *model, "-p", "a", "word"],
            ["generate", *model, "-p"], ["generate", *model, "-p", "a", "--json=yes"],
            ["generate", *model, "-p", "a", "-n", "0"], ["generate", *model, "-p", "a", "-n", "1x"],
            ["generate", *model, "-p", "a", "--temperature", "-1"], ["generate", *model, "-p", "a", "--temperature", "nan"],
            ["generate", *model, "-p", "a", "--temperature", "0x1"], ["generate", *model, "-p", "a", "--temperature", "inf"],
            ["generate", *model, "-p", "a", "--top-p", "0"], ["generate", *model, "-p", "a", "--top-p", "1.5"],
            ["generate", *model, "-p", "a", "--seed", "18446744073709551616"], ["generate", *model, "-p", "a", "--stop", ""],
            ["generate", *model, "-p", "a", "--draft-len", "65"], ["generate", *model, "-p", "a", "--draft-len", "none"],
            ["generate", *model, "-p", "a", "--method", "blocks"], ["generate", *model, "-p", "a", "--dtype", "int9"],
            ["generate", *model, "-p", "a", "--head", "screened"], ["verifier", *model, "--listen", "unix:/x", "--head", "screened"],
            ["worker", *model, "--listen", "unix:/x", "--head", "bounded"], ["logits", *model, "--tokens", "1", "--head", "auto"],
            ["generate", *model, "-p", "a", "-d", self.draft, "--draft-head", "half"],
            ["generate", *model, "-p", "a", "--act", "int4"], ["generate", *model, "-p", "a", "--draft-act", "x"],
            ["generate", *model, "-p", "a", "--method", "greedy", "--temperature", "1"],
            ["generate", *model, "-p", "a", "--isa", "mmx"], ["generate", *model, "-p", "a", "--cores", "x"],
            ["generate", *model, "--tokens", "1,,2"], ["generate", *model, "--tokens", "1,-2"],
            ["generate", *model, "--tokens", "1,2,"], ["generate", *model, "--tokens", "4294967296"],
            ["generate", *model, "--tokens", "0000000000000012"],
            ["generate", *model, "-p", "a", "-d", self.draft, "--draft-worker", "unix:/x"],
            ["generate", *model, "-p", "a", "-d", self.draft, "--verifier", "unix:/x"],
            ["generate", "-p", "a", "--verifier", "unix:/x"], ["generate", *model, "-p", "a", "--drafter", "tree"],
            ["generate", *model, "-p", "a", "--drafter", "ngram", "-d", self.draft],
            ["generate", *model, "-p", "a", "--drafter", "ngram,model", "--draft-worker", "unix:/x"],
            ["generate", *model, "-p", "a", "--drafter", "ngram,cascade"],
            ["generate", *model, "-p", "a", "--drafter", "ngram,", "-d", self.draft],
            ["generate", *model, "-p", "a", "--drafter", "model"],
            ["bench", "acceptance", *model, "--drafter", "ngram", "-d", self.draft],
            ["bench", "acceptance", *model, "--drafter", "model"],
            ["worker", *model], ["verifier", "--listen", "unix:/x"],
            ["worker", *model, "--listen", "malformed"], ["verifier", *model, "--listen", "localhost:65536"],
            ["worker", *model, "--listen", "unix:"], ["worker", *model, "--listen", "unix:/" + 107 * "x"],
            ["generate", *model, "-p", "a", "--draft-worker", ":7000"],
            ["generate", "-d", self.draft, "-p", "a", "--verifier", "::1:7000"],
            ["bench", "rpc", "--worker", "localhost:"], ["bench", "acceptance", *model, "--draft-worker", "a b:1"],
            ["quantize", *model, "--dtype", "int8"], ["quantize", "-o", "x", "--dtype", "int8"],
            ["quantize", *model, "-o", self.root / "x"], ["quantize", *model, "-o", self.root / "x", "--dtype", "bf16-12"],
            ["logits", *model], ["tokenize", "-p", "a"], ["detokenize", *model],
            ["bench", "kernels", *model, "--rows", "17"], ["bench", "kernels", *model, "--op", "gemm"],
            ["bench", "kernels", "--format", "int5"], ["bench", "kernels", "--op", "gem"],
            ["bench", "kernels", "--quick", "--threads", "1", "--op", "rope", "--format", "bf16"],
            ["bench", "throughput"], ["bench", "steps"],
            ["bench", "rpc"], ["bench", "rpc", "--loopback", "--worker", "unix:/x"],
            ["generate", *model, "-f", ""], ["bench", "acceptance", *model, "-d", self.draft, "--prompts", ""],
            ["bench", "acceptance", *model], ["bench", "acceptance", *model, "-d", self.draft, "--draft-len", ""],
        ]:
            with self.subTest(arguments):
                self.assert_fails(*arguments, code=2, saying=["--help"])

    def test_port_0_is_only_for_listening(self):
        drafts = ["-m", self.target, "--draft-worker"]
        for command in [["generate", "-p", "a", *drafts], ["generate", "-p", "a", "-d", self.draft, "--verifier"],
                        ["bench", "acceptance", *drafts], ["bench", "rpc", "--worker"]]:
            self.assert_fails(*command, "127.0.0.1:0", code=2, saying=["127.0.0.1:0", "port 0 is for --listen alone", "1 to"])
        with self.pilotfish.serve("worker", self.draft, "127.0.0.1:0") as worker:
            self.assertNotEqual(worker.address, "127.0.0.1:0")

    def test_simulated_times_are_refused_for_far_models(self):
        here, there = ["-m", self.target], ["--draft-worker", "unix:/x"]
        verifier = ["--verifier", "unix:/x", "-d", self.draft]
        for command in (["generate", "-p", "a"], ["bench", "acceptance"]):
            for way, option, needs in [([*here, *there], "--simulate-token-ms", "-d DRAFT"),
                                       (verifier, "--simulate-step-ms", "-m MODEL")]:
                self.assert_fails(*command, *way, option, "5", code=2, saying=[f"{option} needs {needs}"])

    def test_commands_without_a_model_warn_of_model_options(self):
        both = ["--dtype", "int8", "--act", "bf16", "--kv-dtype", "f32", "--head", "full", "--context", "64"]
        for command, idle, used in [
            (["info"], [*both, "--gemm", "own", "--threads", "1", "--cores", "0"], ["--isa", "scalar"]),
            (["bench", "kernels", "--quick", "--op", "rope"], [*both, "--rows", "1"], ["--isa", "scalar", "--threads", "1"]),
        ]:
            said = self.pilotfish.run(*command, *idle, *idle, *used).err.splitlines()
            self.assertEqual([line for line in said if "warning" in line],
                             [f"pilotfish: warning: {option} has no effect without -m MODEL" for option in idle[::2]])
            self.assertNotIn("warning", self.pilotfish.run(*command, *used).err)
        self.assertNotIn("warning", self.run_ok("info", *both, "-m", self.target).err)

    def test_the_number_of_stop_texts_is_what_the_help_says(self):
        most = int(re.search(rb"--stop TEXT .*up to (\d+) times", self.run_ok("generate", "--help").out)[1])
        generate = ["generate", "-m", self.target, "-p", "a", "-n", "1", *most * ["--stop", "no such text"]]
        self.run_ok(*generate)
        self.assert_fails(*generate, "--stop", "one more", code=2, saying=[f"more than {most} times"])

    def test_an_empty_list_entry_is_refused(self):
        acceptance = ["bench", "acceptance", "-m", self.target, "-d", self.draft]
        for command, value in [([*acceptance, "--draft-len"], "1"), ([*acceptance, "--temperature"], "0"),
                               ([*acceptance, "--method"], "greedy"), (["bench", "kernels", "-m", self.target, "--rows"], "1")]:
            for written, entry in [("", 1), (",", 1), (f"{value},", 2), (f",{value}", 1), (f"{value},,{value}", 2)]:
                with self.subTest(command[-1], written=written):
                    self.assert_fails(*command, written, code=2, saying=[f'{command[-1]} is "{written}"', f"as entry {entry}"])

    def test_a_list_entry_with_trailing_characters_is_refused(self):
        acceptance = ["bench", "acceptance", "-m", self.target, "-d", self.draft, "--temperature"]
        for entry in ["0.1" + 69 * "0" + "xyz", "1." + 61 * "0" + "e2"]:
            self.assert_fails(*acceptance, f"0,{entry}", code=2, saying=[f'"{entry[:40]}..." as entry 2', "at most 63"])
        # the longest that is taken, as far as a number that is refused shows it
        self.assert_fails(*acceptance, "2" + 62 * "0", code=2, saying=["expected a number"])

    def test_a_bad_entry_of_a_core_list_is_named_at_any_length(self):
        all_of_a_large_machine = ",".join(map(str, range(128)))
        for written, entry, expected in [("", 1, 'is "", expected a number'), ("0,", 2, 'is "", expected a number'),
                                         (f"{all_of_a_large_machine},x", 129, 'is "x", expected a number or a range'),
                                         ("0," + 300 * "9", 2, f'is "{40 * "9"}", expected a number or a range'),
                                         (",".join(1025 * ["0"]), 1025, 'is "0", expected at most 1024 cores in all')]:
            self.assert_fails("info", "--cores", written, code=2, saying=[f"--cores: entry {entry} of the list of cores {expected}"])

    def test_every_command_reports_an_unknown_id_the_same_way(self):
        said = {self.assert_fails(command, "-m", self.target, "--tokens", "5,99999", saying=["entry 2 of --tokens is 99999"])
                for command in ("generate", "logits", "detokenize")}
        self.assertEqual(len(said), 1, said)

    def test_quoted_arguments_are_escaped(self):
        model = ["generate", "-m", self.target]
        for arguments in [[*model, "-p", "a", "-n"], [*model, "--tokens"], [*model, "-p", "a", "--temperature"], ["--wait"],
                          [*model, "-p", "a", "--isa"], ["bench"], [], ["info"], ["info", "--cores"], ["info", "-m"]]:
            for word in ["a\nb", "\x1b[2J", "\x7f", "\u009b2J", b"\xff", "\u202ea\u2066", "\u00e9" * 39 + "x"]:
                with self.subTest(arguments, word=word):
                    process = self.pilotfish.start(*arguments, word)
                    out, err = process.communicate(timeout=QUICKLY)
                    self.assertIn(process.returncode, [1, 2])
                    self.assertEqual((out, err.count(b"\n")), (b"", 1))
                    self.assertFalse([c for c in err.decode()[:-1] if not c.isprintable()], err)   # and it is UTF-8
        self.assert_fails("info", "-\u00e9", code=2, saying=["no option"])


if __name__ == "__main__":
    main()
