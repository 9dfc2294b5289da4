"""Words in the names of reward functions: what tells those that pay for the form of an answer from the others."""

from __future__ import annotations

import re

SHAPING = re.compile(
    r"format|tag|xml|struct|length|(^|_)len(_|$)|brev|concis|overlong|short|long|style|penalt|bonus|repet|language"
)
"""Reward functions that pay for the form of an answer call themselves so."""


def pays_for_form(name: str) -> bool:
    """Whether a reward function, by its name, pays for the form and not for the task."""
    return SHAPING.search(name.lower()) is not None
