"""trackio: alerts of a run at their steps, which its dashboard shows beside the curves. Those that are there are not repeated."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass

from vario.errors import ConfigError
from vario.surfaces.annotations.entries import Annotation
from vario.surfaces.outward import NotDelivered

LEVELS = {"info": "info", "warning": "warn", "critical": "error"}


@dataclass(frozen=True, slots=True)
class InTrackio:
    """A run of a project on this machine."""

    project: str
    run: str

    @classmethod
    def at(cls, address: str) -> InTrackio:
        """The run of `trackio://project/run`.

        Raises:
            ConfigError: no run is named.
        """
        project, _, run = address.removeprefix("trackio://").partition("/")
        if not project or not run:
            raise ConfigError(f"--to {address}: expected trackio://project/run")
        return cls(project, run)

    def places(self, annotation: Annotation) -> Iterator[tuple[str, str]]:
        """Alerts, each at its step."""
        for entry in annotation.entries:
            yield (
                f"{self.project}/{self.run}: {LEVELS[entry.severity]} alert {entry.name} at step {entry.step}",
                entry.text,
            )

    def write(self, annotation: Annotation) -> None:
        """Add the alerts that are not there yet.

        Raises:
            NotDelivered: trackio is not installed, has no such run, or cannot write.
        """
        try:
            import trackio
        except ImportError as error:
            raise NotDelivered(f"trackio://{self.project}: needs `pip install 'vario[trackio]'`") from error
        with contextlib.redirect_stdout(io.StringIO()):  # it tells of itself there
            try:
                before = self._alerts(trackio)
                opened = trackio.init(
                    self.project,
                    self.run,
                    resume="must",
                    embed=False,
                    auto_log_gpu=False,
                    auto_log_cpu=False,
                )
                for entry in annotation.entries:
                    if (entry.name, entry.text, entry.step) not in before:
                        level = trackio.AlertLevel(LEVELS[entry.severity])
                        opened.alert(entry.name, entry.text, level, entry.step)
                trackio.finish()
                kept = self._alerts(trackio)
            except (OSError, ValueError, RuntimeError) as error:
                raise NotDelivered(
                    f"trackio://{self.project}/{self.run}: {' '.join(str(error).split())[:200]}"
                ) from error
        # trackio only warns of what it could not write
        if not all((entry.name, entry.text, entry.step) in kept for entry in annotation.entries):
            raise NotDelivered(f"trackio://{self.project}/{self.run}: trackio could not write every alert")

    def _alerts(self, trackio: object) -> set[tuple[str, str, int]]:
        """The alerts of the run: title, text and step.

        Raises:
            NotDelivered: there is no such run, or there are several of that name.
        """
        named = [run for run in trackio.Api().runs(self.project) if run.name == self.run]  # type: ignore[attr-defined]
        if len(named) != 1:
            told = "no such run" if not named else f"{len(named)} runs have that name, and trackio resumes the newest"
            raise NotDelivered(f"trackio://{self.project}/{self.run}: {told}; is TRACKIO_DIR set as in the training?")
        return {(alert["title"], alert["text"], alert["step"]) for alert in named[0].alerts()}
