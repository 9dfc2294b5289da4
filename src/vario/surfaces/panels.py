"""Which metrics stand in which panel, and in which order: primary, secondary, tertiary; the same on every surface."""

from __future__ import annotations

from collections.abc import Iterator

from vario.run import Run
from vario.verdict import Diagnosis

PANELS = (
    ("primary", ("signal/", "reward/std", "reward/mean", "preference/margin", "preference/accuracy", "kl/")),
    (
        "secondary",
        (
            "length/mean",
            "length/truncated-share",
            "clip/fraction/total",
            "entropy/mean",
            "eval/score",
            "eval/preference",
            "text/group-diversity",
            "text/repetition-share",
            "text/garbled-share",
            "engine/logprob-gap/mean",
            "behaviour-weight/mean",
        ),
    ),
    (
        "tertiary",
        (
            "reward/component",
            "preference/chosen-reward",
            "preference/rejected-reward",
            "gradient/norm",
            "loss/value",
            "systems/step-time",
        ),
    ),
)
HIDDEN = ("/std", "/coefficient", "/variance-share", "-conflict", "-excess")
COUNTED_SHOWN = (
    "signal/zero-variance-share",
    "reward/std/within-group",
    "reward/mean",
    "reward/component",
    "length/",
    "text/",
)
"""Of what is counted from completions, the panels show what people know; `vario metrics` shows it all."""


def panels(diagnosis: Diagnosis) -> Iterator[tuple[str, list[str]]]:
    """Each panel's title with the names of the readings that stand in it; panels without any are left out."""
    for title, prefixes in PANELS:
        names = [
            name
            for prefix in prefixes
            for name in diagnosis.readings
            if name.startswith(prefix) and not name.endswith(HIDDEN) and _known(diagnosis, name)
        ]
        if names:
            yield title, names


def _known(diagnosis: Diagnosis, name: str) -> bool:
    return not diagnosis.run.series[name].counted or name.startswith(COUNTED_SHOWN)


def short(name: str) -> str:
    """A metric's name as a panel shows it: components by their own name."""
    return name.removeprefix("reward/component/").removesuffix("/mean") if "component" in name else name


def named(run: Run, asked: str) -> str | None:
    """The metric of a run that somebody asks for, by its canonical name or the trainer's key; None where it has none such."""
    asked = asked.strip()
    return asked if asked in run.series else next((n for n, s in run.series.items() if s.key == asked), None)
