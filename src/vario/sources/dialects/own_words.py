"""The words of vario itself: what it measures beside a run, in any framework's log.

These keys begin with `vario/`, whatever the framework; a sink may put `train/` in front. The framework's own key
for a metric counts before vario's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from vario.catalogue.own_words import EVENT_METRIC, OWN_WORDS, event_name
from vario.run import Series

_OWN = re.compile(r"(?:train/)?(vario/.+)")
_EVENT = re.compile(r"vario/event/(.+)_s")


def is_own(key: str) -> bool:
    """Whether a key, as it was logged, is one of vario's."""
    return _OWN.fullmatch(key) is not None


def own_metric(key: str) -> str | None:
    """The canonical metric of one of vario's keys; None for a key that has none."""
    found = _OWN.fullmatch(key)
    if found is None:
        return None
    event = _EVENT.fullmatch(found[1])
    return EVENT_METRIC.replace("*", event_name(event[1])) if event else OWN_WORDS.get(found[1])


def add_own(series: dict[str, Series], logged: Mapping[str, Series]) -> dict[str, str]:
    """Add to `series` what vario measured and the framework did not log.

    Args:
        series: by canonical name, as the dialect has it.
        logged: what the log holds, by the dialect's spelling of the keys.

    Returns:
        vario's keys that give no metric, each with the reason.
    """
    left: dict[str, str] = {}
    for name, values in logged.items():
        if not is_own(values.key):
            continue
        metric = own_metric(values.key)
        if metric is None:
            left[name] = "measured by vario under a name that is no metric"
        elif metric in series:
            left[name] = f"the framework's own key gives {metric}"
        elif len(values):
            series[metric] = values
    return left
