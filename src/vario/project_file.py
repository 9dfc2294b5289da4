"""What a user declares in `vario.toml`, or under `[tool.vario]` in `pyproject.toml`.

[map]                                   # canonical metric = "key in the log"
"reward/mean" = "my_reward"

[declare]                               # what is known of the run and not in its log
algorithm = "grpo"
reward-floor = 0.0
reward-ceiling = 1.0
target = 0.8                            # held-out score (or reward) at which you would stop
held-out = "eval/set/gsm8k/mean"        # which of several held-out sets is the trained task's
devices = 8                             # for GPU-hours
max-completion-length = 4096
baseline = "baseline.json"              # from `vario baseline`
reference = "runs/good"                 # a healthy run of the same recipe: its range is normal
test-run = "runs/on-test"               # the same recipe trained on the test set: can the reward rise at all?

[budgets]                               # bounds of your own, in the metric's unit or in a stated one
"kl/reference" = { most = 150, unit = "nats/sequence" }
"entropy/mean" = { least = 0.1 }
"length/truncated-share" = 0.3          # a number alone: at most

[rules]
only = ["KL", "reward-collapsed"]       # names, codes or families; all of them where it is absent
without = ["step-time-jumped"]
load = ["my_rules.py"]                  # rules of your own

[suppress]                              # finding = why it is no news here
length-growing = "proofs are meant to get longer"

[samples]                               # completions that lie elsewhere, or in a table of your own
place = "dumps/*.parquet"               # a file, folder, address, or a list of them; beside this file unless absolute
completion = "text"                     # column = "key in the table"
"reward.correctness" = "acc"

[watch]                                 # how runs are watched (`vario watch`, vario.Monitor): docs/live.md
[alerts]                                # whom to tell what
[act]                                   # what to do by itself
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from glob import has_magic
from pathlib import Path
from types import MappingProxyType

from vario.catalogue import PER_SEQUENCE, PER_TOKEN, lookup
from vario.errors import ConfigError
from vario.run import LARGEST, Budget, Declared, Level, Run

NAME, SHARED_NAME = "vario.toml", "pyproject.toml"
SECTIONS = ("map", "declare", "budgets", "rules", "suppress", "samples", "watch", "alerts", "act")
NUMBERS = {
    "reward-floor": "reward_low",
    "reward-ceiling": "reward_high",
    "target": "target",
    "devices": "devices",
    "max-completion-length": "max_length",
    "group-size": "group_size",
    "updates-per-rollout": "updates_per_rollout",
}
"""Numbers under [declare], and what they are called in `Declared`."""
COUNTS = ("devices", "max-completion-length", "group-size", "updates-per-rollout")
"""Those of them that are above 0."""
COLUMN_WORDS = (
    "step", "group", "prompt", "completion", "reward", "length", "truncated", "advantage", "source", "version",
)  # fmt: skip
"""Columns of a table of completions that [samples] can name; reward.NAME beside them."""
WORDS = ("algorithm", "held-out", "baseline", "reference", "test-run")


@dataclass(frozen=True, slots=True)
class Project:
    """The declarations of one file; `path` is None when there is none.

    `here` says that the file is that of the folder vario was started in, or above it: only such a file
    may name code to load, since one beside a downloaded log is somebody else's. `watch`, `alerts` and `act` are read
    where they are used; `alerts`, `act` and the `state` of `watch` count in such a file only.
    """

    path: Path | None = None
    here: bool = False
    mapping: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    budgets: tuple[Budget, ...] = ()
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    load: tuple[Path, ...] = ()
    suppress: Mapping[str, str] = field(default_factory=dict)
    samples: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    watch: Mapping[str, object] = field(default_factory=dict)
    alerts: Mapping[str, object] = field(default_factory=dict)
    act: Mapping[str, object] = field(default_factory=dict)

    def of_file(self, word: str) -> Path | None:
        """A path under [declare], read from where the file stands."""
        named = self.words.get(word)
        return None if named is None or self.path is None else self.path.parent / Path(named).expanduser()

    def apply(
        self,
        run: Run,
        *,
        baseline: Mapping[str, Level] | None = None,
        reference: Mapping[str, tuple[float, float]] | None = None,
        test_run_rises: bool | None = None,
    ) -> Run:
        """The run with what is declared of it; a held-out set that it does not log gives a warning."""
        known: dict[str, float] = {NUMBERS[name]: value for name, value in self.numbers.items()}
        declared: Declared = replace(run.declared, **known)  # type: ignore[arg-type]
        if baseline:
            declared = replace(declared, baseline=MappingProxyType(dict(baseline)))
        if reference:
            declared = replace(declared, reference=MappingProxyType(dict(reference)))
        if test_run_rises is not None:
            declared = replace(declared, test_run_rises=test_run_rises)
        series, warnings = dict(run.series), run.warnings
        held_out = self.words.get("held-out")
        if held_out is not None and held_out != "eval/score/mean":
            if held_out in series:
                series["eval/score/mean"] = series[held_out]
            else:
                sets = [n for n in series if n.startswith("eval/")]
                warnings += (
                    f"{self.path}: held-out = {held_out!r} is not logged by this run; "
                    + (f"it logs {', '.join(sets[:8])}" if sets else "it logs no evaluation"),
                )
        return replace(
            run,
            algorithm=self.words.get("algorithm", run.algorithm),
            declared=declared,
            series=MappingProxyType(dict(sorted(series.items()))),
            budgets=self.budgets,
            warnings=warnings,
        )


def find_project(run: str | Path) -> Project:
    """The nearest file: beside the run, then in the folders above it, then where vario was started.

    Raises:
        ConfigError: a file is broken, or declares what vario does not know; or the folder where one stands is gone.
    """
    try:
        stands = Path.cwd()
    except FileNotFoundError:
        raise ConfigError("the folder where vario was started is gone: start it in another one") from None
    named = str(run)
    here = Path(named)
    folders = (
        [here if here.is_dir() else here.parent, *here.resolve().parents] if "://" not in named and named != "-" else []
    )
    own = (stands, *stands.parents)
    for folder in [*folders, stands]:
        if (folder / NAME).is_file():
            return _read(folder / NAME, nested=False, here=folder.resolve() in own)
    if (stands / SHARED_NAME).is_file():
        return _read(stands / SHARED_NAME, nested=True, here=True)
    return Project()


def _read(path: Path, *, nested: bool, here: bool) -> Project:
    try:
        loaded: object = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        if nested:
            return Project()  # a broken pyproject.toml is not ours to judge
        raise ConfigError(f"{path}: cannot be read as TOML ({error})") from error
    if nested:
        tool = loaded.get("tool") if isinstance(loaded, dict) else None
        loaded = tool.get("vario", {}) if isinstance(tool, dict) else {}
    table = _table(path, "the file", loaded)
    if unknown := sorted(set(table) - set(SECTIONS)):
        raise ConfigError(f"{path}: vario knows no section {unknown[0]!r}; it knows {', '.join(SECTIONS)}")
    numbers, words = _declared(path, _table(path, "[declare]", table.get("declare", {})))
    rules = _table(path, "[rules]", table.get("rules", {}))
    if unknown := sorted(set(rules) - {"only", "without", "load"}):
        raise ConfigError(f"{path}: [rules] has no {unknown[0]!r}; it has only, without and load")
    mapping = _texts(path, "map", table.get("map", {}), '"reward/mean" = "my_reward"')
    for metric in mapping:
        _unit(path, "map", metric)
    return Project(
        path,
        here,
        mapping,
        numbers,
        words,
        tuple(_budget(path, str(n), v) for n, v in _table(path, "[budgets]", table.get("budgets", {})).items()),
        _list(path, "only", rules.get("only", [])),
        _list(path, "without", rules.get("without", [])),
        tuple(path.parent / Path(p).expanduser() for p in _list(path, "load", rules.get("load", []))),
        _texts(path, "suppress", table.get("suppress", {}), 'length-growing = "why it is no news here"'),
        *_samples(path, _table(path, "[samples]", table.get("samples", {})), here=here),
        *(_table(path, f"[{name}]", table.get(name, {})) for name in ("watch", "alerts", "act")),
    )


def known_column(name: str, said_in: str) -> str:
    """A column of completions that vario knows.

    Raises:
        ConfigError: it does not.
    """
    if name in COLUMN_WORDS or (name.startswith("reward.") and len(name) > len("reward.")):
        return name
    raise ConfigError(f"{said_in} knows no column {name!r}; it knows {', '.join(COLUMN_WORDS)} and reward.NAME")


def _samples(path: Path, table: Mapping[str, object], *, here: bool) -> tuple[tuple[str, ...], dict[str, str]]:
    places = table.get("place", [])
    places = [places] if isinstance(places, str) else places
    if not isinstance(places, list) or not all(isinstance(p, str) and p for p in places):
        raise ConfigError(f'{path}: [samples] place is a path or a list of them, as in place = "dumps"')
    columns = {known_column(n, f"{path}: [samples]"): v for n, v in table.items() if n != "place"}
    if not all(isinstance(v, str) and v for v in columns.values()):
        raise ConfigError(f'{path}: [samples] holds lines such as completion = "text"')
    found: list[str] = []
    for place in places:
        if "://" in place and not here:
            raise ConfigError(
                f"{path}: [samples] place is an address, and the file lies beside the log, not where you stand; "
                "if you trust it, name the address with --samples"
            )
        found += matching(place, path.parent)
    return tuple(found), {n: str(v) for n, v in columns.items()}


def matching(place: str, root: Path) -> list[str]:
    """The files and folders that a place names: an address, a path below `root` unless absolute, or a pattern of paths."""
    if "://" in place:
        return [place]
    where = Path(place).expanduser()
    if not has_magic(place) or (root / where).exists():
        return [str(root / where)]
    base = Path(where.anchor) if where.is_absolute() else root
    return sorted(str(p) for p in base.glob(str(where.relative_to(where.anchor)))) or [str(base / where)]


def _table(path: Path, where: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: {where}: a table was expected")
    return {str(k): v for k, v in value.items()}


def _texts(path: Path, section: str, value: object, example: str) -> dict[str, str]:
    table = _table(path, f"[{section}]", value)
    if not all(isinstance(v, str) and v.strip() for v in table.values()):
        raise ConfigError(f"{path}: [{section}] holds lines such as {example}")
    return {k: str(v) for k, v in table.items()}


def _list(path: Path, name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ConfigError(f'{path}: [rules] {name} is a list of words, as in {name} = ["KL101"]')
    return tuple(value)


def _number(value: object) -> float | None:
    """A number that can be counted with, else None: TOML knows nan and inf too."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST:
        return None
    return float(value)


