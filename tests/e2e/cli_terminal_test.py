"""`pilotfish chat` on a terminal: editing, history, Ctrl-C, Tab, another window size. Run as: FILE BINARY"""

import fcntl
import json
import os
import re
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

sys.dont_write_bytecode = True
from cli_case import Case, main  # noqa: E402
from command_line import QUICKLY  # noqa: E402

TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"
PROMPT = rb"> $"
CONTROLS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
CTRL_C, CTRL_D, CTRL_A, BACKSPACE, TAB = b"\x03", b"\x04", b"\x01", b"\x7f", b"\t"
UP, LEFT = b"\x1b[A", b"\x1b[D"
N = 6


class Talk:
    """The chat on a terminal of its own; standard output is a pipe, so that answers stand alone there."""

    def __init__(self, case, *arguments, columns=100, environment=None):
        self.master, slave = os.openpty()
        self.case, self.screen, self.slave = case, b"", slave
        self.resize(columns)
        self.process = subprocess.Popen(
            [case.pilotfish.path, "chat", "-m", str(case.target), *map(str, arguments)], stdin=slave, stderr=slave,
            stdout=subprocess.PIPE, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**case.pilotfish.environment, **(environment or {})})
        case.addCleanup(self.process.kill)

    def resize(self, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))

    def read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.screen += os.read(self.master, 1 << 16)
        return True

    def wait_for(self, pattern):
        """Of what is written from here on; what comes with it is taken."""
        until = time.monotonic() + QUICKLY
        while not re.search(pattern, CONTROLS.sub(b"", self.screen)):
            self.case.assertTrue(self.read(until - time.monotonic()), (pattern, self.screen))
        if pattern == PROMPT:
            self.wait_for_editing()
        shown, self.screen = self.screen, b""
        return shown

    def type(self, keys):
        os.write(self.master, keys)

    def say(self, keys):
        self.type(keys + b"\r")
        return self.wait_for(PROMPT)

    def wait_for_editing(self):
        """The prompt is there before keys arrive one by one."""
        until = time.monotonic() + QUICKLY
        while termios.tcgetattr(self.slave)[3] & termios.ICANON:
            self.case.assertLess(time.monotonic(), until)
            time.sleep(0.01)

    def take_answer(self, seconds):
        """What there is of it, waiting for the first byte; b"": nothing."""
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""

    def end(self, keys=CTRL_D):
        """The exit status, and all of standard output."""
        self.type(keys)
        until = time.monotonic() + QUICKLY
        while self.process.poll() is None and time.monotonic() < until:
            self.read(0.05)
        out, _ = self.process.communicate(timeout=QUICKLY)
        while self.read(0.05):
            pass
        os.close(self.master)
        os.close(self.slave)
        return self.process.returncode, out


