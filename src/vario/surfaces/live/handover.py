"""What a training hands over, taken as it goes on: quickly, without waiting for a device, and so that nothing of it raises later."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from vario.surfaces.live.recorder import MAX_KEYS

KEY_LENGTH = 300
"""Characters of a key; a longer one is no name."""
NUMBER_LENGTH = 64
"""Characters of a text that may be a number: the readers' bound."""
NESTING = 4
"""Levels of nested metrics that are flattened: as the readers do."""
SAMPLES = 512
"""Completions of one row that are handed on; more would weigh more than the row."""
TABLE_CHARACTERS = 8_000_000
"""Characters of one row's completions: 512 of some 4,000 tokens each. What lies beyond is left out."""
PLAIN_NESTING = 8
PLAIN_PARTS = 200_000
PLAIN_LENGTH = 2_000
"""Depth and parts of a value, and characters of one that can only be told as text: it may be of any size."""
MAX_STEP = 2**62
TOLD = 200
"""Characters that are told of what is no step."""
OWN = frozenset({"step", "_timestamp"})
"""Keys of a row of the log itself: the step is the argument's, the time that of the call."""
SUMMARY = "train_runtime"
SUMMARISED = ("train_", "total_", "epoch")
"""A row with this key is what transformers says at the end: of the rest it repeats what has been logged."""
Samples = Sequence[Mapping[str, object]] | Mapping[str, Sequence[object]]
Copied = Mapping[str, object] | Sequence[Mapping[str, object]]
Table = dict[str, list[object]]
Tensor = Any
"""A tensor of torch's, which need not be installed."""


class Slot(int):
    """Stands for a value that is still on a device: its number among the row's."""


class OnDevice:
    """Values that a device may still have to compute: copied to the host behind that work, and read when it is done.

    Everything here runs in the thread that trains: a call to the device from another thread would end a capture of a
    CUDA graph that goes on meanwhile.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[object, object, object], list[tuple[int, Any]]] = {}
        self._copies: list[tuple[list[int], Any, Any]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, tensor: Tensor) -> Slot:
        """Take a tensor; gives what stands for its values until they are read."""
        slot = Slot(self._count)
        self._count += 1
        self._held.setdefault((tensor.device, tensor.dtype, tuple(tensor.shape)), []).append((slot, tensor))
        return slot

    def start(self) -> None:
        """Have everything copied, one copy for those of a kind."""
        import torch

        for (device, _, _), held in self._held.items():
            copy = torch.stack([tensor for _, tensor in held]).to("cpu", non_blocking=True)
            done = torch.cuda.Event()
            done.record(torch.cuda.current_stream(device))
            self._copies.append(([slot for slot, _ in held], copy, done))
        self._held.clear()

    def ready(self) -> bool:
        """Whether the device has got there; does not wait."""
        return all(done.query() for _, _, done in self._copies)

    def read(self) -> list[object]:
        """The values by their numbers: floats, or lists of them. Only when `ready`."""
        made: list[object] = [math.nan] * self._count
        for slots, copy, _ in self._copies:
            for slot, value in zip(slots, copy.tolist(), strict=True):
                made[slot] = value
        return made


def step_of(step: object) -> int:
    """A step as a number.

    Raises:
        TypeError, ValueError: it is none.
    """
    if isinstance(step, bytes) or (isinstance(step, str) and not step.strip().removeprefix("-").isdecimal()):
        # int() puts the text into its own error, and what the handler of a signal raises meanwhile would be lost
        said = repr(step)
        raise ValueError(f"{said[:TOLD]} is no step")
    number = int(step)  # type: ignore[call-overload]
    if abs(number) >= MAX_STEP:
        raise ValueError(f"{number} is no step")
    return int(number)


def taken(
    metrics: Mapping[str, object], later: Callable[[], OnDevice], left_out: Callable[[str], None]
) -> dict[str, object]:
    """The values of a row: numbers, short texts that may be numbers, and slots for what a device still holds.

    Args:
        metrics: by the trainer's own keys; nested ones are flattened with `/`.
        later: gives what collects values on a device.
        left_out: is told what could not be taken, a sentence each.
    """
    row: dict[str, object] = {}
    for key, value in islice(metrics.items(), MAX_KEYS):
        kind = type(value)
        if (kind is float or kind is int) and type(key) is str and len(key) <= KEY_LENGTH:
            row[key] = value
        else:
            _take(row, str(key), value, 0, later, left_out)
    if len(metrics) > MAX_KEYS or len(row) >= MAX_KEYS:
        left_out(f"a row of more than {MAX_KEYS} keys: the rest of them is left out")
    return row


def _take(
    row: dict[str, object],
    key: str,
    value: object,
    depth: int,
    later: Callable[[], OnDevice],
    left_out: Callable[[str], None],
) -> None:
    if len(key) > KEY_LENGTH:
        left_out(f"a key of more than {KEY_LENGTH} characters is left out: {key[:60]}…")
        return
    try:
        if isinstance(value, Mapping):
            if depth < NESTING:
                for inner, part in islice(value.items(), MAX_KEYS):
                    if len(row) >= MAX_KEYS:
                        return
                    _take(row, f"{key}/{inner}", part, depth + 1, later, left_out)
        elif (number := _number_of(value, later)) is not None:
            row[key] = number
    except Exception as error:  # a tensor of a broken device, a value whose own methods fail
        left_out(f"{key} could not be read ({type(error).__name__}: {error})")


def _number_of(value: object, later: Callable[[], OnDevice]) -> object | None:
    """A number or what becomes one; None for anything else."""
    if value is None:
        return math.nan
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return str(value) if len(value) < NUMBER_LENGTH else None
    if hasattr(value, "detach"):
        return _of_tensor(value, later) if getattr(value, "ndim", None) == 0 else None
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        if hasattr(value, "block_until_ready"):  # JAX: it never changes, and may be read in any thread
            return value
        found = value.item()  # numpy and its kin
        return found if isinstance(found, int | float) else None
    return None


def _of_tensor(tensor: Tensor, later: Callable[[], OnDevice]) -> object:
    """The value of a tensor on the host; a slot for one on a device, which the training may go on to write into.

    Raises:
        ValueError: its parts lie on several processes.
    """
    tensor = tensor.detach()
    placements = getattr(tensor, "placements", None)
    if placements is not None:
        # putting it together is a collective: one rank that asks alone waits for ever
        if not all(p.is_replicate() for p in placements):
            raise ValueError("its parts lie on several processes: log its full_tensor(), which every rank has to call")
        tensor = tensor.to_local()
    if tensor.device.type == "cuda":
        return later().add(tensor)
    return tensor.tolist() if tensor.ndim else float(tensor)


def settled(row: Mapping[str, object], read: Sequence[object] = ()) -> dict[str, float]:
    """The row as floats, with what was read from the device in the place of its slots; needs no time of the training's."""
    made = {}
    summary = SUMMARY in row
    for key, value in row.items():
        if key in OWN or (summary and not key.startswith(SUMMARISED)):
            continue
        number = value if type(value) is float else _as_float(read[value] if type(value) is Slot else value)
        if number is not None:
            made[key] = number
    return made


