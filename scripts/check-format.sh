#!/usr/bin/env bash
# check-format.sh [-i]: the C files are as clang-format writes them; -i: let it write.
set -euo pipefail
unset CDPATH   # cd would look there, too, and say where it went
cd "$(dirname "$0")/.."
listed=$(scripts/tree_files.py)   # in a pipe its failure would be no files
mapfile -t files < <(grep '\.[ch]$' <<<"$listed")
if [ "${1:-}" = -i ]; then
    clang-format -i "${files[@]}"
else
    clang-format --dry-run -Werror "${files[@]}"
    echo "format: ${#files[@]} files"
fi
