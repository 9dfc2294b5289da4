"""Shared paths. The labelled runs of the project lie in tests/golden; others may lie beside the checkout."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
SHARED = Path(os.environ.get("VARIO_SHARED", ROOT.parent / "shared"))

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    # the tests share the cores already: threads that spin while they wait for one another take them from the others
    os.environ.setdefault(threads, "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell that starts the tests in the background has them, and every process that they start, deaf to an interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)

SPREAD = frozenset({"test_cases.py", "test_simulated.py", "test_real_logs.py"})
"""Long files whose tests share nothing: they may go to any process."""
RAY = frozenset(
    {"test_ray.py", "test_ray_addresses.py", "test_spread.py", "test_bad_runs.py", "test_completions_docs.py", "test_fleet_docs.py"}
)
"""Files that start clusters or look for one: never two at a time."""


LONGEST = ("tests/work/test_ray", "tests/live/test_trainer", "tests/browser", "tests/docs", "tests/dashboard", "tests/sources/rollouts")
"""Where the files of few and long tests lie: they begin first, so that no process is left alone with one in the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first; otherwise in the order of the files."""
    items.sort(key=lambda item: next((i for i, place in enumerate(LONGEST) if item.nodeid.startswith(place)), len(LONGEST)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Tests of a file share what it sets up, so they go to one process, whatever `--dist` says.

    pytest-xdist has groups of its own for that (`loadgroup`), which pytest 9.2 does not let it write into the tests' ids.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            name = path.rpartition("/")[2]
            return nodeid if name in SPREAD else "ray" if name in RAY else path

    return ByFile(config, log)


def golden_runs() -> list[Path]:
    return sorted(p.parent for p in GOLDEN.glob("*/label.json"))


def recorded(name: str, to: Path) -> Path:
    """A copy of a labelled run of the project, without the label: nobody has one."""
    return Path(shutil.copytree(GOLDEN / name, to, ignore=shutil.ignore_patterns("label.json"), dirs_exist_ok=True))


@pytest.fixture(scope="session")
def golden() -> Path:
    return GOLDEN


@pytest.fixture(autouse=True, scope="session")
def no_state_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What runs without a folder leave behind goes nowhere near the home of whoever tests."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
