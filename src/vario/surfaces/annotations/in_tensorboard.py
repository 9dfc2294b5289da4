"""TensorBoard: an event file of vario's own beside the training's, with texts at their steps.

TensorBoard's plain reader goes through the files of a folder in the order of their names, and never back: a file
that stood behind the training's would end its curves while it runs. So this one's name comes first, and writing again
replaces it, whole or not at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vario.errors import ConfigError
from vario.surfaces.annotations.entries import OURS, Annotation
from vario.surfaces.outward import READABLE, NotDelivered
from vario.surfaces.report.markdown import plain

FILE = "events.out.tfevents.0000000000.vario"


@dataclass(frozen=True, slots=True)
class InTensorboard:
    """A folder with event files."""

    folder: Path

    @classmethod
    def at(cls, address: str) -> InTensorboard:
        """The folder of `tensorboard:FOLDER`.

        Raises:
            ConfigError: there is no such folder.
        """
        folder = Path(address.removeprefix("tensorboard:"))
        if not folder.is_dir():
            raise ConfigError(f"--to {address}: no such folder; give the one that holds the event files")
        return cls(folder)

    def places(self, annotation: Annotation) -> Iterator[tuple[str, str]]:
        """Texts of one file, each at its step."""
        for name, text, step in _texts(annotation):
            yield f"{self.folder / FILE}: text {name} at step {step}", text

    def write(self, annotation: Annotation) -> None:
        """Write the file anew.

        Raises:
            NotDelivered: tensorboardX is not installed, or the folder cannot be written to.
        """
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise NotDelivered(f"{self.folder}: needs `pip install 'vario[tensorboard]'`") from error
        try:
            # in the same file system, so that it comes to its place whole; hidden, so that nobody reads it before
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".vario-") as made:
                with SummaryWriter(made, write_to_disk=True) as writer:
                    for name, text, step in _texts(annotation):
                        writer.add_text(name, text, step)
                (file,) = Path(made).iterdir()
                file.chmod(READABLE)
                file.replace(self.folder / FILE)
        except OSError as error:
            raise NotDelivered(f"{self.folder}: cannot be written to ({error.strerror or error})") from error


def _texts(annotation: Annotation) -> Iterator[tuple[str, str, int]]:
    """Name, Markdown and step of each text: TensorBoard shows texts as Markdown."""
    for entry in annotation.entries:
        yield entry.name, plain(entry.text), entry.step
    yield f"{OURS}report", annotation.report, annotation.entries[0].step
