"""The rules of a sequence, without a stream: fences, late proposals, places, reopening.

Run as: sequences_test.py
"""

import random
import unittest

import package_path  # noqa: F401
from pilotfish.messages import Batch, ModelInfo
from pilotfish.rows import NO_PROPOSAL, Declared, Proposal, Row, Sampling
from pilotfish.sequences import REFUSED_S, UNANSWERED_S, Sequences
from scripted_worker import N_IDS, Script, Target, chain, mislead, tree

PROMPT = [1, 2, 3, 4, 5]


def info(**fields):
    return ModelInfo(**{"protocol_version": 1, "vocab_size": N_IDS, "max_context": 1000, "max_sequences": 8, **fields})


class Rig:
    """Sequences and a scripted worker without threads; the clock is `now`."""

    def __init__(self, length=4, max_declared=0, n_ids=N_IDS, trees=False, drafter="", **fields):
        self.sequences = Sequences(length, False, max_declared, 10.0, n_ids, trees, drafter)
        self.script = Script(fields.get("max_sequences", 8), length)
        self.now = 100.0
        self.sequences.connect(info(**fields))

    def ask(self, *rows):
        """Begins a step: what is asked, and the answer of the worker, which has not arrived."""
        asked, batch = self.sequences.begin([Row(*row) for row in rows], self.now)
        return asked, batch, self.script.answer(batch) if batch is not None else None

    def receive(self, answer):
        if answer is not None:
            self.sequences.receive(answer, self.now)

    def end(self, asked):
        return [p.tokens for p in self.sequences.end(asked, self.now)]

    def step(self, *rows):
        """A step whose answer comes at once."""
        asked, _, answer = self.ask(*rows)
        self.receive(answer)
        return self.end(asked)


