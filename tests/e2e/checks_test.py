"""The checks of the tree, each in a small tree made for one test.

    checks_test.py COMPILER [unittest's arguments]
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


class Checks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotfish-test-")
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name)
        shutil.copytree(SCRIPTS, self.tree / "scripts", ignore=shutil.ignore_patterns("__pycache__"))

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def check(self, name, *arguments):
        """-> exit status, stdout."""
        done = subprocess.run([self.tree / "scripts" / name, *arguments], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout

    @unittest.skipUnless(shutil.which("git"), "no git here")
    def test_a_build_folder_of_any_name_is_skipped(self):
        subprocess.run(["git", "init", "-q", self.tree], check=True)
        self.write(self.tree / "base/status.c", "int x;\n")
        self.write(self.tree / "out/made/status.c", "int x; ")
        cache = self.write(self.tree / "out/CMakeCache.txt", "")
        for name in ("check-names.py", "check-text.py"):
            self.assertEqual(self.check(name)[0], 0)
        cache.unlink()
        for name, saying in (("check-names.py", "status.c: stands at base/status.c and out/made/status.c\n"),
                             ("check-text.py", "out/made/status.c: no line end at the end of the file\n")):
            self.assertIn(saying, self.check(name)[1])

    @unittest.skipUnless(shutil.which("git"), "no git here")
    def test_files_with_non_ascii_names_are_checked(self):
        subprocess.run(["git", "init", "-q", self.tree], check=True)
        self.write(self.tree / "docs/é.md", "no line end")
        self.assertEqual(self.check("check-text.py"), (1, "docs/é.md: no line end at the end of the file\n"))

    @unittest.skipUnless(shutil.which("git"), "no git here")
    def test_a_page_that_names_a_missing_file_is_reported(self):
        subprocess.run(["git", "init", "-q", self.tree], check=True)
        self.write(self.tree / "base/status.c", "int x;\n")
        page = self.write(self.tree / "docs/page.md", "`base/status.c`, `status.c` and `X_ref.c`\n")
        self.assertEqual(self.check("check-text.py")[0], 0)
        for name in ("base/state.c", "atus.c", "kernels/status.c"):
            page.write_text(f"`{name}`\n")
            self.assertEqual(self.check("check-text.py"), (1, f"docs/page.md: names {name}, which is not there\n"))

    def test_a_failure_of_git_is_reported(self):
        git = self.write(self.tree / "tools/git", "#!/bin/sh\necho 'fatal: the tree is of another owner' >&2\necho advice >&2\nexit 128\n")
        git.chmod(0o755)
        done = subprocess.run([sys.executable, self.tree / "scripts/check-text.py"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PATH": str(git.parent)})
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (77, "", "skipped: git does not list the tree: fatal: the tree is of another owner\n"))

    def archive(self, *flags):
        """A build with one library, of an empty function, or of nothing."""
        source = self.write(self.tree / "empty.c", "#ifndef NOTHING\nvoid pf_empty(void);\nvoid pf_empty(void) {}\n#endif\n")
        library = self.tree / "built/libpf_base.a"
        library.parent.mkdir(exist_ok=True)
        subprocess.run([COMPILER, *flags, "-c", source, "-o", self.tree / "empty.o"], check=True)
        subprocess.run(["ar", "cr", library, self.tree / "empty.o"], check=True)
        return library.parent

    def test_objects_without_machine_code_are_skipped_and_none_without_symbols_passes(self):
        self.assertEqual(self.check("check-symbols.py", self.archive()), (0, "symbols: 1 exported by 1 libraries, all well named\n"))
        self.assertEqual(self.check("check-symbols.py", self.archive("-DNOTHING")), (1, "symbols: none exported by 1 libraries\n"))
        build = self.archive("-flto")
        for name in ("check-symbols.py", "check-prefetches.py"):
            status, text = self.check(name, build)
            self.assertEqual(status, 77)
            self.assertRegex(text, "^skipped: .* at link time alone\n$")

    def test_the_shared_library_exports_what_the_public_headers_declare(self):
        build = self.archive()
        self.write(self.tree / "include/pilotfish.h", "void pf_empty(void);\n")
        status, text = self.check("check-symbols.py", build)
        self.assertEqual((status, text.endswith("libpilotfish.so is not there; build first\n")), (1, True))
        shared = [COMPILER, "-shared", "-fPIC", self.tree / "empty.c", "-o", build / "libpilotfish.so"]
        subprocess.run(shared, check=True)
        self.assertEqual(self.check("check-symbols.py", build)[0], 0)
        self.write(self.tree / "include/pilotfish.h", "void pf_full(void);\n")
        self.assertEqual(self.check("check-symbols.py", build),
                         (1, "libpilotfish.so: exports pf_empty, which no header of include/ declares\n"
                             "libpilotfish.so: lacks pf_full, which include/ declares\n"))


if __name__ == "__main__":
    COMPILER = sys.argv.pop(1)
    unittest.main()
