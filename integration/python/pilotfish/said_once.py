"""Logs each warning of an object once, so that what fails again and again fills no log."""

from __future__ import annotations

import logging

log = logging.getLogger("pilotfish")
_MAX_SAID = 64    # sentences of an object; later ones are dropped


class SaidOnce:
    """Threads: any."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def warn(self, sentence: str) -> None:
        if sentence not in self._said and len(self._said) < _MAX_SAID:
            self._said.add(sentence)
            log.warning("%s", sentence)
