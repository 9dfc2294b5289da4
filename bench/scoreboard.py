"""Detection scoreboard on the labelled runs (`lab/`, `corpus/`), as design.md section 8 scores it.

    python bench/scoreboard.py [--lab DIR] [--corpus DIR] [--peer rldoctor | --peers] [--per-run] [--json FILE]

`--peers` puts vario, rldoctor and the callbacks of the tutorials (`seed_callbacks.py`) side by side in
one table for the lab and one for the corpus, and lists what vario missed with the reason.

How things are counted:

- *Named*: a rule that stands in `findings` or, at any depth, in `symptoms`, at any severity,
  passed or not. A symptom is never an alarm.
- *Alarm*: a top-level, default-audience finding at warning or above by the severity in the JSON.
  Alarms that have passed (`until`) count and are marked.
- *Expected word*: met by any rule of its `met_by`; `bad_lr_high` by a change that lowers the
  learning rate. On a constant zero reward, `signal-collapsed-solved` names nothing and is wrong.
- *Forbidden word*: said where a rule of its `met_by` is named at warning or above (as a symptom
  too, marked), unless the same rule meets an expected word; `healthy` is said by `continue`.
- *Faulty run*: not labelled healthy or insufficient_data; one injected cause each.
- *Right on the corpus*: the class of the label or one of `trajectory_alternatives`, by the map
  of `vocabulary.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path

from shared import labels_of, raw_log, share, shared_folder, table, vocabulary_of

RANK = {"info": 0, "warning": 1, "critical": 2}
LEVELS = ("low", "medium", "high")
QUIET = {"healthy", "insufficient_data"}

_UPDATES = "all zero, but the log does not say how many updates a rollout gets, so no note calls it on-policy"
_TINY = "1e-4 of the tokens, never exactly 0: the label calls that zero"
_SPREAD = "no spread within groups is logged, and a batch spread is not settled without a version"
_NOT_BINARY = "at its ceiling, but not provably 0/1 (spreads or values of its own), so no ceiling is known"
_BENIGN = "shorter answers at a rising reward: vario takes it for the benign pattern"
MISSED_BECAUSE: dict[str, str] = {
    "offpolicy_multiepoch-s0: kl_drift_without_gain": "KL goes in a sawtooth (.06 to .69 and back) and has no trend",
    "stale_rollouts-s0: peak_then_decline": "the collapse is named; its peak stands 8 % above the start, inside the noise",
    "cs336tx-base: grad_spike": "the gradient's key is not mapped",
    "cs336tx-offpolicy: entropy_rise": "two rows at 7 nats between rows of 2 to 4 in the first 15: no base to stand out from",
    "epl-simplegrpo: reward_std_collapse": "no spread is logged; the reward is at its minimum, but not in every row, so it is not constant",
    "fairrlvr-correctness: reward_std_collapse": _SPREAD,
    "fairrlvr-correctness: component_saturated": "no component is logged apart: the total is the one reward",
    "fairrlvr-lam01: reward_std_collapse": _SPREAD,
    "finqa-toolcall-2400: clip_zero": _UPDATES,
    "hotpotqa-v1: kl_spike": "5.7 where 2.5 is usual: 2.3 times the level, a spike is 6",
    "jsonextract-dpo: dpo_margin_plateau": "the flat stretch is established at the last look alone; the rule holds for two",
    "km-grpo-v1-2025: no_signal": "the reward is -.1 but for one completion in hundreds: not constant, and no spread is logged",
    "km-grpo-v1-2025: reward_std_collapse": _SPREAD,
    "km-grpo-v1-2025: kl_near_zero": "the reward is logged in 50 of 200 rows, and the rules ask for 80 of both",
    "km-grpo-v1-2025: clip_zero": _UPDATES,
    "km-grpo-v2-2025: clip_zero": _UPDATES,
    "km-ppo-v1-2025: no_signal": "the score is -.1 in most rows and a hair off in some: not constant",
    "km-ppo-v1-2026: no_signal": "the score is -.1 in most rows and a hair off in some: not constant",
    "minesweeper-unsloth: clip_zero": _UPDATES,
    "panacea-unsloth: clip_zero": _UPDATES,
    "rasbt-73-tracking: length_growth": "length doubles by row 250 and comes back; growth that passed is information, and dropped",
    "rasbt-75-kl: reward_std_collapse": "no spread is logged; the reward is 0 in most rows, not in all",
    "sonnet-grporank: clip_zero": _UPDATES,
    "tau2-gptoss: reward_std_collapse": "the spread within groups falls to a tenth, not to zero: no rule names that",
    "trldapo-vlm: length_collapse": "53 tokens in the first row alone, 2 to 5 from the second on: no base to fall from",
    "trldapo-vlm: entropy_collapse": "entropy falls to a tenth while the reward holds within its noise and its ceiling is not known",
    "trldapo-vlm: grad_spike": "404 between zeros in the first 8 rows: no level to stand out from",
    "unsloth-gptoss-2048-dgx: length_collapse": _BENIGN,
    "unsloth-gptoss-2048-dgx: component_saturated": _NOT_BINARY,
    "unsloth-llama3-8b-orpo: dpo_margin_plateau": "30 rows of a margin that never rose: a plateau needs a rise",
    "unsloth-llama31-3b-adv: component_saturated": _NOT_BINARY,
    "unsloth-llama32-3b-adv: component_saturated": _NOT_BINARY,
    "unsloth-ministral3-sudoku: length_collapse": _BENIGN,
    "unsloth-ministral3-sudoku: component_saturated": _NOT_BINARY,
    "unsloth-qwen25-7b-vl: kl_near_zero": "the reward rises meanwhile, at a KL of 1e-3",
    "unsloth-qwen3-4b: kl_spike": "twenty times the level at row 14: a spike is looked for after 15 rows",
    "verl-gsm8k-q7b-async: clip_zero": _TINY,
    "verl-gsm8k-q7b-base: clip_zero": _TINY,
    "verl-gsm8k-q7b-offppl: clip_zero": _TINY,
    "verl-gsm8k-q7b-offpplbehav: clip_zero": _TINY,
    "verl-q3b-fsdp-base: entropy_collapse": "entropy falls by 80 % while the reward rises to its best: vario takes it for learning",
    "verl-q3b-mcore-offppl: entropy_collapse": "entropy falls by 80 % while the reward rises to its best: vario takes it for learning",
    "verl-q7b-mcore-off: clip_zero": _TINY,
}
"""Why vario does not name what a label expects: "run: word" -> reason; to be kept true by whoever changes a rule."""


def _diagnose(path: str) -> dict:
    import vario
    from vario.verdict.serial import to_json

    began = time.perf_counter()
    try:
        document = to_json(vario.diagnose(vario.read(path)))
    except vario.errors.VarioError as error:
        document = {"error": str(error)}
    except Exception as error:  # a crash is a result here
        document = {"error": f"CRASH {type(error).__name__}: {error}"}
    document["seconds"] = time.perf_counter() - began
    return document


def diagnose_all(paths: dict[str, Path]) -> dict[str, dict]:
    """Diagnoses by run id, on all cores."""
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:  # polars has threads, which no fork survives
        return dict(zip(paths, pool.map(_diagnose, map(str, paths.values())), strict=True))


def named(findings: list[dict], depth: int = 0) -> Iterator[tuple[dict, int]]:
    """Findings with their symptoms, and how deep each lies."""
    for finding in findings:
        yield finding, depth
        yield from named(finding.get("symptoms", []), depth + 1)


def lowers_lr(finding: dict) -> bool:
    """Whether a finding prescribes a lower learning rate."""
    for change in finding["changes"]:
        if change["knob"] == "learning-rate":
            current, suggested = change["current"], change["suggested"]
            if not isinstance(current, int | float) or not isinstance(suggested, int | float):
                return "lower" in change["why"].lower() or "reduce" in change["why"].lower()
            return suggested < current
    return False


def alarms(document: dict) -> list[dict]:
    """Top-level default-audience findings at warning or above."""
    return [f for f in document["findings"] if f["audience"] == "default" and RANK[f["severity"]] >= 1]


@dataclass
class LabScore:
    """What the lab runs say of one tool."""

    expected: int = 0
    met: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    states_met: list[str] = field(default_factory=list)
    states_missed: list[str] = field(default_factory=list)
    forbidden: list[str] = field(default_factory=list)
    quiet_runs: int = 0
    quiet_alarms: list[str] = field(default_factory=list)
    faulty_runs: int = 0
    alarms_expected: int = 0
    alarms_other: list[str] = field(default_factory=list)
    tops: dict[str, int] = field(default_factory=dict)
    tops_warning: dict[str, int] = field(default_factory=dict)
    delays: dict[str, float] = field(default_factory=dict)
    rules: dict[str, list[int]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)


def _meets(word: str, finding: dict, vocabulary: dict, all_zero: bool) -> bool:
    if word == "bad_lr_high":
        return lowers_lr(finding)
    if all_zero and finding["name"] == "signal-collapsed-solved":
        return False
    return not {finding["name"], *finding.get("also", ())}.isdisjoint(vocabulary[word]["met_by"])


def score_lab(labels: dict[str, dict], vocabulary: dict, documents: dict[str, dict]) -> LabScore:
    """Score one tool's documents against the labels of the lab."""
    score = LabScore()
    rules: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for run, label in labels.items():
        document, expected = documents[run], label["expected_findings"]
        hard = [w for w in expected if not vocabulary[w]["is_state"]]
        score.expected += len(hard)
        quiet = bool(QUIET & set(expected))
        score.quiet_runs += quiet
        score.faulty_runs += not quiet
        if "error" in document:
            score.unread.append(f"{run}: {document['error']}")
            score.missed += [f"{run}: {w}" for w in hard]
            continue
        all_zero = "reward_dead_all_zero" in expected
        everything = list(named(document["findings"]))
        for word in expected:
            if word in QUIET:
                continue
            by = [f for f, _ in everything if _meets(word, f, vocabulary, all_zero)]
            state = vocabulary[word]["is_state"]
            if by:
                (score.states_met if state else score.met).append(
                    f"{run}: {word} by {', '.join(sorted({f['name'] for f in by}))}"
                )
            else:
                (score.states_missed if state else score.missed).append(f"{run}: {word}")
                for rule in vocabulary[word]["met_by"]:
                    rules[rule][1] += not state
            for name in {f["name"] for f in by}:
                rules[name][0] += not state
            onset = label["onset_step"]
            seen = [f["detected_at"] for f in by if f.get("detected_at") is not None and f["detected_at"] > onset]
            if onset > 0 and not state and seen:
                score.delays[f"{run}: {word}"] = (min(seen) - onset) / label["steps_done"]
        for word in label["must_not_findings"]:
            if word == "healthy":
                if document["verdict"]["action"] == "continue":
                    score.forbidden.append(f"{run}: healthy (action continue)")
                continue
            for finding, depth in everything:
                wrong = _meets(word, finding, vocabulary, all_zero=False) and RANK[finding["severity"]] >= 1
                if wrong and not any(_meets(w, finding, vocabulary, all_zero) for w in expected):
                    score.forbidden.append(
                        f"{run}: {word} by {finding['name']} ({finding['severity']}{', symptom' if depth else ''})"
                    )
        if all_zero and any(f["name"] == "signal-collapsed-solved" for f, _ in everything):
            score.forbidden.append(f"{run}: an all-zero reward called signal-collapsed-solved")
        for finding in alarms(document):
            passed = "" if finding["until"] is None else f", passed at {finding['until']}"
            text = f"{run}: {finding['name']} ({finding['severity']}, {finding['confidence']}{passed})"
            if quiet:
                score.quiet_alarms.append(text)
            elif any(_meets(w, finding, vocabulary, all_zero) for w in expected):
                score.alarms_expected += 1
                continue
            else:
                score.alarms_other.append(text)
            rules[finding["name"]][2] += 1
        if not quiet:
            score.tops[run] = sum(f["audience"] == "default" for f in document["findings"])
            score.tops_warning[run] = len(alarms(document))
    score.rules = dict(sorted(rules.items()))
    return score


