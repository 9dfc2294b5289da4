"""What must be heard of each excerpt: every phrase of its two lists, translated by hand.

A phrase becomes a check on a diagnosis: a finding, a note, an unknown check, a sentence. What was measured
is never written here, it is taken from the run that was read. Where a phrase does not hold
today, `known` says why, and the test expects the failure: mending it means taking the mark away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from vario.rules.base import number
from vario.run import Run
from vario.verdict import Diagnosis, Finding


@dataclass(frozen=True)
class Arm:
    """One run of an excerpt, and what vario says of it; `error` alone where it could not be read."""

    run: Run | None = None
    diagnosis: Diagnosis | None = None
    error: str = ""

    def findings(self, *, symptoms: bool = True) -> list[Finding]:
        assert self.diagnosis is not None
        top = list(self.diagnosis.findings)
        return top + [s for f in top for s in f.symptoms] if symptoms else top

    def sentences(self) -> list[str]:
        """All that is put to the reader in words; names of checks that could not run are none of it."""
        assert self.diagnosis is not None and self.run is not None
        verdict = self.diagnosis.verdict
        said = [*re.split(r"(?<=[.;]) ", verdict.narrative), verdict.why, *verdict.would_change_it, *self.run.warnings]
        for finding in self.findings():
            said += [f"{finding.name}: {finding.summary}", *finding.evidence, *finding.excluded, *finding.causes]
            said += [f"{c.key or c.knob}: {c.why}" for c in finding.changes]
        said += [f"{note.name}: {note.text}" for note in self.diagnosis.notes]
        said += [f"{key}: {why}" for key, why in (*self.run.unsettled.items(), *self.run.ignored.items())]
        return said


Test = Callable[[Arm], bool]


@dataclass(frozen=True)
class Check:
    """A question to one arm; an arm that could not be read answers no."""

    test: Test
    text: str
    arm: str | None = None

    def __call__(self, arm: Arm) -> bool:
        return arm.diagnosis is not None and self.test(arm)

    def __and__(self, other: Check) -> Check:
        return Check(lambda a: self(a) and other(a), f"({self.text} and {other.text})", self.arm)

    def __or__(self, other: Check) -> Check:
        return Check(lambda a: self(a) or other(a), f"({self.text} or {other.text})", self.arm)

    def of(self, arm: str) -> Check:
        """Asked of this arm alone."""
        return Check(self.test, f"{self.text} of {arm!r}", arm)


@dataclass(frozen=True)
class Item:
    """A phrase as a check. What must be said may be said of any arm; what must not, of none."""

    check: Check
    known: str = ""

    def holds(self, arms: Mapping[str, Arm], *, everywhere: bool) -> bool:
        held = [self.check(a) for name, a in arms.items() if self.check.arm in (None, name)]
        return bool(held) and (all(held) if everywhere else any(held))


# the questions

Since = Callable[[Run], int | None]


def from_the_start(run: Run) -> int | None:
    return run.first_step


def constant_reward(run: Run) -> int | None:
    """The first step of the stretch to the end in which the reward is one number."""
    reward = run.series["reward/mean"]
    stretch = [s for s, v in zip(reward.steps.tolist(), reward.values.tolist(), strict=True) if v != reward.values[-1]]
    return next((int(s) for s in reward.steps if not stretch or s > stretch[-1]), None)


def finding(*names: str, evidence: str = "", top: bool = False, since: Since | None = None) -> Check:
    """A finding of one of these names, as a symptom too unless `top`."""

    def test(arm: Arm) -> bool:
        return any(
            f.name in names
            and (not evidence or any(re.search(evidence, e) for e in f.evidence))
            and (since is None or f.since == since(arm.run))
            for f in arm.findings(symptoms=not top)
        )

    return Check(test, f"finding {' / '.join(names)} {evidence}".strip())


def absent(*names: str, top: bool = False) -> Check:
    """No finding of these names; with `top`, none that stands for itself."""
    return Check(
        lambda a: not {f.name for f in a.findings(symptoms=not top)} & set(names), f"no finding {' / '.join(names)}"
    )


def quiet() -> Check:
    """Nothing at warning or above for the default audience."""
    return Check(
        lambda a: not [f for f in a.findings() if f.audience == "default" and f.severity != "info"], "no warning"
    )


def note(name: str, text: str = "") -> Check:
    return Check(
        lambda a: any(n.name == name and re.search(text, n.text) for n in a.diagnosis.notes), f"note {name} {text}"
    )


def no_note(*names: str) -> Check:
    return Check(lambda a: not {n.name for n in a.diagnosis.notes} & set(names), f"no note {' / '.join(names)}")


def _within(pattern: str) -> re.Pattern[str]:
    """`…` in a pattern is any text inside one clause; the point of a number ends none."""
    return re.compile(pattern.replace("…", r"(?:[^.;]|(?<=\d)\.(?=\d))*"), re.I)


def words(pattern: str) -> Check:
    """A sentence that matches, whatever says it."""
    wanted = _within(pattern)
    return Check(lambda a: any(wanted.search(s) for s in a.sentences()), f"a sentence like {pattern!r}")


def silent(pattern: str) -> Check:
    unwanted = _within(pattern)
    return Check(lambda a: not any(unwanted.search(s) for s in a.sentences()), f"no sentence like {pattern!r}")


def unknown(name: str, missing: str, enable: str) -> Check:
    """A check that could not run, the metric that it lacks, and where that would come from."""
    return Check(
        lambda a: any(
            u.name == name and missing in u.missing and re.search(enable, u.enable) for u in a.diagnosis.unknown
        ),
        f"unknown {name} for want of {missing}, {enable!r} named",
    )


def reads(metric: str) -> Check:
    return Check(lambda a: metric in a.run.series, f"{metric} read")


def unread_or_zero(metric: str) -> Check:
    return Check(
        lambda a: metric not in a.run.series or not a.run.series[metric].finite()[1].any(), f"{metric} absent or 0"
    )


def trajectory(*names: str) -> Check:
    return Check(lambda a: a.diagnosis.verdict.trajectory in names, f"trajectory {' / '.join(names)}")


def action(*names: str) -> Check:
    return Check(lambda a: a.diagnosis.verdict.action in names, f"action {' / '.join(names)}")


def best_at_the_top(metric: str) -> Check:
    """The best checkpoint is where this metric is highest."""

    def test(arm: Arm) -> bool:
        series, best = arm.run.series.get(metric), arm.diagnosis.verdict.best_checkpoint
        return series is not None and best is not None and best.step == int(series.steps[series.values.argmax()])

    return Check(test, f"best checkpoint at the top of {metric}")


def change(knob: str) -> Check:
    """A knob to turn, under the framework's own key."""
    return Check(
        lambda a: any(c.knob == knob and c.key for f in a.findings() for c in f.changes), f"a change of {knob}"
    )


