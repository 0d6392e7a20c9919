"""The kernels of the CUDA backend are in the build for every architecture that it names, and as PTX for the last.

    cuda_architectures_test.py NVCC "80;90" OBJECT...
"""
import pathlib
import shutil
import subprocess
import sys


def listed(cuobjdump, kind, path):
    result = subprocess.run([cuobjdump, kind, path], check=True, capture_output=True, text=True)
    return result.stdout


def main():
    nvcc, architectures, objects = sys.argv[1], sys.argv[2].split(";"), sys.argv[3:]
    cuobjdump = shutil.which("cuobjdump") or str(pathlib.Path(nvcc).resolve().with_name("cuobjdump"))
    if not pathlib.Path(cuobjdump).exists():
        print("skipped: cuobjdump is not there")
        sys.exit(77)
    missing = []
    for path in objects:
        code, ptx = listed(cuobjdump, "--list-elf", path), listed(cuobjdump, "--list-ptx", path)
        missing += [f"{path}: no code for sm_{a}" for a in architectures if f"sm_{a}." not in code]
        if f"sm_{architectures[-1]}." not in ptx:
            missing.append(f"{path}: no PTX for compute_{architectures[-1]}")
    if not objects or missing:
        sys.exit("\n".join(missing) or "no objects of kernels are named")
    print(f"{len(objects)} files of kernels have code for {', '.join(architectures)}")


if __name__ == "__main__":
    main()
