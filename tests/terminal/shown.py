"""Shows recorded runs in this terminal: `python -m tests.terminal.shown ROWS [NAME...] [--hang] [--hostile]`."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass

from tests.terminal.feeds import HOSTILE, Lab, hostile, recorded, watched
from vario.surfaces.live.notices import Notice
from vario.surfaces.terminal.show import show


@dataclass
class Hanging(Lab):
    """Its second turn never ends, as on a dead disk."""

    def turn(self) -> list[Notice]:
        if self.turns:
            threading.Event().wait()
        return super().turn()


if __name__ == "__main__":
    rows, *names = sys.argv[1:]
    kind = Hanging if "--hang" in names else Lab
    runs = [watched(name, rows=int(rows)) for name in names if not name.startswith("--")]
    if "--hostile" in names:
        runs.append(watched(HOSTILE, rows=int(rows), run=hostile(recorded("grpo-proxy-hack")), troubles=(HOSTILE,)))
    sys.exit(show(kind(runs, every=0.3)))
