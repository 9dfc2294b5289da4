"""Completions beside a log: what is wished of them, and where they lie. Loads polars only where there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from vario.errors import ConfigError, NothingReadable
from vario.run import Run
from vario.sources.marks import marks_file, read_marks

ORDERS = ("reward", "advantage", "length", "repetition", "entropy")
"""What completions can be sorted by."""
KINDS = ("truncated", "repetitive", "duplicated", "garbled", "empty")
"""What completions can be picked by."""
FOLDER_SETTINGS = (
    "trainer.rollout_data_dir",
    "trainer.validation_data_dir",
    "rollouts_save_path",
    "rollout_data_dir",
    "validation_data_dir",
)
"""Settings that name a folder of completions, which may lie anywhere (verl, open-instruct)."""


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """What the user wishes of the completions.

    Attributes:
        read: False leaves them alone.
        places: files, folders or addresses of dumps, instead of what is found.
        mapping: the user's names for the columns of a table that no layout knows (`completion = "text"`).
        all_text: measure every text, not a stated sample of each step.
        workers: processes; None for this one alone, or one for each core (at most 8) where the dump is large.
        ray: the address of a Ray cluster; "auto" for the one that Ray finds.
        group_size, max_length: as the user declares them; the run's own settings otherwise.
        told: is called with pieces done and pieces in all.
        counted: what was counted at earlier readings of the same run, which adds to it: for a run that grows, whose
            files are written once. None: nothing is kept.
    """

    read: bool = True
    places: tuple[str, ...] = ()
    mapping: Mapping[str, str] = field(default_factory=dict)
    all_text: bool = False
    workers: int | None = None
    ray: str | None = None
    group_size: float | None = None
    max_length: float | None = None
    told: Callable[[int, int], None] | None = None
    counted: dict[object, object] | None = None


def with_dumps(run: Run, found: Iterable[str], options: SampleOptions, *, only: bool = False) -> Run:
    """The run with what its completions say.

    Args:
        run: as its log tells it.
        found: dumps that lie beside the log.
        options: what is wished.
        only: there is no log; without completions there is nothing.

    Raises:
        ConfigError: a place that the user named holds no completions.
        NothingReadable: there is no log, and no completions either, or polars is not installed.
    """
    run = replace(run, marks=tuple(read_marks(marks_file(run.path))))
    places = options.places or tuple(dict.fromkeys([*found, *_configured(run)]))
    if not options.read or not places:
        return replace(run, dumps=places)
    run = replace(run, dumps=places)
    try:
        from vario.sources.rollouts import discover, with_samples
    except ImportError as error:
        text = f"completions lie beside the log ({places[0]}): `pip install 'vario[rollouts]'` to count them"
        if only or options.places:
            raise NothingReadable(text) from error
        return replace(run, warnings=(*run.warnings, text))
    base = run.path.partition("#")[0]
    dump = discover(places, base, options.mapping or None)
    if not dump.files:
        reason = f": {dump.warnings[0]}" if dump.warnings else ""
        text = f"no completions that vario can read in {', '.join(places[:3])}{reason}"
        if options.places:
            raise ConfigError(f"--samples: {text}; name its columns with --samples-map completion=KEY")
        if only:
            raise NothingReadable(text)
        return replace(run, warnings=(*run.warnings, *dump.warnings))
    return with_samples(run, dump, options)


def _configured(run: Run) -> list[str]:
    """Folders that the run's settings name, where they exist: as written, or beside the log."""
    beside = Path(run.path.partition("#")[0])
    beside = beside if beside.is_dir() else beside.parent
    made = []
    for key in FOLDER_SETTINGS:
        value = run.config.get(key)
        if isinstance(value, str) and value:
            named = Path(value).expanduser()
            for path in (named, beside / value, beside / named.name):
                if path.is_dir():
                    made.append(str(path))
                    break
    return made