def _declared(path: Path, table: Mapping[str, object]) -> tuple[dict[str, float], dict[str, str]]:
    numbers: dict[str, float] = {}
    words: dict[str, str] = {}
    for name, value in table.items():
        number = _number(value)
        if name in NUMBERS:
            if number is None:
                raise ConfigError(f"{path}: [declare] {name} is a number, not {value!r}")
            if name in COUNTS and number <= 0.0:
                raise ConfigError(f"{path}: [declare] {name} is above 0, not {value!r}")
            numbers[name] = number
        elif name in WORDS:
            if not isinstance(value, str) or not value:
                raise ConfigError(f"{path}: [declare] {name} is a word, not {value!r}")
            words[name] = value
        else:
            known = [*NUMBERS, *WORDS]
            near = get_close_matches(name, known, n=1)
            raise ConfigError(
                f"{path}: [declare] knows no {name!r}; " + (f"{near[0]}?" if near else f"it knows {', '.join(known)}")
            )
    low, high = numbers.get("reward-floor"), numbers.get("reward-ceiling")
    if low is not None and high is not None and low >= high:
        raise ConfigError(f"{path}: [declare] reward-floor {low:g} is not below reward-ceiling {high:g}")
    return numbers, words


def _unit(path: Path, section: str, metric: str) -> str:
    try:
        return lookup(metric).unit
    except KeyError:
        raise ConfigError(
            f"{path}: [{section}] vario knows no metric {metric!r}; `vario metrics --known` lists them"
        ) from None


def _budget(path: Path, metric: str, value: object) -> Budget:
    unit = _unit(path, "budgets", metric)
    number = _number(value)
    if number is not None:
        return Budget(metric, most=number)
    table = _table(path, f"[budgets] {metric}", value)
    if set(table) - {"most", "least", "unit"} or not {"most", "least"} & set(table):
        raise ConfigError(f"{path}: [budgets] {metric} holds most, least (one of them at the least) and unit")
    most, least = _number(table.get("most")), _number(table.get("least"))
    if ("most" in table and most is None) or ("least" in table and least is None):
        raise ConfigError(f"{path}: [budgets] {metric}: most and least are numbers")
    if most is not None and least is not None and least > most:
        raise ConfigError(f"{path}: [budgets] {metric}: least {least:g} is above most {most:g}")
    wanted = table.get("unit")
    convertible = (PER_TOKEN, PER_SEQUENCE)
    if wanted is not None and wanted != unit and not (wanted in convertible and unit in convertible):
        raise ConfigError(f"{path}: [budgets] {metric} is in {unit}; it cannot be turned into {wanted!r}")
    return Budget(metric, most, least, None if wanted is None else str(wanted))
