"""A draft worker in Python for tests: it proposes a known chain of tokens, and misbehaves as it is told to.

The chain is a function of the last token and the length, so that the right proposal of any prefix is known: `chain(tokens, n)`.
"""

import random
import time
from concurrent import futures

import grpc
from pilotfish.messages import Batch, GetModelInfoRequest, ModelInfo

N_IDS = 97


def chain(tokens, n):
    """The `n` tokens that the scripted worker proposes after `tokens`."""
    last, length, out = tokens[-1], len(tokens), []
    for _ in range(n):
        last = (last * 31 + length * 7 + 3) % N_IDS
        length += 1
        out.append(last)
    return out


def tree(tokens, n):
    """`n` tokens of a tree, and their parents: the chain, with another token before each of its tokens."""
    right = chain(tokens, (n + 1) // 2)
    both = [token for t in right for token in ((t + 1) % N_IDS, t)][:n]
    return both, [-1 if i < 2 else (i // 2 - 1) * 2 + 1 for i in range(n)]


class Script:
    """The worker's state on one stream: batch in, answers out. Opens that allow trees get them."""

    def __init__(self, max_sequences=8, length=4):
        self.max_sequences, self.length = max_sequences, length
        self.texts = {}     # sequence: [incarnation, next round, tokens]
        self.trees = set()  # the sequences that get trees
        self.drafters = {}  # sequence: that its open names
        self.most_open = 0

    def answer(self, batch):
        out = Batch()
        for close in batch.closes:
            self.texts.pop(close.sequence, None)
        for opened in batch.opens:
            known = self.texts.get(opened.sequence)
            if known is not None and opened.incarnation <= known[0]:
                continue
            if known is None and len(self.texts) >= self.max_sequences:
                out.refusals.add(sequence=opened.sequence, incarnation=opened.incarnation, reason=1, text="no room")
                continue
            self.texts[opened.sequence] = [opened.incarnation, opened.next_round, list(opened.tokens)]
            self.drafters[opened.sequence] = opened.drafter
            (self.trees.add if opened.limits.trees else self.trees.discard)(opened.sequence)
        self.most_open = max(self.most_open, len(self.texts))
        refused = {r.sequence for r in out.refusals}
        for verdict in batch.verdicts:
            text = self.texts.get(verdict.sequence)
            if verdict.sequence in refused:
                continue
            if text is None or text[0] != verdict.incarnation or verdict.round != text[1] or verdict.base_length != len(text[2]):
                if text is None or (verdict.incarnation, verdict.round) > (text[0], text[1]):
                    out.prefix_requests.add(sequence=verdict.sequence, incarnation=verdict.incarnation)
                continue
            text[1] += 1
            text[2] += verdict.tokens
            tokens, parents = tree(text[2], self.length) if verdict.sequence in self.trees else (chain(text[2], self.length), [])
            out.proposals.add(sequence=verdict.sequence, incarnation=text[0], round=text[1], base_length=len(text[2]), tokens=tokens,
                              parents=parents)
        return out


def mislead(answers, rng, n_ids=N_IDS):
    """Adds to a batch of answers some that fit nowhere, each with tokens that a client must not use."""
    for p in list(answers.proposals):
        wrong = answers.proposals.add()
        wrong.CopyFrom(p)
        wrong.tokens[:] = [rng.randrange(n_ids) for _ in p.tokens]
        kind = rng.randrange(5)
        if kind == 0:
            wrong.round += rng.choice((-1, 1, 2))
        elif kind == 1:
            wrong.base_length += rng.choice((-1, 1, 5))
        elif kind == 2:
            wrong.incarnation += 1
        elif kind == 3:
            wrong.sequence += 1000
        else:
            del answers.proposals[-1]
    parts = list(answers.proposals)
    rng.shuffle(parts)
    del answers.proposals[:]
    for p in parts:
        answers.proposals.add().CopyFrom(p)
    return answers


class ScriptedWorker:
    """Serves a Script over gRPC at an address; `info` replaces fields of the model info, `delay_s` is drawn before each answer."""

    def __init__(self, address, seed=0, delay_s=lambda rng: 0.0, change=lambda out, rng: out, max_sequences=8, length=4, **info):
        self.info = {"protocol_version": 1, "model_id": "scripted", "vocab_size": N_IDS, "max_context": 4096,
                     "max_sequences": max_sequences, **info}
        self.rng, self.delay_s, self.change = random.Random(seed), delay_s, change
        self.scripts = []
        self.max_sequences, self.length = max_sequences, length
        self.streams = []
        self.server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("pilotfish.v1.Drafter", {
            "GetModelInfo": grpc.unary_unary_rpc_method_handler(
                self._get_model_info, GetModelInfoRequest.FromString, ModelInfo.SerializeToString),
            "Draft": grpc.stream_stream_rpc_method_handler(self._draft, Batch.FromString, Batch.SerializeToString),
        }),))
        assert self.server.add_insecure_port(address)
        self.server.start()

    def _get_model_info(self, request, context):
        return ModelInfo(**self.info)

    def _draft(self, batches, context):
        script = Script(self.max_sequences, self.length)
        self.scripts.append(script)
        self.streams.append(context)
        for batch in batches:
            out = self.change(script.answer(batch), self.rng)
            time.sleep(self.delay_s(self.rng))
            if out.ByteSize():
                yield out

    def cut(self):
        """Ends the streams that run."""
        for context in self.streams:
            context.cancel()
        self.streams.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(0).wait()


class Target:
    """A text whose next token is the chain's, or, at times, another: what an engine does with proposals, token by token."""

    def __init__(self, key, prompt, rng, agrees=0.7):
        self.key, self.tokens, self.rng, self.agrees = key, list(prompt), rng, agrees
        self.n_accepted = 0

    def next(self):
        token = chain(self.tokens, 1)[0]
        return token if self.rng.random() < self.agrees else (token + 1 + self.rng.randrange(N_IDS - 1)) % N_IDS

    def verify(self, proposal):
        """Commits what agrees, and one token more."""
        for drafted in proposal:
            token = self.next()
            self.tokens.append(token)
            if token != drafted:
                return
            self.n_accepted += 1
        self.tokens.append(self.next())