def print_lab(score: LabScore, tool: str, details: bool) -> None:
    """The lab's tables for one tool."""
    total = score.alarms_expected + len(score.alarms_other)
    delays = sorted(score.delays.values())
    tops, warned = list(score.tops.values()) or [0], list(score.tops_warning.values()) or [0]
    noisy = sum(1 for _ in {t.split(":")[0] for t in score.quiet_alarms})
    print(f"\n== lab, {tool} ==")
    rows = [
        ("expected words named (no states)", f"{len(score.met)} of {score.expected}", "36"),
        ("state words named", f"{len(score.states_met)} of {len(score.states_met) + len(score.states_missed)}", "-"),
        ("forbidden words said", len(score.forbidden), "0"),
        ("healthy or short runs with an alarm", f"{noisy} of {score.quiet_runs}", "0"),
        ("alarms on faulty runs expected by the label", share(score.alarms_expected, total), "80 %"),
        (
            "top-level findings per cause: mean, median, most",
            f"{statistics.fmean(tops):.2f}, {statistics.median(tops):g}, {max(tops)}",
            "2",
        ),
        ("  runs above 2", f"{sum(t > 2 for t in tops)} of {len(tops)}", "0"),
        (
            "  at warning or above: mean, median, most",
            f"{statistics.fmean(warned):.2f}, {statistics.median(warned):g}, {max(warned)}",
            "2",
        ),
        ("  runs above 2 at warning or above", f"{sum(t > 2 for t in warned)} of {len(warned)}", "0"),
        (
            "delay after onset, share of the run: median, worst",
            f"{100 * statistics.median(delays):.1f} %, {100 * max(delays):.1f} % (n {len(delays)})" if delays else "-",
            "10 %",
        ),
        ("runs not read", len(score.unread), "0"),
    ]
    print(table(rows, ("measure", "now", "bar")))
    for title, lines in (
        ("missed", score.missed),
        ("states missed", score.states_missed),
        ("forbidden said", score.forbidden),
        ("alarms on healthy or short runs", score.quiet_alarms),
        ("alarms on faulty runs that no expected word covers", score.alarms_other),
        (
            "more than 2 top-level findings",
            [f"{r}: {n} ({score.tops_warning[r]} at warning or above)" for r, n in score.tops.items() if n > 2],
        ),
        ("delays", [f"{k}: {100 * v:.1f} %" for k, v in score.delays.items()]),
        ("not read", score.unread),
    ):
        if lines and details:
            print(f"\n{title}:")
            print("\n".join(f"  {line}" for line in lines))
    if details:
        print(
            "\nper rule: found = expected and named; missed = words that it could have met and nothing did; false = alarms not expected"
        )
        print(table([(n, *c) for n, c in score.rules.items() if any(c)], ("rule", "found", "missed", "false")))


