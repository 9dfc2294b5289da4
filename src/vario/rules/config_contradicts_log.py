"""DX103 config-contradicts-log."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Reading, Settings
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, number, percent, rule

LEAST = 20
ROWS = 3
PENALISED = 1e-6
"""Penalties below are rounding: a reference in another precision costs 1e-8 at a coefficient of 0.05."""
STEADY = 0.02
OFF = 0.2
RATE_OFF = 1.5
"""Tables print six decimals: 2.5e-6 reads 3e-6. Half as much again is no rounding of any printed rate."""
VISIBLE = 5e-4
"""A rate below it is printed as 0.000 by consoles with three decimals."""
TOKENS = 1.0
"""An end token may or may not be counted."""
CLIPPED = 0.005
"""Numerics of bf16 move a ratio by 0.03: past a bound of 0.2 they carry nothing."""


@rule(
    "DX103",
    "config-contradicts-log",
    Severity.WARNING,
    holds=2,
    causes=(
        "the configuration of another run lies beside the log",
        "a setting that the trainer does not read, or overrides",
        "a metric that is not what its name says in this version",
    ),
)
def config_contradicts_log(settings: Settings) -> Iterator[Sign]:
    """The configuration says one thing, the log another.

    What it shows:
        A setting and a curve that cannot both be true, however the log averages: a KL penalty at coefficient 0,
        or another coefficient than the one set; completions longer than the cap; advantages that a group of that
        size cannot have; a learning rate at another height; clipping with one update per rollout; a reward that
        adds up with other weights; no KL where it has a price.
    Why it matters:
        One of the two is not what was meant: the run is another one than its author thinks, and every reading
        that takes the configuration at its word is wrong with it.
    Evidence:
        For each contradiction the setting and what the log shows.
    Looks like it but is not:
        A framework's default that this run never stated; a schedule on its way to the peak; a learning rate that
        a console rounded away; extremes that a logger averaged, which only ever makes them smaller; several
        turns, whose lengths add up past a cap that holds for each.
    What to change:
        Find which of the two is wrong: print the configuration from inside the trainer.
    How sure:
        High for identities and bounds; medium for what is absent from a log or may come from the sampler.
    References:
        taxonomy of public threads, metric dictionary traps; huggingface/trl issue 5352
    """
    proven = [
        *_penalty(settings),
        *_cap(settings),
        *_group(settings),
        *_rate(settings),
        *_weights(settings),
    ]
    likely = [*_clipping(settings), *_silent_kl(settings)]
    if likely and not proven:
        yield Grave(Severity.INFO)
    yield from (*proven, *(likely if not proven else [s for s in likely if isinstance(s, Evidence)]))


def _penalty(settings: Settings) -> Iterator[Sign]:
    """A penalty is the coefficient times the divergence: at 0 there is none, and their quotient is the coefficient."""
    penalty = settings.find("reward/kl-penalty/mean", least=LEAST)
    beta, key = settings.number("kl-coef"), settings.key("kl-coef")
    if penalty is None or beta is None:
        return
    if beta == 0.0:
        if float(np.median(np.abs(penalty.values))) > PENALISED:
            yield Evidence(
                f"{key} is 0, yet {penalty.key} takes {number(abs(penalty.level))} off the reward",
                (penalty.name,),
                int(penalty.steps[0]),
            )
        return
    kl = settings.find("kl/reference/sequence", least=LEAST)
    if kl is None or kl.points != penalty.points or settings.find("kl/coefficient") is not None:
        return
    inside = kl.values > 0.05 * abs(kl.high)
    if int(inside.sum()) < LEAST:
        return
    quotient = -penalty.values[inside] / kl.values[inside]
    paid = float(np.median(quotient))
    steady = float(np.ptp(np.percentile(quotient, [10, 90]))) < STEADY * abs(paid)
    if steady and paid > 0.0 and abs(paid / beta - 1.0) > OFF:
        yield Evidence(
            f"{key} is {number(beta)}, yet {penalty.key} is {number(paid)} times {kl.key} at every step",
            (penalty.name, kl.name),
            int(penalty.steps[0]),
        )


def _cap(settings: Settings) -> Iterator[Sign]:
    cap, longest, turns = settings.declared.max_length, settings.find("length/max"), settings.find("turns/mean")
    if cap is None or longest is None or (turns is not None and turns.high > 1.0):
        return
    over = np.flatnonzero(longest.values > cap + TOKENS)
    if over.size >= ROWS:
        key = settings.key("max-completion-length")
        yield Evidence(
            f"{key} is {number(cap)}, yet {longest.key} reaches {number(float(longest.values.max()))} tokens",
            (longest.name,),
            int(longest.steps[over[0]]),
        )


def _group(settings: Settings) -> Iterator[Sign]:
    """One completion that is right among G has the largest advantage there is: (G - 1) / sqrt(G) standard deviations."""
    size, largest = settings.number("group-size"), settings.find("advantage/max/group-sds")
    if size is None or size < 2.0 or largest is None:
        return
    bound = (size - 1.0) / size**0.5
    over = np.flatnonzero(largest.values > 1.01 * bound)
    if over.size >= ROWS:
        yield Evidence(
            f"{settings.key('group-size')} is {number(size)}, yet {largest.key} reaches "
            f"{number(float(largest.values.max()))}, and a group of that size allows {number(bound)}",
            (largest.name,),
            int(largest.steps[over[0]]),
        )


def _rate(settings: Settings) -> Iterator[Sign]:
    """No schedule passes its peak; one that does not move has no way to reach it."""
    peak, rate = settings.number("learning-rate"), settings.find("learning-rate", least=LEAST)
    if peak is None or peak <= 0.0 or rate is None:
        return
    top = float(rate.values.max())
    above = top > RATE_OFF * peak
    below = rate.constant and top < peak / RATE_OFF and (top > 0.0 or peak > VISIBLE)
    if above or below:
        stays = "stays at" if rate.constant else "reaches"
        yield Evidence(
            f"{settings.key('learning-rate')} is {number(peak)}, yet {rate.key} {stays} {number(top)}",
            (rate.name,),
            int(rate.steps[int(np.argmax(rate.values))]),
        )


def _weights(settings: Settings) -> Iterator[Sign]:
    """The weights that the log proves, by an identity that holds at every step, against those that were set."""
    stated, proven = settings.numbers("component-weight"), settings.declared.component_weights
    found = sorted(proven.values())
    if not stated or len(stated) != len(found) or settings.find("reward/mean", least=LEAST) is None:
        return
    if max(abs(a - b) for a, b in zip(sorted(stated), found, strict=True)) <= 0.01 * max(map(abs, stated)):
        return
    said = ", ".join(number(w) for w in stated)
    shown = ", ".join(f"{number(w)} x {name}" for name, w in proven.items())
    yield Evidence(
        f"{settings.key('component-weight')} is [{said}], yet the logged reward is {shown} at every step",
        ("reward/mean",),
        int(_first(settings.find("reward/mean"))),
    )


def _clipping(settings: Settings) -> Iterator[Sign]:
    """With one update per rollout nothing has moved while the ratio is taken."""
    total = settings.find("clip/fraction/total", least=LEAST)
    if settings.declared.updates_per_rollout != 1.0 or total is None:
        return
    lag = settings.find("staleness/mean")
    if total.level <= CLIPPED or total.high <= CLIPPED or (lag is not None and lag.level > 0.0):
        return
    yield Evidence(
        f"the configuration makes one update per rollout, yet {percent(total.level)} of tokens are clipped",
        (total.name,),
        total.since_above(CLIPPED),
    )
    yield Doubt("old log-probabilities that come from the sampling engine clip as well")


def _silent_kl(settings: Settings) -> Iterator[Sign]:
    beta, clip = settings.number("kl-coef"), settings.find("clip/fraction/total", least=LEAST)
    if not beta or settings.declared.kl_by_design is not True or clip is None:
        return
    run = settings.look.history.run
    if any("kl" in key.lower() for key in (*run.unmapped, *run.unsettled, *run.ignored)):
        return
    if any(name.startswith("kl/") or name == "reward/kl-penalty/mean" for name in run.series):
        return
    yield Evidence(
        f"{settings.key('kl-coef')} is {number(beta)}, yet no KL is logged beside the other losses",
        (clip.name,),
        _first(clip),
    )
    yield Doubt("a log that was cut down to some of its keys looks the same")


def _first(reading: Reading | None) -> int:
    return 0 if reading is None else int(reading.steps[0])
