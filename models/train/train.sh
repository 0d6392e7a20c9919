#!/usr/bin/env bash
# Makes the bundled pair from source packages. The text of --help describes stages, requirements and variables.
set -euo pipefail

usage() {
    cat <<'TEXT'
models/train/train.sh

  Makes the bundled pair in stages: packages, tokens, target, draft, export, evaluation. Writes models/target, models/draft
  and models/prompts.txt of its tree; all other files are in the work folder.

  Takes two hours on two Zen 5 cores. Needs 8 GB of disk, the network, Debian 12 with python3-venv (Python 3.11) and g++.

  Call it again after an interrupt to continue. A finished stage has left NAME.done in the work folder and is skipped, even if
  the variables have changed. The target's training continues from its last checkpoint, which is at most four minutes old; the
  text that the target generates is extended; any other stage starts again. To make another pair remove the work folder except
  venv.

  PILOTFISH_TRAIN   the work folder (~/.cache/pilotfish/train)
  TARGET_MINUTES    training of the target (60)
  UNLOOP_MINUTES    each of four rounds of training against its own loops (8)
  WRITE_MINUTES     generation of text for the draft (3)
  DRAFT_MINUTES     training of the draft (12)
TEXT
}

case "$*" in
'') ;;
-h | --help) usage; exit ;;
*) echo "train.sh: takes no arguments but --help, not '$*'" >&2; exit 2 ;;
esac

unset CDPATH   # with it cd searches other folders and prints where it went
here=$(cd "$(dirname "$0")" && pwd)
work=${PILOTFISH_TRAIN:-$HOME/.cache/pilotfish/train}
mkdir -p "$work"

# The lock is inherited by child processes, so those of a killed train.sh hold it too.
exec 9>"$work/lock"
flock -n 9 || { echo "train.sh: another one, or what it left running, is at work in $work" >&2; exit 1; }

name=venv
finish() {
    local status=$?
    [ $status = 0 ] || echo "train.sh: ended in the stage '$name' with status $status; call it again to go on ($work)" >&2
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# On a shared machine idle threads should sleep instead of spin, and large buffers should use huge pages.
export OMP_WAIT_POLICY=passive GLIBC_TUNABLES=glibc.malloc.hugetlb=1 TORCHINDUCTOR_CACHE_DIR=$work/compiled

if ! cmp -s "$here/requirements.txt" "$work/venv/made-with"; then
    python3 -m venv --clear "$work/venv"
    "$work/venv/bin/pip" install -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$work/venv/made-with"
fi

# run SCRIPT ARGUMENTS
run() { nice -n 19 "$work/venv/bin/python" -u "$here/$1" --work "$work" "${@:2}"; }

# stage NAME SCRIPT ARGUMENTS: skipped if it has finished before.
stage() {
    name=$1
    if [ -e "$work/$name.done" ]; then
        echo "train.sh: $name is done already"
        return
    fi
    echo "train.sh: $name"
    run "${@:2}"
    touch "$work/$name.done"
}

stage prepare prepare.py
stage target train.py --minutes "${TARGET_MINUTES:-60}"
final=target
for round in 1 2 3 4; do   # each imitates its starting checkpoint without the loops
    stage "unloop-$round" unloop.py --checkpoint "$work/$final.ckpt" --out "$work/target-$round.ckpt" --seed "$round" --minutes "${UNLOOP_MINUTES:-8}"
    final=target-$round
done
stage write distill.py write --target "$work/$final.ckpt" --minutes "${WRITE_MINUTES:-3}"
stage draft distill.py train --target "$work/$final.ckpt" --minutes "${DRAFT_MINUTES:-12}"

name=export   # runs every time: it is quick, and the tree may have changed
run export.py --model target --checkpoint "$work/$final.ckpt" --out "${here%/*}/target"
run export.py --model draft --checkpoint "$work/draft.ckpt" --out "${here%/*}/draft"
name=evaluate
run evaluate.py | tee "$work/evaluation.txt"
