"""Which symptoms go beneath which cause, and what stays beside it: every rule is asked about a drawn run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from vario.rules import RULES
from vario.rules.base import Apart, Aside, Evidence, Fires, Severity, Sign, rule
from vario.rules.engine import Incident, fold, judge
from vario.run import Run
from vario.testing import Case, draw

SEEDS = range(3)


@dataclass(frozen=True)
class Drawn:
    """A run in the words of a case file, and who stands where: `beneath` the cause, and beside it (`on_top`)."""

    title: str
    run: str
    cause: str
    beneath: tuple[str, ...] = ()
    on_top: tuple[str, ...] = ()


COLLAPSE = """
    config group_size 8
    reward/mean: ramp 0.3 to 0.6 over 80 then ramp 0.6 to 0.02 over 20 then hold 0.02 for 80, noise 0.02
    kl/reference: ramp 0.0 to 0.05 over 80 then ramp 0.05 to 1.5 over 20 then hold 1.5 for 80, noise 0.01
    entropy/mean: hold 0.8 for 80 then ramp 0.8 to 3 over 20 then hold 3 for 80, noise 0.03
    length/mean: hold 300 for 80 then ramp 300 to 700 over 20 then hold 700 for 80, noise 10
"""
ONE_ANSWER = """
    config group_size 8
    entropy/mean: ramp 1.0 to 0.04 over 110 then hold 0.04 for 60, noise 0.004
    signal/zero-variance-share: ramp 0.2 to 0.97 over 110 then hold 0.97 for 60, noise 0.01
    reward/mean: ramp 0.3 to 0.6 over 60 then ramp 0.6 to 0.1 over 50 then hold 0.1 for 60, noise 0.02
"""
PADDED = """
    length/mean: ramp 200 to 480 over 200, noise 10
    reward/mean: ramp 0.3 to 0.8 over 200, noise 0.03
    eval/score/mean: ramp 0.42 to 0.36 over 200, noise 0.02
"""
FORM_ALONE = """
    config weight format 1
    config weight correct 1
    reward/component/format/mean: ramp 0.3 to 0.9 over 100 then hold 0.9 for 100, noise 0.03, binary
    reward/component/correct/mean: hold 0 for 200, binary
    reward/mean: weighted sum
"""
EMPTY_SHELLS = """
    config weight format 1
    config weight accuracy 1
    reward/component/format/mean: ramp 0.3 to 0.99 over 80 then hold 0.99 for 120, noise 0.01, binary
    reward/component/accuracy/mean: hold 0.3 for 60 then ramp 0.3 to 0.03 over 80 then hold 0.03 for 60, noise 0.01, binary
    reward/mean: weighted sum
"""
STILL = """
    reward/mean: hold 0.5 for 250, noise 0.04
    reward/std/within-group: hold 0.4 for 250, noise 0.02
    entropy/mean: hold 0.8 for 250, noise 0.02
"""
DRIFTS_AND_LOSES = """
    kl/reference: ramp 0.0 to 0.05 over 80 then ramp 0.05 to 0.6 over 80, noise 0.008
    reward/mean: ramp 0.3 to 0.6 over 80 then ramp 0.6 to 0.2 over 80, noise 0.02
"""
DRIFTS_FOR_NOTHING = """
    kl/reference: ramp 0.002 to 0.4 over 200, noise 0.01
    reward/mean: hold 0.41 for 200, noise 0.03
"""
LEFT_BEHIND = """
    engine/logprob-gap/mean: hold 0.012 for 10 then ramp 0.012 to 0.8 over 190, noise 0.004
    reward/mean: hold 0.31 for 200, noise 0.03
    length/mean: hold 180 for 200, noise 6