@dataclass
class CorpusRow:
    """One corpus run judged against its label."""

    run: str
    repository: str
    label_confidence: str
    confidence: str
    score_read: bool
    kl_read: bool
    error: str | None
    said: str
    labelled: list[str]
    trajectory_right: bool | None
    regime: str
    regime_end: str
    regime_whole: str
    end_right: bool | None
    whole_right: bool | None
    healthy_alarms: list[str]
    labelled_healthy: bool
    framework: str = ""
    framework_right: bool = False


def score_corpus(labels: dict[str, dict], vocabulary: dict, documents: dict[str, dict]) -> list[CorpusRow]:
    """Judge every run of the corpus."""
    rows = []
    for run, label in labels.items():
        document = documents[run]
        error = document.get("error")
        verdict = document.get("verdict", {"trajectory": "unread", "regime": "unread", "confidence": "low"})
        metrics = document.get("run", {}).get("metrics", {})
        classes = [label["trajectory"], *label["trajectory_alternatives"]]
        words = {w for c in classes for w in vocabulary["trajectory"][c]}

        def regime_right(truth: str, said: str = verdict["regime"]) -> bool | None:
            return None if truth == "na" else said == vocabulary["regime"].get(truth, truth)

        rows.append(
            CorpusRow(
                run,
                label["repository"],
                label["confidence"],
                verdict["confidence"],
                not {"reward/mean", "preference/margin"}.isdisjoint(metrics),
                any(m.startswith("kl/reference") for m in metrics),
                error,
                verdict["trajectory"],
                classes,
                None if label["trajectory"] == "na" else verdict["trajectory"] in words,
                verdict["regime"],
                label["kl_regime_end"],
                label["kl_regime_whole"],
                regime_right(label["kl_regime_end"]),
                regime_right(label["kl_regime_whole"]),
                [f"{f['name']} ({f['severity']})" for f in alarms(document)]
                if error is None and "healthy" in label["findings"]
                else [],
                "healthy" in label["findings"],
                document.get("run", {}).get("framework", ""),
                document.get("run", {}).get("framework") in frameworks_of(label["framework"], vocabulary),
            )
        )
    return rows


