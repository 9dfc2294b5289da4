"""The first words of the completions that findings point to, where they cost little to fetch."""

from __future__ import annotations

from collections.abc import Mapping

from vario.errors import VarioError
from vario.run import Run
from vario.sources.sampled import SampleOptions
from vario.surfaces.privacy import shown
from vario.verdict import Diagnosis
from vario.verdict.serial import Json

MOST_FINDINGS = 3
LENGTH = 160
"""Characters of an excerpt: the beginning and the end, where formats break and loops are."""
LARGE = 64 << 20
"""Bytes of a file that holds many steps beyond which it is not read again for an excerpt."""

Excerpts = Mapping[tuple[int, int], str]


def excerpts(run: Run, diagnosis: Diagnosis, options: SampleOptions) -> Excerpts:
    """Excerpts by step and number; none where nothing was sampled or a large file would have to be read again."""
    lists = [f.read for f in diagnosis.findings if f.read is not None and f.severity != "info"][:MOST_FINDINGS]
    return excerpts_of(run, tuple(dict.fromkeys(name for one in lists for name in one.samples)), options)


def excerpts_of(run: Run, wanted: tuple[tuple[int, int], ...], options: SampleOptions) -> Excerpts:
    """Excerpts of the completions of these steps and numbers, as far as they can be had at little cost."""
    if not wanted:
        return {}
    try:
        from vario.sources.rollouts.browse import Browser, Query

        browser = Browser.of(run, options)
        if any(f.step is None and f.size > LARGE for f in browser.dump.files):
            return {}
        found = browser.find(Query(names=wanted))
    except (VarioError, OSError, ImportError):  # a file that went meanwhile takes no diagnosis with it
        return {}
    return {(s.step, s.number): _short(s.completion) for s in found if s.completion}


def with_excerpts(document: dict[str, Json], words: Excerpts) -> dict[str, Json]:
    """The diagnosis as JSON, with the excerpts beside the completions that it names."""

    def told(findings: Json) -> None:
        for finding in findings if isinstance(findings, list) else []:
            if isinstance(finding, dict):
                read = finding.get("read")
                samples = read.get("samples") if isinstance(read, dict) else None
                for sample in samples if isinstance(samples, list) else []:
                    if isinstance(sample, dict) and (text := words.get((sample["step"], sample["number"]))):  # type: ignore[arg-type]
                        sample["excerpt"] = text
                told(finding.get("symptoms"))

    if words:
        told(document["findings"])
    return document


def _short(text: str) -> str:
    """One line: masked first, so that no cut divides a key."""
    line = " ".join(shown(text, whole=True).split())
    return line if len(line) <= LENGTH else f"{line[: LENGTH // 2]} [...] {line[-LENGTH // 2 :]}"
