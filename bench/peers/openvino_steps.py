#!/usr/bin/env python3
"""OpenVINO on the other side of `pilotfish bench steps` (see steps.py).

    openvino_steps.py DIRECTORY THREADS [PROPERTY=VALUE...]

The stateful model that optimum-intel exports, driven without its pipeline: no sampler, and a pass ends when the logits
of its rows are there. As OpenVINO's own pipeline does, rows without requested logits are cut off before the head.
"""
import pathlib
import sys

import numpy as np
import openvino as ov
import openvino.opset13 as op

from steps import serve

INPUT = "first_logits"   # of this many rows, counted from the end, logits are wanted: -n


def cut_before_head(model):
    """Give the model an input: the rows from there on enter the head's product."""
    product = model.output("logits").get_node().input_value(0).get_node()
    while product.get_type_name() != "MatMul":
        product = product.input_value(0).get_node()
    first = op.parameter([1], np.int64, name=INPUT)
    first.output(0).set_names({INPUT})
    end, one = op.constant(np.array([2**31 - 1])), op.constant(np.array([1]))
    product.input(0).replace_source_output(op.slice(product.input_value(0), first, end, one, one).output(0))
    model.add_parameters([first])
    model.validate_nodes_and_infer_types()


class Engine:
    def __init__(self, directory, n_threads, properties):
        model = ov.Core().read_model(directory / "openvino_model.xml")
        cut_before_head(model)
        names = {name for node in model.inputs for name in node.names}
        self.has_positions = "position_ids" in names
        self.n_vocab = model.output("logits").partial_shape[2].get_length()
        self.weight_bytes = (directory / "openvino_model.bin").stat().st_size
        compiled = ov.compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": n_threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False, "INFERENCE_PRECISION_HINT": "bf16", **properties})
        self.request = compiled.create_infer_request()
        self.length = 0

    def forget(self):
        self.request.reset_state()
        self.length = 0

    def take(self, tokens, n_logits):
        n = len(tokens)
        inputs = {"input_ids": tokens[None], "attention_mask": np.ones((1, self.length + n), np.int64),
                  "beam_idx": np.zeros(1, np.int32), INPUT: np.array([-n_logits])}
        if self.has_positions:
            inputs["position_ids"] = np.arange(self.length, self.length + n)[None]
        self.request.infer(inputs, share_inputs=True, share_outputs=True)
        self.length += n

    def keep(self, n):
        """Nothing: to cut its state is to copy it, and the next pass would pay. Fewer than 100 positions stay too many,
        whose keys and values are a thousandth of what a pass reads."""


serve(Engine(pathlib.Path(sys.argv[1]), int(sys.argv[2]), dict(p.split("=", 1) for p in sys.argv[3:])))
