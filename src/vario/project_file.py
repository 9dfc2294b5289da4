"""What a user declares in `vario.toml`, or under `[tool.vario]` in `pyproject.toml`.

[map]                       # canonical metric = "key in the log"
"reward/mean" = "my_reward"
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from vario.errors import ConfigError

NAME, SHARED_NAME = "vario.toml", "pyproject.toml"
SECTIONS = ("map",)


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """The declarations of one file; `path` is None when there is none."""

    path: Path | None = None
    mapping: dict[str, str] = field(default_factory=dict)


def find_project_file(run: str) -> ProjectFile:
    """The nearest file: beside the run, then in the folders above it, then where vario was started.

    Raises:
        ConfigError: a file is broken, or declares what vario does not know.
    """
    here = Path(run)
    folders = (
        [here if here.is_dir() else here.parent, *here.resolve().parents] if "://" not in run and run != "-" else []
    )
    for folder in [*folders, Path.cwd()]:
        if (folder / NAME).is_file():
            return _read(folder / NAME, nested=False)
    if (Path.cwd() / SHARED_NAME).is_file():
        return _read(Path.cwd() / SHARED_NAME, nested=True)
    return ProjectFile()


def _read(path: Path, *, nested: bool) -> ProjectFile:
    try:
        loaded: object = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        if nested:
            return ProjectFile()  # a broken pyproject.toml is not ours to judge
        raise ConfigError(f"{path}: cannot be read as TOML ({error})") from error
    if nested:
        tool = loaded.get("tool") if isinstance(loaded, dict) else None
        loaded = tool.get("vario", {}) if isinstance(tool, dict) else {}
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: a table was expected")
    if unknown := sorted(set(loaded) - set(SECTIONS)):
        raise ConfigError(f"{path}: vario knows no section {unknown[0]!r}; it knows {', '.join(SECTIONS)}")
    mapping = loaded.get("map", {})
    if not isinstance(mapping, dict) or not all(isinstance(v, str) for v in mapping.values()):
        raise ConfigError(f'{path}: [map] holds lines such as "reward/mean" = "my_reward"')
    return ProjectFile(path, {str(k): v for k, v in mapping.items()})
