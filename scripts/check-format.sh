#!/usr/bin/env bash
# check-format.sh [-i]: the C files are as clang-format writes them; -i: let it write.
set -euo pipefail
cd "$(dirname "$0")/.."
listed=$(git ls-files --cached --others --exclude-standard '*.c' '*.h')   # in a pipe its failure would be no files
mapfile -t files < <(while read -r f; do [ ! -f "$f" ] || echo "$f"; done <<<"$listed")
if [ "${1:-}" = -i ]; then
    clang-format -i "${files[@]}"
else
    clang-format --dry-run -Werror "${files[@]}"
    echo "format: ${#files[@]} files"
fi
