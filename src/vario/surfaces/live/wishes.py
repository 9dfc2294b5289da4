"""What the user wishes of a watch: `[watch]`, `[alerts]` and `[act]` of the project file, and what a program or an option says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from vario.errors import ConfigError
from vario.project_file import Project, find_project
from vario.rules.choice import Choice, choose
from vario.run import Run
from vario.surfaces.live.actions import ActOptions, act_options
from vario.surfaces.live.watched import ReviewPlan
from vario.verdict.profile import read_baseline

EVERY = 2.0
"""Seconds between two looks at the files of a run: soon enough for people, seldom enough for a shared file system."""
NUMBERS = {"every": EVERY, "review-every": 200.0, "stalled-after": 0.0}
FLAGS = {"review-on-warning": True, "review-quote": True}
WORDS = ("state",)
NOT_HERE = (
    "{path}: {section} writes, sends or runs something, and the file lies beside the log, not where you stand; if you "
    "trust it, start vario in its folder"
)


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What `[watch]` says.

    Attributes:
        every: seconds between two looks at files.
        review: when completions should be read.
        stalled_after: seconds without a row; None: by the run's own pace.
        state: URL or path of the store; None: beside the run.
    """

    every: float = EVERY
    review: ReviewPlan = field(default_factory=ReviewPlan)
    stalled_after: float | None = None
    state: str | None = None


def watch_options(table: Mapping[str, object], where: str = "[watch]") -> WatchOptions:
    """The options of a table.

    Raises:
        ConfigError: an unknown word, or a value of the wrong kind.
    """
    known = (*NUMBERS, *FLAGS, *WORDS)
    for name in table:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise ConfigError(
                f"{where} knows no {name!r}; " + (f"{near[0]}?" if near else f"it knows {', '.join(known)}")
            )
    numbers = dict(NUMBERS)
    for name in NUMBERS:
        value = table.get(name, numbers[name])
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < 1e9:
            raise ConfigError(f"{where} {name} is a number of 0 or more, not {value!r}")
        numbers[name] = float(value)
    flags = {name: table.get(name, default) for name, default in FLAGS.items()}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise ConfigError(f"{where} {name} is true or false, not {flag!r}")
    words = {name: table.get(name) for name in WORDS}
    for name, value in words.items():
        if value is not None and (not isinstance(value, str) or not value):
            raise ConfigError(f"{where} {name} is a text, not {value!r}")
    return WatchOptions(
        max(numbers["every"], 0.1),
        ReviewPlan(int(numbers["review-every"]), bool(flags["review-on-warning"]), bool(flags["review-quote"])),
        numbers["stalled-after"] or None,
        None if words["state"] is None else str(words["state"]),
    )


@dataclass(frozen=True, slots=True)
class LiveWishes:
    """Everything that decides how runs are watched; `alerts` is read by the alerts themselves."""

    watch: WatchOptions = field(default_factory=WatchOptions)
    alerts: Mapping[str, object] = field(default_factory=dict)
    act: ActOptions = field(default_factory=ActOptions)

    @classmethod
    def of(
        cls,
        project: Project,
        *,
        watch: Mapping[str, object] | None = None,
        alerts: Mapping[str, object] | None = None,
        act: Mapping[str, object] | None = None,
    ) -> LiveWishes:
        """The project file's, with what a program says in the place of whole sections' entries.

        Raises:
            ConfigError: either says what cannot be; or the file lies beside somebody's log and would write, send or run something.
        """
        sent = {"[alerts]": project.alerts, "[act]": project.act, "[watch] state": project.watch.get("state")}
        for section, said in sent.items():
            if said and not project.here:
                raise ConfigError(NOT_HERE.format(path=project.path, section=section))
        return cls(
            watch_options({**project.watch, **(watch or {})}),
            {**project.alerts, **(alerts or {})},
            act_options({**project.act, **(act or {})}),
        )


def finish_of(place: str) -> tuple[Choice, Callable[[Run], Run]]:
    """Which rules are asked of the runs at a place, and what the nearest project file declares of them.

    Raises:
        ConfigError: the file says what cannot be.
    """
    project = find_project(place)
    choice = choose(
        only=project.only,
        without=project.without,
        load=project.load if project.here else (),
        suppress=project.suppress,
    )
    baseline = project.of_file("baseline")
    levels = read_baseline(Path(baseline)) if baseline else None
    return choice, lambda run: project.apply(run, baseline=levels)
