#!/usr/bin/env bash
# check-tidy.sh BUILD-DIRECTORY: clang-tidy over the sources that the build compiles (its compile_commands.json).
#
# A source that is compiled several times, for instruction sets or into several programs, is read once, by its last command.
# The analyzer gives a function up after 40,000 steps (its default is 225,000): that takes a third of the time.
set -euo pipefail
unset CDPATH   # cd would look there, too, and say where it went
cd "$(dirname "$0")/.."
commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
mapfile -t files < <(python3 - "$1" "$commands" <<'PY'
import json, os, sys
root, build, out = os.getcwd() + "/", *sys.argv[1:]
files = {c["file"]: c for c in json.load(open(build + "/compile_commands.json"))}
files = {f: c for f, c in sorted(files.items()) if f.startswith(root) and not f.startswith(root + "build/")}
json.dump(list(files.values()), open(out + "/compile_commands.json", "w"))
print("\n".join(f[len(root):] for f in files))
PY
)
# --quiet still counts what it does not show, in system headers.
limit=(--extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=max-nodes=40000)
printf '%s\n' "${files[@]}" |
    xargs -P "$(nproc)" -n 4 clang-tidy -p "$commands" --quiet --warnings-as-errors='*' "${limit[@]}" 2>&1 |
    { grep -Ev '^[0-9]+ warnings? generated\.$' || true; }
echo "tidy: ${#files[@]} files"
