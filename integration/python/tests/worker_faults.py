"""What an adapter does about a worker that is not there, that has another vocabulary, or that goes: tests that those of the adapters mix in."""

import contextlib
import json
import logging
import re
import shutil
import signal
import time
from pathlib import Path

GENEROUS_S = 60.0


def other_vocabulary(model, to, share=1.0):
    """A copy of a model in the folder `to` with as many tokens, of which this share has other texts; and the ids of these."""
    to = Path(shutil.copytree(model, to))
    path = to / "tokenizer.json"
    document = json.loads(path.read_text())
    vocabulary = document["model"]["vocab"]
    special = {token["content"] for token in document.get("added_tokens", [])}
    texts = [text for text in vocabulary if text not in special]
    texts = texts[:max(2, int(share * len(texts)))]
    vocabulary.update(zip(texts, [vocabulary[text] for text in texts[1:] + texts[:1]]))
    path.write_text(json.dumps(document))
    return to, {vocabulary[text] for text in texts}


@contextlib.contextmanager
def warnings():
    """The sentences that the package logs meanwhile."""
    found, handler = [], logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())
    logger = logging.getLogger("pilotfish")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


def until(holds):
    """Waits for it; False where it does not come."""
    end = time.monotonic() + GENEROUS_S
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


class WorkerFaults:
    """Of a TestCase with `pilotfish`, `draft`, `root`, `socket(name)` and `drafted_by(address)`: an adapter's client, and a function that
    runs the engine and compares its texts with plain ones."""

    def fault_worker(self, address, model):
        server = self.pilotfish.serve("worker", model, address, "--threads", "1")
        self.addCleanup(server.end, signal.SIGKILL)
        return server

    def assert_one_warning_of_a_kind(self, found, address):
        """gRPC has several words for one failure: each is said once."""
        kinds = [re.match(r"no proposals from the worker at (\S+): (\w+)", line) for line in found]
        self.assertTrue(kinds and all(kinds), found)
        self.assertEqual({kind[1] for kind in kinds}, {address})
        self.assertEqual(len({kind[2] for kind in kinds}), len(kinds), found)

    def test_an_address_without_a_worker_costs_no_token_and_one_warning(self):
        address = self.socket("absent")
        with warnings() as found:
            client, run = self.drafted_by(address)
            self.assertTrue(until(lambda: found))
            run()
        self.assertEqual(client.figures["proposed"], 0)
        self.assert_one_warning_of_a_kind(found, address)

    def test_a_worker_of_another_vocabulary_costs_no_token_and_one_warning(self):
        model, _ = other_vocabulary(self.draft, self.root / "other-model")
        with warnings() as found:
            client, run = self.drafted_by(self.fault_worker(self.socket("other"), model).address)
            self.assertTrue(until(lambda: found))
            run()
        self.assertEqual(client.figures["proposed"], 0)
        self.assertEqual(["another vocabulary than the target" in line for line in found], [True], found)

    def test_a_worker_that_goes_costs_no_token_and_one_warning(self):
        server = self.fault_worker(self.socket("goes"), self.draft)
        client, run = self.drafted_by(server.address)
        self.assertTrue(client.wait_ready(GENEROUS_S))
        run()
        before = client.figures["proposed"]
        self.assertGreater(before, 0)
        with warnings() as found:
            server.end(signal.SIGKILL)
            self.assertTrue(until(lambda: found))
            run()
        self.assertEqual(client.figures["proposed"], before)
        self.assert_one_warning_of_a_kind(found, server.address)