def frameworks_of(labelled: str, vocabulary: dict) -> list[str]:
    """The names that a labelled framework may be read as."""
    return vocabulary["framework"].get(labelled, ["generic"])


def _line(rows: list[CorpusRow], which: str) -> str:
    values = [v for r in rows if (v := getattr(r, which)) is not None]
    return share(sum(values), len(values))


def _by_repository(rows: list[CorpusRow], which: str) -> str:
    by: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        if (value := getattr(row, which)) is not None:
            by[row.repository].append(value)
    return f"{100 * statistics.fmean(statistics.fmean(v) for v in by.values()):.0f} % of {len(by)}" if by else "-"


def print_corpus(rows: list[CorpusRow], details: bool) -> None:
    """The corpus' tables."""
    unread = [r for r in rows if r.error]
    blind = [r for r in rows if not r.error and not r.score_read]
    readable = [r for r in rows if not r.error and r.score_read]
    with_kl = [r for r in readable if r.kl_read]
    high = [r for r in rows if r.label_confidence == "high"]
    print(f"\n== corpus, vario: {len(rows)} runs, {len(unread)} not read, {len(blind)} without a reward metric ==")
    lines = []
    for what, which, seen in (
        ("trajectory", "trajectory_right", readable),
        ("regime, end", "end_right", with_kl),
        ("regime, whole", "whole_right", with_kl),
    ):
        for name, group in (("labels of all confidences", None), ("labels of high confidence", high)):
            keep = rows if group is None else group
            lines.append(
                (
                    f"{what}, {name}",
                    _line([r for r in seen if r in keep], which),
                    _line(keep, which),
                    _by_repository([r for r in seen if r in keep], which),
                )
            )
    print(table(lines, ("right", "where the metrics are read", "over all", "mean over repositories")))
    print("\nframework recognised:", share(sum(r.framework_right for r in rows), len(rows)))
    wrong = [f"{r.run} ({r.framework or 'not read'})" for r in rows if not r.framework_right]
    print("as another one:", ", ".join(wrong) or "none")
    print("\ncalibration (where the metrics are read): high should be right 90 %, medium 70 %")
    print(
        table(
            [
                (
                    c,
                    *(
                        _line([r for r in seen if r.confidence == c], w)
                        for w, seen in (("trajectory_right", readable), ("end_right", with_kl))
                    ),
                )
                for c in LEVELS
            ],
            ("confidence of the verdict", "trajectory", "regime, end"),
        )
    )
    healthy = [r for r in rows if r.labelled_healthy]
    print(f"\nlabelled healthy, with an alarm: {share(sum(bool(r.healthy_alarms) for r in healthy), len(healthy))}")
    for row in healthy:
        if row.healthy_alarms:
            print(f"  {row.run}: {', '.join(row.healthy_alarms)}")
    if not details:
        return
    print("\nconfusions of the trajectory (label -> said), readable runs:")
    wrong = [r for r in readable if r.trajectory_right is False]
    for (truth, said), n in Counter((r.labelled[0], r.said) for r in wrong).most_common():
        runs = ", ".join(
            f"{r.run} [{r.label_confidence[0]}/{r.confidence[0]}]"
            for r in wrong
            if (r.labelled[0], r.said) == (truth, said)
        )
        print(f"  {truth} -> {said} ({n}): {runs}")
    print("\nconfusions of the regime at the end, where a reference KL is read:")
    lost = [r for r in with_kl if r.end_right is False]
    for (truth, said), n in Counter((r.regime_end, r.regime) for r in lost).most_common():
        runs = ", ".join(
            f"{r.run} [{r.label_confidence[0]}/{r.confidence[0]}]{' (whole right)' if r.whole_right else ''}"
            for r in lost
            if (r.regime_end, r.regime) == (truth, said)
        )
        print(f"  {truth} -> {said} ({n}): {runs}")
    print("\nnot read:", *(f"\n  {r.run}: {r.error}" for r in unread))
    print("no reward metric:", ", ".join(r.run for r in blind) or "none")
    print(
        "regime labelled, no reference KL read:",
        ", ".join(r.run for r in rows if r.end_right is not None and not r.kl_read) or "none",
    )


