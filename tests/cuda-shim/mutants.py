#!/usr/bin/env python3
"""mutants.py BUILD [--only TEXT]... [--csv FILE]: plants one error at a time in verify/cuda and runs the tests of the backend.

BUILD is a build directory in which page_tables_test, cuda_backend_test, cuda_draws_test and the last two with the race checker are
built. The sources stay as they are: a changed copy of one file is compiled by that file's own command, and linked before the
libraries. The table lists each error and the test that notices it; the exit status is 0 if all are noticed.
"""
import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SECONDS = 300
A, H, N, F, D = (f"verify/cuda/{stem}_kernels.cu" for stem in ("attention", "head", "norm", "activation", "draw"))
P, B, T, C, R = (f"verify/cuda/{name}.c" for name in ("cuda_pass", "cuda_backend", "page_tables", "cuda_products", "cuda_draws"))
# What is planted, the file, the text that goes, what comes instead; and so on.
MUTANTS = [
    ("no barrier after queries and the path are written", A, "__syncthreads(); /* queries and the path are whole */", ""),
    ("no barrier after a tile is loaded", A, "__syncthreads(); /* the tile is whole */", ""),
    ("no barrier before a tile is replaced", A, "__syncthreads(); /* the tile and the weights may go */", ""),
    ("no __syncwarp after the weights of a tile", A, "__syncwarp(); /* weights are whole */", ""),
    ("no barrier after the best of each warp", F, "__syncthreads(); /* values and ids are whole */", ""),
    ("no barrier before heads are rotated", H, "__syncthreads(); /* values are whole */", ""),
    ("mask: a window of one position more", A, "last - window + 1", "last - window"),
    ("mask: the last position is not seen", A, "position >= s.first && position <= s.last;", "position >= s.first && position < s.last;"),
    ("mask: the path of a tree is taken as a chain", A, "parent == PF_CUDA_CHAIN ? at - 1 : parent", "at - 1"),
    ("stride: values lie one head further", A, "static_cast<size_t>(cache.n_kv_heads) * TILE * pairs", "static_cast<size_t>(cache.n_kv_heads + 1) * TILE * pairs"),
    ("stride: pages hold keys alone", H, "(page * 2 + which) * cache.n_kv_heads", "(page + which) * cache.n_kv_heads"),
    ("heads: the group of a key head is off by one", A, "kv_head * group + of_group", "kv_head * (group - 1) + of_group"),
    ("softmax: the sum is not shrunk", A, "fmaf(r.sum, shrink, pf_warp_sum(weight))", "r.sum + pf_warp_sum(weight)"),
    ("segments are joined without their weight", A, "fmaf(part[2 + d], expf(part[0] - top), out)", "out + part[2 + d]"),
    ("rotation: the second half has the wrong sign", H, "(is_first ? -across : across)", "(is_first ? across : -across)"),
    ("rotation: by the row instead of the position", H, "const int position = rows.bases[row] + rows.depths[row];", "const int position = rows.bases[row] + row - rows.firsts[row];"),
    ("norm: epsilon outside of the root", N, "/ n + join.eps)", "/ n) + join.eps"),
    ("argmax: the highest of ties", F, "b.best < a.best", "b.best > a.best"),
    ("argmax: NaN takes part", F, "is_nan ? -1 : i,", "i,"),
    ("copy: the rows of a pass are not sent", P, "    TRY(cudaMemcpyAsync(p->input, stage->memory, n_bytes, cudaMemcpyHostToDevice, p->stream));\n", "    (void)n_bytes;\n"),
    ("copy: the input without its last array", P, "p->input, stage->memory, n_bytes,", "p->input, stage->memory, n_bytes - (size_t)p->n_rows * 4,"),
    ("copy: the chosen tokens in the other direction", P, "cudaMemcpyDeviceToHost", "cudaMemcpyHostToDevice"),
    ("copy: changed page tables are not sent", B, "if (!pf_page_tables_take_change(b->pages, place)) continue;", "continue;"),
    ("wait: a pass is not waited for", B, "const cudaError_t waited = cudaStreamSynchronize(b->stream);", "const cudaError_t waited = b->stream ? cudaSuccess : cudaErrorUnknown;"),
    ("overlap: both passes have one stage", B, "b->stage == &b->stages[0] ? &b->stages[1] : &b->stages[0]", "&b->stages[0]"),
    ("overlap: a stage is written before its copies have run", B, "const cudaError_t waited = cudaEventSynchronize(stage->sent);", "const cudaError_t waited = stage->sent ? cudaSuccess : cudaErrorUnknown;"),
    ("overlap: the event of a stage comes before its copies", P, "    TRY(cudaMemcpyAsync(p->input,", "    TRY(cudaEventRecord(stage->sent, p->stream));\n    TRY(cudaMemcpyAsync(p->input,", "    TRY(cudaEventRecord(stage->sent, p->stream)); /* the last copy of the stage */\n", ""),
    ("overlap: the best token is read before its pass has run", B, "if (!has_results(b)) return -1;", ""),
    ("overlap: every pass is waited for", B, "    b->is_running = true;\n", "    (void)!wait_for_device(b);\n"),
    ("rollback: a truncated sequence keeps its length", T, "    cut_pages(t, p, pages_of(length));\n    p->length = length;\n", "    cut_pages(t, p, pages_of(length));\n    p->length = length + (length % 2);\n"),
    ("fork: a shared page is written in place", T, "t->refs[row[p->n_pages - 1]] > 1;", "t->refs[row[p->n_pages - 1]] > 2;"),
    ("keep: rows are moved one slot too far", T, "length + rows[to - length];", "length + rows[to - length] - 1;"),
    ("undo: the page of a failed pass is not given back", T, "    cut_pages(t, p, p->n_pages_before);\n", ""),
    ("products: the algorithm is not pinned", C, "&found->algorithm, p->workspace", "NULL, p->workspace"),
    ("no barrier after bins are emptied", D, "__syncthreads(); /* bins are empty */", ""),
    ("no barrier after bins are filled", D, "        __syncthreads(); /* bins are whole */\n        if (threadIdx.x == 0) find_digit_by_count", "        if (threadIdx.x == 0) find_digit_by_count"),
    ("no barrier before sums of warps are joined", D, "__syncthreads(); /* partial is whole */", ""),
    ("draw: top-k keeps one more", D, "select(keys, n, k, r)", "select(keys, n, k + 1, r)"),
    ("draw: of equal weights the highest ids", D, "return ~static_cast<unsigned>(i);", "return static_cast<unsigned>(i);"),
    ("draw: the noise of the next position", D, "c1 = static_cast<unsigned>(d.position)", "c1 = static_cast<unsigned>(d.position + 1)"),
    ("draw: small words of noise are not refined", D, "if (word >> 16 != 0)", "if (word >> 16 != 0 || true)"),
    ("rejection: a token is kept without its uniform", D, "d.keep * q < p[d.token]", "q < p[d.token]"),
    ("rejection: the correction is drawn from p", D, "own > other ? own - other : 0.0", "own"),
    ("copy: draft distributions are not sent", R, " + (size_t)n_entries * sizeof *entries", ""),
    ("error: a launch that fails is not told", P, "    TRY(pf_cuda_launch_heads(", "    (void)(pf_cuda_launch_heads("),
    ("error: pinned memory of an upload is not freed", P, "        (void)cudaFreeHost(pinned);\n", ""),
]


