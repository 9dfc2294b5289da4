"""Family-wise error rates of the default rules on simulated runs: false alarms, faults found, run lengths.

    python bench/false_alarms.py [--runs 500] [--seed 0] [--quick] [--json FILE] [--markdown docs/error-rates.md]

- *Healthy runs* of every shape, memory and length (`simulated.py`): how many hold an alarm, that is a
  top-level finding for the default audience at warning or above. *At the end* is what a diagnosis of
  the finished run says; *at some look* is what a live monitor raises, judged as it judges, look by look:
  each alarm counts by what stands on top at that look, not by what the whole run makes of it later;
  of these, what a rule about flatness said before a tenth of the gain was made was *not wrong then*.
- *Faults* (`faults.py`): how many are found, by any rule that names them, at any severity, as a finding
  or a symptom, detected after the onset; and how many rows after it.
- *Run length to a false alarm*: rows examined around constant levels and around learning curves, for
  each rule, divided by an upper 95 % bound of the number of alarms (3.0 where there was none).
  A rule is counted only on runs whose metrics it could read.

Two processes, fifteen minutes; `--quick` makes a tenth of everything, at least two runs of each.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from faults import FAULTS, faulty
from shared import share, table
from simulated import MEMORIES, PLANS, SHAPES, drawn, healthy

from vario.rules import RULES
from vario.rules.base import Clear, Fires, Severity
from vario.rules.engine import Incident, Judge, judge, looks
from vario.run import Run

LENGTHS = (60, 120, 250, 500, 1000)
KINDS = ("grpo", "grpo", "grpo", "ppo", "dpo")
HEALTHY_RUNS = 500
ALARMS_ALLOWED = 0.01
FAULT_RUNS = 20
FOUND_BAR = 0.95
BACKGROUND_RUNS = 20
BACKGROUND_ROWS = 1000
BACKGROUNDS = ("constant", "learning")
BACKGROUND_MEMORIES = (0.0, 0.5, 0.9)
ABOUT_FLATNESS = frozenset(
    {"reward-never-rises", "reward-is-noise", "reward-plateaued", "policy-does-not-move", "kl-pinned-near-zero",
     "margin-plateaued", "rewards-converge", "entropy-not-falling", "signal-not-declining"}
)  # fmt: skip
"""Rules that name what a constant background is: what they say there is true, and not counted. On a run that
takes off late it is true as well until then: see `FLAT_UNTIL`."""
FLAT_UNTIL = 0.1
"""While less than this share of the gain is made, a rule about flatness is not wrong yet."""
WORKERS = 2


@dataclass
class HealthyRun:
    """The rules that said something of one healthy run.

    Attributes:
        ended: alarms that stand at the end. raised: alarms at some look. wrong_then: those that were not
            true when they were raised. wrong_and_sure: of these, those of medium or high confidence at some
            look, which is what is alerted of unless the user says otherwise. said: everything, information too.
    """

    kind: str
    shape: str
    memory: str
    rows: int
    ended: list[str] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)
    wrong_then: list[str] = field(default_factory=list)
    wrong_and_sure: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


@dataclass
class FaultRun:
    """Whether one injected fault was found, by what, after how many rows, and whether at warning or above."""

    fault: str
    rows: int
    found: bool
    warned: bool
    early: bool
    delay: float | None
    by: list[str]


@dataclass
class BackgroundRun:
    """Rows that each rule examined until its first alarm (all of them, without one)."""

    background: str
    memory: str
    examined: dict[str, int]
    alarmed: list[str]


def is_alarm(incident: Incident) -> bool:
    """At warning or above, for the default audience, and not passed."""
    return incident.until is None and incident.severity >= Severity.WARNING and incident.audience == "default"


def flattened(incidents: Iterable[Incident]) -> list[Incident]:
    """Findings with their symptoms."""
    return [j for i in incidents for j in (i, *flattened(i.symptoms))]


def look_by_look(run: Run) -> Iterator[tuple[int, list[Incident]]]:
    """The run as it grows: at each look of a live monitor, the row it is taken at and what stands on top then."""
    live = Judge()
    for count in looks(run.logged_steps.size):
        judged = live.see(run.until(int(run.logged_steps[count - 1])))
        yield count, [i for i in judged.incidents if i.until is None]


def _healthy(job: tuple[int, int]) -> HealthyRun:
    seed, index = job
    rng = np.random.default_rng([seed, 1, index])
    shape, memory = SHAPES[index % len(SHAPES)], MEMORIES[(index // len(SHAPES)) % len(MEMORIES)]
    kind, rows = str(rng.choice(KINDS)), int(rng.choice(LENGTHS))
    plan = PLANS[kind](rng, shape, rows)
    run = drawn(rng, plan, memory, f"healthy run {index}")
    made = HealthyRun(kind, shape, str(memory), rows)
    told: dict[str, bool] = {}  # alarms that stand, and whether each was wrong when it was raised
    for count, standing in look_by_look(run):
        alarms = {i.rule.name: i for i in standing if is_alarm(i)}
        open_now = {i.rule.name for i in flattened(standing)}
        told = {name: wrong for name, wrong in told.items() if name in open_now}  # beneath a cause it has not passed
        learnt = plan.gained[count - 1] - plan.gained[0] >= FLAT_UNTIL
        for name, incident in alarms.items():
            if name not in told:
                told[name] = name not in ABOUT_FLATNESS or bool(learnt)
                made.raised.append(name)
                made.evidence.append(
                    f"run {index} ({kind}, {shape}, memory {memory}, {rows} rows): {name}, {incident.severity.word}, "
                    f"{incident.confidence}, seen at row {count}, {'wrong' if told[name] else 'not wrong'} then: "
                    f"{'; '.join(incident.evidence)}"
                )
                if told[name]:
                    made.wrong_then.append(name)
            if told[name] and incident.confidence != "low":
                made.wrong_and_sure.append(name)
        made.ended = list(alarms)
    judged = judge(run)
    made.said = [i.rule.name for i in judged.incidents]
    made.broken = [f"{r.name}: {o.error}" for r, o in judged.broken]
    return made


def _faulty(job: tuple[int, str, int]) -> FaultRun:
    seed, name, index = job
    rng = np.random.default_rng([seed, 2, sum(name.encode()), index])
    memory = MEMORIES[index % len(MEMORIES)]
    made = faulty(rng, name, memory)
    steps = made.run.logged_steps
    by = [i for i in flattened(judge(made.run).incidents) if i.rule.name in made.means and i.detected_at is not None]
    after = [i for i in by if i.detected_at > made.onset_step]
    early = len(after) < len(by)
    delay = None
    if after:
        seen = min(i.detected_at for i in after)
        delay = float(np.searchsorted(steps, seen, side="right") - made.onset_row)
    warned = any(is_alarm(i) for i in after)
    return FaultRun(name, int(steps.size), bool(after), warned, early, delay, sorted({i.rule.name for i in after}))


def _background(job: tuple[int, str, float, int]) -> BackgroundRun:
    seed, background, memory, index = job
    rng = np.random.default_rng([seed, 3, BACKGROUNDS.index(background), int(10 * memory), index])
    shape = "constant" if background == "constant" else SHAPES[index % len(SHAPES)]
    run = healthy(rng, shape, memory, BACKGROUND_ROWS, KINDS[index % len(KINDS)])
    examined = {n: BACKGROUND_ROWS for n, o in judge(run).outcomes.items() if isinstance(o, Fires | Clear)}
    alarmed: list[str] = []
    for count, standing in look_by_look(run):
        for incident in flattened(standing):
            if is_alarm(incident) and incident.rule.name not in alarmed:
                alarmed.append(incident.rule.name)
                examined[incident.rule.name] = count
    return BackgroundRun(background, str(memory), examined, alarmed)


def most_alarms(seen: int, confidence: float = 0.95) -> float:
    """Upper bound of the expected number of alarms where so many were seen (Poisson): 3.0 for none."""
    low, high = float(seen), seen + 10.0 * math.sqrt(seen + 1.0) + 10.0
    for _ in range(60):
        middle = (low + high) / 2.0
        below = sum(math.exp(-middle + k * math.log(middle) - math.lgamma(k + 1)) for k in range(seen + 1))
        low, high = (middle, high) if below > 1.0 - confidence else (low, middle)
    return high


def all_of(work: Callable, jobs: Sequence) -> list:
    """Do the jobs on two cores."""
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:  # polars has threads, which no fork survives
        return list(pool.map(work, jobs, chunksize=max(len(jobs) // (8 * WORKERS), 1)))


# --- tables --------------------------------------------------------------------------------------------------

Table = tuple[str, Sequence[str], list[Sequence[object]]]


def healthy_tables(runs: list[HealthyRun]) -> list[Table]:
    """The family-wise rate, by rule and by kind of run."""
    ended, raised = sum(bool(r.ended) for r in runs), sum(bool(r.raised) for r in runs)
    allowed = f"at most {int(ALARMS_ALLOWED * len(runs))}"
    whole = [
        ("an alarm at the end", share(ended, len(runs)), allowed),
        ("an alarm at some look", share(raised, len(runs)), allowed),
        ("  of these, wrong at that look", share(sum(bool(r.wrong_then) for r in runs), len(runs)), allowed),
        (
            "  of these, of medium or high confidence",
            share(sum(bool(r.wrong_and_sure) for r in runs), len(runs)),
            allowed,
        ),
    ]
    names = Counter(n for r in runs for n in set(r.raised))
    at_end, said = Counter(n for r in runs for n in set(r.ended)), Counter(n for r in runs for n in set(r.said))
    wrong = Counter(n for r in runs for n in set(r.wrong_then))
    sure = Counter(n for r in runs for n in set(r.wrong_and_sure))
    rules = [(n, at_end[n], names[n], wrong[n], sure[n], said[n]) for n, _ in names.most_common()]
    rules += [(n, 0, 0, 0, 0, k) for n, k in said.most_common() if n not in names]
    groups = []
    for what in ("kind", "shape", "memory", "rows"):
        by: dict[object, list[HealthyRun]] = defaultdict(list)
        for run in runs:
            by[getattr(run, what)].append(run)
        groups += [
            (
                f"{what} {value}",
                share(sum(bool(r.ended) for r in some), len(some)),
                share(sum(bool(r.raised) for r in some), len(some)),
            )
            for value, some in by.items()
        ]
    return [
        ("healthy runs with an alarm", ("healthy runs with", "share [95 %]", "bar"), whole),
        ("healthy runs by kind", ("healthy runs", "alarm at the end", "alarm at some look"), groups),
        (
            "healthy runs by rule",
            (
                "rule",
                "alarm at the end",
                "alarm at some look",
                "of these, wrong then",
                "of these, sure",
                "said at the end, information too",
            ),
            rules,
        ),
    ]


def fault_tables(runs: list[FaultRun]) -> list[Table]:
    """Share found and delay, per fault."""
    standing = {r.name for r in RULES}
    rows = []
    by: dict[str, list[FaultRun]] = defaultdict(list)
    for run in runs:
        by[run.fault].append(run)
    for name, some in by.items():
        found = [r for r in some if r.found]
        if not standing & FAULTS[name].means:
            rows.append((name, "no rule yet", "", "", ", ".join(sorted(FAULTS[name].means)), ""))
            continue
        delays = [r.delay for r in found if r.delay is not None]
        shares = [r.delay / r.rows for r in found if r.delay is not None]
        delay = f"{statistics.median(delays):g} ({100 * statistics.median(shares):.0f} %)" if delays else "-"
        names = ", ".join(f"{n} {k}" for n, k in Counter(n for r in found for n in r.by).most_common(3))
        early = sum(r.early for r in some)
        rows.append(
            (
                name,
                share(len(found), len(some)),
                "" if len(found) >= FOUND_BAR * len(some) else "below",
                delay,
                names,
                early or "",
            )
        )
    known = [r for r in runs if standing & FAULTS[r.fault].means]
    mid = [r.delay / r.rows for r in known if r.delay is not None and FAULTS[r.fault].mid]
    total = [
        ("faults found, all together", share(sum(r.found for r in known), len(known)), "95 %"),
        ("  of these, at warning or above in the end", share(sum(r.warned for r in known), len(known)), "-"),
        (
            "median delay of the faults that begin mid-run",
            f"{100 * statistics.median(mid):.1f} % of the run (n {len(mid)})" if mid else "-",
            "10 %",
        ),
        (
            "named before the onset, too",
            share(sum(r.early for r in known if FAULTS[r.fault].mid), sum(FAULTS[r.fault].mid for r in known)),
            "-",
        ),
    ]
    head = ("fault", "found [95 %]", "bar 95 %", "median delay in rows", "found by", "named early")
    return [("faults", ("faults", "share [95 %]", "bar"), total), ("faults by name", head, rows)]


def background_tables(runs: list[BackgroundRun]) -> list[Table]:
    """Lower bounds of the rows to a false alarm, per rule."""
    cells = [(b, str(m)) for b in BACKGROUNDS for m in BACKGROUND_MEMORIES]
    rows = []
    for rule in RULES:
        line: list[object] = [rule.name]
        alarms_, rows_ = 0, 0
        for cell in cells:
            some = [r for r in runs if (r.background, r.memory) == cell]
            examined = sum(r.examined.get(rule.name, 0) for r in some)
            alarms = sum(rule.name in r.alarmed for r in some)
            if cell[0] == "constant" and rule.name in ABOUT_FLATNESS:
                line.append("true there")
                continue
            alarms_, rows_ = alarms_ + alarms, rows_ + examined
            line.append(
                "not read"
                if not examined
                else f"{examined / most_alarms(alarms):,.0f}" + (f" ({alarms})" if alarms else "")
            )
        line.append(f"{rows_ / most_alarms(alarms_):,.0f}" if rows_ else "not read")
        rows.append(line)
    head = ("rule", *(f"{b} {m}" for b, m in cells), "all")
    return [("rows to a false alarm", head, rows)]


INTRODUCTIONS = {
    "healthy runs with an alarm": "A run counts when a top-level finding for the default audience stands at warning or above: in the diagnosis of the whole run, or at some look of a live monitor, by what stands on top at that look.",
    "healthy runs by kind": "",
    "healthy runs by rule": "How many of the runs each rule alarmed. What a rule about flatness said before a tenth of the gain was made was not wrong then. Sure: of medium or high confidence at some look, which is what is alerted of by default. The last column counts what it said as information, too, which is often right on these runs (a plateau, a converged run).",
    "faults": "",
    "faults by name": "Found: a rule that names this fault (at any severity, as a finding or a symptom) detected after the onset. The delay runs from the onset to the look, in logged rows, with its share of the run. Noise has memory 0, .5, .9 and mixed in turn.",
    "rows to a false alarm": "At least so many logged rows pass, on average, before a rule raises a false alarm at warning or above (lower 95 % bound; alarms in brackets where there were any). Columns: background and memory of its noise. Where no alarm was seen the bound only says how much was looked at.",
}  # fmt: skip


def page(tables: Sequence[Table], command: str, counts: str) -> str:
    """The generated page."""
    lines = ["# Error rates", "", f"<!-- made by `{command}`: do not edit -->", "",
             "Measured on simulated runs whose truth is known: healthy ones of several shapes, noise memories and lengths, and",
             "runs with one injected fault. Shares come with Wilson's 95 % interval.", "",
             f"    {command}", "", counts]  # fmt: skip
    for title, head, rows in tables:
        lines += ["", f"## {title[0].upper()}{title[1:]}", ""]
        if INTRODUCTIONS[title]:
            lines += [INTRODUCTIONS[title], ""]
        lines.append(f"| {' | '.join(head)} |")
        lines.append("|" + " --- |" * len(head))
        lines += [f"| {' | '.join(str(c).replace('|', '/') for c in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the tables; the exit code is 0 whatever the rates."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=HEALTHY_RUNS, help="healthy runs")
    parser.add_argument("--fault-runs", type=int, default=FAULT_RUNS, help="runs with each fault")
    parser.add_argument(
        "--background-runs", type=int, default=BACKGROUND_RUNS, help="runs of each background and memory"
    )
    parser.add_argument("--faults", nargs="*", help="these faults alone")
    parser.add_argument(
        "--only", nargs="*", choices=("healthy", "faults", "background"), default=("healthy", "faults", "background")
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--evidence", action="store_true", help="what each false alarm rested on")
    parser.add_argument("--json", type=Path, help="write what was counted to this file")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    arguments = parser.parse_args()
    for name in ("runs", "fault_runs", "background_runs") if arguments.quick else ():
        setattr(arguments, name, max(getattr(arguments, name) // 10, 2))
    began = time.perf_counter()
    seed, tables, made = arguments.seed, [], {}
    evidence: list[str] = []
    if "healthy" in arguments.only:
        runs = all_of(_healthy, [(seed, i) for i in range(arguments.runs)])
        tables += healthy_tables(runs)
        evidence = [line for r in runs for line in (*r.evidence, *r.broken)]
        made["healthy"] = [asdict(r) for r in runs]
    if "faults" in arguments.only:
        wanted = arguments.faults or list(FAULTS)
        found = all_of(_faulty, [(seed, name, i) for name in wanted for i in range(arguments.fault_runs)])
        tables += fault_tables(found)
        made["faults"] = [asdict(r) for r in found]
    if "background" in arguments.only:
        jobs = [
            (seed, b, m, i) for b in BACKGROUNDS for m in BACKGROUND_MEMORIES for i in range(arguments.background_runs)
        ]
        examined = all_of(_background, jobs)
        tables += background_tables(examined)
        made["background"] = [asdict(r) for r in examined]
    counts = (
        f"Seed {seed}; {arguments.runs} healthy runs of {LENGTHS[0]} to {LENGTHS[-1]} logged rows, {arguments.fault_runs} runs "
        f"with each of {len(FAULTS)} faults, {arguments.background_runs} runs of {BACKGROUND_ROWS} rows for each background and "
        f"memory; {len(RULES)} rules."
    )
    for title, head, rows in tables:
        print(f"\n== {title} ==\n{table(rows, head)}")
    if arguments.evidence and evidence:
        print("\nalarms on healthy runs:", *(f"\n  {line}" for line in evidence))
    print(f"\n{counts} {time.perf_counter() - began:.0f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps(made, indent=1), "utf-8")
    if arguments.markdown:
        flags = "".join(f" --{n.replace('_', '-')} {getattr(arguments, n)}" for n, usual in
                        (("runs", HEALTHY_RUNS), ("fault_runs", FAULT_RUNS), ("background_runs", BACKGROUND_RUNS), ("seed", 0))
                        if getattr(arguments, n) != usual)  # fmt: skip
        command = f"python bench/false_alarms.py{flags} --markdown docs/error-rates.md"
        arguments.markdown.write_text(page(tables, command, counts), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
