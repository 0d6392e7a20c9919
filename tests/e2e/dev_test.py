"""./dev and the demo, in a copy of the tree that has nothing else, with a stand-in for pilotfish.

    dev_test.py [unittest's arguments]
"""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ["dev", "scripts/demo.sh", "models/prompts.txt"]
PILOTFISH = """#!/usr/bin/env bash
printf '%s\\n' "$#" "$@" >>calls
case $1 in
worker) echo ready there; exec sleep 60 ;;
bench) eval "$ON_BENCH"; printf 'method same text\\ngreedy 40 of 40\\n' ;;
esac
"""


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotfish-test-")
        self.addCleanup(folder.cleanup)
        self.tree, self.elsewhere = Path(folder.name) / "tree", Path(folder.name) / "elsewhere"
        self.elsewhere.mkdir()
        for path in COPIED:
            (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.tree / path)
        self.pilotfish = self.make(Path(folder.name) / "pilotfish", PILOTFISH)
        self.bash = shutil.which("bash")

    def make(self, path, text):
        path.write_text(text)
        path.chmod(0o755)
        return path

    def run_script(self, *words, **options):
        return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                              **options)

    def test_a_symlink_works_on_the_tree_of_its_target(self):
        for folder in (self.tree, self.elsewhere):
            (folder / "build").mkdir()
        (self.elsewhere / "dev").symlink_to(self.tree / "dev")
        self.assertEqual(self.run_script(self.elsewhere / "dev", "clean").returncode, 0)
        self.assertEqual([(folder / "build").exists() for folder in (self.tree, self.elsewhere)], [False, True])
        (self.elsewhere / "demo").symlink_to(self.tree / "scripts/demo.sh")
        self.assertEqual(self.run_script(self.elsewhere / "demo", self.pilotfish).returncode, 0)

    def test_scripts_ignore_CDPATH(self):
        for path in (*ROOT.glob("*/*.sh"), *ROOT.glob("*/*/*.sh"), ROOT / ".ci/run"):
            place = str(path.relative_to(ROOT))
            head, found, rest = path.read_text().partition('cd "$(dirname "$0")')
            if not found or place.startswith("build/"):
                continue
            for folder in (self.tree, self.elsewhere):   # as far as the folder is found
                (folder / place).parent.mkdir(parents=True, exist_ok=True)
            script = self.make(self.tree / place, head + found + rest.partition("\n")[0] + '\necho "${here:-$PWD}"\n')
            expected = script.parent.parent if "/.." in rest.partition("\n")[0] else script.parent
            done = self.run_script("bash", place, cwd=self.tree, env={**os.environ, "CDPATH": f"{self.elsewhere}:{self.tree}"})
            with self.subTest(place):
                self.assertEqual((done.stdout, done.stderr), (f"{expected}\n", ""))

    def test_a_verb_refuses_unknown_arguments_and_does_nothing(self):
        self.make(self.elsewhere / "dpkg-query", "#!/bin/sh\necho installed\n")
        self.make(self.elsewhere / "cmake", "#!/bin/sh\necho no such preset\nexit 1\n")
        environment = {**os.environ, "PATH": f"{self.elsewhere}:{os.environ['PATH']}"}
        (self.tree / "tests/fuzz").mkdir(parents=True)
        (self.tree / "tests/fuzz/codec_fuzz.c").touch()
        for words in ("setup x", "build release x", "demo x", "test foo bar", "check x", "format -i", "amx-machine x", "fuzz codec 1 x", "fuzz codec 1 2 3",
                      "fuzz nosuch", "fuzz codec x", "fuzz codec 0", "fuzz codec 10m", "install there x", "clean x", "help x", "build nope",
                      "build -x", "test -x", "install --prefix"):
            with self.subTest(words):
                done = self.run_script(self.tree / "dev", *words.split(), env=environment)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
        done = self.run_script(self.tree / "dev", "build", "debug", env=environment)
        self.assertEqual((done.returncode, done.stderr), (1, "dev: cmake does not configure debug:\nno such preset\n"))
        for words in ("--help", "build --help", "test -h", "demo --help"):
            done = self.run_script(self.tree / "dev", *words.split(), env=environment)
            self.assertEqual((done.returncode, done.stdout.split("\n")[0]), (0, "./dev VERB"))
        self.assertFalse((self.tree / "build").exists())

    def test_ci_shows_the_log_of_a_stage_that_fails_and_ends_there(self):
        (self.tree / ".ci").mkdir()
        shutil.copy(ROOT / ".ci/run", self.tree / ".ci/run")
        summary = "100% tests passed, 0 tests failed out of 9"
        self.make(self.tree / "dev", f'#!/bin/sh\necho "$@" >>calls\necho "{summary}"\necho "the log of $2"\n[ "$2" != "$FAILS" ]\n')
        for failing, seconds, code, n_stages, last in (("none", "0", 0, 5, "the log of"), ("none", "1440", 0, 2, "the log of"),
                                                       ("asan", "0", 1, 2, "ci: asan failed: ./dev test asan")):
            (self.tree / "calls").unlink(missing_ok=True)
            done = self.run_script(self.tree / ".ci/run", env={**os.environ, "FAILS": failing, "SECONDS": seconds})
            self.assertEqual("ci: tsan left out after 24 min: ./dev test tsan" in done.stdout, seconds == "1440")
            self.assertEqual((done.returncode, len((self.tree / "calls").read_text().splitlines())), (code, n_stages), done.stdout)
            self.assertEqual(done.stdout.splitlines()[-1].strip(), last)
            self.assertEqual("the log of asan" in done.stdout, failing == "asan")
            self.assertEqual(done.stdout.splitlines()[-2] == summary, failing == "none")

    def user(self):
        """The environment of a user without root, with only the named tools."""
        folder = self.elsewhere / "tools"
        folder.mkdir()
        for tool in ("bash", "sh", "dirname", "readlink", "grep", "mkdir", "rm"):
            (folder / tool).symlink_to(shutil.which(tool))
        for tool, text in (("id", "echo 1000"), ("dpkg-query", "echo installed")):
            self.make(folder / tool, f"#!/bin/sh\n{text}\n")
        self.make(folder / "cmake", '#!/bin/sh\necho cmake "$@"\n[ "$1" != --install ] || echo /there >$2/install_manifest.txt\n')
        (self.tree / "build/release").mkdir(parents=True)
        return {**os.environ, "PATH": str(folder)}

    def test_an_installation_as_root_is_no_obstacle_to_the_next(self):
        environment = self.user()
        self.make(self.elsewhere / "tools/sudo", '#!/bin/sh\necho "with sudo:"\nexec "$@"\n')
        for prefix, shown in (("/dev/null/there", "with sudo:"), (self.elsewhere / "here", "cmake --build --preset release")):
            done = self.run_script(self.bash, self.tree / "dev", "install", prefix, env=environment)
            self.assertEqual((done.returncode, done.stdout.splitlines()[-2:]),
                             (0, [shown, f"cmake --install build/release --prefix {prefix}"]), done.stderr)
            self.assertFalse((self.tree / "build/release/install_manifest.txt").exists())

    def test_without_root_and_sudo_it_says_what_to_do(self):
        environment = self.user()
        done = self.run_script(self.bash, self.tree / "dev", "install", "/dev/null/there", env=environment)
        self.assertEqual((done.returncode, done.stderr),
                         (1, "dev: not root and no sudo; give a PREFIX that can be written, not /dev/null/there\n"))
        self.make(self.elsewhere / "tools/dpkg-query", "#!/bin/sh\necho missing\n")
        done = self.run_script(self.bash, self.tree / "dev", "setup", env=environment)
        self.assertEqual(done.returncode, 1)
        self.assertIn("dev: not root and no sudo; install these packages: build-essential", done.stderr)

    def test_relative_paths_start_at_the_callers_directory(self):
        environment = self.user()
        (self.tree / "bench/peers").mkdir(parents=True)
        for path in ("build/release/pilotfish", "bench/peers/peers.sh"):
            self.make(self.tree / path, f'#!/bin/sh\necho {path} "$PWD" "$@"\n')
        for words, shown in (("model -m here", f"build/release/pilotfish {self.elsewhere} bench model -m here"),
                             ("peers --json here",
                              f"bench/peers/peers.sh {self.elsewhere} {self.tree}/build/release/pilotfish --json here")):
            done = self.run_script(self.bash, self.tree / "dev", "bench", *words.split(), env=environment, cwd=self.elsewhere)
            self.assertEqual((done.returncode, done.stdout), (0, f"{shown}\n"), done.stderr)
        done = self.run_script(self.tree / "scripts/demo.sh", "../pilotfish", cwd=self.elsewhere)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_help_of_the_peers_installs_nothing(self):
        environment = {**os.environ, "PF_PEERS": "/dev/null/peers"}
        for words in (["--help"], [self.pilotfish, "--rounds", "2", "-h"]):
            done = self.run_script(ROOT / "bench/peers/peers.sh", *words, env=environment)
            self.assertEqual((done.returncode, done.stdout.split()[:2]), (0, ["usage:", "peers.py"]), done.stderr)

    def test_the_demo_works_with_a_long_tmpdir(self):
        folder = self.elsewhere / ("x" * 80)
        folder.mkdir()
        done = self.run_script(self.tree / "scripts/demo.sh", self.pilotfish, env={**os.environ, "TMPDIR": str(folder)})
        self.assertEqual(done.returncode, 0, done.stderr)
        sockets = [word for word in done.stdout.split() if word.startswith("unix:")]
        self.assertEqual((len(sockets), [socket for socket in sockets if len(socket.removeprefix("unix:")) > 107]), (3, []))

    def test_the_demo_shows_the_commands_that_it_runs(self):
        prompt = "it's $HOME; two  blanks"
        text = self.run_script(self.tree / "scripts/demo.sh", self.pilotfish, env={**os.environ, "PROMPT": prompt}).stdout
        shown = [shlex.split(line.removesuffix(" &"))[2:] for line in text.splitlines() if line.startswith("$ ")]
        self.assertEqual([words[0] for words in shown], ["worker", "generate", "bench"])
        self.assertEqual(shown[1][-1], prompt)
        calls = "".join(f"{word}\n" for words in shown for word in [len(words), *words])
        self.assertEqual((self.tree / "calls").read_text(), calls)

    def test_the_demo_has_colours_unless_they_are_not_wanted(self):
        for names, has in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "", **names}
            shown = self.run_script(self.tree / "scripts/demo.sh", self.pilotfish, env=environment).stdout
            self.assertEqual("\x1b[" in shown, has)
            self.assertIn("--color always" if has else "--color never", shown)

    def test_an_interrupted_demo_shows_the_figures_that_there_are(self):
        on_bench = "trap 'echo figures; exit 130' INT; echo begun; while :; do sleep 0.01; done"
        demo = subprocess.Popen([self.tree / "scripts/demo.sh", self.pilotfish], env={**os.environ, "ON_BENCH": on_bench}, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.assertIn("begun\n", demo.stdout)   # reads that far
        os.killpg(demo.pid, signal.SIGINT)
        text, error = demo.communicate(timeout=60)
        self.assertEqual((demo.returncode, text.splitlines()[-1], error), (130, "figures", ""))


if __name__ == "__main__":
    unittest.main()
