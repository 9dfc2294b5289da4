"""`vario rule`: the list of rules, and one rule's page."""

from __future__ import annotations

from vario.rules import RULES, find_rule

FAMILIES = {
    "RU": "the run", "RW": "reward", "SG": "learning signal", "KL": "KL", "CL": "clipping", "EN": "entropy", "LN": "length",
    "OP": "off-policy", "GR": "loss and gradients", "VF": "value function", "PF": "preference", "TX": "text", "SY": "systems", "DX": "not diagnosable",
}  # fmt: skip


def rule_list() -> str:
    """All rules by family, one line each."""
    lines = []
    for family, title in FAMILIES.items():
        lines += ["", title]
        for rule in (r for r in RULES if r.code.startswith(family)):
            lines.append(f"  {rule.code}  {rule.name:34} {rule.severity.word}")
    return "\n".join(lines[1:])


def rule_page(name: str) -> str:
    """The page of a rule by name or code.

    Raises:
        UnknownRule: no such rule.
    """
    rule = find_rule(name)
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
    if rule.explains:
        lines += ["", f"Folds beneath itself: {', '.join(rule.explains)}"]
    return "\n".join(lines)
