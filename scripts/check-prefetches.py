#!/usr/bin/env python3
"""check-prefetches.py BUILD-DIRECTORY: the objects hold the prefetches of their sources, on x86-64.

No test of results notices a missing prefetch, and gcc drops calls of a function that only prefetches, as one without
effect. Each object of a file listed here must hold the instructions named beside it; a file that is compiled for several
instruction sets has several. A source that prefetches and is not listed is refused.
"""
import collections
import pathlib
import re
import subprocess
import sys

from built_libraries import built_libraries

READ, FAR, WRITE = "prefetcht0", "prefetcht1", "prefetchw"
HOLDS = {
    "kernels/lines.c": {READ, WRITE},
    "kernels/attn/attn_amx.c": {READ},
    "kernels/attn/attn_v16.c": {READ},
    "kernels/gemm/amx/gemm_amx_bf16.c": {READ, FAR, WRITE},
    "kernels/gemm/amx/gemm_amx_int8.c": {READ, FAR, WRITE},
    "kernels/gemm/float/gemm_avx2.c": {READ, WRITE},
    "kernels/gemm/float/gemm_avx512.c": {READ, WRITE},
    "kernels/gemm/float/gemm_avx512bf16.c": {READ, FAR, WRITE},
    "kernels/gemm/bf16_12/bf16_12_vec.c": {READ},
    "kernels/gemm/bf16_12/gemm_bf16_12_avx512bf16.c": {READ, FAR, WRITE},
    "kernels/gemm/int/exact_widen_vec.c": {READ},
    "kernels/gemm/int/gemm_exact_vec.c": {READ},
    "kernels/gemm/int/gemm_few_vec.c": {READ},
    "kernels/gemm/int/gemm_int_avx512vnni.c": {READ, FAR, WRITE},
    "kernels/gemm/int/gemm_int_avxvnni.c": {READ},
    "kernels/gemm/int/gemm_int_madd_vec.c": {READ},
    "kernels/gemm/int/gemm_widen_vec.c": {READ},
    "kernels/limits/read.c": {READ, FAR},
}
PREFETCHES = re.compile(r"PF_PREFETCH(?:_BESIDE)?\(|_mm_prefetch\(|__builtin_prefetch\(|pf_gemm_prefetch_write\(")
MEMBER = re.compile(r"^(\S+)\.o:\s+file format (\S+)$")


def disassembled(libraries):
    """{file name: [the prefetch instructions of an object, for each of its objects]}; None: not for x86-64."""
    found, member = collections.defaultdict(list), None
    for library in libraries:
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(library)], check=True, capture_output=True,
                              text=True).stdout
        for line in text.splitlines():
            match = MEMBER.match(line)
            if match and match[2] != "elf64-x86-64":
                return None
            if match:
                member = []
                found[match[1]].append(member)
            elif "\tprefetch" in line:
                member.append(line.split()[1])
    return found


def main():
    build, root = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).resolve().parent.parent
    objects = disassembled(built_libraries(build))
    if objects is None:
        print("prefetches: skipped, the objects are not x86-64's")
        return 77
    wrong = [f"{source}: prefetches, and scripts/check-prefetches.py does not say what its object must hold"
             for folder in sorted({s.split("/")[0] for s in HOLDS}) for path in sorted((root / folder).rglob("*.c"))
             if (source := str(path.relative_to(root))) not in HOLDS and PREFETCHES.search(path.read_text())]
    for source, instructions in HOLDS.items():
        of_source = objects.get(pathlib.Path(source).name)
        if not of_source:
            wrong.append(f"{source}: no object of it in a library of {build}")
            continue
        wrong += [f"{source}: an object of it has no {missing}, the compiler dropped them"
                  for missing in sorted({i for held in of_source for i in instructions - set(held)})]
    print("\n".join(wrong) if wrong else f"prefetches: in the objects of all {len(HOLDS)} files that ask for them")
    return 1 if wrong else 0


sys.exit(main())
