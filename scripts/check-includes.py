#!/usr/bin/env python3
"""Checks the include directions: the table of cmake/Modules.cmake, and the few headers of the system that one folder keeps.

Prints each include that goes the wrong way, and fails if there is one.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Headers from outside -> the one folder that sees them.
KEPT = [
    (re.compile(r"grpc(pp)?/"), "rpc/"),
    (re.compile(r"protobuf-c/|.*\.pb-c\.h$"), "proto/"),
    (re.compile(r".*(immintrin|intrin)\.h$|arm_neon\.h$|arm_sve\.h$"), "kernels/"),
    (re.compile(r"hwloc"), "base/"),
    (re.compile(r"pcre2\.h"), "tokenizer/"),
    (re.compile(r"utf8proc\.h"), ("tokenizer/", "jinja/")),
    (re.compile(r"histedit\.h"), "cli/"),
    (re.compile(r"microhttpd\.h"), "serve/"),
]
# Modules that use the public headers (include/) instead of a module, but for these headers of it, each with its reason.
ENGINE = {"engine/engine.h": "model, context and threads of an engine: logits, info and the benches look inside"}
FACES = {("cli", "engine"): ENGINE, ("bench", "engine"): ENGINE, ("serve", "engine"): {}}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def table():
    text = (ROOT / "cmake/Modules.cmake").read_text()
    lines = re.findall(r'^pf_may_use\((\w+)([^)]*)\)', text, re.MULTILINE)
    return {name: set(uses.split()) for name, uses in lines}


def rooms():
    """{"module/room": the rooms of that module it may include}, and the complaints about the table itself."""
    text = (ROOT / "cmake/Modules.cmake").read_text()
    may = {}
    for name, uses in re.findall(r'^pf_room\(([\w/]+)([^)]*)\)', text, re.MULTILINE):
        module = name.split("/")[0]
        may[name] = {f"{module}/{use}" for use in uses.split()}
    wrong = [f"cmake/Modules.cmake: room {name} is not a folder" for name in may if not (ROOT / name).is_dir()]

    def reaches(start, at, seen):
        return any(use == start or use not in seen and reaches(start, use, seen | {use}) for use in may.get(at, ()))

    wrong += [f"cmake/Modules.cmake: room {name} reaches itself: a cycle" for name in may if reaches(name, name, {name})]
    return may, wrong


def room_of(path, may):
    """The longest room that `path` lies in, or None."""
    return max((name for name in may if path.startswith(name + "/")), key=len, default=None)


def complaints(path, may_use, may):
    module = path.split("/")[0]
    room = room_of(path, may)
    for quote, header in INCLUDE.findall((ROOT / path).read_text(errors="replace")):
        for pattern, folder in KEPT:
            folders = (folder,) if isinstance(folder, str) else folder
            if pattern.match(header) and not path.startswith(folders + ("tests/",)):   # a test sees what its subject sees
                yield f"{path}: includes {header}, which only {' and '.join(folders)} may see"
        if quote == "<":
            continue
        target = header.split("/")[0]
        if header.endswith(".pb-c.h"):
            continue
        if module == "include":   # installed side by side
            if not re.fullmatch(r"pilotfish\w*\.h", header):
                yield f'{path}: includes "{header}", but a public header includes public headers alone'
        elif "/" not in header or target.startswith("."):
            yield f'{path}: includes "{header}", expected a path from the root of the tree'
        elif not (ROOT / header).is_file():
            yield f'{path}: includes "{header}", which is not there'
        elif room and (theirs := room_of(header, may)) and theirs.split("/")[0] == module and theirs != room and \
                theirs not in may[room]:
            yield f'{path}: includes "{header}", but {room} may not use {theirs} (cmake/Modules.cmake)'
        elif target == "tests" and module != "tests":
            yield f'{path}: includes "{header}", which is a test\'s'
        elif module in may_use and target != module:
            if target not in may_use[module]:
                yield f'{path}: includes "{header}", but {module} may not use {target} (cmake/Modules.cmake)'
            elif header not in FACES.get((module, target), {header}):
                yield f'{path}: includes "{header}", but {module} sees only {", ".join(sorted(FACES[module, target]))}'


def main():
    may_use = table()
    assert len(may_use) > 5, "the table of cmake/Modules.cmake was not understood"
    may, found = rooms()
    n_files = 0
    for folder in sorted(may_use) + ["tests"]:
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            n_files += 1
            found += complaints(str(path.relative_to(ROOT)), may_use, may)
    print("\n".join(found) if found else f"includes: {n_files} files, all in the right direction")
    return 1 if found else 0


sys.exit(main())
