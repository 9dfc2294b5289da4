"""What libraries log while an alert is sent: addresses with tokens stand in it, so nobody else hears it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_heard: ContextVar[list[str] | None] = ContextVar("vario_heard", default=None)
OWN = "vario"


class _Unheard(logging.Filter):
    """Takes what is logged on behalf of a message, and lets everything else pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        heard = _heard.get()
        if heard is None:
            return True
        try:
            heard.append(record.getMessage())
        except Exception:  # a record that cannot be put together says nothing
            heard.append("")
        return False


_filter = _Unheard()


@contextmanager
def unheard() -> Iterator[list[str]]:
    """Keep to ourselves what is logged in this context; gives the list into which the messages go.

    A filter holds for the very logger that it stands at, so every logger gets it: which library a service uses is not
    known beforehand. Records of other threads and contexts pass.
    """
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.partition(".")[0] != OWN:
            logger.addFilter(_filter)  # once is enough: the same filter is not added twice
    logging.root.addFilter(_filter)
    heard: list[str] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)