@dataclass
class Side:
    """One tool on one set of runs, as the side-by-side tables show it."""

    tool: str
    read: int
    met: int
    expected: int
    states: str
    forbidden: str
    healthy_alarmed: str
    alarms_per_run: float
    delay: str
    missed: list[str]


def lab_side(tool: str, labels: dict[str, dict], vocabulary: dict, documents: dict[str, dict]) -> Side:
    """One tool on the lab."""
    score = score_lab(labels, vocabulary, documents)
    read = {r: d for r, d in documents.items() if "error" not in d}
    delays = list(score.delays.values())
    return Side(
        tool,
        len(read),
        len(score.met),
        score.expected,
        f"{len(score.states_met)} of {len(score.states_met) + len(score.states_missed)}",
        str(len(score.forbidden)),
        share(len({t.split(":")[0] for t in score.quiet_alarms}), score.quiet_runs),
        statistics.fmean(len(alarms(d)) for d in read.values()) if read else 0.0,
        f"{100 * statistics.median(delays):.1f} % (n {len(delays)})" if delays else "none",
        score.missed,
    )


def corpus_side(tool: str, labels: dict[str, dict], vocabulary: dict, documents: dict[str, dict]) -> Side:
    """One tool on the corpus: findings of the labels, borderline ones left out; a note names, too."""
    met, missed = [], []
    for run, label in labels.items():
        document = documents[run]
        said = {n for f, _ in named(document.get("findings", [])) for n in (f["name"], *f.get("also", ()))}
        said |= {n["name"] for n in document.get("notes", [])}
        for word in label["findings"]:
            by = vocabulary["findings"].get(word, [])
            if by:
                (missed if said.isdisjoint(by) else met).append(f"{run}: {word}")
    read = {r: d for r, d in documents.items() if "error" not in d}
    healthy = [r for r in labels if "healthy" in labels[r]["findings"]]
    noisy = sum(r in read and bool(alarms(documents[r])) for r in healthy)
    return Side(
        tool,
        len(read),
        len(met),
        len(met) + len(missed),
        "-",
        "-",
        share(noisy, len(healthy)),
        statistics.fmean(len(alarms(d)) for d in read.values()) if read else 0.0,
        "-",
        missed,
    )