def moves(metric: str, way: str) -> Check:
    """A sentence with the first and the last value of a metric, which went that way."""

    def test(arm: Arm) -> bool:
        series = arm.run.series.get(metric)
        if series is None or series.finite()[1].size < 2:
            return False
        values = series.finite()[1]
        if (values[-1] > values[0]) != (way == "up"):
            return False
        names = [metric, series.key, *metric.split("/")[2:3]]
        wanted = re.compile(rf"{re.escape(number(float(values[0])))}\b.*{re.escape(number(float(values[-1])))}\b")
        return any(wanted.search(s) and any(n in s for n in names) for s in arm.sentences())

    return Check(test, f"{metric} said to go {way}")


# the excerpts

FEW = "one to five rows, and nothing is said of a state that holds in each of them"
UNTOLD = "a short run: what moved from the first row to the last is not told"
ONE_IS_ENOUGH = "the note waits for ten rows, though one proves its condition"
ALGEBRA = "reward_std 0 and frac_reward_zero_std 1 mean the same in every version, and are left unsettled"
PROSE = "the excerpt gives no logged series that would show it"

_ACTOR = "actor_rollout_ref.actor."
SPELT: dict[str, dict[str, str]] = {
    # what an excerpt calls otherwise than the framework logs or configures it
    "T20": {"kl_loss_coef": f"{_ACTOR}kl_loss_coef"},
    "T25": {"actor_lr": f"{_ACTOR}optim.lr", "kl_coef": f"{_ACTOR}kl_loss_coef"},
    "T27": {"kl_coef": f"{_ACTOR}kl_loss_coef"},
    "T29": {"gen_kl_error": "train/gen_kl_error", "val_accuracy": "validation/accuracy", "reward": "train/reward"},
    "T30": {"sequence_level_importance_ratios": "loss_fn.sequence_level_importance_ratios"},
    "T36": {"ratio_mean": "sampling/importance_sampling_ratio/mean"},
}
SETTINGS: dict[str, dict[str, object]] = {
    # what the context states exactly, as the framework's own argument
    **{name: {"rlhf_type": "grpo"} for name in ("T15", "T17", "T19")},
    "T16": {"rlhf_type": "grpo", "swift_version": "3.8.1"},
}


