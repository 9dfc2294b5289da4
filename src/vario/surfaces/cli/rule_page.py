"""`vario rule`: the list of rules, and one rule's page."""

from __future__ import annotations

import json
from typing import Any

from vario.rules.base import Rule
from vario.rules.choice import Choice

FAMILIES = {
    "RU": "the run", "RW": "reward", "SG": "learning signal", "KL": "KL", "CL": "clipping", "EN": "entropy", "LN": "length",
    "OP": "off-policy", "GR": "loss and gradients", "VF": "value function", "PF": "preference", "TX": "text", "SY": "systems", "DX": "not diagnosable",
}  # fmt: skip


def rule_list(choice: Choice) -> str:
    """All rules by family, one line each; the user's own last."""
    lines = []
    for family, title in FAMILIES.items():
        lines += ["", title]
        lines += [_line(rule) for rule in choice.rules if rule.code.startswith(family)]
    own = [rule for rule in choice.rules if rule.code[:2] not in FAMILIES]
    if own:
        lines += ["", "yours", *map(_line, own)]
    return "\n".join(lines[1:])


def _line(rule: Rule) -> str:
    return f"  {rule.code}  {rule.name:34} {rule.severity.word}"


def rules_json(name: str | None, choice: Choice) -> str:
    """The list of rules, or one rule with its page, for programs.

    Raises:
        UnknownRule: no such rule.
    """
    if name is None:
        return json.dumps({"rules": [_document(rule) for rule in choice.rules]}, ensure_ascii=False, indent=2)
    rule = choice.find(name)
    whole = {
        **_document(rule),
        "page": rule.page,
        "causes": rule.causes,
        "knobs": [{"knob": turn.knob, "how": turn.how, "why": turn.why} for turn in rule.turns],
        "often_before": [p.text for p in rule.precedes],
        "explains": rule.explains,
    }
    return json.dumps(whole, ensure_ascii=False, indent=2)


def _document(rule: Rule) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.word,
        "audience": "pedantic" if rule.pedantic else "default",
        "family": FAMILIES.get(rule.code[:2]),
        "summary": rule.summary,
    }


def rule_page(name: str, choice: Choice) -> str:
    """The page of a rule by name or code.

    Raises:
        UnknownRule: no such rule.
    """
    rule = choice.find(name)
    lines = [f"{rule.code} {rule.name} ({rule.severity.word})", "", rule.page]
    if rule.causes:
        lines += ["", "Likely causes:", *(f"    - {c}" for c in rule.causes)]
    if rule.turns:
        lines += ["", "Knobs, in order:"]
        lines += [f"    - {turn.knob} ({turn.how}): {turn.why}" for turn in rule.turns]
    if rule.precedes:
        lines += ["", "Often comes before:", *(f"    - {p.text}" for p in rule.precedes)]
    if rule.explains:
        lines += ["", f"Folds beneath itself: {', '.join(rule.explains)}"]
    return "\n".join(lines)
