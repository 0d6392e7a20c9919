#!/usr/bin/env python3
"""check-prefetches.py BUILD-DIRECTORY: what the sources prefetch is in the objects, on x86-64.

A prefetch has no result, so no test of results misses it, and gcc drops the calls of a function that does nothing else:
it takes that for a function without effect. Each file here must have in its object the instructions named beside it; a
source that prefetches and is not here is refused.
"""
import pathlib
import re
import subprocess
import sys

from built_libraries import built_libraries

READ, FAR, WRITE = "prefetcht0", "prefetcht1", "prefetchw"
HOLDS = {
    "model/forward/forward.c": {READ, WRITE},
    "kernels/attn/attn_amx.c": {READ},
    "kernels/attn/attn_avx2.c": {READ},
    "kernels/attn/attn_avx512.c": {READ},
    "kernels/attn/attn_avx512bf16.c": {READ},
    "kernels/gemm/amx/gemm_amx_bf16.c": {READ, FAR, WRITE},
    "kernels/gemm/amx/gemm_amx_int8.c": {READ, FAR, WRITE},
    "kernels/gemm/float/gemm_avx2.c": {READ, WRITE},
    "kernels/gemm/float/gemm_avx512.c": {READ, WRITE},
    "kernels/gemm/float/gemm_avx512bf16.c": {READ, FAR, WRITE},
    "kernels/gemm/bf16_12/gemm_bf16_12_avx512bf16.c": {READ, FAR, WRITE},
    "kernels/gemm/int/gemm_few_avx2.c": {READ},
    "kernels/gemm/int/gemm_few_avx512.c": {READ},
    "kernels/gemm/int/gemm_few_avx512bf16.c": {READ},
    "kernels/gemm/int/gemm_int_avx2.c": {READ},
    "kernels/gemm/int/gemm_int_avx512.c": {READ},
    "kernels/gemm/int/gemm_int_avx512vnni.c": {READ, FAR, WRITE},
    "kernels/gemm/int/gemm_int_avxvnni.c": {READ},
    "kernels/gemm/int/gemm_widen_avx2.c": {READ},
    "kernels/gemm/int/gemm_widen_avx512.c": {READ},
    "kernels/gemm/int/gemm_widen_avx512bf16.c": {READ},
    "kernels/limits/read.c": {READ, FAR},
}
PREFETCHES = re.compile(r"PF_PREFETCH(?:_BESIDE)?\(|_mm_prefetch\(|__builtin_prefetch\(|pf_gemm_claim\(")
MEMBER = re.compile(r"^(\S+)\.o:\s+file format (\S+)$")


def disassembled(libraries):
    """{file name: [the prefetch instructions of its object]}; None: of another processor."""
    found, member = {}, None
    for library in libraries:
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(library)], check=True, capture_output=True,
                              text=True).stdout
        for line in text.splitlines():
            match = MEMBER.match(line)
            if match and match[2] != "elf64-x86-64":
                return None
            if match:
                member = found.setdefault(match[1], [])
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
        held = objects.get(pathlib.Path(source).name)
        if held is None:
            wrong.append(f"{source}: no object of it in a library of {build}")
            continue
        wrong += [f"{source}: its object has no {missing}, the compiler dropped them"
                  for missing in sorted(instructions - set(held))]
    print("\n".join(wrong) if wrong else f"prefetches: in the objects of all {len(HOLDS)} files that ask for them")
    return 1 if wrong else 0


sys.exit(main())