class Terminal(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.target / "chat_template.jinja").write_text(TEMPLATE)

    def answers(self, *lines, n=N):
        text = "".join(line + "\n" for line in lines).encode()
        return self.run_ok("chat", "-m", self.target, "-n", n, stdin=text).out

    def test_lines_are_edited(self):
        talk = Talk(self, "-n", N)
        talk.wait_for(PROMPT)
        talk.say(b"the thix" + BACKSPACE + b"n othr" + LEFT + b"e")
        talk.say(b"ne more\xc3\xa9\xc3\xbc" + BACKSPACE + CTRL_A + b"o")
        talk.say(b"in the \\\rend")
        self.assertEqual(talk.end(), (0, self.answers("the thin other", "one more\u00e9")
                                      + self.last("the thin other", "one more\u00e9", "in the \nend")))

    def last(self, *texts):
        """The answer to the last of several turns, one of which has a line end."""
        messages = []
        for text in texts:
            messages.append({"role": "user", "content": text})
            path = self.root / "turns.json"
            path.write_text(json.dumps(messages))
            result = self.run_json("generate", "-m", self.target, "-n", N, "--chat", path)
            messages.append({"role": "assistant", "content": result["text"]})
        return self.run_ok("generate", "-m", self.target, "-n", N, "--chat", path).out

    def test_the_history_is_kept_in_a_file_of_the_user_alone(self):
        state = self.root / "state"
        for environment, path in (({"XDG_STATE_HOME": str(state)}, state / "pilotfish/history"),
                                  ({"XDG_STATE_HOME": "relative"}, self.root / ".local/state/pilotfish/history")):
            talk = Talk(self, "-n", N, environment=environment)
            talk.wait_for(PROMPT)
            talk.say("the th\u00efn other".encode())
            self.assertEqual(talk.end()[0], 0)
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
            self.assertEqual([*path.parent.iterdir()], [path])
            talk = Talk(self, "-n", N, environment=environment)
            talk.wait_for(PROMPT)
            talk.say(UP)
            self.assertEqual(talk.end(b"/quit\r"), (0, self.answers("the th\u00efn other")))

    def test_a_history_that_cannot_be_written_is_a_warning(self):
        (self.root / "file").write_text("")
        talk = Talk(self, "-n", N, environment={"XDG_STATE_HOME": str(self.root / "file")})
        talk.wait_for(PROMPT)
        talk.say(b"the")
        self.assertEqual(talk.end()[0], 0)
        self.assertIn(b"the history of lines cannot be written", talk.screen)

    def test_ctrl_c_ends_the_answer_and_not_the_chat(self):
        talk = Talk(self, "--simulate-step-ms", "30", "--ignore-eos")
        talk.wait_for(PROMPT)
        for line in (b"the thin other", b"one more"):
            talk.take_answer(0)
            talk.type(line + b"\r")
            self.assertTrue(talk.take_answer(QUICKLY))
            talk.type(CTRL_C)
            talk.wait_for(PROMPT)
        shown = talk.say(b"/stats")
        new = [int(n) for n in re.findall(rb"(\d+) new tokens", shown)]
        self.assertTrue(0 < new[0] < 1500 and new[1] > new[0], new)
        self.assertIn(b"in 4 messages", shown)
        self.assertEqual(talk.end()[0], 0)

    def test_ctrl_c_clears_the_line_and_ends_the_chat_at_the_second_time(self):
        talk = Talk(self, "-n", N)
        talk.wait_for(PROMPT)
        talk.type(b"not this")
        talk.wait_for(rb"this")
        talk.type(CTRL_C)
        talk.wait_for(PROMPT)
        talk.say(b"the thin other")
        talk.type(CTRL_C)
        talk.wait_for(PROMPT)
        talk.type(b"x")
        talk.wait_for(rb"x")
        talk.type(CTRL_C)   # something was typed since
        talk.wait_for(PROMPT)
        self.assertEqual(talk.end(CTRL_C), (130, self.answers("the thin other")))

    def test_the_terminal_has_its_mode_back_and_sigterm_ends_the_chat(self):
        talk = Talk(self, "-n", N)
        before = termios.tcgetattr(talk.slave)
        talk.wait_for(PROMPT)
        talk.process.send_signal(signal.SIGTERM)
        talk.process.wait(QUICKLY)
        self.assertEqual(termios.tcgetattr(talk.slave)[:4], before[:4])
        self.assertEqual(talk.end(b"")[0], 130)

    def test_tab_completes_a_command(self):
        talk = Talk(self, "-n", N)
        talk.wait_for(PROMPT)
        self.assertIn(b"no answer yet", talk.say(b"/st" + TAB))
        self.assertIn(b"there is no command \"/s\"", talk.say(b"/s" + TAB))   # several begin so
        self.assertEqual(talk.end(b"/q" + TAB + b"\r")[0], 0)

    def test_a_stopped_chat_edits_again_and_follows_the_window(self):
        talk = Talk(self, "-n", N, columns=40)
        before = termios.tcgetattr(talk.slave)
        talk.wait_for(PROMPT)
        talk.process.send_signal(signal.SIGSTOP)
        termios.tcsetattr(talk.slave, termios.TCSANOW, before)   # as a shell does
        talk.resize(80)
        talk.process.send_signal(signal.SIGCONT)
        talk.wait_for_editing()
        talk.say(b"the thix" + BACKSPACE + b"n other")
        self.assertEqual(talk.end(), (0, self.answers("the thin other")))

    def test_without_a_terminal_to_write_to_lines_are_read_as_from_a_pipe(self):
        master, slave = os.openpty()
        os.write(master, b"the thin other\n\x04")
        result = subprocess.run([self.pilotfish.path, "chat", "-m", self.target, "-n", str(N)], stdin=slave,
                                capture_output=True, env=self.pilotfish.environment, timeout=QUICKLY)
        os.close(master)
        os.close(slave)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, self.answers("the thin other"), b""))


if __name__ == "__main__":
    main()
