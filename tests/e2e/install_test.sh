#!/usr/bin/env bash
# install_test.sh BUILD-DIRECTORY COMPILER: what `cmake --install` leaves is enough to compile, link and run the program of
# docs/library.md against libpilotfish by pkg-config alone, away from the source tree; and every header that it leaves
# compiles alone, pedantically, and where there is a C++ compiler in C++. And the binary finds its prompts.
set -euo pipefail
build=$1 compiler=$2 tree=$PWD
prefix=$(mktemp -d "${TMPDIR:-/tmp}/pilotfish-install.XXXXXX")
trap 'rm -rf "$prefix"' EXIT
cmake --install "$build" --prefix "$prefix/moved" >/dev/null
mv "$prefix/moved" "$prefix/here"   # nothing in it may know where it was put
cd "$prefix"

PKG_CONFIG_PATH=$(dirname "$(find "$prefix/here" -name pilotfish.pc)")
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs pilotfish)
sed -n '/^```c$/,/^```$/p' "$tree/docs/library.md" | sed '1d;$d' >continue.c
# shellcheck disable=SC2086
"$compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror continue.c $flags -o continue
./continue "$tree/models/target" "$tree/models/draft" 'The list type' >text
tail -n 1 text | grep -Eq '^[1-9][0-9]* of 32 tokens were drafted$'
head -n -1 text | cmp - <("$prefix/here/bin/pilotfish" generate -m "$tree/models/target" -p 'The list type' -n 32 2>log)

# It says why where there are no ids: no tokenizer, one that is not known here, a text that the vocabulary has no token for.
refuses() {
    local rc=0
    ./continue "$prefix/other" "$tree/models/draft" 'a' >text 2>log || rc=$?
    [ "$rc" = 1 ] && [ ! -s text ] && grep -q "$1" log
}
mkdir other
ln -s "$tree"/models/target/{config.json,*.safetensors*} other/
refuses 'the model has no tokenizer.json'
echo '{"version": "1.0", "model": {"type": "Unigram"}}' >other/tokenizer.json
refuses 'other/tokenizer.json: .*Unigram'
echo '{"version": "1.0", "model": {"type": "BPE", "vocab": {"b": 0}, "merges": []}}' >other/tokenizer.json
refuses 'TEXT has 1 bytes: .* lacks a token'

cd "$prefix/here/include/pilotfish"
find . -name '*.h' | while read -r header; do
    # shellcheck disable=SC2046
    echo "#include \"$header\"" |
        "$compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags pilotfish) -x c -fsyntax-only -
    ! command -v c++ >/dev/null ||
        printf 'extern "C" {\n#include "%s"\n}\n' "$header" |
        c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags pilotfish) -x c++ -fsyntax-only -
done
cd "$prefix"
[ -s "$prefix/here/share/man/man1/pilotfish.1" ]
"$prefix/here/bin/pilotfish" bench acceptance -m "$tree/models/target" -d "$tree/models/draft" --limit 1 -n 4 >figures 2>log

# ./dev takes a directory as it is seen from where it is called. Its tools only say what they are called with.
mkdir tree tools
cp "$tree/dev" tree/
printf '#!/bin/sh\necho installed\n' >tools/dpkg-query
printf '#!/bin/sh\necho "$@"\n' >tools/cmake
chmod +x tools/*
PATH=$prefix/tools:$PATH tree/dev install there | tail -n 1 | grep -Fqx -e "--install build/release --prefix $prefix/there"
