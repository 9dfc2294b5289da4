"""What a diagnosis says, in sentences: the same words on the terminal, in a report, on the dashboard, for agents."""

from __future__ import annotations

from vario.rules.base import counted, number
from vario.verdict import Diagnosis, Finding
from vario.verdict.changes import Change
from vario.verdict.diagnosis import Verdict
from vario.verdict.phases import Phase

SHOWN_UNSEEN = 6
NO_WARNING = "No warning: of the checks that could run, none found a fault."
NO_FINDING = "No finding at warning or above: the advice rests on the trajectory and the regime."


def headline(verdict: Verdict) -> str:
    """The action, how sure it is, and why."""
    return f"{action(verdict)} ({verdict.confidence} confidence). {verdict.narrative}"


def action(verdict: Verdict) -> str:
    """The action as it is shouted."""
    return verdict.action.upper().replace("-", " ")


def heading(diagnosis: Diagnosis) -> str:
    """What was trained, by what, and how far."""
    run = diagnosis.run
    version = f" {run.framework_version}" if run.framework_version else ""
    return (
        f"{run.framework}{version}, {run.algorithm}, steps {run.first_step} to {run.last_step} "
        f"({run.logged_steps.size} logged)"
    )


def best(verdict: Verdict) -> str:
    """The best step, by what, and whether it lies on disk; empty where nothing ranks steps."""
    found = verdict.best_checkpoint
    if found is None:
        return ""
    saved = {
        True: "saved",
        False: f"not saved; nearest is {found.nearest_saved}",
        None: "no checkpoint lies beside the log",
    }[found.saved]
    low, high = found.interval
    return f"step {found.step} (between {low} and {high}) by {found.by} = {number(found.value)}; {saved}"


def regime(phase: Phase) -> str:
    """A phase's regime as people say it."""
    return phase.regime.replace("kl-", "KL ").replace("-reward-", ", reward ")


def _with_interval(rate: tuple[float, float, float]) -> str:
    low, estimate, high = rate
    return f"{number(estimate)} [{number(low)}, {number(high)}]"


def facts(verdict: Verdict) -> list[tuple[str, str]]:
    """What stands behind the verdict: a name, and what there is to say."""
    told = [("best", best(verdict))]
    if len(verdict.phases) > 1:
        told.append(("phases", "; ".join(f"{regime(p)} to step {p.last}" for p in verdict.phases)))
    if verdict.rate is not None:
        change = "no difference beyond the noise" if verdict.rate.change == "steady" else verdict.rate.change
        told.append(
            (
                "rate",
                f"{_with_interval(verdict.rate.now)} in 100 steps since step {verdict.rate.since}, "
                f"{_with_interval(verdict.rate.before)} before: {change}",
            )
        )
    told.append(("upside", upside(verdict)))
    told.append(("risk", verdict.risk.text))
    told.append(("would change it", "; ".join(verdict.would_change_it)))
    return [(name, text) for name, text in told if text]


def upside(verdict: Verdict) -> str:
    """What going on may bring, or why that cannot be told."""
    expected, interval = verdict.upside.expected, verdict.upside.interval80
    if expected is None or interval is None:
        return verdict.upside.method
    return f"{number(expected)} [{number(interval[0])}, {number(interval[1])}] (80 % interval): {verdict.upside.method}"


def when(finding: Finding) -> str:
    """Its steps; empty where none is known."""
    told = []
    if finding.since is not None:
        told.append(f"since step {finding.since}")
    if finding.detected_at is not None:
        told.append(f"seen at {finding.detected_at}")
    if finding.until is not None:
        told.append(f"passed by {finding.until}")
    return ", ".join(told)


def when_and_how_sure(finding: Finding) -> str:
    """Its steps and its confidence."""
    return "; ".join(part for part in (when(finding), f"{finding.confidence} confidence") if part)


def change(turn: Change, framework: str) -> str:
    """What to set to what, in the framework's own word."""
    key = turn.key or f"{turn.knob} (no key of this name in {framework})"
    now = f" ({turn.stands})" if turn.stands else ""
    to = "" if turn.suggested is None else f" to {turn.suggested}"
    return f"{key}{now}{to}: {turn.why}"


def unseen(diagnosis: Diagnosis) -> list[str]:
    """What could not be seen, and how to log it; what enables the most checks comes first."""
    by_missing: dict[tuple[str, ...], list[str]] = {}
    ways: dict[tuple[str, ...], str] = {}
    for check in diagnosis.unknown:
        # what completions would show has one way to be had, whatever it is called
        sampled = bool(check.enable) and check.enable == diagnosis.run.how_to_sample
        missing = ("completions",) if sampled else check.missing
        by_missing.setdefault(missing, []).append(check.name)
        ways[missing] = check.enable
    relevant = {m: names for m, names in by_missing.items() if ways[m]}
    told = []
    for missing, names in sorted(relevant.items(), key=lambda i: -len(i[1]))[:SHOWN_UNSEEN]:
        checks = f"{counted(len(names), 'check')}{':' if len(names) == 1 else ', such as'}"
        told.append(f"{', '.join(missing)} ({checks} {names[0]}): {ways[missing]}")
    reasons: dict[str, list[str]] = {}
    for key, why in diagnosis.run.unsettled.items():
        reasons.setdefault(why, []).append(key)
    for why, keys in list(reasons.items())[:SHOWN_UNSEEN]:
        more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
        told.append(f"{', '.join(keys[:3])}{more}: not read: {why}")
    if len(reasons) > SHOWN_UNSEEN:
        told.append(f"and {len(reasons) - SHOWN_UNSEEN} more: vario metrics")
    return told


def complaints(diagnosis: Diagnosis) -> list[str]:
    """What went wrong in reading and judging, beside the diagnosis itself."""
    told = [f"rule {name} failed and was left out: {error}" for name, error in diagnosis.broken]
    told += [*diagnosis.run.warnings, *diagnosis.warnings]
    if diagnosis.run.ignored_lines:
        told.append(f"{diagnosis.run.ignored_lines} lines or rows could not be read and were left out")
    return told
