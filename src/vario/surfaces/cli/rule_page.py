"""`vario rule`: the list of rules, and one rule's page."""

from __future__ import annotations

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
        for turn in rule.turns:
            how = (
                f"x {turn.factor:g}"
                if turn.factor is not None
                else f"to {turn.to}"
                if turn.to is not None
                else "by hand"
            )
            lines.append(f"    - {turn.knob} ({how}): {turn.why}")
    if rule.precedes:
        lines += ["", "Often comes before:", *(f"    - {p.text}" for p in rule.precedes)]
    if rule.explains:
        lines += ["", f"Folds beneath itself: {', '.join(rule.explains)}"]
    return "\n".join(lines)
