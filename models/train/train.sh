#!/usr/bin/env bash
# Make the bundled pair from nothing. What it does, needs and heeds is below, in the text of --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
models/train/train.sh

  Makes the bundled pair from nothing: packages, tokens, target, draft, export, measurement. Writes models/target,
  models/draft and models/prompts.txt of the tree that it lies in; all else is in the work folder.

  Two hours on two Zen 5 cores. Needs 8 GB of disk, the network, Debian 12 with python3-venv (Python 3.11) and g++.

  Call it again after an interrupt and it goes on. A stage that came to its end, and so left NAME.done in the work folder, is
  skipped, whatever the variables say now. The target's training continues, after a kill from its last checkpoint, which is
  four minutes old at most; the text that the target writes is added to; any other stage starts again. For another pair remove
  the work folder, all but venv.

  PILOTFISH_TRAIN   the work folder (~/.cache/pilotfish/train)
  TARGET_MINUTES    training of the target (60)
  UNLOOP_MINUTES    each of four rounds in which it learns to leave its loops (8)
  WRITE_MINUTES     in which it writes text for the draft (3)
  DRAFT_MINUTES     training of the draft (12)
TEXT
}

case "$*" in
'') ;;
-h | --help) usage; exit ;;
*) echo "train.sh: takes no arguments but --help, not '$*'" >&2; exit 2 ;;
esac

unset CDPATH   # cd would look there, too, and say where it went
here=$(cd "$(dirname "$0")" && pwd)
work=${PILOTFISH_TRAIN:-$HOME/.cache/pilotfish/train}
mkdir -p "$work"

# What a killed train.sh left running holds the lock as well.
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

# Idle threads sleep instead of spinning, and large buffers get huge pages: both matter on a shared machine.
export OMP_WAIT_POLICY=passive GLIBC_TUNABLES=glibc.malloc.hugetlb=1 TORCHINDUCTOR_CACHE_DIR=$work/compiled

if ! cmp -s "$here/requirements.txt" "$work/venv/made-with"; then
    python3 -m venv --clear "$work/venv"
    "$work/venv/bin/pip" install -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$work/venv/made-with"
fi

# run SCRIPT ARGUMENTS
run() { nice -n 19 "$work/venv/bin/python" -u "$here/$1" --work "$work" "${@:2}"; }

# stage NAME SCRIPT ARGUMENTS: not again once it has come to its end.
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
for round in 1 2 3 4; do   # each imitates its own start, without the loops
    stage "unloop-$round" unloop.py --checkpoint "$work/$final.ckpt" --out "$work/target-$round.ckpt" --seed "$round" --minutes "${UNLOOP_MINUTES:-8}"
    final=target-$round
done
stage write distill.py write --target "$work/$final.ckpt" --minutes "${WRITE_MINUTES:-3}"
stage draft distill.py train --target "$work/$final.ckpt" --minutes "${DRAFT_MINUTES:-12}"

name=export   # quick, and the tree may be another one: every time
run export.py --model target --checkpoint "$work/$final.ckpt" --out "${here%/*}/target"
run export.py --model draft --checkpoint "$work/draft.ckpt" --out "${here%/*}/draft"
name=evaluate
run evaluate.py | tee "$work/evaluation.txt"
