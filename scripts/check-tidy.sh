#!/usr/bin/env bash
# check-tidy.sh BUILD-DIRECTORY: clang-tidy over the sources that the build compiles (its compile_commands.json).
set -euo pipefail
unset CDPATH   # cd would look there, too, and say where it went
cd "$(dirname "$0")/.."
build=$1
mapfile -t files < <(python3 - "$build" <<'PY'
import json, os, sys
root = os.getcwd() + "/"
files = {c["file"] for c in json.load(open(sys.argv[1] + "/compile_commands.json"))}
print("\n".join(sorted(f[len(root):] for f in files if f.startswith(root) and not f.startswith(root + "build/"))))
PY
)
# --quiet still counts what it does not show, in system headers.
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet --warnings-as-errors='*' 2>&1 |
    { grep -Ev '^[0-9]+ warnings? generated\.$' || true; }
echo "tidy: ${#files[@]} files"