def _as_float(value: object) -> float | None:
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:  # an integer beyond every float
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except (TypeError, ValueError):  # a text that is no number
        return None


def copied(samples: Samples, later: Callable[[], OnDevice]) -> Copied:
    """The first of the completions, in lists of our own: the training may go on to change its own."""
    if isinstance(samples, Mapping):
        return {str(key): _column(values, later) for key, values in samples.items()}
    return [{str(key): _cell(value, later) for key, value in row.items()} for row in samples[:SAMPLES]]


def _column(values: Sequence[object], later: Callable[[], OnDevice]) -> Sequence[object] | Slot:
    first = values[:SAMPLES]
    if hasattr(first, "detach"):
        made = _of_tensor(first, later)
        return made if isinstance(made, Slot | list) else [made]
    return [_cell(value, later) for value in first]


def _cell(value: object, later: Callable[[], OnDevice]) -> object:
    if hasattr(value, "detach"):
        return _of_tensor(value, later)
    return value


def table(samples: Copied, read: Sequence[object] = ()) -> tuple[Table, bool]:
    """Completions as columns of plain values, of one length; and whether all of them had room."""

    def found(value: object) -> object:
        return read[value] if type(value) is Slot else value

    made: Table
    if isinstance(samples, Mapping):
        columns = {key: found(values) for key, values in samples.items()}
        lists = {key: values for key, values in columns.items() if isinstance(values, list)}
        count = min(map(len, lists.values()), default=0)
        made = {key: [plain(found(v)) for v in values[:count]] for key, values in lists.items()}
    else:
        names = dict.fromkeys(key for row in samples for key in row)
        made = {name: [plain(found(row.get(name))) for row in samples] for name in names}
        count = len(samples)
    room = TABLE_CHARACTERS
    for i in range(count):
        room -= sum(size_of(column[i]) for column in made.values())
        if room < 0:
            return {key: column[:i] for key, column in made.items()}, False
    return made, True


def size_of(value: object) -> int:
    """Characters of text in a plain value, roughly."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(str(k)) + size_of(v) for k, v in value.items())
    if isinstance(value, list):
        return 8 + sum(map(size_of, value))
    return 8


def settings(config: Mapping[str, object]) -> dict[str, object]:
    """Settings that can travel: plain values, and text for the rest."""
    made = plain(config)
    return made if isinstance(made, dict) else {}


def plain(value: object) -> object:
    """A value made of None, booleans, numbers, texts, lists and tables; text in the place of anything else."""
    return _plain(value, 0, [PLAIN_PARTS])


def _plain(value: object, depth: int, left: list[int]) -> object:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, int | float | str):  # of a class of its own, which the other process may not have
        return _base(value)
    left[0] -= 1
    if left[0] < 0 or depth > PLAIN_NESTING:
        return "…"
    if isinstance(value, Mapping):
        return {str(k): _plain(v, depth + 1, left) for k, v in _parts(value.items(), left)}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v, depth + 1, left) for v in _parts(value, left)]
    try:
        return _in_words(value, left)
    except Exception:  # an object that cannot say what it is
        return f"<{type(value).__name__}>"


def _in_words(value: object, left: list[int]) -> object:
    """Something that is no plain value: numpy's by its numbers, anything else by what it calls itself."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        if value.size > left[0]:
            return f"<{type(value).__name__}>"
        left[0] -= value.size
        return _plain(value.tolist(), 0, left)
    if hasattr(value, "detach") or hasattr(value, "__array__"):
        return f"<{type(value).__name__}>"  # reading it might ask a device
    return str(value)[:PLAIN_LENGTH]


def _base(value: float | str) -> object:
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind.__str__(value) if kind is str else kind(value)
    return None


def _parts(values: Iterable[Any], left: list[int]) -> Iterable[Any]:
    return list(islice(values, max(left[0], 0)))
