"""Restarts a program under an interpreter that has transformers.

The Python packages are large: without them this makes a virtual environment in build/oracle and installs them there.
PF_ORACLE_PYTHON names an interpreter that has them already.
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ["torch==2.15.0", "transformers==5.23.0", "safetensors==0.8.0", "numpy==2.4.6",
            "tokenizers==0.23.3", "sentencepiece==0.2.3", "tiktoken==0.14.0", "protobuf"]


def become_capable():
    wanted = os.environ.get("PF_ORACLE_PYTHON")
    venv = ROOT / "build" / "oracle" / "venv"
    python = pathlib.Path(wanted) if wanted else venv / "bin" / "python"
    if os.environ.get("PF_ORACLE_RUNNING"):
        return
    if not wanted and not (venv / "installed").exists():
        print(f"installing {', '.join(PACKAGES)} into {venv}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (venv / "installed").touch()
    os.execve(python, [str(python), *sys.argv], {**os.environ, "PF_ORACLE_RUNNING": "1"})
