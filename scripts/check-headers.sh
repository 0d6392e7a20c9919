#!/usr/bin/env bash
# check-headers.sh [COMPILER]: every header compiles alone, as C11, without a warning, and all of them together, except those
# internal to kernels/: no two declare one name differently. Headers that need an instruction set say so in their name:
# _avx2, _avx512 and _amx are compiled for it; vec.h, v16.h, words.h, *_vec.h and *_v16.h choose by it, and are compiled
# for AVX2.
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
    "$compiler" -std=c11 -D_GNU_SOURCE -I. -Iinclude -I"$generated" -Itests/cuda-shim/include -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Werror \
        -Wno-unused-function "$@" "${libraries[@]}" -x c -fsyntax-only -
}

check_one() {
    local header=$1 flags=()
    case "$header" in
    *avx512* | *_amx*) flags=("${avx512[@]}") ;;
    *avx2* | *[_/]vec.h | *[_/]v16.h | */words.h) flags=("${avx2[@]}") ;;
    esac
    printf '#include "%s"\n' "$header" | check "${flags[@]}" ||
        { echo "headers: $header does not stand alone" >&2; return 1; }
}

# The public headers, in C++ too, as a program outside includes them; of the system they take three headers alone.
check_public() {
    local header=$1 cxx=${CXX:-c++}
    if grep -E '^#include <' "$header" | grep -Evq '<(stdbool|stddef|stdint)\.h>'; then
        echo "headers: $header includes more of the system than stdbool.h, stddef.h and stdint.h" >&2
        return 1
    fi
    printf '#include "%s"\n' "${header#include/}" |
        "$compiler" -std=c11 -Iinclude -Wall -Wextra -Wpedantic -Werror -x c -fsyntax-only - || return 1
    ! command -v "$cxx" >/dev/null ||
        printf '#include "%s"\n' "${header#include/}" |
        "$cxx" -std=c++17 -Iinclude -Wall -Wextra -Wpedantic -Werror -x c++ -fsyntax-only - ||
        { echo "headers: $header does not stand alone in C++" >&2; return 1; }
}

mapfile -t folders < <(dirname -- */CMakeLists.txt)
mapfile -t headers < <(find "${folders[@]}" tests -name '*.h' | sort)
status=0
for header in "${headers[@]}"; do
    check_one "$header" || status=1
    [[ $header != include/* ]] || check_public "$header" || status=1
done
printf '%s\n' "${headers[@]}" | grep -vE '^kernels/.*(_|/(vec|v16|words)\.h)' | sed 's/.*/#include "&"/' | check ||
    { echo "headers: they do not stand together" >&2; status=1; }
[ $status -ne 0 ] || echo "headers: ${#headers[@]} stand alone and together ($compiler)"
exit $status