def commands(build, test, source):
    """The command that compiles `source` for `test`, as words, and the one that links `test`."""
    lines = subprocess.run(["ninja", "-C", build, "-t", "commands", test], check=True, capture_output=True, text=True).stdout.splitlines()
    compiling = [line for line in lines if " -c " in line and line.endswith(str(ROOT / source))]
    link = next(line for line in lines if f" -o tests/{test} " in line)
    return shlex.split(compiling[-1]), link


def compile_mutant(build, words, text, source, folder):
    changed, made = folder / pathlib.Path(source).name, folder / "mutant.o"
    changed.write_text(text)
    keep = words[:words.index("-MD")] + ["-w", "-c", str(changed), "-o", str(made)]
    subprocess.run(keep, cwd=build, check=True, capture_output=True, text=True)
    return made


def link_mutant(build, link, made, folder, test):
    """The mutant stands before the libraries, whose file of the same names is then not taken."""
    program = folder / test
    link = re.sub(rf" -o tests/{test} ", f" -o {program} {made} ", link)
    subprocess.run(link, cwd=build, shell=True, check=True, capture_output=True, text=True)
    return program


def run_test(program):
    """The first thing that notices the error: a violation, a test that fails, a death; None if all is well."""
    test, end = "", time.monotonic() + SECONDS
    with subprocess.Popen(["stdbuf", "-oL", "timeout", str(SECONDS), program], cwd=ROOT, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        for line in running.stdout:
            started = re.search(r"RUN +\] (\w+)", line)
            test = started[1] if started else test
            said = re.match(r"cuda-shim: (.*)", line)
            if said or "FAILED  ]" in line or "ERROR   ]" in line:
                running.terminate()
                return f"{test}: {said[1][:90]}" if said else test
        status = running.wait()
    return None if status == 0 else f"{test}: does not end" if time.monotonic() > end - 1 else f"{test}: status {status}"


def try_mutant(build, mutant):
    what, source, *changes = mutant
    text = (ROOT / source).read_text()
    for old, new in zip(changes[::2], changes[1::2]):
        if text.count(old) < 1:
            sys.exit(f"{what}: {source} has no: {old}")
        text = text.replace(old, new, 1)
    test = "cuda_draws" if source in (D, F, R) else "cuda_backend"
    tests = ["page_tables_test"] if source == T else []
    tests += [f"{test}_test", f"{test}_races_test"]
    for test in reversed(tests) if "barrier" in what or "__syncwarp" in what else tests:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            words, link = commands(build, test, source)
            program = link_mutant(build, link, compile_mutant(build, words, text, source, folder), folder, test)
            noticed = run_test(program)
        if noticed:
            return test, noticed
    return None, None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--csv")
    args = parser.parse_args()
    rows, n_missed = ["error,file,test,noticed by"], 0
    for mutant in MUTANTS:
        if args.only and not any(text in mutant[0] for text in args.only):
            continue
        begin = time.monotonic()
        test, noticed = try_mutant(args.build, mutant)
        n_missed += noticed is None
        print(f"{mutant[0]}: {test + ': ' + noticed if noticed else 'NOT NOTICED'} ({time.monotonic() - begin:.0f} s)", flush=True)
        rows.append(",".join('"' + str(part).replace('"', "'") + '"' for part in (mutant[0], mutant[1], test or "", noticed or "not noticed")))
    if args.csv:
        pathlib.Path(args.csv).write_text("\n".join(rows) + "\n")
    return 1 if n_missed else 0


sys.exit(main())
