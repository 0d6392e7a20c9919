"""The declarations that cffi reads beside the compiler's, and where the library is looked for.

Run as: library_test.py LIBRARY COMPILER [unittest's arguments]
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import tree_paths
from pilotfish import library

INCLUDE = tree_paths.ROOT / "include"


def structs():
    """The names of the structs that have fields, with their fields."""
    ffi = library.declared()
    names, records, unions = ffi.list_types()
    for name in [*names, *(f"struct {tag}" for tag in records)]:
        kind = ffi.typeof(name)
        if kind.kind == "struct" and kind.fields:
            yield name, kind


def enumerators():
    return sorted(set(re.findall(r"^\s*(PF_\w+)\s*(?:=[^,}]*)?,", library.declarations(), re.MULTILINE))
                  | set(re.findall(r"[{,]\s*(PF_\w+)\s*=", library.declarations())))


def layout():
    """By cffi: lines of the size of each struct, the offset and size of each field, and the value of each constant."""
    lib = library.load(LIBRARY).lib
    ffi = library.declared()
    lines = []
    for name, kind in structs():
        lines.append(f"{name} {ffi.sizeof(kind)}")
        lines += [f"{name}.{field} {f.offset} {ffi.sizeof(f.type)}" for field, f in kind.fields]
    return lines + [f"{name} {getattr(lib, name)}" for name in enumerators()]


def compiled_layout():
    """The same lines by the compiler."""
    prints = []
    for name, kind in structs():
        prints.append(f'printf("{name} %zu\\n", sizeof({name}));')
        prints += [f'printf("{name}.{f} %zu %zu\\n", offsetof({name}, {f}), sizeof((({name} *)0)->{f}));' for f, _ in kind.fields]
    prints += [f'printf("{name} %lld\\n", (long long){name});' for name in enumerators()]
    source = '#include "pilotfish.h"\n#include <stdio.h>\nint main(void)\n{\n' + "\n".join(prints) + "\nreturn 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "layout"
        subprocess.run([COMPILER, "-std=c11", f"-I{INCLUDE}", "-x", "c", "-", "-o", program], input=source.encode(), check=True)
        return subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()


class LibraryTest(unittest.TestCase):
    maxDiff = None

    def test_each_struct_and_constant_is_as_the_compiler_has_it(self):
        self.assertEqual(layout(), compiled_layout())
        declared = dict(structs())
        for name in ("pf_engine_options", "pf_session_options", "pf_request", "pf_result", "pf_model_info"):
            self.assertIn(name, declared)
        self.assertIn("PF_MAX_DRAFT_TOKENS", enumerators())

    def test_the_package_reads_the_headers_of_the_tree(self):
        for name in ("pilotfish", "pilotfish_peer"):
            self.assertEqual((tree_paths.PACKAGE / "pilotfish" / f"{name}.cdef").resolve(), INCLUDE / f"{name}.h")

    def test_each_declared_function_is_in_the_library(self):
        exported = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], stdout=subprocess.PIPE, check=True).stdout.decode()
        exported = set(re.findall(r"\bT (pf_\w+)", exported))
        self.assertEqual(exported, set(re.findall(r"\b(pf_\w+)\(", library.declarations())))

    def test_the_argument_goes_before_the_variable_and_the_variable_before_the_installation(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix = Path(folder)
            (prefix / "bin").mkdir()
            (prefix / "lib").mkdir()
            binary, installed = prefix / "bin" / "pilotfish", prefix / "lib" / library.SONAME
            binary.write_text("#!/bin/sh\n")
            binary.chmod(0o755)
            installed.symlink_to(LIBRARY)
            with mock.patch.dict(os.environ, {"PILOTFISH_LIBRARY": "/nowhere/of-the-variable", "PATH": str(binary.parent)}):
                self.assertEqual(library.load(LIBRARY).path, LIBRARY)
                self.assertEqual(library.load(prefix / "lib").path, str(installed))
                with self.assertRaisesRegex(FileNotFoundError, "/nowhere/of-the-variable .PILOTFISH_LIBRARY.: "):
                    library.load()
                del os.environ["PILOTFISH_LIBRARY"]
                self.assertEqual(library.load().path, str(installed))

    def test_an_error_names_each_place_and_what_is_wrong_there(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"PATH": folder}):
            os.environ.pop("PILOTFISH_LIBRARY", None)
            os.environ.pop("PILOTFISH_BINARY", None)
            other = Path(folder) / "libother.so"
            subprocess.run([COMPILER, "-shared", "-x", "c", "-", "-o", other], input=b"int other;", check=True, env={"PATH": "/usr/bin:/bin"})
            with self.assertRaisesRegex(FileNotFoundError, r"libother.so .the argument `library`.: it has no function pf_\w+"):
                library.load(other)
            with mock.patch.object(library, "SONAME", "libpilotfish-absent.so.0"):
                with self.assertRaisesRegex(FileNotFoundError, "libpilotfish-absent.so.0 .the system's loader.*\n.*dev install"):
                    library.load()


if __name__ == "__main__":
    LIBRARY, COMPILER = str(Path(sys.argv.pop(1)).resolve()), sys.argv.pop(1)
    unittest.main(verbosity=2)
