"""The callback for transformers and TRL: rows, configuration and completions from the trainer, and acts back into it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from vario.surfaces.live.machine import Machine
from vario.surfaces.live.monitor import LOG, Monitor
from vario.surfaces.live.probe import AttentionProbe
from vario.surfaces.live.steps import StepClock

PHASES = {"_generate": "generation", "_calculate_rewards": "reward", "_sync_fsdp1_params_to_vllm": "sync"}
"""Methods of TRL's trainers that make a phase of a step; those that a version does not have are left out."""
LOGGED = ("prompt", "completion", "rewards", "advantages")
"""What TRL's trainers keep of the last batch of completions, whether they write it to disk or not."""


def attach(trainer: Any, **options: Any) -> VarioCallback:
    """Put vario beside a transformers or TRL trainer: `vario.live.attach(trainer)` before `trainer.train()`.

    With the trainer in hand the callback sees what events do not carry: completions with their rewards, and how long
    generation and scoring take.

    Args:
        trainer: any transformers `Trainer`.
        options: those of `VarioCallback`.
    """
    callback = VarioCallback(trainer, **options)
    trainer.add_callback(callback)
    return callback


def _guarded(event: Callable[..., TrainerControl | None]) -> Callable[..., TrainerControl | None]:
    """An event whose failure the training never sees."""

    @wraps(event)
    def guarded(self: VarioCallback, *args: Any, **kwargs: Any) -> TrainerControl | None:
        try:
            return event(self, *args, **kwargs)
        except Exception as error:
            self.failures[f"{event.__name__}: {type(error).__name__}: {error}"] += 1
            if sum(self.failures.values()) == 1:
                LOG.warning("vario's callback failed and goes on without: %s: %s", type(error).__name__, error)
            return None

    return guarded


class VarioCallback(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Hands the rows of a trainer to a `vario.Monitor`: `GRPOTrainer(..., callbacks=[VarioCallback()])`.

    Only the process of world rank 0 speaks. Nothing raises into the training.

    Args:
        trainer: for completions and phases, which no event carries; `attach(trainer)` gives it.
        measure: log step times, phases and gauges of the machine beside the trainer's own values (`vario/…`).
        attention: a batch of token ids (a dict of tensors) for the attention-entropy probe; None leaves it off.
        attention_every: optimiser steps between two probes.
        options: further ones of `Monitor` (`alerts`, `act`, `watch`, `name`, `directory`).
    """

    def __init__(
        self,
        trainer: Any = None,
        *,
        measure: bool = True,
        attention: Mapping[str, Any] | None = None,
        attention_every: int = 50,
        **options: Any,
    ) -> None:
        self.monitor: Monitor | None = None
        self.failures: Counter[str] = Counter()
        self.clock: StepClock | None = None
        self._trainer = trainer
        self._measure = measure
        self._attention = attention
        self._attention_every = attention_every
        self._probe: AttentionProbe | None = None
        self._probed: dict[str, float] = {}
        self._machine: Machine | None = None
        self._options = options
        self._last = time.monotonic()
        self._hooks: dict[str, Callable[[str], None]] = {}

    def on(self, action: str, hook: Callable[[str], None]) -> None:
        """Register what `lower-learning-rate` or `raise-kl` shall do: see `Monitor.on`."""
        self._hooks[action] = hook
        if self.monitor is not None:
            self.monitor.on(action, hook)

    @_guarded
    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin, on the process that logs."""
        if not state.is_world_process_zero or self.monitor is not None:
            return
        options = {"directory": args.output_dir, "name": getattr(args, "run_name", None), **self._options}
        self.monitor = Monitor(_config(args), rank=0, write_log=False, history=list(state.log_history), **options)
        for action, hook in self._hooks.items():
            self.monitor.on(action, hook)
        self.clock = StepClock()
        if self._measure:
            self._machine = Machine()
        if self._attention is not None and kwargs.get("model") is not None:
            self._probe = AttentionProbe(kwargs["model"], self._attention, every=self._attention_every)
        if self._trainer is not None:
            _time_phases(self._trainer, self.clock)

    @_guarded
    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """The clock of the step starts."""
        if self.clock is not None:
            self.clock.begin_step()

    @_guarded
    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        """The clock stops; what was decided is done."""
        monitor, clock = self.monitor, self.clock
        if monitor is None or clock is None:
            return control
        clock.end_step()
        self._last = time.monotonic()
        if self._probe is not None:
            self._probed |= self._probe(state.global_step)
        if monitor.should_stop:
            control.should_training_stop = True
        if monitor.take_save() is not None:
            control.should_save = True
        return control

    @_guarded
    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """One row, with what was measured beside it; the trainer's own history keeps both, so that they stay together."""
        if self.monitor is None or not logs:
            return
        row = dict(logs)
        if "train_runtime" in row:
            return  # the summary at the end is no step's row
        evaluated = any(key.startswith("eval_") for key in row)
        if not evaluated:
            measured = self._measured()
            row |= measured
            history = state.log_history
            if measured and history and history[-1].get("step") == state.global_step:
                history[-1].update(measured)
        self.monitor.log(state.global_step, row, None if evaluated else self._completions(args))

    @_guarded
    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """A checkpoint was written."""
        self._beside("checkpoint")

    @_guarded
    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """An evaluation has ended."""
        self._beside("evaluation")

    @_guarded
    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """End: the last look is taken."""
        monitor, self.monitor = self.monitor, None
        if monitor is not None:
            monitor.close()
        if self._machine is not None:
            self._machine.close()

    def _beside(self, name: str) -> None:
        """What lies between the last event and this one was a save or an evaluation."""
        now = time.monotonic()
        if self.monitor is not None and self.clock is not None:
            self.clock.add(name, now - self._last)
        self._last = now

    def _measured(self) -> dict[str, float]:
        made: dict[str, float] = {}
        if self._measure and self.clock is not None:
            made |= self.clock.take()
        if self._machine is not None and self.monitor is not None:
            if (pid := self.monitor.beside) is not None:
                self._machine.ignore(pid)
            made |= self._machine.take()
        made |= self._probed
        self._probed = {}
        return made

    def _completions(self, args: TrainingArguments) -> dict[str, list[Any]] | None:
        """The last batch of completions, where the trainer keeps one and does not write it to disk itself."""
        kept = getattr(self._trainer, "_logs", None)
        if getattr(args, "log_completions", False) or not isinstance(kept, Mapping) or not set(LOGGED) <= set(kept):
            return None
        rewards = {name: list(values) for name, values in kept["rewards"].items()}
        return {
            "prompt": list(kept["prompt"]),
            "completion": list(kept["completion"]),
            **rewards,
            "advantage": list(kept["advantages"]),
        }


def _config(args: TrainingArguments) -> dict[str, Any]:
    """The trainer's arguments, tokens masked as transformers does it."""
    return dict(args.to_dict())


def _time_phases(trainer: Any, clock: StepClock) -> None:
    """Have the trainer's own methods tell how long they take."""
    for name, phase in PHASES.items():
        method = getattr(trainer, name, None)
        if callable(method):
            setattr(trainer, name, _timed(method, clock, phase))


def _timed(method: Callable[..., Any], clock: StepClock, phase: str) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        with clock.phase(phase):
            return method(*args, **kwargs)

    return timed
