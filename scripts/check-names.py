#!/usr/bin/env python3
"""The names and sizes of files: each name is unique in the tree, and no file is above 25 MB."""
import collections
import sys

from tree_files import ROOT, tree_files

MOST_BYTES = 25_000_000
# Names that a tool or a format gives.
REPEATED = {"CMakeLists.txt", "README.md", ".gitignore", "__init__.py", "conftest.py", "requirements.txt"}
# Folders whose names inside are data: a model directory has the files that every model directory has.
DATA = ("models/", "tests/golden/", "tests/fuzz/corpus/", ".ci/")


def main():
    listed = tree_files()
    homes, found = collections.defaultdict(list), []
    for path in listed:
        full = ROOT / path
        if full.stat().st_size > MOST_BYTES:
            found.append(f"{path}: {full.stat().st_size} bytes, expected at most {MOST_BYTES}")
        if full.name not in REPEATED and not path.startswith(DATA):
            homes[full.name].append(path)
    found += [f"{name}: stands at {' and '.join(paths)}" for name, paths in sorted(homes.items()) if len(paths) > 1]
    print("\n".join(found) if found else f"names: {len(listed)} files, each name once")
    return 1 if found else 0


sys.exit(main())
