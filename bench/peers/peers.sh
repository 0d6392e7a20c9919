#!/usr/bin/env bash
# This engine beside llama.cpp, OpenVINO and PyTorch, in one run: builds the first, installs the others, makes models
# with random weights of the same shape and of equal bits a weight, and measures all in turns. What is built and made
# stays for the next time.
#
#   bench/peers/peers.sh BINARY [arguments of peers.py]        `./dev bench peers` builds first and calls this
#
#   PF_PEERS         where everything is kept (~/.cache/pilotfish/peers): 7 GB of programs, 11 GB of models
#   PF_PEERS_SHAPES  what is made and measured ("1b 68m")
set -euo pipefail
unset CDPATH   # cd would look there, too, and say where it went
here=$(cd "$(dirname "$0")" && pwd)
for word in "$@"; do
    case $word in -h | --help) exec python3 "$here/peers.py" --help ;; esac   # before anything is installed
done
binary=$(realpath "$1")
shift
home=${PF_PEERS:-$HOME/.cache/pilotfish/peers}
shapes=${PF_PEERS_SHAPES:-1b 68m}
source_package=llama-cpp-python==0.3.36   # whose source package holds llama.cpp 0c1e57098

say() { echo "peers: $*" >&2; }

make_environment() {
    [ -x "$home/venv/bin/python" ] || python3 -m venv "$home/venv"
    cmp -s "$here/requirements.txt" "$home/venv/installed.txt" && return 0
    say "installing OpenVINO, PyTorch and what makes models for them"
    "$home/venv/bin/pip" -q install -r "$here/requirements.txt" >&2
    cp "$here/requirements.txt" "$home/venv/installed.txt"
}

# Its sources, without the marks of a repository that confuse their build.
unpack_llama() {
    [ ! -d "$home/llama.cpp" ] || return 0
    say "fetching the sources of llama.cpp"
    "$home/venv/bin/pip" -q download --no-deps --no-binary llama-cpp-python "$source_package" -d "$home/sdist" >&2
    rm -rf "$home/unpacked"
    mkdir "$home/unpacked"
    tar xzf "$home"/sdist/llama_cpp_python-*.tar.gz -C "$home/unpacked" --strip-components 1
    cp "$home/unpacked/.git/modules/vendor/llama.cpp/HEAD" "$home/llama.cpp.commit" 2>/dev/null ||
        echo unknown >"$home/llama.cpp.commit"
    rm -rf "$home/unpacked/vendor/llama.cpp/.git"
    mv "$home/unpacked/vendor/llama.cpp" "$home/llama.cpp"
    rm -rf "$home/unpacked"
    # GCC 12's _tile_loadconfig tells the compiler of 8 of the 64 bytes that it reads; the others are not written, and
    # where there is AMX 8-bit and 4-bit weights end in a fault.
    sed -i 's/_tile_loadconfig(&tc);/__asm__ volatile("ldtilecfg %0" : : "m"(tc));/' \
        "$home/llama.cpp/ggml/src/ggml-cpu/amx/mmq.cpp"
}

build_llama() {
    local build=$home/llama.cpp-build
    unpack_llama
    if [ ! -f "$build/src/libllama.a" ]; then
        say "building llama.cpp, some minutes"
        cmake -S "$home/llama.cpp" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
            -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_NUMBER=0 -DLLAMA_BUILD_COMMIT=x -DGGML_BUILD_COMMIT=x \
            -DGGML_BUILD_NUMBER=0 -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_COMMON=OFF \
            -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF \
            >"$home/configure.log" 2>&1 || { cat "$home/configure.log" >&2; exit 1; }
        ninja -C "$build" llama >"$home/build.log" 2>&1 || { tail -40 "$home/build.log" >&2; exit 1; }
    fi
    if [ ! "$home/llama_steps" -nt "$here/llama_steps.cc" ]; then
        c++ -std=c++17 -O2 -I"$home/llama.cpp/include" -I"$home/llama.cpp/ggml/include" "$here/llama_steps.cc" \
            -Wl,--start-group "$build/src/libllama.a" "$build"/ggml/src/libggml*.a -Wl,--end-group \
            -fopenmp -lpthread -ldl -lm -o "$home/llama_steps"
    fi
}

make_models() {
    local shape type make=("$home/venv/bin/python" "$here/make_models.py")
    for shape in $shapes; do
        if [ ! -f "$home/$shape/model.safetensors" ]; then
            say "making $shape"
            "${make[@]}" safetensors "$shape" "$home/$shape"
        fi
        for type in BF16 Q8_0 Q4_0; do
            [ -f "$home/$shape/$type.gguf" ] || "${make[@]}" gguf "$home/$shape" "$type" "$home/$shape/$type.gguf"
        done
        [ -f "$home/$shape/openvino/made" ] && continue
        say "exporting $shape for OpenVINO"
        "${make[@]}" openvino "$home/$shape" "$home/$shape/openvino" >"$home/openvino.log" 2>&1 ||
            { tail -40 "$home/openvino.log" >&2; exit 1; }
        touch "$home/$shape/openvino/made"
    done
}

mkdir -p "$home"
make_environment
build_llama
make_models
exec "$home/venv/bin/python" "$here/peers.py" "$binary" "$home" --shapes "${shapes// /,}" "$@"
