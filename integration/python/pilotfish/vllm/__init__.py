"""vLLM drafted by a Pilotfish worker.

    LLM(model=..., speculative_config={"model": "pilotfish.vllm.Proposer", "num_speculative_tokens": 4},
        additional_config={"pilotfish": {"address": "unix:/run/pilotfish.sock"}})

`Proposer` is a class for the speculative method custom_class of the V1 model runner. On the V2 runner, plugin.py supplies a
speculator. options.py lists what additional_config may say.
"""

from .proposer import Proposer

__all__ = ["Proposer"]