def print_sides(title: str, sides: list[Side], runs: int) -> None:
    """The tools side by side."""
    print(f"\n== {title}: {runs} runs, side by side ==")
    rows = [
        ("runs read", *(f"{s.read} of {runs}" for s in sides)),
        ("expected words named", *(f"{s.met} of {s.expected}" for s in sides)),
        ("state words named", *(s.states for s in sides)),
        ("forbidden words said", *(s.forbidden for s in sides)),
        ("healthy (or short) runs with an alarm", *(s.healthy_alarmed for s in sides)),
        ("alarms per run", *(f"{s.alarms_per_run:.2f}" for s in sides)),
        ("median delay after onset, of the run", *(s.delay for s in sides)),
    ]
    print(table([r for r in rows if set(r[1:]) != {"-"}], ("measure", *(s.tool for s in sides))))


def print_missed(missed: list[str]) -> None:
    """What vario does not name, and why."""
    print("\nmissed by vario, with the reason:")
    for line in missed:
        print(f"  {line}: {MISSED_BECAUSE.get(line, 'not looked into yet')}")
    for line in sorted(set(MISSED_BECAUSE) - set(missed)):
        print(f"  {line}: found by now; its reason can go")


def peers_compared(lab: dict[str, dict], corpus: dict[str, dict], where: argparse.Namespace) -> dict[str, object]:
    """vario, rldoctor and the callbacks on the same files."""
    import peer_rldoctor
    import seed_callbacks

    made: dict[str, object] = {}
    missed: list[str] = []
    if lab:
        vocabulary = vocabulary_of(where.lab)
        folders = {r: where.lab / r for r in lab}
        states = {r: f / "trainer_state.json" for r, f in folders.items()}
        sides = [
            lab_side("vario", lab, vocabulary, diagnose_all(folders)),
            lab_side(peer_rldoctor.NAME, lab, vocabulary, peer_rldoctor.documents(states)),
            lab_side(seed_callbacks.NAME, lab, vocabulary, seed_callbacks.documents(folders)),
        ]
        print_sides("lab", sides, len(lab))
        missed += sides[0].missed
        made["lab"] = [asdict(s) for s in sides]
    if corpus:
        vocabulary = vocabulary_of(where.corpus)
        logs = {r: raw_log(where.corpus / r) for r in corpus}
        rows = {r: where.corpus / r / "norm.jsonl" for r in corpus}
        sides = [
            corpus_side("vario", corpus, vocabulary, diagnose_all(logs)),
            corpus_side(peer_rldoctor.NAME, corpus, vocabulary, peer_rldoctor.documents(rows)),
            corpus_side(seed_callbacks.NAME, corpus, vocabulary, seed_callbacks.documents(logs)),
        ]
        print_sides("corpus", sides, len(corpus))
        missed += sides[0].missed
        made["corpus"] = [asdict(s) for s in sides]
    print(
        "\nrldoctor reads the corpus from normalised rows, the callbacks through vario's reader; neither reads the formats"
        " themselves. rldoctor names no step, and what stood before the onset already has no delay."
    )
    print_missed(missed)
    return made


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--lab", type=Path, default=shared_folder() / "lab/runs")
    parser.add_argument("--corpus", type=Path, default=shared_folder() / "corpus/runs")
    parser.add_argument("--peer", choices=["rldoctor"], help="run the peer on the same files, too")
    parser.add_argument("--peers", action="store_true", help="vario, rldoctor and the callbacks, side by side")
    parser.add_argument("--per-run", action="store_true", help="one line for every run")
    parser.add_argument("--brief", action="store_true", help="the tables alone, without the lists behind them")
    parser.add_argument("--json", type=Path, help="write everything that was counted to this file")
    return parser.parse_args()


