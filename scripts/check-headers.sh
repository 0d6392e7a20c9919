#!/usr/bin/env bash
# check-headers.sh [COMPILER]: every header compiles alone, as C11, without a warning, and all of them together, kernels'
# texts aside: no two say one name of different things. Headers that only one instruction set can compile say so in their
# name (_avx2, _avx512, _amx) and are compiled for it; those named _v16 are written in the vectors of v16_avx2.h or
# v16_avx512.h, and stand behind the first; those named _vec behind vec_avx2.h, those named _words behind words_avx2.h.
set -euo pipefail
unset CDPATH   # cd would look there, too, and say where it went
cd "$(dirname "$0")/.."
compiler=${1:-cc}
if ! command -v "$compiler" >/dev/null; then
    echo "headers: no $compiler here" >&2
    exit 77
fi
read -ra libraries <<<"$(pkg-config --cflags grpc libprotobuf-c jansson libpcre2-8 hwloc 2>/dev/null || true)"
generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT
{ protoc --proto_path=proto --c_out="$generated" pilotfish.proto 2>/dev/null ||
    protoc-c --proto_path=proto --c_out="$generated" pilotfish.proto; }

avx2=(-mavx2 -mfma -mf16c)
avx512=("${avx2[@]}" -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16)

# Included rather than compiled, so that unused static functions are no warnings: C on standard input.
check() {
    "$compiler" -std=c11 -D_GNU_SOURCE -I. -I"$generated" -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Werror \
        -Wno-unused-function "$@" "${libraries[@]}" -x c -fsyntax-only -
}

check_one() {
    local header=$1 prelude= flags=()
    case "$header" in
    *avx512* | *_amx*) flags=("${avx512[@]}") ;;
    *avx2*) flags=("${avx2[@]}") ;;
    *_vec.h) flags=("${avx2[@]}") prelude='#include "kernels/vec/vec_avx2.h"' ;;
    *_words.h) flags=("${avx2[@]}") prelude='#include "kernels/sample/words_avx2.h"' ;;
    *_v16.h) flags=("${avx2[@]}") prelude='#include "kernels/vec/v16_avx2.h"' ;;
    esac
    printf '%s\n#include "%s"\n' "$prelude" "$header" | check "${flags[@]}" ||
        { echo "headers: $header does not stand alone" >&2; return 1; }
}

mapfile -t folders < <(dirname -- */CMakeLists.txt)
mapfile -t headers < <(find "${folders[@]}" tests -name '*.h' | sort)
status=0
for header in "${headers[@]}"; do
    check_one "$header" || status=1
done
printf '%s\n' "${headers[@]}" | grep -v '^kernels/.*_' | sed 's/.*/#include "&"/' | check ||
    { echo "headers: they do not stand together" >&2; status=1; }
[ $status -ne 0 ] || echo "headers: ${#headers[@]} stand alone and together ($compiler)"
exit $status
