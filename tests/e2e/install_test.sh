#!/usr/bin/env bash
# install_test.sh BUILD-DIRECTORY COMPILER: what `cmake --install` leaves is enough to compile, link and run a program
# against libpilotfish by pkg-config alone, away from the source tree.
set -euo pipefail
build=$1 compiler=$2
prefix=$(mktemp -d "${TMPDIR:-/tmp}/pilotfish-install.XXXXXX")
trap 'rm -rf "$prefix"' EXIT
cmake --install "$build" --prefix "$prefix/moved" >/dev/null
mv "$prefix/moved" "$prefix/here"   # nothing in it may know where it was put
cd "$prefix"

cat >program.c <<'C'
#include "engine/connect.h"
#include "engine/pilotfish.h"
#include "engine/serve_peer.h"

#include <stdio.h>

int main(void)
{
    pf_peer *peer = NULL;
    pf_error error;
    const pf_status status = pf_connect_verifier("no address", &peer, &error);
    printf("%s: %s\n", pf_status_name(status), error.text);
    return status == PF_INVALID ? 0 : 1;
}
C
PKG_CONFIG_PATH=$(dirname "$(find "$prefix/here" -name pilotfish.pc)")
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs pilotfish)
# shellcheck disable=SC2086
"$compiler" -std=c11 -Wall -Wextra -Werror program.c $flags -o program
./program
"$prefix/here/bin/pilotfish" --help >/dev/null
[ -s "$prefix/here/share/man/man1/pilotfish.1" ]
