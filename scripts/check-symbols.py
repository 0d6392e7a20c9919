#!/usr/bin/env python3
"""check-symbols.py BUILD-DIRECTORY: the libraries' symbols.

Every symbol that a module exports begins with pf_ (what protoc-c makes, with its package's name), none is defined
twice, and nothing is in writable memory, a thread's own included: no mutable globals but those that cli/interrupt.h names.
The shared library exports the functions that the public headers declare, all of them and no others.
"""
import collections
import pathlib
import re
import subprocess
import sys

from built_libraries import built_libraries
from public_symbols import declared

EXPORTED = re.compile(r"pf_|pilotfish__v1__|grpc__health__v1__")
WRITABLE = re.compile(r"\.(data|bss|tdata|tbss)(?!\.rel\.ro)(\.|$)")   # .data.rel.ro is constant once loaded
OF_NVCC = re.compile(r"_Z|__cuda|__fatbin|__nv|fatbin|__fatDevice")   # of kernels, and how they are registered
OF_A_THREAD = {"pinning", "memory_was_short"}
SYMBOL = re.compile(r"^[0-9a-f]{16} (.{7}) (\S+)\s+([0-9a-f]{16})\s+(?:\.hidden )?(\S+)$")


def symbols(library):
    """(flags, section, size, name) of each symbol, by objdump -t."""
    text = subprocess.run(["objdump", "-t", str(library)], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        match = SYMBOL.match(line)
        if match:
            yield match[1], match[2], int(match[3], 16), match[4]


def exported(library):
    text = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True).stdout
    return {name.split("@")[0] for _, kind, name in map(str.split, text.splitlines()) if kind != "A"}


def compare_with_headers(build):
    """What the shared library exports and no public header declares, and the other way round."""
    library = build / "libpilotfish.so"
    headers = sorted((pathlib.Path(__file__).resolve().parent.parent / "include").glob("*.h"))
    names = declared(headers)
    if not names:
        return []   # a tree without a public header
    if not library.exists():
        return [f"{library} is not there; build first"]
    found = [f"{library.name}: exports {name}, which no header of include/ declares" for name in exported(library) - names]
    return found + [f"{library.name}: lacks {name}, which include/ declares" for name in names - exported(library)]


def main():
    libraries = built_libraries(pathlib.Path(sys.argv[1]))
    found, homes = [], collections.defaultdict(set)
    for library in libraries:
        for flags, section, size, name in symbols(library):
            if section == "*UND*" or "f" in flags or "d" in flags or OF_NVCC.match(name):
                continue
            if flags[0] in "gu!" or flags[1] == "w":
                homes[name].add(library.name)
                if not EXPORTED.match(name):
                    found.append(f"{library.name}: exports {name}, expected the prefix pf_")
            is_object = "O" in flags or (section.startswith((".tdata", ".tbss")) and name not in OF_A_THREAD)
            if is_object and size > 0 and WRITABLE.search(section) and "_pb" not in library.name:
                found.append(f"{library.name}: {name} is in {section}: a mutable global")
    found += [f"{name}: defined in {', '.join(sorted(where))}" for name, where in homes.items() if len(where) > 1]
    found += compare_with_headers(pathlib.Path(sys.argv[1]))
    if not homes:
        found.append(f"symbols: none exported by {len(libraries)} libraries")
    print("\n".join(found) if found else f"symbols: {len(homes)} exported by {len(libraries)} libraries, all well named")
    return 1 if found else 0


sys.exit(main())
