"""What a user wishes of a diagnosis: the project file and the options of the command line, made one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vario.errors import ConfigError, SourceError
from vario.project_file import COLUMN_WORDS, Project, find_project, known_column, matching
from vario.rules.choice import Choice, choose
from vario.run import Run
from vario.sources import read, read_all
from vario.sources.sampled import SampleOptions
from vario.verdict import diagnose
from vario.verdict.compare import rises
from vario.verdict.profile import range_of, read_baseline

MANY_PIECES = 4
"""Parts of a dump (64 MiB each) from which waiting for them is told."""


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Which run at a path, and what its keys mean."""
    parser.add_argument("--run", metavar="NAME", help="which of several runs at PATH")
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the trainer's configuration, if it does not lie beside the log (.json, .yaml, training_args.bin)",
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="METRIC=KEY",
        help="what a key of the log means, as in --map reward/mean=my_reward (also [map] in vario.toml)",
    )


def add_sample_options(parser: argparse.ArgumentParser) -> None:
    """Where completions lie, what their columns mean, and where they are counted."""
    parser.add_argument(
        "--samples",
        action="append",
        default=[],
        metavar="PLACE",
        help="a file, folder or address of completions, where none is found beside the log (also [samples] in vario.toml)",
    )
    parser.add_argument(
        "--samples-map",
        action="append",
        default=[],
        metavar="COLUMN=KEY",
        help=f"what a column of completions means: {', '.join(COLUMN_WORDS)} or reward.NAME",
    )
    parser.add_argument("--no-samples", dest="count", action="store_false", help="leave completions alone")
    parser.add_argument(
        "--all-text", action="store_true", help="measure every text, not a sample of 128 completions of each step"
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="count completions in N processes (default: one a core where they are many)",
    )
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="count completions on a Ray cluster; auto: the one that Ray finds"
    )


def sample_options(options: argparse.Namespace, project: Project) -> SampleOptions:
    """What the options and the project file wish of completions; the options win.

    Raises:
        ConfigError: a column that vario does not know.
    """
    mapping = dict(project.columns)
    for item in getattr(options, "samples_map", []):
        column, separator, key = item.partition("=")
        if not separator or not key:
            raise ConfigError(f"--samples-map {item}: expected COLUMN=KEY, as in --samples-map completion=text")
        mapping[known_column(column, "--samples-map")] = key
    workers = getattr(options, "workers", None)
    if workers is not None and workers < 1:
        raise ConfigError("--workers: at least 1")
    return SampleOptions(
        read=getattr(options, "count", True),
        places=tuple(p for given in getattr(options, "samples", []) for p in matching(given, Path()))
        or project.samples,
        mapping=mapping,
        all_text=getattr(options, "all_text", False),
        workers=workers,
        ray=getattr(options, "ray", None),
        group_size=project.numbers.get("group-size"),
        max_length=project.numbers.get("max-completion-length"),
        told=_progress if sys.stderr.isatty() else None,
    )


def _progress(done: int, of: int) -> None:
    """One line that is written over; only where there are many pieces to wait for."""
    if of >= MANY_PIECES:
        end = "\r" if done < of else "\r" + " " * 40 + "\r"
        print(f"completions: {done} of {of} parts counted", end=end, file=sys.stderr, flush=True)


def add_judgement_options(parser: argparse.ArgumentParser) -> None:
    """By what measure it is judged. vario.toml says the same, for good."""
    parser.add_argument(
        "--only", action="append", default=[], metavar="RULE", help="ask these rules, codes or families"
    )
    parser.add_argument("--without", action="append", default=[], metavar="RULE", help="leave these out")
    parser.add_argument(
        "--rules", action="append", default=[], metavar="FILE", help="a Python file with rules of yours"
    )
    parser.add_argument("--baseline", metavar="FILE", help="the model before RL, from `vario baseline`")
    parser.add_argument("--reference", metavar="RUN", help="a healthy run of the same recipe: its range is normal")
    parser.add_argument(
        "--no-replay",
        dest="replay",
        action="store_false",
        help="look once: faster, without detected_at, and a pattern need not have held at earlier looks",
    )


@dataclass(frozen=True, slots=True)
class Wishes:
    """Everything that stands between a path and a judgement."""

    project: Project
    mapping: dict[str, str]
    choice: Choice

    @classmethod
    def of(cls, options: argparse.Namespace, path: str) -> Wishes:
        """Join the project file that is nearest to the path with the options; the options win.

        Raises:
            ConfigError: either of them says what cannot be.
        """
        project = find_project(path)
        own = [Path(p) for p in getattr(options, "rules", [])]
        if project.load and not project.here and not own:
            raise ConfigError(
                f"{project.path}: [rules] load runs code, and the file lies beside the log, not where you stand; "
                "if you trust it, name the file with --rules"
            )
        mapping = dict(project.mapping)
        for item in options.map:
            metric, separator, key = item.partition("=")
            if not separator or not metric or not key:
                raise ConfigError(f"--map {item}: expected METRIC=KEY, as in --map reward/mean=my_reward")
            mapping[metric] = key
        choice = choose(
            only=getattr(options, "only", []) or project.only,
            without=(*project.without, *getattr(options, "without", [])),
            load=(*(project.load if project.here else ()), *own),
            suppress=project.suppress,
            said_in={
                word: f"{project.path}: {section}"
                for section, words in (
                    ("[rules] only", project.only),
                    ("[rules] without", project.without),
                    ("[suppress]", project.suppress),
                )
                for word in words
            },
        )
        return cls(project, mapping, choice)

    def read(self, path: str | Path, options: argparse.Namespace) -> Run:
        """The run at a path, as the project file and the options have it read."""
        return read(
            path,
            config=getattr(options, "config", None),
            run=getattr(options, "run", None),
            mapping=self.mapping,
            samples=sample_options(options, self.project),
        )

    def apply(self, run: Run, options: argparse.Namespace) -> Run:
        """The run with what is declared of it."""
        return self.applied(options)(run)

    def applied(self, options: argparse.Namespace) -> Callable[[Run], Run]:
        """What gives a run what is declared of it; what that rests on is read once, for a run that is read again and again.

        Raises:
            ConfigError: it cannot be read.
        """
        baseline = getattr(options, "baseline", None) or self.project.of_file("baseline")
        reference = getattr(options, "reference", None) or self.project.of_file("reference")
        test_run = self.project.of_file("test-run")
        return partial(
            self.project.apply,
            baseline=read_baseline(Path(baseline)) if baseline else None,
            reference=range_of(self._named(str(reference), "reference")) if reference else None,
            test_run_rises=rises(diagnose(self._named(str(test_run), "test-run"), replay=False)) if test_run else None,
        )

    def _named(self, path: str, word: str) -> Run:
        """Another run of the same recipe: its keys mean the same."""
        try:
            return read(path, mapping=self.mapping)
        except (SourceError, ConfigError) as error:
            raise ConfigError(f"{word}: {error}") from error


def runs_at(options: argparse.Namespace, path: str) -> Iterator[tuple[Run, Choice] | SourceError | ConfigError]:
    """The run that was asked for, or every one with --all; an error in its place."""
    try:
        wishes = Wishes.of(options, path)
        if getattr(options, "all", False) and options.run is None:
            samples = sample_options(options, wishes.project)
            for _, found in read_all(path, config=options.config, mapping=wishes.mapping, samples=samples):
                if isinstance(found, Run):
                    yield wishes.apply(found, options), wishes.choice
                else:
                    yield found
        else:
            yield wishes.apply(wishes.read(path, options), options), wishes.choice
    except (SourceError, ConfigError) as error:
        yield error