"""

FOLDED = (
    Drawn("a policy that collapses writes loops", COLLAPSE + """
        text/repetition-share: hold 0.01 for 80 then ramp 0.01 to 0.6 over 40 then hold 0.6 for 60, noise 0.01""",
        "policy-collapse", ("outputs-repeat", "kl-runaway")),
    Drawn("or noise", COLLAPSE + """
        text/garbled-share: hold 0.01 for 80 then ramp 0.01 to 0.6 over 40 then hold 0.6 for 60, noise 0.01""",
        "policy-collapse", ("outputs-garbled",)),
    Drawn("or the same for every prompt", COLLAPSE + """
        text/duplicate-share/across-prompts: hold 0.02 for 80 then ramp 0.02 to 0.8 over 60 then hold 0.8 for 40, noise 0.02
        text/group-diversity: hold 0.6 for 80 then ramp 0.6 to 0.18 over 60 then hold 0.18 for 40, noise 0.02""",
        "policy-collapse", ("outputs-duplicated", "outputs-lose-diversity")),
    Drawn("one answer to everything is one answer to everything", ONE_ANSWER + """
        text/duplicate-share/across-prompts: ramp 0.02 to 0.8 over 110 then hold 0.8 for 60, noise 0.02
        text/distinct-share: ramp 0.9 to 0.2 over 110 then hold 0.2 for 60, noise 0.02
        text/repetition-share: ramp 0.01 to 0.5 over 110 then hold 0.5 for 60, noise 0.01""",
        "mode-collapse", ("outputs-duplicated", "outputs-lose-diversity", "outputs-repeat", "entropy-collapsing")),
    Drawn("padding that is paid for pays", PADDED + """
        length/reward-correlation/within-group: ramp 0.2 to 0.6 over 160 then hold 0.6 for 40, noise 0.05
        length/reward-correlation/se: hold 0.08 for 200, noise 0.005""",
        "length-hacking", ("length-buys-reward", "length-growing")),
    Drawn("running into the cap pays as well", PADDED + """
        reward/truncated-gap/within-group: hold 0.25 for 200, noise 0.08
        reward/truncated-gap/se: hold 0.08 for 200, noise 0.005
        length/truncated-share: hold 0 for 60 then ramp 0 to 0.8 over 140, noise 0.01
        reward/std/within-group: hold 0.3 for 200, noise 0.01""",
        "length-hacking", ("truncation-biases-reward", "truncation-high")),
    Drawn("some answers are padded and some are not", PADDED + """
        length/bimodality/within-group: hold 0.38 for 60 then ramp 0.38 to 0.75 over 40 then hold 0.75 for 100, noise 0.03
        length/bimodality/separation: hold 0 for 80 then hold 4 for 120, noise 0.3""",
        "length-hacking", ("lengths-bimodal",)),
    Drawn("tokens rise, answers fall, and the sum rises", """
        config weight long 1
        config weight correct 1
        length/mean: ramp 200 to 480 over 200, noise 10
        reward/component/long/mean: ramp 0.1 to 0.9 over 200, noise 0.02
        reward/component/correct/mean: ramp 0.5 to 0.2 over 200, noise 0.02, binary
        reward/mean: weighted sum""",
        "length-hacking", ("component-falls-while-total-rises",)),
    Drawn("longer than before RL", PADDED + "config baseline length/mean 200 80",
        "length-hacking", ("length-off-baseline",)),
    Drawn("the form is all there is to learn from", FORM_ALONE,
        "task-too-hard", ("signal-from-shaping-only", "reward-plateaued")),
    Drawn("empty shells differ in their form", EMPTY_SHELLS + """
        signal/shaping-only-share: ramp 0.1 to 0.7 over 140 then hold 0.7 for 60, noise 0.04
        signal/zero-variance-share: hold 0.1 for 200, noise 0.03""",
        "format-hacking", ("signal-from-shaping-only",)),
    Drawn("the form is how it is hacked", EMPTY_SHELLS.replace("format 1", "format 6") + """
        eval/score/mean: ramp 0.3 to 0.5 over 80 then ramp 0.5 to 0.1 over 120, noise 0.02, every 4""",
        "reward-hacking", ("format-hacking",)),
    Drawn("who does not move prefers nothing", STILL + "kl/reference: hold 0.0004 for 250, noise 0.0001",
        "policy-does-not-move", ("signal-not-declining", "entropy-not-falling", "reward-never-rises")),
    Drawn("who is held prefers nothing", STILL + """
        config knob kl-coef 0.5
        kl/reference: hold 0.0015 for 250, noise 0.0001""",
        "kl-pinned-near-zero", ("signal-not-declining", "entropy-not-falling")),
    Drawn("nothing is learnt, and so nothing preferred", STILL,
        "reward-never-rises", ("signal-not-declining", "entropy-not-falling")),
    Drawn("the far policy has far ratios", DRIFTS_AND_LOSES + """
        config updates_per_rollout 8
        importance-weight/mean: hold 1 for 80 then ramp 1 to 1.5 over 80, noise 0.01
        ratio/mean: hold 1 for 80 then ramp 1 to 1.6 over 80, noise 0.01
        clip/fraction/total: hold 0.01 for 80 then ramp 0.01 to 0.3 over 80, noise 0.005""",
        "kl-rises-while-reward-falls",
        ("importance-weight-off-one", "ratio-far-from-one", "clip-fraction-high", "clip-fraction-growing")),
    Drawn("old weights in the sampler are off in every way", LEFT_BEHIND + """
        behaviour-weight/mean: ramp 1 to 0.5 over 100 then hold 0.5 for 100, noise 0.03
        importance-weight/mean: ramp 1.0 to 1.4 over 200, noise 0.01""",
        "weights-never-synced",
        ("engine-mismatch", "behaviour-weight-off-one", "importance-weight-off-one")),
    Drawn("two engines, two weights", """
        engine/logprob-gap/mean: hold 0.08 for 80, noise 0.005
        engine/logprob-gap/max: hold 2 for 80, noise 0.2
        behaviour-weight/mean: hold 0.6 for 80, noise 0.03
        behaviour-weight/min: hold 0 for 80""",
        "engine-mismatch", ("behaviour-weight-off-one",)),
    Drawn("a bound on KL, where KL is the finding", DRIFTS_FOR_NOTHING + "config budget kl/reference most 0.1",
        "kl-rises-without-reward", ("kl-over-budget",)),
    Drawn("a bound on KL, where the policy collapses", COLLAPSE + "config budget kl/reference most 0.5",
        "policy-collapse", ("kl-over-budget",)),
    Drawn("a bound on length, where length is hacked", PADDED + "config budget length/mean most 300",
        "length-hacking", ("metric-over-budget",)),
    Drawn("a bound on entropy, where one answer is left", ONE_ANSWER + "config budget entropy/mean least 0.2",
        "mode-collapse", ("metric-over-budget",)),
    Drawn("nobody is right: all groups are tied", """
        config weight correct 1
        reward/component/correct/mean: hold 0.04 for 100, noise 0.01, binary
        reward/mean: weighted sum
        signal/zero-variance-share: hold 0.92 for 100, noise 0.02""",
        "signal-collapsed-unsolved", ("few-groups-carry-signal",)),
    Drawn("certain of everything, alike in everything", """
        config weight correct 1
        entropy/mean: ramp 1 to 0.1 over 110 then hold 0.1 for 60, noise 0.01
        reward/component/correct/mean: hold 0.4 for 170, noise 0.03, binary
        reward/mean: weighted sum
        text/duplicate-share/across-prompts: ramp 0.02 to 0.8 over 130 then hold 0.8 for 40, noise 0.02""",
        "entropy-collapsing", ("outputs-duplicated",)),
    Drawn("no gradient, no move", """
        signal/zero-variance-share: hold 0.3 for 160, noise 0.04
        gradient/norm: hold 0 for 160
        kl/reference: hold 0 for 160
        reward/mean: hold 0.3 for 160, noise 0.04""",
        "gradient-zero-despite-signal", ("policy-does-not-move", "reward-never-rises")),
    Drawn("learnt by heart", """
        config algorithm dpo
        preference/margin: ramp 0 to 20 over 200, noise 0.3
        preference/chosen-reward: ramp 0 to 12 over 200, noise 0.3
        preference/accuracy: ramp 0.6 to 1.0 over 30 then hold 1.0 for 170""",
        "margin-grows-without-bound", ("chosen-reward-grows-without-bound",)),
    Drawn("another reference has its price at once", """
        config knob kl-coef 0.03
        kl/reference/sequence: hold 10 for 100, noise 0.3
        reward/kl-penalty/mean: hold -0.3 for 100, noise 0.009
        reward/mean: hold 0.1 for 100, noise 0.02""",
        "kl-nonzero-at-start", ("kl-penalty-outweighs-reward",)),
)  # fmt: skip

BESIDE = (
    Drawn("one answer to everything does not break a decoder", ONE_ANSWER + """
        text/garbled-share: ramp 0.01 to 0.6 over 110 then hold 0.6 for 60, noise 0.01""",
        "mode-collapse", on_top=("outputs-garbled",)),
    Drawn("text that was broken long before", COLLAPSE.replace("80 then", "180 then") + """
        text/garbled-share: ramp 0.01 to 0.6 over 60 then hold 0.6 for 220, noise 0.01""",
        "policy-collapse", on_top=("outputs-garbled",)),
    Drawn("longer, although being cut costs", PADDED + """
        reward/truncated-gap/within-group: hold -0.3 for 200, noise 0.08
        reward/truncated-gap/se: hold 0.08 for 200, noise 0.005
        length/truncated-share: ramp 0.05 to 0.8 over 200, noise 0.02
        reward/std/within-group: hold 0.3 for 200, noise 0.01""",
        "length-hacking", on_top=("truncation-biases-reward",)),
    Drawn("longer than at first, shorter than before RL", PADDED + "config baseline length/mean 900 80",
        "length-hacking", on_top=("length-off-baseline",)),
    Drawn("with one update no drift moves the weight", DRIFTS_AND_LOSES + """
        config updates_per_rollout 1
        importance-weight/mean: hold 1.05 for 160, noise 0.01""",
        "kl-rises-while-reward-falls", on_top=("importance-weight-off-one",)),
    Drawn("weights that were off from the start", DRIFTS_AND_LOSES.replace("over 80 then", "over 180 then") + """
        config updates_per_rollout 8
        importance-weight/mean: hold 1.3 for 260, noise 0.01""",
        "kl-rises-while-reward-falls", on_top=("importance-weight-off-one",)),
    Drawn("what was lost elsewhere is told for itself", DRIFTS_FOR_NOTHING + """
        eval/score/mean: hold 0.4 for 200, noise 0.01, every 10
        eval/set/code/mean: hold 0.5 for 80 then ramp 0.5 to 0.3 over 120, noise 0.01, every 10""",
        "kl-rises-without-reward", on_top=("capability-lost",)),
    Drawn("also where the policy collapses", COLLAPSE + """
        eval/set/code/mean: hold 0.5 for 80 then ramp 0.5 to 0.1 over 100, noise 0.01, every 10""",
        "policy-collapse", on_top=("capability-lost",)),
    Drawn("a bound on what the cause does not speak of", PADDED + """
        config budget entropy/mean least 0.5
        entropy/mean: hold 0.4 for 200, noise 0.02""",
        "length-hacking", on_top=("metric-over-budget",)),
    Drawn("a bound is graver than what only tells of growth", """
        config budget length/mean most 300
        length/mean: ramp 200 to 480 over 200, noise 10
        reward/mean: ramp 0.3 to 0.8 over 200, noise 0.03
        eval/score/mean: ramp 0.3 to 0.8 over 200, noise 0.02""",
        "metric-over-budget", on_top=("metric-over-budget",)),
    Drawn("a hack, and an engine of its own mind", PADDED + """
        engine/logprob-gap/mean: hold 0.08 for 200, noise 0.005
        engine/logprob-gap/max: hold 2 for 200, noise 0.2""",
        "length-hacking", on_top=("engine-mismatch",)),
    Drawn("a stale sampler and a critic that diverges", LEFT_BEHIND + """
        loss/value: ramp 0.1 to 1.2 over 200, noise 0.02""",
        "weights-never-synced", on_top=("value-loss-diverging",)),
)  # fmt: skip


def told(drawn: Drawn, seed: int) -> dict[str, set[str]]:
    """Findings on top, each with what is beneath it."""
    lines = tuple(line.strip() for line in drawn.run.splitlines() if line.strip())
    made = judge(draw(Case(Path("folding"), drawn.title, RULES[0], "", lines, ()), seed), replay=False)
    assert made is not None
    assert not made.broken
    return {i.rule.name: {s.rule.name for s in i.symptoms} for i in made.incidents}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("drawn", FOLDED, ids=lambda d: d.title)
def test_the_cause_stands_above_its_symptoms(drawn: Drawn, seed: int) -> None:
    top = told(drawn, seed)
    assert drawn.cause in top
    assert set(drawn.beneath) <= top[drawn.cause]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("drawn", BESIDE, ids=lambda d: d.title)
def test_what_a_cause_does_not_explain_stands_beside_it(drawn: Drawn, seed: int) -> None:
    assert {drawn.cause, *drawn.on_top} <= set(told(drawn, seed))


# the engine's own conditions


def found(
    name: str, explains: tuple[str, ...] = (), *signs: Sign, severity: Severity = Severity.WARNING, since: int = 50,
    until: int | None = None, bound: bool = False, pedantic: bool = False, metric: str = "kl/reference",
) -> Incident:  # fmt: skip
    def function() -> Iterator[Sign]:
        yield from ()

    made = rule("ZZ101", name, severity, explains=explains, bound=bound, pedantic=pedantic)(function)
    return Incident(made, since, None, until, Fires((Evidence("said", (metric,)), *signs)), 200)


def stand(*incidents: Incident) -> dict[str, list[str]]:
    steps = np.arange(1, 201, dtype=np.int64)
    top = fold(list(incidents), Run("run", "trl", "grpo", MappingProxyType({}), steps), 200)
    return {i.rule.name: [s.rule.name for s in i.symptoms] for i in top}


def test_what_a_symptom_explains_goes_along() -> None:
    for turn in (1, -1):
        chain = found("cause", ("link",)), found("link", ("end",), severity=Severity.INFO), found("end", severity=Severity.INFO)
        assert stand(*chain[::turn]) == {"cause": ["link", "end"]}


def test_nothing_grave_goes_along_at_second_hand() -> None:
    grave = found("end", severity=Severity.CRITICAL)
    assert stand(found("cause", ("link",)), found("link", ("end",)), grave) == {"cause": ["link"], "end": []}
    assert stand(found("cause", ("end",)), grave) == {"cause": ["end"]}, "but at first hand"


def test_each_link_has_to_come_first() -> None:
    late = found("cause", ("link",), since=60), found("link", ("end",), since=140), found("end", since=80)
    assert stand(*late) == {"cause": ["link"], "end": []}


def test_a_finding_says_whose_symptom_it_is_not() -> None:
    apart = found("symptom", (), Apart("cause", "the other way"))
    assert stand(found("cause", ("symptom",)), apart) == {"cause": [], "symptom": []}
    assert stand(found("other", ("symptom",)), apart) == {"other": ["symptom"]}
    assert stand(found("cause", ("link",)), found("link", ("symptom",)), apart) == {"cause": ["link"], "symptom": []}
    assert not apart.excluded


def test_a_bound_of_the_users_own_goes_beneath_what_is_as_grave_and_speaks_of_the_same() -> None:
    bound = found("bound", bound=True)
    assert stand(found("cause", ("bound",)), bound) == {"cause": ["bound"]}
    assert set(stand(found("cause", ("bound",), severity=Severity.INFO), bound)) == {"cause", "bound"}
    assert set(stand(found("cause", ("bound",), metric="length/mean"), bound)) == {"cause", "bound"}


def test_a_detail_hides_nothing() -> None:
    detail = found("cause", ("symptom",), pedantic=True)
    assert set(stand(detail, found("symptom"))) == {"cause", "symptom"}
    assert set(stand(found("cause", ("symptom",), Aside("a detail")), found("symptom"))) == {"cause", "symptom"}
    assert stand(detail, found("symptom", pedantic=True)) == {"cause": ["symptom"]}


def test_what_has_passed_explains_what_has_passed() -> None:
    cause = found("cause", ("symptom",), until=120)
    assert stand(cause, found("symptom", until=150)) == {"cause": ["symptom"]}
    assert set(stand(cause, found("symptom"))) == {"cause", "symptom"}
    assert set(stand(cause, found("symptom", since=130, until=150))) == {"cause", "symptom"}, "begun after it"
    assert set(stand(found("cause", ("symptom",), since=110, until=150), found("symptom", since=20, until=150))) == {"cause", "symptom"}


# the table


def test_explanations_name_rules_and_never_themselves() -> None:
    names = {r.name for r in RULES}
    for one in RULES:
        assert set(one.explains) <= names - {one.name}, one.name
        assert len(set(one.explains)) == len(one.explains), one.name


def test_what_stands_for_itself_is_no_symptom_of_anything() -> None:
    symptoms = {name for r in RULES for name in r.explains}
    assert not symptoms & {"capability-lost", "non-finite", "weights-never-synced", "metric-contradicts-samples"}


def test_a_pedantic_rule_hides_no_finding_of_the_default_audience() -> None:
    table = {r.name: r for r in RULES}
    for one in RULES:
        if one.pedantic:
            assert all(table[name].pedantic for name in one.explains), one.name
