#!/usr/bin/env bash
# gpu-check.sh [--dry-run] [MODEL]: on a machine with a GPU, checks the CUDA backend against the CPU and measures it: logits, lossless texts,
# compute-sanitizer, decode of a 7B-shaped random model against the bandwidth of the GPU's memory, verification of 8 rows against
# one, and the bundled pair with a worker on the CPU. MODEL is models/target, or a directory of a model that the backend takes.
#
# Prints a table, and a row for docs/data/gpu.csv with the date and the chip. Status 1 where something differs.
#   GPU_CHECK_BUILD=DIRECTORY   a build with CUDA, else build/cuda is made
#   GPU_CHECK_LAYERS=N          of the 7B shape (32): fewer where memory does not suffice
#
# --dry-run goes through every part without a GPU, in a build that has pilotfish and cuda_check_on_shim: logits and passes on the
# emulation, texts by the CPU, a small random model, a sanitizer that looks at nothing. No time of it means anything.
set -euo pipefail
unset CDPATH
cd "$(dirname "$0")/.."
dry_run=
if [ "${1:-}" = --dry-run ]; then
    dry_run=yes
    shift
fi
model=${1:-models/target}
prompt="The pilot fish swims ahead of the shark, and"
work=$(mktemp -d "${TMPDIR:-/tmp}/pilotfish-gpu.XXXXXX")
worker=
# shellcheck disable=SC2317 # the trap calls it
finish() {
    [ -z "$worker" ] || kill "$worker" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
status=0
row() { echo "| $1 | $2 |"; }
same() { if [ "$2" = "$3" ]; then row "$1" equal; else row "$1" DIFFERS; status=1; fi; }
field() { python3 -c 'import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."): value = value[key]
print(value)' "$1"; }
value() { awk -v name="$1" '$1 == name { print $2 }' "$work/figures"; }
calculate() { python3 -c 'import sys; print(round(eval(sys.argv[1], {}), 3))' "$1"; }
is_true() { python3 -c 'import sys; sys.exit(not eval(sys.argv[1], {}))' "$1"; }

# A directory with the shape of a 7B Llama and random weights in BF16: config.json and one safetensors file.
make_large() {
    python3 - "$1" "${GPU_CHECK_LAYERS:-32}" "${GPU_CHECK_HIDDEN:-4096}" <<'END'
import json, os, random, struct, sys
folder, layers, hidden = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
inner, vocab, heads = hidden * 43 // 16, 32000, hidden // 128
config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": hidden,
          "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": 128,
          "intermediate_size": inner, "vocab_size": vocab, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
          "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2}
shapes = {"model.embed_tokens.weight": [vocab, hidden], "lm_head.weight": [vocab, hidden], "model.norm.weight": [hidden]}
for l in range(layers):
    at = f"model.layers.{l}."
    for name in "qkvo":
        shapes[f"{at}self_attn.{name}_proj.weight"] = [hidden, hidden]
    for name, shape in (("gate", [inner, hidden]), ("up", [inner, hidden]), ("down", [hidden, inner])):
        shapes[f"{at}mlp.{name}_proj.weight"] = shape
    for name in ("input", "post_attention"):
        shapes[f"{at}{name}_layernorm.weight"] = [hidden]
header, offset = {}, 0
for name, shape in shapes.items():
    n_bytes = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + n_bytes]}
    offset += n_bytes
text = json.dumps(header).encode()
# Values of about 1/64 in both signs: the high byte is 0x3c or 0xbc.
block = bytearray(random.Random(1).randbytes(1 << 22))
block[1::2] = bytes(0x3c | b & 0x80 for b in block[1::2])
ones = struct.pack("<H", 0x3f80)
os.makedirs(folder)
with open(folder + "/config.json", "w") as f:
    json.dump(config, f)
with open(folder + "/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    for name, shape in shapes.items():
        n_bytes = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        if len(shape) == 1:
            f.write(ones * shape[0])
            continue
        for begin in range(0, n_bytes, len(block)):
            f.write(block[:n_bytes - begin])
END
}

check() { # MODEL PASSES: the figures of cuda_check
    "$cuda_check" "$1" "$2" >"$work/figures" || { echo "gpu-check: cuda_check failed on $1" >&2; exit 1; }
}

check_model() {
    check "$1" "$2"
    row "logits beside the CPU's in BF16: error in units of their size" "$(value logits_error)"
    is_true "$(value logits_error) < 0.03" || status=1
    row "positions at which CPU and GPU choose alike" "$(value same_best)"
    same "rows of a pass of 8 and of passes of 1" "$(value same_rows)" 1
}

if [ -n "$dry_run" ]; then
    build=${GPU_CHECK_BUILD:-build/release} cuda_check=$build/tests/cuda_check_on_shim backend=cpu
    n_passes=1 n_new=24
    export GPU_CHECK_LAYERS=1 GPU_CHECK_HIDDEN=128
    nvidia-smi() { echo "no GPU"; }
    compute-sanitizer() { "${@:5}"; } # behind --tool NAME --error-exitcode 9
    bandwidth() { echo 1000; }
else
    command -v nvidia-smi >/dev/null || { echo "gpu-check: nvidia-smi is not here: is there a GPU?" >&2; exit 1; }
    build=${GPU_CHECK_BUILD:-build/cuda} backend=cuda
    n_passes=200 n_new=128
    if [ -z "${GPU_CHECK_BUILD:-}" ]; then
        cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DPF_CUDA=on >"$work/log"
        cmake --build "$build" --target pilotfish cuda_check -j >"$work/log"
    fi
    cuda_check=$build/tests/cuda_check
    bandwidth() { "$pilotfish" info --json | field cuda.devices.0.bandwidth_gb_per_s; }
fi
pilotfish=$build/pilotfish
chip=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)
generate() { "$pilotfish" generate -m "$model" -p "$prompt" -n $n_new --ignore-eos --backend $backend --json "$@"; }

