"""models/train/train.sh killed at each stage, with stand-ins for Python, pip and the scripts: what runs again and what does
not; and how the scripts there write files and end early. No package is needed.

    train_stages_test.py [unittest's arguments]
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TRAIN = Path(__file__).resolve().parents[2] / "models/train"
CALLS = ["prepare.py", "train.py", "unloop.py 1", "unloop.py 2", "unloop.py 3", "unloop.py 4", "distill.py write", "distill.py train",
         "export.py target", "export.py draft", "evaluate.py"]
# Each writes down what it was called for and then does what $ON_CALL says where $AT is that call.
STAND_IN = """#!/usr/bin/env bash
call=$(basename "$2")
while [ $# -gt 0 ]; do
    case $1 in
    --seed | --model) call+=" $2" ;;
    write | train) call+=" $1" ;;
    esac
    shift
done
echo "$call" >>"$PILOTFISH_TRAIN/calls"
[ "$call" != "$AT" ] || eval "$ON_CALL"
"""
PYTHON3 = """#!/usr/bin/env bash
[ "$*" = "-m venv --clear $PILOTFISH_TRAIN/venv" ] || exit 9
mkdir -p "$PILOTFISH_TRAIN/venv/bin"
cp "$(dirname "$0")/stand-in" "$PILOTFISH_TRAIN/venv/bin/python"
printf '#!/usr/bin/env bash\\nset -- pip pip.py\\n. "$(dirname "$0")/python"\\n' >"$PILOTFISH_TRAIN/venv/bin/pip"
chmod +x "$PILOTFISH_TRAIN/venv/bin/pip"
"""


class Train(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotfish-test-")
        self.addCleanup(folder.cleanup)
        self.work, bin_folder = Path(folder.name) / "work", Path(folder.name) / "bin"
        shutil.copytree(TRAIN, Path(folder.name) / "models/train")
        self.script = Path(folder.name) / "models/train/train.sh"
        bin_folder.mkdir()
        for name, text in (("stand-in", STAND_IN), ("python3", PYTHON3)):
            (bin_folder / name).write_text(text)
            (bin_folder / name).chmod(0o755)
        self.environment = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "PILOTFISH_TRAIN": str(self.work), "HOME": folder.name}

    def train(self, *arguments, at="", on_call=""):
        """-> exit status, the calls of this run, stderr."""
        (self.work / "calls").unlink(missing_ok=True)
        done = subprocess.run([self.script, *arguments], env={**self.environment, "AT": at, "ON_CALL": on_call}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        calls = self.work / "calls"
        return done.returncode, calls.read_text().splitlines() if calls.exists() else [], done.stderr

    def test_a_killed_stage_runs_again_and_none_before_it(self):
        status, calls, error = self.train(at="pip.py", on_call="kill -9 $$")
        self.assertEqual((status, calls), (137, ["pip.py"]))
        status, calls, error = self.train(at=CALLS[0], on_call="kill -9 $$")
        self.assertEqual(calls, ["pip.py", CALLS[0]])   # half a venv is made again
        for before, call in zip(CALLS, CALLS[1:8]):
            status, calls, error = self.train(at=call, on_call="kill -9 $$")
            self.assertEqual((status, calls), (137, [before, call]))
            self.assertIn("call it again to go on", error.splitlines()[-1])
        self.assertEqual(self.train()[:2], (0, CALLS[7:]))

    def test_finished_stages_are_skipped_except_export_and_measurement(self):
        self.assertEqual(self.train()[:2], (0, ["pip.py"] + CALLS))
        self.assertEqual(self.train()[:2], (0, CALLS[8:]))
        self.assertEqual(self.train(at="evaluate.py", on_call="exit 3")[0], 3)   # in spite of tee

    def test_changed_requirements_rebuild_the_venv(self):
        self.train()
        with self.script.with_name("requirements.txt").open("a") as out:
            out.write("another==1\n")
        self.assertEqual(self.train()[1][0], "pip.py")

    def test_a_running_stage_of_a_killed_script_locks_out_another(self):
        first = subprocess.Popen([self.script], env={**self.environment, "AT": CALLS[1], "ON_CALL": "exec sleep 30"},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(os.killpg, first.pid, signal.SIGKILL)
        calls = self.work / "calls"
        while not calls.exists() or CALLS[1] not in calls.read_text():
            self.assertIsNone(first.poll())
            time.sleep(0.01)
        first.kill()
        first.wait()
        status, calls, error = self.train()
        self.assertEqual((status, calls), (1, []))
        self.assertRegex(error, "^train.sh: another one, or what it left running, is at work in .*\n$")

    def test_an_argument_is_misuse_and_help_does_nothing(self):
        self.assertEqual(self.train("--minutes", "3")[:2], (2, []))
        self.assertEqual(self.train("--help")[0], 0)
        self.assertFalse(self.work.exists())


class Scripts(unittest.TestCase):
    """script.py, in a process of its own."""

    def end(self, body, send=None):
        """-> exit status, stdout and the last line of stderr of a script whose main has this body."""
        with tempfile.TemporaryDirectory(prefix="pilotfish-test-") as folder:
            (Path(folder) / "stage.py").write_text(
                f"import os, script, signal\nfrom pathlib import Path\ndef main():\n    {body}\nscript.run(main)\n")
            done = subprocess.run([sys.executable, "-B", "stage.py"], cwd=folder, env={**os.environ, "PYTHONPATH": str(TRAIN)}, text=True,
                                  capture_output=True, timeout=60)
            return done.returncode, done.stdout, done.stderr.strip()

    def test_an_interrupt_is_one_sentence_wherever_it_arrives(self):
        for number in ("SIGINT", "SIGTERM"):
            self.assertEqual(self.end(f"os.kill(os.getpid(), signal.{number})"), (130, "", "stage.py: interrupted"))
        self.assertEqual(self.end("script.interrupts.later = True; os.kill(os.getpid(), signal.SIGINT); print('step'); 1 / 0"),
                         (130, "step\n", "stage.py: interrupted"))

    def test_a_second_interrupt_does_not_wait(self):
        self.assertEqual(self.end("script.interrupts.later = True; [os.kill(os.getpid(), signal.SIGINT) for _ in '12']; print('step')"),
                         (130, "", "stage.py: interrupted"))

    def test_a_full_disk_is_one_sentence_and_the_file_as_before(self):
        body = "p = Path('whole'); script.write_whole(p, b'before'); p.with_suffix('.tmp').symlink_to('/dev/full')\n" \
               "    try: script.write_whole(p, b'after')\n" \
               "    finally: print(p.read_text(), len(list(Path().glob('whole*'))))"
        status, text, error = self.end(body)
        self.assertEqual((status, text), (1, "before 1\n"))
        self.assertRegex(error, r"^stage.py: the disk is full: .*No space left on device.*$")

    def test_a_command_that_failed_is_one_sentence(self):
        status, _, error = self.end("import subprocess; subprocess.run(['false'], check=True)")
        self.assertEqual((status, error), (1, "stage.py: Command '['false']' returned non-zero exit status 1."))

    def test_a_bug_keeps_its_traceback(self):
        status, _, error = self.end("1 / 0")
        self.assertEqual(status, 1)
        self.assertIn("Traceback", error)


if __name__ == "__main__":
    unittest.main()