@dataclass(frozen=True)
class Expected:
    """Both lists of an excerpt, phrase by phrase."""

    say: Mapping[str, Item]
    unsaid: Mapping[str, Item] = field(default_factory=dict)


_TIED = words(r"(every|all|100 %)…groups?…(tied|same reward|no spread|equal)") | finding(
    "signal-collapsed-unsolved", "signal-collapsed-solved"
)
_CUT = finding("truncation-never-ends", "truncation-high") | words(r"(\d %|every|all)…completions?… (cut|truncated)")
_BROKEN_PATH = finding("gradient-zero-despite-signal") | words(
    r"gradient…exactly 0…(while|although|though|yet)…(groups?|spread)"
)
_NO_SIGNAL_FAULT = absent("signal-collapsed-unsolved", "signal-collapsed-solved", "reward-constant", "task-too-hard")
_UNJUDGED = trajectory("too-short") & action("cannot-tell")

ENTRIES: dict[str, Expected] = {
    "T02": Expected(
        {
            "zero within-group variance": Item(_TIED),
            "rewards/<f>/std is batch-wide": Item(
                words(r"(/std|component|reward function)…(batch-wide|over the (whole )?batch|between (the )?prompts)"),
            ),
        },
        {
            "healthy reward variance": Item(
                silent(r"(variance|spread)…(healthy|fine|normal)")
                & unread_or_zero("reward/std/within-group")
                & reads("reward/component/if_rewrite_reward/std")
            )
        },
    ),
    "T03": Expected(
        {
            "format hacking / component trade-off": Item(
                finding("component-falls-while-total-rises", "format-hacking")
                | (
                    moves("reward/component/format_reward/mean", "up")
                    & moves("reward/component/accuracy_reward/mean", "down")
                ),
            ),
            "accuracy falling": Item(moves("reward/component/accuracy_reward/mean", "down")),
            "length halved": Item(moves("length/mean", "down")),
        },
        {
            "healthy: reward rising": Item(
                _UNJUDGED & silent(r"still rises|healthy") & no_note("components-learn-in-turn") & reads("reward/mean")
            )
        },
    ),
    "T04": Expected(
        {"start benign": Item(note("loss-zero-is-normal"))},
        {"alarm on the first three rows": Item(quiet() & action("cannot-tell") & reads("kl/reference"))},
    ),
    "T07": Expected(
        {
            "solved / saturated prompts": Item(
                finding("signal-collapsed-solved", "reward-saturated")
                | (_TIED & words(r"solved|saturated|at its (best|maximum|ceiling)")),
            )
        },
        {
            "bug in gradient": Item(
                absent("gradient-zero-despite-signal", "gradient-vanished")
                & silent(r"\bbug\b")
                & reads("gradient/norm")
            )
        },
    ),
    "T09": Expected(
        {
            "truncation is the root cause, zero advantage the consequence": Item(
                _CUT & absent("signal-collapsed-unsolved", "reward-constant", "reward-never-rises", top=True)
            ),
            "raise max_completion_length (512 fixed it)": Item(
                change("max-completion-length") | words(r"(longer|raise|larger)…(cap|max_completion_length)")
            ),
        },
        {
            "task too hard": Item(
                absent("task-too-hard") & silent(r"too hard|beyond the model") & reads("length/truncated-share")
            ),
            "parser bug first": Item(
                absent("reward-function-broke", "reward-constant", top=True) & silent(r"\bpars(er|ed?|ing)\b")
            ),
        },
    ),
    "T10": Expected(
        {
            "truncation": Item(
                finding("truncation-never-ends", evidence=r"100 % of completions are cut", since=from_the_start)
            )
        },
        {
            "reward trend conclusions": Item(
                trajectory("too-short")
                & silent(r"the score (is|rose|falls|still rises|stands|has never)|reward/mean")
                & absent("reward-never-rises", "reward-constant", "reward-is-noise")
            )
        },
    ),
    "T13": Expected({"truncation": Item(_CUT)}),
    "T14": Expected(
        {
            "NaN KL from the first step": Item(
                finding("non-finite", evidence=r"^kl/reference is not finite.*first at step 1$", top=True)
            ),
            "entropy exactly 0 is impossible for sampling at T>0": Item(words(r"entropy…exactly 0")),
            "truncation .5+": Item(_CUT),
        },
        {
            "entropy collapse (gradual)": Item(
                absent("entropy-collapsing", "mode-collapse", "policy-collapse")
                & silent(r"entropy…(collaps|fell|falls)")
                & reads("length/mean")
            )
        },
    ),
    "T15": Expected(
        {
            "learning rate too high": Item(
                words(r"learning.rate…(too (high|large)|lower)") | change("learning-rate"),
                "an absolute bound on KL (kl-over-budget) is not there yet; below it two rows prove nothing of a rate",
            ),
            "KL jump": Item(finding("kl-spike", "kl-runaway", "kl-over-budget") | moves("kl/reference", "up")),
        },
        {
            "benign loss growth": Item(
                no_note("loss-rises-while-learning", "loss-trend-is-not-progress", "loss-zero-is-normal")
                & reads("loss/total")
            )
        },
    ),
    "T16": Expected(
        {
            "no-gradient bug": Item(_BROKEN_PATH.of("")),
            "clipped_ratio contradicts max_length (metric suspect)": Item(
                (
                    finding("metric-contradicts-samples")
                    | words(r"(clipped_ratio|truncated-share|cut)…(although|though|while|but)…longest")
                ).of("after upgrade"),
            ),
        },
        {
            "zero advantage": Item((_NO_SIGNAL_FAULT & reads("signal/zero-variance-share")).of("")),
            "loss 0 benign": Item((no_note("loss-zero-is-normal") & reads("loss/total")).of("")),
        },
    ),
    "T17": Expected(
        {"no-gradient bug": Item(_BROKEN_PATH)},
        {
            "zero advantage": Item(_NO_SIGNAL_FAULT & reads("signal/zero-variance-share")),
            "benign": Item(no_note("loss-zero-is-normal", "kl-zero-at-start") & silent(r"healthy|is normal")),
        },
    ),
    "T19": Expected(
        {
            "benign": Item(
                note("loss-trend-is-not-progress", r"negative") | words(r"negative…(normal|no measure)"),
            )
        },
        {
            "loss negative is a bug": Item(
                quiet() & absent("loss-discontinuity", "policy-loss-changed-sign") & reads("loss/total")
            )
        },
    ),
    "T20": Expected(
        {
            "NaN: stop, restore last finite checkpoint": Item(
                finding("non-finite", evidence="gradient/norm is not finite", top=True)
                & action("stop")
                & words(r"(restore|back to)…(checkpoint|step)"),
            )
        },
        {
            "entropy collapse": Item(
                absent("entropy-collapsing", "mode-collapse", "policy-collapse") & reads("entropy/mean")
            )
        },
    ),
    "T21": Expected(
        {
            "NaN first": Item(finding("non-finite", evidence="gradient/norm is not finite", top=True) & action("stop")),
            "token-in-token-out for multi-turn": Item(
                words(r"token ids?…(turn|again|text)|token.in.token.out"),
            ),
        },
        {
            "truncation as root cause": Item(
                absent("truncation-high", "truncation-never-ends", top=True) & reads("length/truncated-share")
            ),
            "reward_zero/parser": Item(
                absent("reward-constant", "reward-missing", "reward-function-broke", top=True)
                & silent(r"\bpars(er|ed?|ing)\b")
                & reads("reward/mean")
            ),
        },
    ),
    "T25": Expected(
        {
            "updates healthy": Item(
                words(r"(updates?|clip)…(small|healthy|within|hardly)"),
                "no note says of clipped share, update KL and gradient together that they are small",
            ),
            "look at response_length/clip_ratio": Item(
                unknown("truncation-high", "length/truncated-share", r"response_length/clip_ratio"),
            ),
        },
        {"policy unstable": Item(quiet() & action("cannot-tell") & reads("clip/fraction/total"))},
    ),
    "T27": Expected(
        {
            "batch too small": Item(words(r"batch…(small|few completions)"), PROSE),
            "mean@1 validation is noisy": Item(
                words(r"one (answer|sample|completion) (a|per) prompt|noisy|error bars?"),
                "how many answers a held-out score averages is in its key, and not used",
            ),
        }
    ),
    "T28": Expected(
        {
            "generation-bound": Item(
                finding("rollout-dominates-step", evidence=r"generation takes 72 %"),
            )
        }
    ),
    "T29": Expected(
        {
            "mismatch present": Item(finding("engine-mismatch", evidence=r"divergence")),
            "training still converged": Item(
                words(r"(score|accuracy|reward)…(all the same|nevertheless|still|converged|solved)"),
            ),
        },
        {"stop the run": Item(action("continue", "intervene", "cannot-tell") & reads("eval/score/mean"))},
    ),
    "T30": Expected(
        {
            "IS weight vanishes by length; use geometric mean": Item(
                words(r"geometric|length-normalised|token-level weights?"),
            )
        },
        {
            "zero advantage": Item(_NO_SIGNAL_FAULT & reads("gradient/norm")),
            "stale weights": Item(
                absent("rollouts-too-stale", "weights-never-synced")
                & silent(r"\bstale|staleness")
                & reads("behaviour-weight/mean")
            ),
        },
    ),
    "T31": Expected(
        {
            "engine-specific drift": Item(
                (finding("engine-mismatch") | moves("engine/logprob-gap/mean", "up")).of("sglang"),
            )
        },
        {"policy collapse": Item(absent("policy-collapse", "mode-collapse", "entropy-collapsing") & quiet())},
    ),
    "T33": Expected(
        {
            "saturated; stop or harder data": Item(
                words(r"(saturated|solved|ceiling)") & words(r"harder (data|prompts)"),
                "the log is not read; what prime-rl's orchestrator prints of zero advantages would not be either",
            )
        },
        {
            "gibberish alarm at 1-2 of 128": Item(
                absent("outputs-garbled") & silent(r"gibberish|garbled") & reads("reward/mean"), "the log is not read"
            )
        },
    ),
    "T35": Expected(
        {
            "best checkpoint = peak": Item(
                best_at_the_top("eval/score/mean"), "three values told in prose: a best step needs four"
            ),
            "repeat the seed": Item(
                words(r"\bseeds?\b|rerun|run it again"), "no verdict asks for a second seed before it blames a knob"
            ),
        },
        {
            "staleness caused it": Item(
                absent("rollouts-too-stale") & silent(r"\bstale|staleness") & reads("eval/score/mean")
            )
        },
    ),
    "T36": Expected(
        {
            "top_p/top_k bias": Item(
                words(r"top[-_]?[pk]\b").of("top_p .8 + top_k 1024"),
                "top_p and top_k are no knobs, and a weight at the kept mass is not told from a mismatch",
            )
        },
        {"stale weights": Item(absent("rollouts-too-stale", "weights-never-synced") & silent(r"\bstale|staleness"))},
    ),
    "T37": Expected(
        {
            "first-minibatch ratio is the invariant": Item(
                words(r"first (mini-?batch|update)…\b(1|one)\b"), "no metric holds the ratio by minibatch"
            )
        },
        {
            "ratio 1.035 is a bug": Item(
                absent("ratio-far-from-one", "importance-weight-off-one") & quiet() & reads("ratio/mean")
            )
        },
    ),
    "T42": Expected(
        {
            "benign part: both negative with margin growing": Item(
                note("preference-both-fall-margin-rises") | moves("eval/preference/margin", "up")
            ),
            "lr far above usual DPO values": Item(
                words(r"learning.rate…(above|usual|default)"), "a configured rate is set against no usual one"
            ),
        },
        {
            "degenerate (from the sign alone)": Item(
                quiet() & absent("chosen-reward-falls", "rewards-converge") & reads("preference/chosen-reward")
            ),
            "healthy without looking at lr": Item(
                action("cannot-tell", "intervene") & silent(r"healthy|\bfine\b") & reads("preference/margin")
            ),
        },
    ),
    "T43": Expected(
        {
            "eval worse than chance": Item(
                words(r"(held-out|eval)…(chance|coin|wrong|below 0)"),
            )
        },
        {"learning": Item(_UNJUDGED & no_note("preference-both-fall-margin-rises") & reads("preference/margin"))},
    ),
    "T44": Expected(
        {
            "no learning in DPO: compare with ln 2 = .693": Item(
                words(r"ln ?2|0\.693"),
            )
        },
        {"healthy": Item(_UNJUDGED & silent(r"healthy|\bfine\b") & reads("preference/margin"))},
    ),
    "T45": Expected(
        {
            "saturated": Item(
                finding("preference-saturated") | words(r"saturated"),
                "a few rows, and no sentence on what holds in each of them speaks of a margin",
            ),
            "chosen falling": Item(
                finding("chosen-reward-falls") | moves("preference/chosen-reward", "down"),
            ),
        },
        {
            "converged well": Item(
                action("cannot-tell", "intervene", "stop") & silent(r"converged|healthy") & reads("loss/total"),
            )
        },
    ),
    "T46": Expected(
        {
            "metric-only NaN": Item(
                finding("non-finite") & words(r"gradient…(finite|is not)…(same|these|each|all)"),
            ),
            "batch larger / class balance": Item(
                words(r"(empty|one|missing) class|class(es)?…batch|batch…class"),
            ),
        },
        {
            "training dead": Item(
                action("continue", "intervene", "cannot-tell") & reads("loss/total") & reads("gradient/norm"),
            )
        },
    ),
    "T49": Expected(
        {
            "identical completions, zero advantage": Item(
                finding("reward-constant", "signal-collapsed-unsolved", since=constant_reward),
            ),
            "stop": Item(
                action("stop") | (action("intervene") & words(r"nothing can be learnt")),
            ),
        },
        {"keep waiting": Item(action("stop", "intervene") & reads("reward/mean"))},
    ),
}
