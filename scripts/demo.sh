#!/usr/bin/env bash
# The main job from end to end: a worker with the small model and a verifier with the large one, two processes that
# talk over gRPC; then the figures of the same run.
#
#   scripts/demo.sh [BINARY]        `./dev demo` builds first and calls this
set -euo pipefail
pilotfish=${1:+$(readlink -m "$1")}
cd "$(dirname "$(readlink -f "$0")")/.."
pilotfish=${pilotfish:-build/release/pilotfish}
prompts=models/prompts.txt
temporary=${TMPDIR:-/tmp}
[ "$(printf %s "$temporary" | wc -c)" -le 73 ] || temporary=/tmp   # the path of a socket has at most 107 bytes
work=$(mktemp -d "$temporary/pilotfish-demo.XXXXXX")
socket=unix:$work/worker.sock
worker=

finish() {
    [ -z "$worker" ] || kill "$worker" 2>/dev/null || true
    [ -z "$worker" ] || wait "$worker" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Two colours are what it shows: in a pipe, too, unless they are not wanted.
bold=$'\033[1m' plain=$'\033[0m' color=always
if [ -n "${NO_COLOR:-}" ] || [ "${TERM:-}" = dumb ]; then bold='' plain='' color=never; fi
title() { printf '\n%s\n' "$bold$*$plain"; }

# Say the command, to be pasted where pilotfish is on the PATH, and what stands behind it.
show() {
    local word
    printf '$ pilotfish'
    for word in "${command[@]}"; do
        [[ $word =~ ^[[:alnum:]/._:,-]+$ ]] || word=${word@Q}
        printf ' %s' "$word"
    done
    echo "${1:-}"
}

title "1. The worker: models/draft in INT8, its head screened, serving Drafter on a unix socket"
command=(worker -m models/draft --dtype int8 --head screened --listen "$socket")
show ' &'
"$pilotfish" "${command[@]}" >"$work/ready" &
worker=$!
for _ in $(seq 200); do
    grep -qs '^ready ' "$work/ready" && break
    if ! kill -0 "$worker" 2>/dev/null; then
        echo "demo: the worker ended before it was ready" >&2
        exit 1
    fi
    sleep 0.05
done
cat "$work/ready"

title "2. The verifier: models/target, which takes the worker's proposals"
prompt=${PROMPT:-$(sed -n 1p "$prompts")}
command=(generate -m models/target --draft-worker "$socket" --color "$color" --draft-len 4 -n 128 -p "$prompt")
show
"$pilotfish" "${command[@]}"

title "3. The figures: plain and speculative decoding in turn, the same prompts, the same process"
command=(bench acceptance -m models/target --draft-worker "$socket" --limit 40 -n 128 --draft-len 4,auto)
show
"$pilotfish" "${command[@]}" | tee -i "$work/figures"

# The last column reads "40 of 40".
if ! awk 'NR > 1 && $(NF - 2) != $NF { differ = 1 } END { exit differ || NR < 2 }' "$work/figures"; then
    echo "demo: a speculative text differs from the plain one" >&2
    exit 1
fi
printf '\nMeasured just now: every text with speculation is identical to the plain one, token for token.\n'
