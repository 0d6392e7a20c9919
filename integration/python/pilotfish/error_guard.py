"""Keeps the errors of a drafter from the engine that asks it.

    errors = ErrorGuard()
    with errors:
        return ask_the_worker()
    return no_proposals
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Optional

log = logging.getLogger("pilotfish")


class ErrorGuard:
    """A context that ends at any Exception of its body. The first one of an object is logged."""

    def __init__(self) -> None:
        self._logged = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> bool:
        if not isinstance(error, Exception):   # an interrupt, or nothing
            return False
        if not self._logged:
            self._logged = True
            log.error("no proposals: %r", error, exc_info=error)
        return True
