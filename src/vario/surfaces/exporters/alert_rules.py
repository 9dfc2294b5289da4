"""Example alerting rules for Prometheus, generated: a verdict to stop, a grave finding, silence."""

from __future__ import annotations

from dataclasses import dataclass

QUIET_SECONDS = 1800
"""Longer than most evaluations and saves; a run whose rows are rarer needs its own value."""
SAME_RUN = "on (job, instance, run)"


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One rule, in Prometheus' own words; `why` becomes a comment above it."""

    name: str
    why: str
    expr: str
    wait: str
    severity: str
    summary: str
    description: str


RULES = (
    AlertRule(
        "VarioVerdictStop",
        "A verdict that is unsure of itself wakes nobody.",
        f'vario_verdict_state{{action="stop"}} == 1 and {SAME_RUN} '
        'vario_verdict_confidence_state{confidence=~"medium|high"} == 1',
        "0m",
        "critical",
        "vario says to stop {{ $labels.run }}",
        "The verdict stands since this alert began; `vario diagnose` says why, and which checkpoint is best.",
    ),
    AlertRule(
        "VarioCriticalFinding",
        "It clears by itself when the finding has passed, or when a cause speaks for it.",
        'vario_finding_active{severity="critical", confidence=~"medium|high"} == 1',
        "0m",
        "critical",
        "{{ $labels.finding }} on {{ $labels.run }}",
        "A critical finding of {{ $labels.confidence }} confidence holds; `vario rule {{ $labels.finding }}` explains it.",
    ),
    AlertRule(
        "VarioNoRowForLong",
        "Set the seconds to what is long for your runs; those that have ended are left in peace.",
        f"time() - vario_run_last_row_timestamp_seconds > {QUIET_SECONDS} and {SAME_RUN} "
        'vario_run_status{status="ended"} == 0',
        "1m",
        "warning",
        "no row from {{ $labels.run }} for {{ $value | humanizeDuration }}",
        "The run hangs, has died without a word, or its log cannot be read any more.",
    ),
    AlertRule(
        "VarioGone",
        "Without it, a watch that has died looks like runs without trouble.",
        "absent(vario_build_info)",
        "10m",
        "warning",
        "no vario answers",
        "Nobody watches: the exporter has stopped, or Prometheus does not reach it.",
    ),
)


def alert_rules_file() -> str:
    """The rules as a file of YAML that `rule_files` of Prometheus can name."""
    lines = [
        "# Made by `python scripts/pages.py write` from the source; edit a copy.",
        "groups:",
        "  - name: vario",
        "    rules:",
    ]
    for rule in RULES:
        lines += [
            f"      # {rule.why}",
            f"      - alert: {rule.name}",
            f"        expr: {_quoted(rule.expr)}",
            f"        for: {rule.wait}",
            "        labels:",
            f"          severity: {rule.severity}",
            "        annotations:",
            f"          summary: {_quoted(rule.summary)}",
            f"          description: {_quoted(rule.description)}",
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """One line in single quotes, within which YAML changes nothing but the quote itself."""
    return "'" + text.replace("'", "''") + "'"
