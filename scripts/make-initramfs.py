#!/usr/bin/env python3
"""make-initramfs.py OUT NAME=FILE...: an initramfs with a console and these programs. Needs neither root nor cpio.

The format is "newc": Linux, Documentation/driver-api/early-userspace/buffer-format.rst.
"""
import pathlib
import stat
import sys

FOLDER = stat.S_IFDIR | 0o755
PROGRAM = stat.S_IFREG | 0o755
DEVICE = stat.S_IFCHR | 0o600


def padded(data):
    return data + b"\0" * (-len(data) % 4)


def entry(number, name, mode, data=b"", device=(0, 0)):
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0)
    header = "070701" + "".join(f"{field:08x}" for field in fields)
    return padded(header.encode() + name.encode() + b"\0") + padded(data)


def main():
    out, *programs = sys.argv[1:]
    entries = [(name, FOLDER) for name in ("dev", "proc")]
    entries.append(("dev/console", DEVICE, b"", (5, 1)))
    for program in programs:
        name, file = program.split("=", 1)
        entries.append((name, PROGRAM, pathlib.Path(file).read_bytes()))
    entries.append(("TRAILER!!!", 0))
    pathlib.Path(out).write_bytes(b"".join(entry(number, *e) for number, e in enumerate(entries, 1)))


if __name__ == "__main__":
    main()
