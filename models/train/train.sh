#!/usr/bin/env bash
# Make the bundled pair from nothing: packages, tokens, target, draft, export, measurement.
#
# Resumable: each stage is skipped when its result exists, and the target's training goes on from its last checkpoint.
# Work files lie in ~/.cache/pilotfish/train (or $PILOTFISH_TRAIN); only models/target, models/draft and
# models/prompts.txt are written in the tree. Needs Debian 12 with apt, Python 3.11 and g++ (torch.compile).
# About two and a half hours on two Zen 5 cores.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=${PILOTFISH_TRAIN:-$HOME/.cache/pilotfish/train}
mkdir -p "$work"

# Idle threads sleep instead of spinning, and large buffers get huge pages: both matter on a shared machine.
export OMP_WAIT_POLICY=passive GLIBC_TUNABLES=glibc.malloc.hugetlb=1

if [ ! -x "$work/venv/bin/python" ]; then
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install -r "$here/requirements.txt"
fi
run() { local script=$1; shift; nice -n 19 "$work/venv/bin/python" -u "$here/$script" "$@"; }

[ -f "$work/meta.json" ]         || run prepare.py --work "$work"
[ -f "$work/target.done" ]       || { run train.py --work "$work" --minutes "${TARGET_MINUTES:-60}"; touch "$work/target.done"; }
from=target
for round in 1 2 3 4; do   # each imitates its own start, without the loops
    [ -f "$work/target-$round.ckpt" ] || run unloop.py --work "$work" --checkpoint "$work/$from.ckpt" --out "$work/target-$round.ckpt" --seed "$round" --minutes "${UNLOOP_MINUTES:-8}"
    from=target-$round
done
[ -f "$work/target-final.ckpt" ] || cp "$work/$from.ckpt" "$work/target-final.ckpt"
[ -f "$work/own.done" ]          || { run distill.py write --work "$work" --target "$work/target-final.ckpt" --minutes "${WRITE_MINUTES:-3}"; touch "$work/own.done"; }
[ -f "$work/draft.done" ]        || { run distill.py train --work "$work" --target "$work/target-final.ckpt" --minutes "${DRAFT_MINUTES:-12}"; touch "$work/draft.done"; }
run export.py --work "$work" --model target --checkpoint "$work/target-final.ckpt" --out "$here/../target"
run export.py --work "$work" --model draft --checkpoint "$work/draft.ckpt" --out "$here/../draft"
run evaluate.py --work "$work" | tee "$work/evaluation.txt"
