"""Counts what rounds of speculative decoding accept, by the definition: a drafter proposes, a target's text decides."""


def count_rounds(propose, prompt, made, most, reached, accepted):
    """Walks a text, `made`, as rounds of proposals of at most `most` tokens do: each begins behind the token that the target added.
    The first token is the prefill's. propose(text, k): the k tokens that are drafted behind `text`. Adds to reached [most], of the
    proposals those longer than i, and to accepted [most], of these those whose tokens 0 to i are the text's. Returns the rounds."""
    at = 1
    rounds = 0
    while at < len(made):
        room = min(most, max(1, len(made) - at - 1))  # the target adds a token of its own
        tokens = propose(prompt + made[:at], room)
        kept = 0
        while kept < room and at + kept < len(made) and tokens[kept] == made[at + kept]:
            kept += 1
        for i in range(room):
            reached[i] += 1
            accepted[i] += kept > i
        at += kept + 1
        rounds += 1
    return rounds
