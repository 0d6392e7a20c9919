#!/usr/bin/env bash
# Builds llama.cpp with drafts of Pilotfish workers: llama-server with `--spec-type pilotfish`, and llama_drafted.
#
#   build.sh LLAMA_CPP OUT [INCLUDE LIBRARY]
#
# LLAMA_CPP is its source tree, at a commit that speculative_pilotfish.patch fits (docs/integrations/llamacpp.md names one); the patch is
# put there unless it is there already. INCLUDE is the folder of pilotfish.h, LIBRARY libpilotfish.so; `./dev install` puts both where they are found
# without. Behind it lie OUT/bin/llama-server and OUT/bin/llama_drafted.
set -euo pipefail
unset CDPATH   # cd would look there, too, and say where it went
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 2 ] || [ $# -eq 4 ] || { echo "usage: build.sh LLAMA_CPP OUT [INCLUDE LIBRARY]" >&2; exit 2; }
source=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
patch=$here/speculative_pilotfish.patch

if ! grep -q COMMON_SPECULATIVE_TYPE_PILOTFISH "$source/common/common.h"; then
    patch -p1 -s -d "$source" --dry-run <"$patch" >/dev/null || {
        echo "build.sh: the patch does not fit $source: it is another version of llama.cpp" >&2
        exit 1
    }
    patch -p1 -s -d "$source" <"$patch"
fi
places=()
if [ $# -eq 4 ]; then places=("-DPILOTFISH_INCLUDE=$(realpath "$3")" "-DPILOTFISH_LIBRARY=$(realpath "$4")"); fi
cmake -S "$source" -B "$out" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
    -DLLAMA_BUILD_NUMBER=0 -DLLAMA_BUILD_COMMIT=x -DGGML_BUILD_COMMIT=x -DGGML_BUILD_NUMBER=0 -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
    -DLLAMA_PILOTFISH_ADAPTER="$here" "${places[@]}" >"$out/configure.log" 2>&1 || { tail -40 "$out/configure.log" >&2; exit 1; }
ninja -C "$out" llama-server >"$out/build.log" 2>&1 || { tail -40 "$out/build.log" >&2; exit 1; }

include=$(sed -n 's/^PILOTFISH_INCLUDE:[A-Z]*=//p' "$out/CMakeCache.txt")
library=$(sed -n 's/^PILOTFISH_LIBRARY:[A-Z]*=//p' "$out/CMakeCache.txt")
cc -std=c11 -O2 -Wall -Wextra -D_DEFAULT_SOURCE -I"$include" -c "$here/worker_drafts.c" -o "$out/worker_drafts.o"
c++ -std=c++17 -O2 -Wall -Wextra -I"$here" -I"$include" -I"$source/include" -I"$source/ggml/include" "$here/llama_drafted.cc" \
    "$out/worker_drafts.o" "$library" -Wl,-rpath,"$(dirname "$library")" \
    -Wl,--start-group "$out/src/libllama.a" "$out"/ggml/src/libggml*.a -Wl,--end-group -fopenmp -lpthread -ldl -lm \
    -o "$out/bin/llama_drafted"