class SequencesTest(unittest.TestCase):
    def test_each_row_gets_the_proposal_of_its_tokens(self):
        rig = Rig()
        for tokens in (PROMPT, PROMPT + [7], PROMPT + [7] + chain(PROMPT + [7], 4) + [9]):
            other = [50] + tokens
            self.assertEqual(rig.step(("a", tokens), ("b", other)), [chain(tokens, 4), chain(other, 4)])
        self.assertEqual(rig.sequences.figures["opens"], 2)
        self.assertEqual(rig.sequences.figures["accepted"], 4)

    def test_a_verdict_says_how_many_of_the_proposal_were_committed(self):
        rig = Rig()
        proposal, = rig.step(("a", PROMPT))
        _, batch, _ = rig.ask(("a", PROMPT + proposal[:2] + [(proposal[2] + 1) % N_IDS]))
        verdict, = batch.verdicts
        self.assertEqual((verdict.base_length, verdict.n_accepted, len(verdict.tokens)), (len(PROMPT), 2, 3))
        self.assertEqual(len(batch.opens), 0)

    def test_a_verdict_bounds_the_time_of_a_proposal_that_is_waited_for(self):
        rig = Rig()
        _, batch = rig.sequences.begin([Row("a", PROMPT)], rig.now, 0.02)
        self.assertEqual(batch.verdicts[0].propose_within_us, 0)    # its prompt is read first
        rig.receive(rig.script.answer(batch))
        tokens = PROMPT + [7]
        for wait_s, within_us in ((0.02, 17_500), (0.0, 0), (1e9, 2**32 - 1)):
            asked, batch = rig.sequences.begin([Row("a", list(tokens))], rig.now, wait_s)
            self.assertEqual(batch.verdicts[0].propose_within_us, within_us)
            rig.receive(rig.script.answer(batch))
            rig.end(asked)
            tokens.append((chain(tokens, 1)[0] + 1) % N_IDS)        # nothing is left of the proposal

    def test_answers_with_other_fences_are_dropped(self):
        rig = Rig()
        rig.step(("a", PROMPT))
        for field, change in (("sequence", 1), ("incarnation", 1), ("round", 1), ("round", -1), ("base_length", 1),
                              ("base_length", -1)):
            with self.subTest(field):
                tokens = PROMPT + list(range(rig.sequences.figures["rows"]))
                asked, _, answer = rig.ask(("a", tokens))
                setattr(answer.proposals[0], field, getattr(answer.proposals[0], field) + change)
                rig.receive(answer)
                self.assertFalse(asked.is_answered())
                self.assertEqual(rig.end(asked), [[]])
                setattr(answer.proposals[0], field, getattr(answer.proposals[0], field) - change)
                rig.receive(answer)     # so that the next one is asked

    def test_a_late_proposal_is_a_proposal_for_what_follows_its_first_tokens(self):
        rig = Rig()
        asked, _, late = rig.ask(("a", PROMPT))
        self.assertEqual(rig.end(asked), [[]])
        expected = chain(PROMPT, 4)
        rig.receive(late)
        asked, batch, _ = rig.ask(("a", PROMPT + expected[:1]))     # the target came to the same token by itself
        self.assertTrue(asked.is_answered())                        # so nothing is waited for,
        self.assertEqual(len(batch.verdicts), 1)                    # and the next one is asked for
        self.assertEqual(rig.end(asked), [expected[1:]])
        self.assertEqual(rig.sequences.figures["late_used"], 1)

    def test_a_late_proposal_of_other_tokens_is_not_used(self):
        rig = Rig()
        asked, _, late = rig.ask(("a", PROMPT))
        rig.end(asked)
        rig.receive(late)
        asked, _, _ = rig.ask(("a", PROMPT + [(chain(PROMPT, 1)[0] + 1) % N_IDS]))
        self.assertFalse(asked.is_answered())
        self.assertEqual(rig.end(asked), [[]])

    def test_a_sequence_has_one_verdict_without_an_answer(self):
        rig = Rig()
        rig.step(("b", PROMPT))
        asked, _, late = rig.ask(("a", PROMPT), ("b", PROMPT + [7]))
        del late.proposals[0]                                       # only b is answered
        rig.receive(late)
        rig.end(asked)
        _, batch, _ = rig.ask(("a", PROMPT + [7]), ("b", PROMPT + [7, 8]))
        self.assertEqual([v.base_length for v in batch.verdicts], [len(PROMPT) + 1])
        rig.now += UNANSWERED_S
        asked, batch, answer = rig.ask(("a", PROMPT + [7, 8]), ("b", PROMPT + [7, 8, 9]))
        self.assertEqual(list(batch.verdicts[0].tokens), [7, 8])    # after a second it counts as lost
        rig.receive(answer)
        self.assertEqual(rig.end(asked)[0], chain(PROMPT + [7, 8], 4))

    def test_a_worker_that_says_nothing_is_tried_once_a_second(self):
        rig = Rig()
        tokens, n_batches = list(PROMPT), 0
        for _ in range(300):
            asked, batch = rig.sequences.begin([Row("a", list(tokens))], rig.now)
            n_batches += batch is not None
            self.assertEqual(asked.is_answered(), batch is None)
            rig.end(asked)
            tokens.append(7)
            rig.now += 0.01
        self.assertEqual(n_batches, 3)

    def test_what_was_not_told_for_long_is_opened_again_with_a_higher_incarnation(self):
        rig = Rig()
        rig.step(("a", PROMPT))
        for extra, opens in ((65, 0), (66, 1)):
            tokens = PROMPT + [9] * extra
            asked, batch, answer = rig.ask(("a", tokens))
            self.assertEqual(len(batch.opens), opens)
            rig.receive(answer)
            self.assertEqual(rig.end(asked), [chain(tokens, 4)])
            rig = Rig()
            rig.step(("a", PROMPT))

    def test_a_lost_sequence_is_opened_again_and_less_often_when_it_is_lost_again(self):
        rig = Rig()
        rig.step(("a", PROMPT))
        opens, tokens = [], list(PROMPT)
        for _ in range(200):
            rig.script.texts.clear()                                # another client took the place
            tokens.append(5)
            rig.step(("a", tokens))
            rig.now += 0.01
            opens.append(rig.sequences.figures["opens"])
        self.assertGreater(opens[-1], 3)
        self.assertLess(opens[-1], 60)

    def test_no_more_are_open_than_there_are_places(self):
        rig = Rig(max_sequences=3)
        texts = {name: list(PROMPT) + [i] for i, name in enumerate("abcdef")}
        for turn in range(40):
            names = [name for i, name in enumerate(texts) if (turn >> (i % 3)) & 1 or i == turn % 6]
            proposals = rig.step(*((name, list(texts[name])) for name in names))
            self.assertLessEqual(rig.script.most_open, 3)
            self.assertLessEqual(sum(map(bool, proposals)), 3)
            self.assertGreaterEqual(sum(map(bool, proposals)), min(3, len(names)))
            for name, proposal in zip(names, proposals):
                if proposal:
                    self.assertEqual(proposal, chain(texts[name], 4))
                texts[name].append(turn)
        self.assertEqual(rig.sequences.figures["refusals"], 0)

    def test_the_least_recently_used_sequence_is_closed_for_a_new_one(self):
        rig = Rig(max_sequences=2)
        rig.step(("a", PROMPT))
        rig.step(("b", PROMPT))
        rig.step(("a", PROMPT + [1]))
        _, batch, _ = rig.ask(("c", PROMPT))
        self.assertEqual([c.sequence for c in batch.closes], [2])

    def test_a_finished_text_is_closed_with_the_next_batch_and_an_idle_one_after_its_time(self):
        rig = Rig()
        rig.step(("a", PROMPT), ("b", PROMPT))
        rig.sequences.finish(["a", "never there"])
        self.assertEqual([c.sequence for c in rig.sequences.idle_batch(rig.now).closes], [1])
        self.assertIsNone(rig.sequences.idle_batch(rig.now + 5))
        rig.step()
        self.assertEqual([c.sequence for c in rig.sequences.idle_batch(rig.now + 11).closes], [2])

    def test_a_refusal_for_want_of_room_is_tried_again_later_and_any_other_is_not(self):
        for reason, again in ((1, True), (2, False), (3, False)):
            with self.subTest(reason):
                rig = Rig()
                asked, batch, _ = rig.ask(("a", PROMPT))
                refusal = Batch()
                refusal.refusals.add(sequence=batch.opens[0].sequence, incarnation=1, reason=reason, text="no penalties")
                rig.receive(refusal)
                self.assertTrue(asked.is_answered())
                self.assertEqual(rig.end(asked), [[]])
                self.assertIsNone(rig.ask(("a", PROMPT + [1]))[1])
                self.assertEqual(any("no penalties" in p for p in rig.sequences.problems), not again)
                rig.now += REFUSED_S
                self.assertEqual(rig.ask(("a", PROMPT + [1, 2]))[1] is not None, again)

    def test_a_long_prompt_is_not_waited_for(self):
        rig = Rig()
        tokens = PROMPT * 60
        asked, _, answer = rig.ask(("long", tokens), ("a", PROMPT))
        del answer.proposals[0]
        rig.receive(answer)
        self.assertTrue(asked.is_answered())
        self.assertEqual(rig.end(asked), [[], chain(PROMPT, 4)])
        self.assertEqual(rig.sequences.figures["late"], 0)

    def test_a_text_at_the_end_of_the_context_is_not_asked_for(self):
        rig = Rig(max_context=10)
        self.assertEqual(rig.step(("a", [1] * 9)), [chain([1] * 9, 4)])
        self.assertEqual(rig.step(("a", [1] * 10)), [[]])
        self.assertEqual(rig.sequences.figures["asked"], 1)

    def test_the_prompts_of_a_batch_stay_below_what_a_server_takes(self):
        rig = Rig(max_context=300_000)
        rows = [(i, [1] * 250_000) for i in range(3)]
        _, batch, _ = rig.ask(*rows)
        self.assertEqual(len(batch.opens), 2)
        self.assertLess(batch.ByteSize(), 4 << 20)
        _, batch, _ = rig.ask(*rows)
        self.assertEqual([len(o.tokens) for o in batch.opens], [249_999])

    def test_max_draft_of_a_row_cuts_its_proposal_and_0_asks_for_none(self):
        rig = Rig()
        self.assertEqual(rig.step(("a", PROMPT, 2)), [chain(PROMPT, 2)])
        asked, batch, _ = rig.ask(("a", PROMPT + [1], 0))
        self.assertIsNone(batch)
        self.assertEqual(rig.end(asked), [[]])
        self.assertEqual(rig.step(("a", PROMPT + [1, 2])), [chain(PROMPT + [1, 2], 4)])

    def test_ids_that_the_draft_does_not_have_are_read_as_0(self):
        rig = Rig(n_ids=N_IDS + 50)
        _, batch, _ = rig.ask(("a", [1, N_IDS + 5, 2, N_IDS + 6]))
        self.assertEqual((list(batch.opens[0].tokens), list(batch.verdicts[0].tokens)), ([1, 0, 2], [0]))

    def test_a_sampled_row_asks_for_distributions_where_the_worker_has_them(self):
        for methods, expected in (([1, 2], (2, 8)), ([1], (1, 0))):
            rig = Rig(max_declared=8, methods=methods)
            _, batch, _ = rig.ask(("a", PROMPT, None, Sampling(0.5, top_k=3)))
            opened, = batch.opens
            self.assertEqual((opened.method, opened.limits.max_declared), expected)
            self.assertEqual(opened.sampling.top_k, 3 if expected[1] else 0)

    def test_distributions_and_tokens_that_are_wrong_cost_the_proposal_alone(self):
        def declare(p, rows):
            for ids, probabilities in rows:
                p.declared.add(ids=ids, probabilities=probabilities)

        right = [([t, (t + 1) % N_IDS], [0.25, 0.75]) for t in chain(PROMPT, 2)]
        for rows, tokens, good in ((right, None, True), (right[:1], None, False), ([right[0], ([1, 2], [0.5, 0.4])], None, False),
                                   ([right[0], right[0]], None, False), ([right[0], (right[1][0], [1.5, -0.5])], None, False),
                                   ([], [3, N_IDS], False), ([], [-1, 2], False), ([], [3, 4], True)):
            with self.subTest(rows=rows, tokens=tokens):
                rig = Rig(length=2)
                asked, _, answer = rig.ask(("a", PROMPT))
                declare(answer.proposals[0], rows)
                if tokens:
                    answer.proposals[0].tokens[:] = tokens
                rig.receive(answer)
                self.assertTrue(asked.is_answered())
                proposal, = rig.sequences.end(asked, rig.now)
                self.assertEqual(bool(proposal.tokens), good)
                self.assertEqual(bool(rig.sequences.problems), not good)
                if good and rows:
                    self.assertEqual([list(d.ids) for d in proposal.declared], [ids for ids, _ in rows])

    def test_the_path_that_was_committed_counts_as_accepted_and_what_stands_below_it_as_late(self):
        rig = Rig(length=7, trees=True)
        asked, _, answer = rig.ask(("a", PROMPT))
        rig.receive(answer)
        proposal, = rig.sequences.end(asked, rig.now)
        self.assertEqual((proposal.tokens, proposal.parents), tree(PROMPT, 7))
        text = PROMPT + chain(PROMPT, 2)
        asked, batch, answer = rig.ask(("a", text + [90]))
        self.assertEqual(batch.verdicts[0].n_accepted, 2)
        self.assertEqual(rig.sequences.figures["accepted"], 2)
        rig.end(asked)                                      # the answer is late, and the target goes on by the chain
        text = text + [90]
        asked, _, _ = rig.ask(("a", text + chain(text, 1)))
        rig.receive(answer)
        proposal, = rig.sequences.end(asked, rig.now)
        wanted, parents = tree(text, 7)
        self.assertEqual((proposal.tokens, proposal.parents), (wanted[2:], [-1, -1, 1, 1, 3]))
        self.assertEqual(rig.sequences.figures["late_used"], 1)
        with self.subTest("another token than the tree has"):
            asked, _, _ = rig.ask(("a", text + chain(text, 1) + [91]))
            self.assertEqual(rig.end(asked), [[]])

    def test_max_draft_of_a_row_leaves_the_first_tokens_of_a_tree(self):
        rig = Rig(length=7, trees=True)
        asked, _, answer = rig.ask(("a", PROMPT, 3))
        rig.receive(answer)
        proposal, = rig.sequences.end(asked, rig.now)
        wanted, parents = tree(PROMPT, 7)
        self.assertEqual((proposal.tokens, proposal.parents), (wanted[:3], parents[:3]))

    def test_a_row_names_its_drafter_and_the_client_that_of_others(self):
        rig = Rig(drafter="model", drafters=["model", "suffix"])
        rows = [("a", PROMPT), ("b", PROMPT + [6], None, None, 0, "suffix"), ("c", PROMPT + [7], None, None, 0, "model")]
        self.assertEqual(rig.step(*rows), [chain(row[1], 4) for row in rows])
        self.assertEqual(list(rig.script.drafters.values()), ["model", "suffix", "model"])
        self.assertEqual(Rig().step(("a", PROMPT)), [chain(PROMPT, 4)])   # a worker that names none, and is asked for none

    def test_a_row_whose_drafter_is_not_offered_is_not_asked_for(self):
        for offered, says in (["model", "suffix"], "model, suffix"), ([], "none by name"):
            with self.subTest(offered):
                rig = Rig(drafters=offered)
                row = ("a", PROMPT, None, None, 0, "ngram")
                self.assertEqual(rig.step(row, ("b", PROMPT)), [[], chain(PROMPT, 4)])
                self.assertEqual(rig.sequences.problems, [f"the worker does not offer the drafter ngram, but {says}: its rows get no "
                                                          "proposals"])
                self.assertEqual(rig.step(("a", PROMPT + [7], None, None, 0, "ngram")), [[]])
                self.assertEqual(len(rig.sequences.problems), 1)
                rig.sequences.connect(info(drafters=["ngram"]))   # another worker
                self.assertEqual(rig.step(("a", PROMPT + [7, 8], None, None, 0, "ngram")), [chain(PROMPT + [7, 8], 4)])

    def test_trees_that_are_wrong_or_not_asked_for_cost_the_proposal_alone(self):
        for parents, trees, good in (([-1, 0], True, True), ([-1, -1], True, True), ([-1, 0], False, False), ([-1], True, False),
                                     ([-1, 1], True, False), ([0, 0], True, False), ([-1, -2], True, False)):
            with self.subTest(parents=parents, trees=trees):
                rig = Rig(length=2, trees=trees)
                asked, _, answer = rig.ask(("a", PROMPT))
                answer.proposals[0].parents[:] = parents
                rig.receive(answer)
                proposal, = rig.sequences.end(asked, rig.now)
                self.assertEqual((bool(proposal.tokens), bool(rig.sequences.problems)), (good, not good))

    def test_a_tree_keeps_its_distributions_and_the_first_of_equal_siblings(self):
        declared = [Declared([i], [1.0]) for i in range(5)]
        proposal = Proposal([7, 7, 8, 9, 8], declared, [-1, -1, 1, 0, 0])
        self.assertEqual(proposal.beyond([7], 4), Proposal([9, 8], declared[3:], [-1, -1]))
        self.assertEqual(proposal.beyond([7], 1), Proposal([9], declared[3:4], [-1]))
        self.assertEqual([proposal.n_followed(new) for new in ([], [7, 8], [7, 8, 1], [8])], [0, 2, 2, 0])
        self.assertEqual([proposal.beyond(new, 4) for new in ([8], [7, 9, 1])], [NO_PROPOSAL] * 2)

    def test_whatever_arrives_a_proposal_continues_the_tokens_of_its_row(self):
        """Seeded: loss, duplicates, reordering, delays, wrong fences, restarts; each proposal is the chain of its own prefix."""
        n_proposed = 0
        for seed in range(60):
            rng = random.Random(seed)
            rig = Rig(max_sequences=rng.choice((2, 4, 8)))
            targets = [Target(i, [rng.randrange(N_IDS) for _ in range(5)], rng) for i in range(5)]
            delayed = []
            for _ in range(120):
                some = [t for t in targets if rng.random() < 0.8]
                asked, _, answer = rig.ask(*((t.key, list(t.tokens)) for t in some))
                if answer is not None:
                    delayed.append(mislead(answer, rng))
                while delayed and rng.random() < 0.7:
                    message = delayed.pop(rng.randrange(len(delayed)))
                    if rng.random() < 0.9:
                        rig.receive(message)
                    if rng.random() < 0.2:
                        delayed.append(message)
                for target, proposal in zip(some, rig.end(asked)):
                    self.assertEqual(proposal, chain(target.tokens, 4)[:len(proposal)])
                    n_proposed += len(proposal)
                    target.verify(proposal)
                rig.now += rng.choice((0.001, 0.02, 0.5))
                if rng.random() < 0.02:
                    rig.sequences.disconnect()
                    rig.script.texts.clear()
                    rig.sequences.connect(info(max_sequences=rig.script.max_sequences))
                if rng.random() < 0.02:
                    rig.script.texts.clear()                        # the worker lost them
        self.assertGreater(n_proposed, 10000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