row "what" "$chip, driver $driver, $(date -I)"
echo "|---|---|"
check_model "$model" $n_passes

# Texts: greedy and sampled by coupled noise, with and without proposals.
for sampling in "--temperature 0" "--temperature 0.8 --top-p 0.95 --seed 5 --method coupled"; do
    read -ra words <<<"$sampling"
    plain=$(generate "${words[@]}" | field tokens)
    for length in 1 4 8 16; do
        same "text with $length proposed tokens a step, $sampling" \
            "$plain" "$(generate "${words[@]}" --drafter ngram --draft-len $length | field tokens)"
    done
done

if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck initcheck; do
        if compute-sanitizer --tool $tool --error-exitcode 9 "$pilotfish" generate -m "$model" -p "$prompt" -n 8 \
            --temperature 1 --backend $backend >"$work/log" 2>&1; then
            row "compute-sanitizer $tool" "no error"
        else
            row "compute-sanitizer $tool" ERROR
            status=1
        fi
    done
else
    row "compute-sanitizer" "not installed"
fi

# A 7B-shaped random model: what a step reads over what the memory gives. The peak is clock x width x 2.
make_large "$work/large"
CUDA_CHECK_WITHOUT_CPU=1 check "$work/large" $((n_passes / 2 + 1))
decode=$(value decode_ms) verify=$(value verify_8_ms) prefill=$(value prefill_ms)
rate=$(calculate "$(value weight_bytes) / $decode / 1e6")
peak=$(bandwidth 2>"$work/log" || echo 0)
row "7B shape: decode, ms a token" "$decode"
row "7B shape: GB/s of weights" "$rate"
row "7B shape: share of the memory's bandwidth (aim 0.8)" "$(is_true "$peak > 0" && calculate "$rate / $peak" || echo "unknown")"
row "7B shape: 8 rows over one (aim 1.1)" "$(calculate "$verify / $decode")"
row "7B shape: prefill, tokens/s" "$(calculate "64e3 / $prefill")"
same "rows of the 7B shape" "$(value same_rows)" 1

# The demo: the bundled target on the GPU, a worker on the CPU beside it.
"$pilotfish" worker -m models/draft --listen "unix:$work/worker.sock" >"$work/ready" &
worker=$!
for _ in $(seq 200); do grep -qs '^ready ' "$work/ready" && break; sleep 0.05; done
model=models/target
plain=$(generate) with=$(generate --draft-worker "unix:$work/worker.sock" --draft-len 4)
same "bundled pair: text with the worker" "$(field tokens <<<"$plain")" "$(field tokens <<<"$with")"
row "bundled pair: tokens/s alone, and with the worker" "$(field timing.tokens_per_s <<<"$plain"), $(field timing.tokens_per_s <<<"$with")"

echo
echo "docs/data/gpu.csv:"
echo "date,chip,driver,commit,command,decode_ms,gb_per_s,peak_gb_per_s,verify_8_ms,prefill_ms"
echo "$(date -I),$chip,$driver,$(git rev-parse --short HEAD),scripts/gpu-check.sh $model,$decode,$rate,$peak,$verify,$prefill"
exit $status
