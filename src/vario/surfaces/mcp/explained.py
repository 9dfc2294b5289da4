"""A rule's page, for agents."""

from __future__ import annotations

from vario.rules.choice import Choice
from vario.surfaces.cli.rule_page import rule_page
from vario.surfaces.mcp.ids import rule_named
from vario.surfaces.mcp.shapes import KnobShape, RuleAnswer

EXPENDABLE = ("page",)


def rule_answer(word: str, choice: Choice) -> RuleAnswer:
    """The rule of a name, a code or a finding's id.

    Raises:
        UnknownRule: there is none; the message names the nearest.
    """
    rule = choice.find(rule_named(word))
    return RuleAnswer(
        code=rule.code,
        name=rule.name,
        severity=rule.severity.word,  # type: ignore[arg-type]
        summary=rule.summary,
        page=rule_page(rule.name, choice),
        causes=list(rule.causes),
        knobs=[KnobShape(knob=turn.knob, how=turn.how, why=turn.why) for turn in rule.turns],
        often_before=[p.text for p in rule.precedes],
    )
