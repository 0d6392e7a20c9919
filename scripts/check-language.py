#!/usr/bin/env python3
"""check-language.py [PATH...]: the language rule. Counts the words that neither code, tests nor docs use.

Pronouns of persons for threads, peers and processes, and words of this project's past for which the field has a
term (docs/glossary.md). PATH: files or folders of the tree, all of it by default.
"""
import re
import sys

from tree_files import ROOT, tree_files

TERMS = {   # what is not written -> what is
    "anew": "again",
    "whoever|whosoever": "any client/thread/process that",
    "nobody|noone": "no client/thread/process",
    "somebody|someone": "a client/thread/process",
    "who|whom": "that/which, or name the thing",
    "he|his|him|himself": "it, its",
    "crews?": "active threads",
    "retreats?|retreated|retreating": "contention backoff",
    "seats?|seated|unseated": "CPU pinning",
    "crowds?|crowded": "contention",
    "patience": "draft wait policy",
    "unclaimed": "unattributed",
    "clogs?|clogged|unclog": "back-pressured",
    "farewell|last words": "drain/close timeout",
    "tenants?": "slot",
    "wish|wishes": "sampling request, or a hint",
    "runners?[- ]up": "second choice",
    "misfits?": "rejected",
    "nonsense": "protocol violation, malformed",
    "dead heats?": "tie",
    "strangers?": "client, raw client, unknown peer",
    "hung up on|hangs up on|hang up on": "disconnects, closes the connection",
    "turned away|turns away": "refused, rejects",
    "makes? way": "is evicted, yields",
    "falls? silent": "stops answering",
}
ALLOWED = ("LICENSE", "scripts/check-language.py", "docs/glossary.md", "docs/data/", "models/prompts", "models/corpus",
           "tests/golden/", "tests/fuzz/corpus/", "tests/amx-machine/bochs-3.0-amx.patch", "bench/peers/requirements.txt")
READ = re.compile(r"\.(?:[ch]|cc|cu|cpp|py|sh|cmake|proto|md|1|txt)$|(?:^|/)(?:dev|run)$")
WORD = re.compile(r"(?<![A-Za-z])(" + "|".join(TERMS) + r")(?![A-Za-z])", re.IGNORECASE)   # `_` separates words, too


def main():
    paths = [p for p in tree_files() if READ.search(p) and not p.startswith(ALLOWED)]
    if len(sys.argv) > 1:
        prefixes = tuple(a.rstrip("/") for a in sys.argv[1:])
        paths = [p for p in paths if any(p == a or p.startswith(a + "/") for a in prefixes)]
    found = []
    for path in paths:
        for number, line in enumerate((ROOT / path).read_text(errors="replace").splitlines(), 1):
            for match in WORD.finditer(line):
                term = next(right for word, right in TERMS.items() if re.fullmatch(word, match[1], re.IGNORECASE))
                found.append(f'{path}:{number}: "{match[1]}", expected: {term}')
    print("\n".join(found) if found else f"language: {len(paths)} files use the field's terms")
    return 1 if found else 0


sys.exit(main())
