#!/usr/bin/env bash
# gpu-check.sh MODEL [PROMPT]: on a machine with a GPU, checks the CUDA backend against the CPU and measures it. MODEL is a directory of a
# model that the backend takes. Prints a table for docs/data with chip, driver and date; status 1 where a text differs.
set -euo pipefail
unset CDPATH
cd "$(dirname "$0")/.."
model=${1:?gpu-check.sh MODEL [PROMPT]}
prompt=${2:-The pilot fish swims ahead of the shark, and}
command -v nvidia-smi >/dev/null || { echo "gpu-check: nvidia-smi is not here: is there a GPU?" >&2; exit 1; }
build=build/cuda
cmake -S . -B $build -DCMAKE_BUILD_TYPE=Release -DPF_CUDA=on -DPF_TESTS=OFF >/dev/null
cmake --build $build --target pilotfish -j
pilotfish=$build/pilotfish
field() { python3 -c 'import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."): value = value[key]
print(value)' "$1"; }
generate() { "$pilotfish" generate -m "$model" -p "$prompt" -n 128 --ignore-eos --json "$@"; }

status=0
same() { # WHAT PLAIN OTHER
    if [ "$2" = "$3" ]; then echo "| $1 | equal |"; else echo "| $1 | DIFFERS |"; status=1; fi
}

echo "| what | $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1), $(date -I) |"
echo "|---|---|"
plain=$(generate --backend cuda)
tokens=$(field tokens <<<"$plain")
for length in 1 4 8 16; do
    other=$(generate --backend cuda --drafter ngram --draft-len $length)
    same "greedy text with $length proposed tokens a step" "$tokens" "$(field tokens <<<"$other")"
    echo "| decode, n-gram proposals of $length, tokens/s | $(field timing.tokens_per_s <<<"$other") |"
done
cpu=$(generate --backend cpu --dtype bf16)
shared=$(python3 -c 'import sys
a, b = (eval(x) for x in sys.argv[1:3])
print(next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), len(a)))' "$tokens" "$(field tokens <<<"$cpu")")
echo "| first tokens that the CPU in BF16 chooses alike, of 128 | $shared |"
speed=$(field timing.tokens_per_s <<<"$plain")
bytes=$(du -sbL "$model" | cut -f1)
echo "| decode, tokens/s | $speed |"
echo "| decode, GB/s by the size of the files | $(python3 -c "print(round($speed * $bytes / 1e9, 1))") |"
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
        compute-sanitizer --tool $tool --error-exitcode 9 "$pilotfish" generate -m "$model" -p "$prompt" -n 8 --backend cuda >/dev/null 2>&1 &&
            echo "| compute-sanitizer $tool | no error |" || { echo "| compute-sanitizer $tool | ERROR |"; status=1; }
    done
else
    echo "| compute-sanitizer | not installed |"
fi
exit $status
