"""Runs llama.cpp's own converter on a model directory whose tokenizer it has no name for.

    convert.py LLAMA_CPP MODEL_DIRECTORY FILE.gguf TYPE

The converter knows pre-tokenizers by a hash of what they make of one text, and refuses others. The bundled tokenizer splits by GPT-2's
pattern: the name is given here, everything else is the converter's.
"""

import runpy
import sys
from pathlib import Path

llama_cpp, model, out, kind = sys.argv[1:5]
sys.path[:0] = [llama_cpp, str(Path(llama_cpp) / "gguf-py")]
from conversion import base  # noqa: E402

base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
script = str(Path(llama_cpp) / "convert_hf_to_gguf.py")
sys.argv = [script, model, "--outfile", out, "--outtype", kind]
runpy.run_path(script, run_name="__main__")
