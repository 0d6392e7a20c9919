#!/usr/bin/env python3
"""public_symbols.py HEADER...: a linker's version script that exports the functions which the headers declare."""
import pathlib
import re
import sys

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
PREPROCESSOR = re.compile(r"^\s*#(?:.*\\\n)*.*$", re.MULTILINE)
FUNCTION = re.compile(r"(?<![\w(])\*?(pf_\w+)\(")   # a pointer to a function has its name in parentheses


def declared(headers):
    """The names of the functions in the headers. A name that ends in _ is a helper of the header itself."""
    names = set()
    for header in headers:
        text = PREPROCESSOR.sub("", COMMENT.sub("", pathlib.Path(header).read_text()))
        names |= {name for name in FUNCTION.findall(text) if not name.endswith("_")}
    return names


def main():
    print("PILOTFISH_0 {\n  global:")
    for name in sorted(declared(sys.argv[1:])):
        print(f"    {name};")
    print("  local:\n    *;\n};")


if __name__ == "__main__":
    main()