def _per_run(documents: dict[str, dict]) -> None:
    for run, d in documents.items():
        if "error" in d:
            print(f"{run}: {d['error']}")
            continue
        said = "; ".join(
            f"{f['name']}{'~' if f['until'] is not None else ''}:{f['severity'][0]}{f['confidence'][0]}"
            + (f" <{', '.join(s['name'] for s, _ in named(f.get('symptoms', [])))}>" if f.get("symptoms") else "")
            for f in d["findings"]
        )
        v = d["verdict"]
        print(f"{run}: {v['action']}/{v['confidence']} {v['trajectory']} {v['regime']} {d['seconds']:.2f}s | {said}")


def main() -> int:
    """Print the scoreboard; the exit code is 0 whatever the score."""
    arguments = _arguments()
    made: dict[str, object] = {}
    lab, corpus = labels_of(arguments.lab), labels_of(arguments.corpus)
    if arguments.peers:
        made = peers_compared(lab, corpus, arguments)
        if arguments.json:
            arguments.json.write_text(json.dumps(made, indent=1), "utf-8")
        return 0
    peer = None
    if arguments.peer:
        import peer_rldoctor as peer
    if not lab:
        print(f"no lab: {arguments.lab} holds no */label.json (set VARIO_SHARED or --lab)")
    else:
        vocabulary = vocabulary_of(arguments.lab)
        documents = diagnose_all({r: arguments.lab / r for r in lab})
        score = score_lab(lab, vocabulary, documents)
        if arguments.per_run:
            _per_run(documents)
        print_lab(score, "vario", not arguments.brief)
        made["lab"] = asdict(score)
        if peer:
            theirs = score_lab(
                lab, vocabulary, peer.documents({r: arguments.lab / r / "trainer_state.json" for r in lab})
            )
            print_lab(theirs, peer.NAME, arguments.per_run)
            made["lab_peer"] = asdict(theirs)
    if not corpus:
        print(f"no corpus: {arguments.corpus} holds no */label.json (set VARIO_SHARED or --corpus)")
    else:
        documents = diagnose_all({r: raw_log(arguments.corpus / r) for r in corpus})
        rows = score_corpus(corpus, vocabulary_of(arguments.corpus), documents)
        if arguments.per_run:
            _per_run(documents)
        print_corpus(rows, not arguments.brief)
        made["corpus"] = [asdict(r) for r in rows]
        if peer:
            theirs = peer.documents({r: arguments.corpus / r / "norm.jsonl" for r in corpus})
            healthy = [r for r, x in corpus.items() if "healthy" in x["findings"]]
            noisy = [r for r in healthy if "error" not in theirs[r] and alarms(theirs[r])]
            read = sum("error" not in d for d in theirs.values())
            print(
                f"\n== corpus, {peer.NAME} == reads {read} of {len(corpus)}; labelled healthy, with an alarm: {share(len(noisy), len(healthy))}; it names no trajectory and no regime"
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(made, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
