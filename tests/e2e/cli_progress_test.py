"""Progress bars: shown on a terminal for long operations, erased at the end, absent without a terminal. Run as: FILE BINARY"""

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

sys.dont_write_bytecode = True
import tiny_llama  # noqa: E402
from cli_case import PROMPT, Case, main  # noqa: E402
from command_line import QUICKLY  # noqa: E402

WIPED = b"\r\x1b[K"
BAR = re.compile(rb"\r([a-z ]+) \[#*\.*\] +(\d+) %")
SLOWLY = ("--isa", "scalar", "--threads", "1")
MANY = ",".join(str(2 + i % 200) for i in range(900))


class Screen:
    """A terminal, and what has been written to it; 0 columns: the width is unknown."""

    def __init__(self, columns=0):
        self.columns = columns

    def __enter__(self):
        self.master, self.terminal = os.openpty()
        self.written = b""
        self.resize(self.columns)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        return self

    def resize(self, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))

    def read(self):
        while not self.written.endswith(b"\0end"):
            select.select([self.master], [], [])
            self.written += os.read(self.master, 1 << 16)

    def wait_for(self, pattern):
        until = time.monotonic() + QUICKLY
        while not pattern.search(self.written) and time.monotonic() < until:
            time.sleep(0.02)

    def __exit__(self, *_):
        os.write(self.terminal, b"\0end")
        self.reader.join()
        os.close(self.master)
        os.close(self.terminal)
        self.written = self.written[:-len(b"\0end")]


class Progress(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.deep = tiny_llama.make(cls.root / "deep", layers=8, context=2048)  # seconds for that many
        cls.slow = ["generate", "-m", cls.target, "-p", PROMPT, "-n", "80", "--ignore-eos", "--simulate-step-ms", "10"]

    def run_on_a_screen(self, *arguments, seen=False, columns=0, environment=None):
        """What it shows: of standard output, too, where that is seen."""
        with Screen(columns) as screen:
            code = subprocess.run([self.pilotfish.path, *map(str, arguments)], env={**self.pilotfish.environment, **(environment or {})},
                                  stdin=subprocess.DEVNULL, stdout=screen.terminal if seen else subprocess.DEVNULL,
                                  stderr=screen.terminal, timeout=QUICKLY).returncode
        self.assertEqual(code, 0, screen.written[-200:])
        return screen.written

    def assert_a_bar(self, written, label):
        """It grows, and is wiped before anything else is written."""
        bars = [bar for bar in BAR.finditer(written) if bar[1] == label]
        self.assertTrue(bars, written[-200:])
        shares = [int(bar[2]) for bar in bars]
        self.assertEqual(shares, sorted(shares))
        for end in (bar.end() for bar in bars):
            self.assertTrue(written.startswith(WIPED, end) or BAR.match(written, end), written[end:end + 200])

    def test_logits_of_many_tokens(self):
        for options in ([], ["--all"]):
            with self.subTest(options):
                written = self.run_on_a_screen("logits", "-m", self.deep, "--tokens", MANY, *options, *SLOWLY,
                                               seen=True)
                self.assert_a_bar(written, b"computing")

    def test_a_long_prompt(self):
        written = self.run_on_a_screen("generate", "-m", self.deep, "--tokens", MANY, "-n", "2", *SLOWLY, seen=True)
        self.assert_a_bar(written, b"reading the prompt")

    def test_a_long_text_with_stdout_redirected(self):
        for options in (["--json"], []):
            with self.subTest(options):
                self.assert_a_bar(self.run_on_a_screen(*self.slow, *options), b"generating")
        self.assertNotRegex(self.run_on_a_screen(*self.slow, seen=True), BAR)

    def test_a_bar_fits_the_terminal_width(self):
        for columns, expected in [(52, rb"generating \[[#.]{32}\] +\d+ %"), (51, rb"generating \[[#.]{31}\] +\d+ %"),
                                  (20, rb" *\d+ %"), (6, rb" *\d+ %")]:
            written = self.run_on_a_screen(*self.slow, "--json", columns=columns)
            loading = rb"(?:[^\x1b]*" + re.escape(WIPED) + rb")?"   # where that takes half a second, too
            self.assertRegex(written, rb"\A" + loading + rb"(\r" + expected + rb")+" + re.escape(WIPED) + rb"\Z", columns)
        self.assertEqual(self.run_on_a_screen(*self.slow, "--json", columns=5), b"")

    def test_round_trips_until_interrupted(self):
        with Screen() as screen:
            process = self.pilotfish.start("bench", "rpc", "--loopback", "--rounds", 1 << 24, stderr=screen.terminal)
            screen.wait_for(BAR)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=QUICKLY)
        self.assert_a_bar(screen.written, b"measuring")
        self.assertIn(b"no round trip was counted", out)  # a tenth of them warm it up

    @contextlib.contextmanager
    def a_long_text(self, *arguments):
        """On a screen, and interrupted at the end."""
        with Screen(80) as screen:
            process = self.pilotfish.start(*self.slow, "-n", "1000", "--json", *arguments, stderr=screen.terminal)
            screen.wait_for(BAR)
            yield screen
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=QUICKLY)
        self.assert_a_bar(screen.written, b"generating")

    def test_a_terminal_that_changes_its_width(self):
        narrow = re.escape(WIPED) + rb"(\r +\d+ %)+"
        wide_again = re.compile(narrow + re.escape(WIPED) + BAR.pattern)
        with self.a_long_text() as screen:
            screen.resize(20)
            screen.wait_for(re.compile(narrow))
            screen.resize(80)
            screen.wait_for(wide_again)
        self.assertRegex(screen.written, wide_again)

    def test_a_warning_replaces_the_bar_until_it_is_redrawn(self):
        redrawn = re.compile(rb"\[Kpilotfish: warning: the draft worker is gone .*\n" + BAR.pattern)
        with self.pilotfish.serve("worker", self.draft, self.socket("mortal")) as worker:
            with self.a_long_text("--draft-worker", worker.address, "--draft-len", "1") as screen:
                worker.end(signal.SIGKILL)
                screen.wait_for(redrawn)
        self.assertRegex(screen.written, redrawn)

    def test_no_bar_without_a_terminal_or_on_a_dumb_one(self):
        self.assertNotIn("\r", self.run_ok(*self.slow).err)
        self.assertEqual(self.run_on_a_screen(*self.slow, "--json", environment={"TERM": "dumb"}), b"")


if __name__ == "__main__":
    main()
