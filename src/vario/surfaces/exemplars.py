"""Some completions of a run, to be read beside its curves: drawn as for a review, so that few say much."""

from __future__ import annotations

from dataclasses import dataclass

from vario.errors import VarioError
from vario.rules.base import number
from vario.run import Run
from vario.sources.sampled import SampleOptions
from vario.surfaces.excerpts import LARGE
from vario.surfaces.privacy import shown
from vario.verdict.review import review_queue

MOST = 6
DRAWN = {
    "top": "among the best paid",
    "bottom": "among the worst paid",
    "random": "drawn at random",
    "changed": "farthest from how the run wrote at first",
}
"""What a stratum of the review is, in words."""


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A completion as it is shown: masked, and cut in its middle where it is long."""

    title: str
    prompt: str
    completion: str


def exemplars(run: Run, options: SampleOptions, most: int = MOST) -> list[Exemplar]:
    """Completions of the last quarter of the sampled steps; none where that would cost more than a page is worth."""
    queue = review_queue(run, most)
    if not queue:
        return []
    try:
        from vario.sources.rollouts.browse import Browser, Query

        browser = Browser.of(run, options)
        if any(f.step is None and f.size > LARGE for f in browser.dump.files):
            return []
        found = browser.find(Query(names=tuple((q.step, q.number) for q in queue), most=most))
    except (VarioError, OSError, ImportError):  # files that went meanwhile take no report with them
        return []
    by_name = {(s.step, s.number): s for s in found}
    made = []
    for one in queue:
        sample = by_name.get((one.step, one.number))
        if sample is not None and sample.completion:
            paid = f", reward {number(one.reward)}" if one.reward is not None else ""
            made.append(
                Exemplar(
                    f"{sample.name}{paid}: {DRAWN[one.stratum]}",
                    shown(sample.prompt or ""),
                    shown(sample.completion),
                )
            )
    return made
