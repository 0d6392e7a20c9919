"""The kernels of the CUDA backend are in the build for every architecture that it names, and as PTX for the last.

    cuda_architectures_test.py "80;90" OBJECT...

Reads the containers that nvcc leaves in an object: a header (magic, version, its bytes, bytes of the entries), then entries, each
with a header (kind, version, its bytes, bytes of the code; at byte 28 the architecture).
"""
import pathlib
import struct
import sys

MAGIC = struct.pack("<I", 0xBA55ED50)
PTX, ELF = 1, 2


def entries(data):
    """(kind, architecture) of each piece of code."""
    at = data.find(MAGIC)
    while at >= 0:
        header_bytes, n_bytes = struct.unpack_from("<HQ", data, at + 6)
        at += header_bytes
        end = at + n_bytes
        while at < end:
            kind, _, entry_bytes, code_bytes = struct.unpack_from("<HHIQ", data, at)
            yield kind, struct.unpack_from("<I", data, at + 28)[0]
            at += entry_bytes + code_bytes
        at = data.find(MAGIC, end)


def main():
    architectures, objects = [int(a) for a in sys.argv[1].split(";")], sys.argv[2:]
    missing = []
    for path in objects:
        found = set(entries(pathlib.Path(path).read_bytes()))
        missing += [f"{path}: no code for sm_{a}" for a in architectures if (ELF, a) not in found]
        if (PTX, architectures[-1]) not in found:
            missing.append(f"{path}: no PTX for compute_{architectures[-1]}")
    if not objects or missing:
        sys.exit("\n".join(missing) or "no objects of kernels are named")
    print(f"{len(objects)} files of kernels have code for {', '.join(map(str, architectures))}")


if __name__ == "__main__":
    main()
