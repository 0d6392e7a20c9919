#!/usr/bin/env bash
# install_test.sh BUILD-DIRECTORY COMPILER: what `cmake --install` leaves, away from the source tree:
#   the programs of docs/library.md compile as C and, where there is a C++ compiler, as C++, and run, by pkg-config against the
#   shared library and the archive, and by CMake's find_package; the installed headers are the two public ones; and the
#   binary finds its prompts.
set -euo pipefail
trap 'echo "install_test.sh: line $LINENO failed: $BASH_COMMAND" >&2' ERR
build=$1 compiler=$2 tree=$PWD
prefix=$(mktemp -d "${TMPDIR:-/tmp}/pilotfish-install.XXXXXX")
trap 'rm -rf "$prefix"' EXIT
cmake --install "$build" --prefix "$prefix/moved" >/dev/null
mv "$prefix/moved" "$prefix/here"   # nothing in it may know where it was put
cd "$prefix"

libdir=$(dirname "$(find "$prefix/here" -name 'libpilotfish.so.0')")
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir
strict=(-Wall -Wextra -Wpedantic -Wshadow -Werror)
read -ra shared <<<"$(pkg-config --cflags --libs pilotfish)"
read -ra private <<<"$(pkg-config --libs $(pkg-config --print-requires-private pilotfish)) \
    $(sed -n 's/^Libs.private: //p' "$PKG_CONFIG_PATH/pilotfish.pc")"
[ "$(cd here/include && find . -type f | sort | tr '\n' ' ')" = './pilotfish.h ./pilotfish_peer.h ' ]

# The block of docs/library.md that is marked with a file's name.
program() {
    sed -n "/^\`\`\`c $1\$/,/^\`\`\`\$/p" "$tree/docs/library.md" | sed '1d;$d' >"$1"
    [ -s "$1" ]
}
program continue.c
program poll.c
program many.c
program repeat.c
[ "$(wc -l <continue.c)" -lt 60 ]
for name in continue poll many repeat; do
    "$compiler" -std=c11 "${strict[@]}" $name.c "${shared[@]}" -o $name
done
readelf -d continue | grep -q 'Shared library: \[libpilotfish.so.0\]'

"$prefix/here/bin/pilotfish" generate -m "$tree/models/target" -p 'The list type' -n 32 >expected 2>log
judge() { # a text, as the binary has it, and a line of figures
    tail -n 1 text | grep -Eq '^[1-9][0-9]* of 32 tokens were drafted$'
    head -n -1 text | cmp - expected
}
./continue "$tree/models/target" "$tree/models/draft" 'The list type' >text
judge
ids() {
    "$prefix/here/bin/pilotfish" generate -m "$tree/models/target" --tokens 1,2,3 -n 24 --json 2>log |
        python3 -c 'import json, sys; print(*json.load(sys.stdin)["tokens"], sep="\n")'
}
ids >expected_ids
./poll "$tree/models/target" | cmp - expected_ids
./many "$tree/models/target" | cmp - expected_ids
./repeat "$tree/models/target" 2>figures | cmp - expected_ids
grep -Eq '^[1-9][0-9]* rounds, [1-9][0-9]* drafted$' figures

"$compiler" -std=c11 continue.c "${shared[0]}" "$libdir/libpilotfish.a" "${private[@]}" -o linked_statically
./linked_statically "$tree/models/target" "$tree/models/draft" 'The list type' >text
judge
if command -v c++ >/dev/null; then
    for name in continue poll many repeat; do
        c++ -std=c++17 -x c++ "${strict[@]}" $name.c "${shared[@]}" -o ${name}_cxx
    done
    ./continue_cxx "$tree/models/target" "$tree/models/draft" 'The list type' >text
    judge
    ./poll_cxx "$tree/models/target" | cmp - expected_ids
fi

mkdir consumer
cp continue.c consumer/
cat >consumer/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(consumer LANGUAGES C)
find_package(Pilotfish 0.1 REQUIRED)
add_executable(continue continue.c)
target_link_libraries(continue PRIVATE Pilotfish::pilotfish)
END
cmake -S consumer -B consumer/build -DCMAKE_C_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix/here" >log
cmake --build consumer/build >log
env -u LD_LIBRARY_PATH consumer/build/continue "$tree/models/target" "$tree/models/draft" 'The list type' >text
judge

# It says why where there is no tokenizer.
mkdir other
ln -s "$tree"/models/target/{config.json,*.safetensors*} other/
rc=0
./continue "$prefix/other" "$tree/models/draft" 'a' >text 2>log || rc=$?
[ "$rc" = 1 ] && [ ! -s text ] && grep -q 'unavailable: the model has no tokenizer' log

[ -s "$prefix/here/share/man/man1/pilotfish.1" ]
"$prefix/here/bin/pilotfish" bench acceptance -m "$tree/models/target" -d "$tree/models/draft" --limit 1 -n 4 >figures 2>log

# ./dev takes a directory as it is seen from where it is called. Its tools only say what they are called with.
mkdir tree tools
cp "$tree/dev" tree/
printf '#!/bin/sh\necho installed\n' >tools/dpkg-query
printf '#!/bin/sh\necho "$@"\n' >tools/cmake
chmod +x tools/*
PATH=$prefix/tools:$PATH tree/dev install there | tail -n 1 | grep -Fqx -e "--install build/release --prefix $prefix/there"
