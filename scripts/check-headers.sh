#!/usr/bin/env bash
# check-headers.sh [COMPILER]: every header compiles alone, as C11, without a warning. Headers that only one
# instruction set can compile say so in their name (_avx2, _avx512) and are compiled for it; those named _v16 are
# written in the vectors of v16_avx2.h or v16_avx512.h, and stand behind the first; those named _vec behind vec_avx2.h.
set -euo pipefail
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

# Included rather than compiled, so that what is static and unused in it is nobody's fault.
check_one() {
    local header=$1 prelude= flags=()
    case "$header" in
    *avx512*) flags=("${avx512[@]}") ;;
    *avx2*) flags=("${avx2[@]}") ;;
    *_vec.h) flags=("${avx2[@]}") prelude='#include "kernels/gemm/vec_avx2.h"' ;;
    *_v16.h) flags=("${avx2[@]}") prelude='#include "kernels/v16_avx2.h"' ;;
    esac
    printf '%s\n#include "%s"\n' "$prelude" "$header" |
        "$compiler" -std=c11 -D_GNU_SOURCE -I. -I"$generated" -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Werror \
            -Wno-unused-function "${flags[@]}" "${libraries[@]}" -x c -fsyntax-only - ||
        { echo "headers: $header does not stand alone" >&2; return 1; }
}

status=0 n=0
for header in $(find base tokenizer kernels kvcache model draft proto verify rpc engine cli bench tests -name '*.h' | sort); do
    check_one "$header" || status=1
    n=$((n + 1))
done
[ $status -ne 0 ] || echo "headers: $n stand alone ($compiler)"
exit $status
