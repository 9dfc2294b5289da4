"""What vario sees of this machine by itself, and what seeing it costs; with a GPU and without.

python bench/gauges.py                  # sample for 30 s at the default pace: the gauges, and the cost beside the bar
python bench/gauges.py --load           # the same while a matrix product and a heavy process run by turns
python bench/gauges.py --probe 24x1024  # the attention probe on a random model of 24 layers, 1,024 wide: time and memory
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from shared import table

from vario.surfaces.live.devices import Devices
from vario.surfaces.live.host import host
from vario.surfaces.live.machine import BUDGET, Machine
from vario.surfaces.live.steps import StepClock

PHASE_SECONDS = 5.0
"""Of load and of rest, by turns."""
SPIN = "import time\nt = time.monotonic()\nwhile time.monotonic() - t < {}: sum(range(100_000))"


def busy(seconds: float) -> None:
    """A matrix product after the other, on a GPU where there is one; else a sleep."""
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        time.sleep(seconds)
        return
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(20):
            a = (a @ a).clamp_(-1.0, 1.0)
        torch.cuda.synchronize()
    del a
    torch.cuda.empty_cache()


def sampled(seconds: float, *, load: bool) -> None:
    """Take a row every five seconds."""
    machine, clock, rows = Machine(), StepClock(), []
    time.sleep(1.5)
    machine.take()
    end, turn = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        clock.begin_step()
        turn += 1
        if load and turn % 2:
            with clock.phase("train"):
                busy(PHASE_SECONDS)
        else:
            # beyond a shell, so that it is nobody's child here
            spin = SPIN.format(PHASE_SECONDS)
            if load:
                subprocess.run(["/bin/sh", "-c", '"$0" -c "$1" & ', sys.executable, spin], check=True)
            with clock.phase("wait"):
                time.sleep(PHASE_SECONDS)
        clock.end_step()
        rows.append(machine.take() | clock.take())
    began = time.perf_counter()
    for _ in range(10_000):
        machine.take()
    taking = (time.perf_counter() - began) / 10_000
    keys = sorted({key for row in rows for key in row})
    shown = [rows[i] for i in range(max(0, len(rows) - 6), len(rows))]
    print(
        table(
            [(key, *(f"{row[key]:.4g}" if key in row else "" for row in shown)) for key in keys],
            ("gauge", *("row",) * len(shown)),
        )
    )
    print(
        f"\nsampling took {100 * machine.cost:.3f} % of one core (bar {100 * BUDGET:.1f} %), take() {1e6 * taking:.1f} us on the training's thread"
    )
    print(
        "parts (ms of a core each time, every s):",
        ", ".join(
            f"{p.what} {1e3 * (p.cost or 0.0):.2f} every {max(p.every, (p.cost or 0.0) / p.share):.1f}"
            for p in machine._parts
        ),
    )
    print(
        "other work:",
        [(i.name, round((i.end or time.time()) - i.start, 1)) for i in machine.intervals()] or "none seen",
    )
    print("not to be had:", dict(machine.troubles) or "nothing")
    machine.close()


def per_call(what: str, call: Callable[[], object], times: int = 30) -> tuple[str, str, str]:
    """A call's time on a core and on the wall: medians in ms."""
    cores, walls = [], []
    for _ in range(times):
        core, wall = time.thread_time(), time.perf_counter()
        call()
        cores.append(time.thread_time() - core)
        walls.append(time.perf_counter() - wall)
    return what, f"{1e3 * statistics.median(cores):.3f}", f"{1e3 * statistics.median(walls):.3f}"


def calls() -> None:
    """What each reading costs by itself."""
    rows = []
    here = host()
    if here is not None:
        rows += [per_call("memory of the host", here.memory_share), per_call("processors", here.busy)]
        rows.append(per_call(f"{len(here.processes())} processes", here.processes))
    try:
        import pynvml

        pynvml.nvmlInit()
        devices = Devices(pynvml)
        rows.append(per_call(f"{len(devices)} devices: power, memory, use", devices.gauges))
        rows.append(per_call(f"{len(devices)} devices: processes", devices.processes))
        listed = {place: sorted(pids) for place, pids in devices.processes().items()}
        print(
            f"driver {pynvml.nvmlSystemGetDriverVersion()}; {devices.gauges()}; processes {listed}, this one is {os.getpid()}"
        )
        devices.close()
    except Exception as error:
        print(f"no device: {error}")
    print(table(rows, ("reading", "core ms", "wall ms")))


def probed(shape: str) -> None:
    """The probe on a random model, beside a training step of it."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from vario.surfaces.live.probe import AttentionProbe

    layers, width = (int(n) for n in shape.split("x"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    config = LlamaConfig(
        vocab_size=32_000,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
    )
    model = LlamaForCausalLM(config).to(device, kind).train()
    batch = {"input_ids": torch.randint(0, 32_000, (4, 128))}
    probe = AttentionProbe(model, batch, every=1, budget=1e9)

    def settle() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def step() -> None:
        ids = torch.randint(0, 32_000, (4, 512), device=device)
        model(input_ids=ids, labels=ids).loss.backward()
        settle()

    number = 0

    def once() -> None:
        nonlocal number
        number += 1
        found.update(probe(number))
        settle()

    found: dict[str, float] = {}
    began = time.perf_counter()
    once()
    first = time.perf_counter() - began
    rows = []
    for what, call in (("a step of 4 x 512 tokens, forward and backward", step), ("the probe, 4 x 128 tokens", once)):
        call()
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        rows.append(
            (
                *per_call(what, call, 5),
                f"{(torch.cuda.max_memory_allocated() - before) / 2**20:.0f}" if device == "cuda" else "",
            )
        )
    print(
        f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} M weights on {device}; the first probe took {1e3 * first:.0f} ms; {found}; {dict(probe.troubles)}"
    )
    print(table(rows, ("what", "core ms", "wall ms", "MiB at the peak")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--probe", metavar="LAYERSxWIDTH")
    chosen = parser.parse_args()
    if chosen.probe:
        probed(chosen.probe)
        return 0
    calls()
    sampled(chosen.seconds, load=chosen.load)
    return 0


if __name__ == "__main__":
    sys.exit(main())
