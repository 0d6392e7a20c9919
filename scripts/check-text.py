#!/usr/bin/env python3
"""What the charter forbids in the text of sources.

Libraries neither print nor exit; no TODO without an owner; no path of one person's machine anywhere. And a page
that names a file, or something in one, is right.
"""
import re
import sys

from tree_files import ROOT, tree_files

PROGRAMS = ("cli/", "bench/", "tests/")
PRINTS = re.compile(r"(?<![\w.>])(printf|puts|putchar|perror|exit|_exit|abort)\s*\(|\b(stdout|stderr)\b")
ORPHAN = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(\w+\))")
MACHINE = re.compile(r"(?<![\w.])/(home|work|Users|mnt)/\w")
NAMED = re.compile(r"`(\w+)` in `([\w/]+\.(?:[ch]|py))`")
FILE = re.compile(r"`([\w./-]+\.(?:[ch]|cc|py|sh|proto|md))`")
STANDS_FOR_MANY = re.compile(r"(^|/)(X[._]|_|cmd_NAME)")   # `X_ref.c`, `_vec.h`
BLANK_AT_END = re.compile(r"[ \t]+$", re.MULTILINE)
CODE = re.compile(r"\.([ch]|py|sh|cmake|proto|md)$|CMakeLists\.txt$|^dev$")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def lines_of(text, pattern):
    return [text.count("\n", 0, m.start()) + 1 for m in pattern.finditer(text)]


def without_comments(text):
    """With comments and strings blanked, so that line numbers stay."""
    text = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)


def is_in(name, path):
    return (ROOT / path).is_file() and re.search(rf"\b{name}\b", (ROOT / path).read_text())


def complaints(path, text, ends):
    if path.endswith((".c", ".h")) and not path.startswith(PROGRAMS):
        for line in lines_of(without_comments(text), PRINTS):
            yield f"{path}:{line}: a library that prints or exits"
    if path != "scripts/check-text.py":
        for line in lines_of(text, ORPHAN):
            yield f"{path}:{line}: a TODO without an owner, TODO(name)"
    for line in lines_of(text, MACHINE):
        yield f"{path}:{line}: a path of one machine"
    for name, where in NAMED.findall(text):
        if not is_in(name, where):
            yield f"{path}: names {name} in {where}, where it is not"
    for name in FILE.findall(text) if path.endswith(".md") else []:
        if f"/{name}" not in ends and not STANDS_FOR_MANY.search(name):
            yield f"{path}: names {name}, which is not there"
    if not path.endswith(".md"):
        for line in lines_of(text, BLANK_AT_END):
            yield f"{path}:{line}: blanks at the end of the line"
    if text and not text.endswith("\n"):
        yield f"{path}: no line end at the end of the file"


def main():
    listed = tree_files()
    ends = {f"/{p}"[i:] for p in listed for i, c in enumerate(f"/{p}") if c == "/"}   # as a page may name it: from any folder on
    paths = [p for p in listed if CODE.search(p) and not p.startswith("tests/golden/")]
    found = [c for p in paths for c in complaints(p, (ROOT / p).read_text(errors="replace"), ends)]
    print("\n".join(found) if found else f"text: {len(paths)} files keep to the charter")
    return 1 if found else 0


sys.exit(main())
