"""The completions of a run: filtered, by group, and in the review queue, where a person marks them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from vario.errors import NothingReadable
from vario.rules.base import number
from vario.run import Run
from vario.samples import Mark
from vario.sources.marks import WORDS, marks_file, read_marks, write_mark
from vario.sources.sampled import KINDS, ORDERS
from vario.surfaces.dashboard import asked
from vario.surfaces.dashboard.page import Site
from vario.surfaces.live.snapshot import RunView
from vario.surfaces.privacy import shown
from vario.verdict.review import review_queue

if TYPE_CHECKING:
    from vario.sources.rollouts.browse import Browser, Query, Sample, StepSummary

MOST = 64
"""Completions on one page."""
USUAL = 16
QUEUE = 16
STEPS = 400
"""Sampled steps that a page offers to choose from; of more, evenly many."""
OUTSIDE = (
    "the completions of this run lie outside of what is served: who starts vario serve can give their folder as a "
    "further PATH, or with --samples"
)


@dataclass(frozen=True, slots=True)
class Text:
    """A completion as it is shown: masked, without control characters, and cut in its middle where it is long."""

    name: str
    step: int
    prompt: str
    completion: str
    measures: tuple[str, ...]
    components: tuple[str, ...]
    mark: str
    why: str = ""


def browse(site: Site, request: Request) -> Response:
    """Completions as they are wished: of steps, of a kind, of a group, in an order."""
    from vario.sources.rollouts.browse import Query

    view, query = site.run(request), request.query_params
    run = _marked(site, site.judged(view).run)
    browser = opened(site, run)
    steps = asked.span(query)
    like = asked.completion(query["group"]) if query.get("group") else None
    single = tuple(asked.completion(name) for name in query.getlist("name"))[:MOST]
    finding = query.get("finding", "")
    if finding:
        single = _of_finding(site, view, finding)
    kind, by = asked.choice(query, "only", KINDS), asked.choice(query, "by", ORDERS)
    most = min(asked.number(query, "n", 1) or USUAL, MOST)
    summaries = browser.summaries(evaluation=query.get("eval") == "yes")
    if steps is None and summaries and not (like or single):
        steps = (summaries[-1].step, summaries[-1].step)
    wished = Query(
        steps, single, like, kind, by or ("reward" if kind and not single else None), query.get("lowest") == "yes",
        query.get("eval") == "yes", MOST if like else most,
    )  # fmt: skip
    return site.show(
        "samples.html",
        request,
        run=view,
        id=site.library.id_of(view.watched),
        texts=[_text(sample, run) for sample in _found(browser, wished)],
        summaries=summaries[:: max(1, len(summaries) // STEPS)],
        total=sum(s.completions for s in summaries),
        wished=wished,
        first="" if steps is None or steps[0] == -asked.FARTHEST else steps[0],
        last="" if steps is None or steps[1] == asked.FARTHEST else steps[1],
        kinds=KINDS,
        orders=ORDERS,
        most=most,
        group=query.get("group", ""),
        finding=finding,
        words=WORDS,
        troubles=list(dict.fromkeys((*browser.dump.warnings, *browser.troubles.texts))),
        query=query,
        beside=_beside(summaries, steps, query),
    )


def _beside(
    summaries: Sequence[StepSummary], steps: tuple[int, int] | None, query: QueryParams
) -> list[tuple[str, int, str]]:
    """The sampled steps before and after those that are shown: in words, as a step, and as the query of their page."""
    if steps is None:
        return []
    before = max((s.step for s in summaries if s.step < steps[0]), default=None)
    after = min((s.step for s in summaries if s.step > steps[1]), default=None)
    kept = [(key, value) for key, value in query.multi_items() if key not in ("from", "to")]
    both = (("earlier", before), ("later", after))
    return [(word, at, urlencode([("from", at), ("to", at), *kept])) for word, at in both if at is not None]


def review(site: Site, request: Request) -> Response:
    """The completions that a person should mark next, drawn so that few marks say much."""
    from vario.sources.rollouts.browse import Query

    view = site.run(request)
    run = _marked(site, site.judged(view).run)
    queue = review_queue(run, QUEUE, {(m.step, m.number) for m in run.marks})
    browser = opened(site, run)
    names = tuple((q.step, q.number) for q in queue)
    found = {(s.step, s.number): s for s in _found(browser, Query(names=names, most=QUEUE))} if names else {}
    texts = [
        _text(found[name], run, f"drawn as {one.stratum}")
        for name, one in zip(names, queue, strict=True)
        if name in found
    ]
    return site.show(
        "review.html",
        request,
        run=view,
        id=site.library.id_of(view.watched),
        texts=texts,
        words=WORDS,
        marks=run.marks,
        counts={word: sum(m.word == word for m in run.marks) for word in WORDS},
        can_keep=marks_file(run.path) is not None,
    )


def mark(site: Site, request: Request) -> Response:
    """Keep what a person says of a completion, beside the run, where `vario diagnose` heeds it."""
    from vario.sources.rollouts.browse import Query

    view, said = site.run(request), site.said(request)
    run = site.judged(view).run
    step, place = asked.completion(said.get("name", ""))
    word = said.get("word", "")
    if word not in WORDS:
        raise HTTPException(400, f"word: one of {', '.join(WORDS)}")
    path = marks_file(run.path)
    if path is None:
        raise HTTPException(409, "marks of a run at an address need a file of their own: vario samples --marks FILE")
    if not site.library.bounds.hold(path):
        raise HTTPException(403, f"{path.name}: a link that leads out of what is served")
    found = _found(opened(site, run), Query(names=((step, place),)))
    if not found:
        raise HTTPException(404, f"no completion {step}/{place}")
    write_mark(path, Mark(step, place, word, found[0].measures.get("reward"), run.last_step))
    back = "review" if said.get("back") == "review" else f"samples?name={step}/{place}"
    return RedirectResponse(f"/runs/{site.library.id_of(view.watched)}/{back}", 303)


def read(site: Site, request: Request) -> Response:
    """Note that somebody has read completions, now."""
    view = site.run(request)
    site.library.watching.desk.reviewed(view.watched, site.user(request))
    site.library.refresh()
    return RedirectResponse(f"/runs/{site.library.id_of(view.watched)}/review", 303)


def _marked(site: Site, run: Run) -> Run:
    """The run with the marks as they lie there now: who has marked a completion must not be asked again."""
    path = marks_file(run.path)
    if path is None or not site.library.bounds.hold(path):
        return run
    return replace(run, marks=tuple(read_marks(path)))


def opened(site: Site, run: Run) -> Browser:
    """The completions of a run, if they may be read.

    Raises:
        HTTPException: they lie outside of what is served.
        VarioError: there are none, or what they need is not installed.
    """
    try:
        from vario.sources.rollouts.browse import Browser as Opened
    except ImportError as error:
        raise NothingReadable("completions need `pip install 'vario[rollouts]'`") from error
    browser = Opened.of(run, site.library.samples(run))
    if any(not site.library.bounds.hold(file.place) for file in browser.dump.files):
        raise HTTPException(403, OUTSIDE)
    return browser


def _found(browser: Browser, query: Query) -> list[Sample]:
    return browser.find(query)


def _of_finding(site: Site, view: RunView, name: str) -> tuple[tuple[int, int], ...]:
    every = [f for top in site.judged(view).findings for f in (top, *top.symptoms)]
    chosen = next((f for f in every if f.name == name), None)
    if chosen is None or chosen.read is None:
        raise HTTPException(404, f"no completions belong to a finding of that name: {name[:80]}")
    return chosen.read.samples[:MOST]


def _text(sample: Sample, run: Run, why: str = "") -> Text:
    said = next((m.word for m in run.marks if (m.step, m.number) == (sample.step, sample.number)), "")
    return Text(
        sample.name,
        sample.step,
        shown(sample.prompt or ""),
        shown(sample.completion or ""),
        tuple(_measures(sample)),
        tuple(f"{shown(name)} {number(value)}" for name, value in sample.components.items()),
        said,
        why,
    )


def _measures(sample: Sample) -> Iterable[str]:
    for name, value in sample.measures.items():
        if name in ("truncated", "garbled", "duplicated", "empty", "estimated truncated"):
            if value == 1.0:
                yield name
        elif name not in ("entropy", "size") or "length" not in sample.measures:
            yield f"{name} {number(value)}"
