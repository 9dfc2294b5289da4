"""The page of the command line: every command with its description and options, from the parser itself."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator

from page_parts import MADE, table

from vario.surfaces.cli import _parser
from vario.surfaces.cli.wishes import add_judgement_options, add_sample_options, add_source_options

Add = Callable[[argparse.ArgumentParser], None]
SHARED: dict[str, Add] = {
    "Which run, and what its keys mean": add_source_options,
    "Completions": add_sample_options,
    "By what it is judged": add_judgement_options,
}
"""Options that several commands have: they are told once."""
NEEDS = {
    "samples": "`rollouts`",
    "fleet": "`rollouts` for `--output FILE.parquet`, `ray` for `--ray`",
    "watch": "`terminal` for the screen, `prometheus` for `--prometheus`, `alerts` for addresses in `[alerts]`",
    "report": "`notebook` for `--charts png`",
    "serve": "`serve`",
    "annotate": "`tensorboard`, `trackio`, `mlflow` or `wandb`, whichever it writes to",
    "mcp": "`mcp`",
}
"""Extras beyond those of the log's format and address; a test holds them against what the commands say themselves."""
CODES = (
    ("0", "done; for `diagnose` and `fleet`: nothing at or above `--fail-on`"),
    ("1", "`diagnose` and `fleet` found something"),
    ("2", "wrong use, or our own failure"),
    ("3", "nothing readable was found"),
)


def commands() -> dict[str, tuple[argparse.ArgumentParser, str]]:
    """Every command's parser, and its line in the list of them."""
    (listed,) = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    helps = {action.dest: action.help or "" for action in listed._choices_actions}
    return {name: (parser, helps[name]) for name, parser in listed.choices.items()}


def options_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a command takes beside its arguments."""
    return [a for a in parser._actions if a.option_strings and not isinstance(a, argparse._HelpAction)]


def shared_of(parser: argparse.ArgumentParser) -> dict[str, list[argparse.Action]]:
    """The groups of shared options that a command has as a whole."""
    mine = {_sign(a) for a in options_of(parser)}
    groups = {title: options_of(_with(add)) for title, add in SHARED.items()}
    return {title: group for title, group in groups.items() if {_sign(a) for a in group} <= mine}


def _with(add: Add) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    add(parser)
    return parser


def _sign(action: argparse.Action) -> tuple[tuple[str, ...], str | None]:
    return tuple(action.option_strings), action.help


def usage(name: str, parser: argparse.ArgumentParser) -> str:
    """A command in one line, whatever the width of a terminal."""
    words = [f"vario {name}"]
    for action in parser._actions:
        if not action.option_strings:
            words.append(_repeated(str(action.metavar or action.dest), action.nargs))
        elif action.required:
            words.append(_spelt(action))
    return " ".join([*words, "[OPTION …]"])


def _repeated(word: str, nargs: object) -> str:
    return {"+": f"{word} …", "*": f"[{word} …]", "?": f"[{word}]"}.get(str(nargs), word)


def _spelt(action: argparse.Action) -> str:
    return " ".join(word for word in (action.option_strings[-1], _value(action)) if word)


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    word = str(action.metavar or action.dest.upper())
    return f"[{word}]" if action.nargs == "?" else word


def _rows(actions: Iterable[argparse.Action]) -> Iterator[tuple[str, str]]:
    for action in actions:
        value = _value(action)
        names = ", ".join(f"`{name}`" for name in action.option_strings)
        again = " (may be given again)" if isinstance(action, argparse._AppendAction) else ""
        yield f"{names} `{value}`" if value else names, _plain(action.help or "") + again


def _plain(text: str) -> str:
    """A help text for Markdown: what it quotes stays, `<` and `*` mark nothing."""
    parts = re.split(r"(`[^`]*`)", text.replace("%%", "%"))
    return "".join(p if p.startswith("`") else re.sub(r"([<*])", r"\\\1", p) for p in parts)


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def command_page() -> str:
    """Every command; what several share is told at the end."""
    found = commands()
    lines = [
        MADE,
        "",
        "# Command line",
        "",
        "What `vario COMMAND --help` says, for all commands. Everything that an option says for one call,",
        "[`vario.toml`](your-project.md) says for good.",
        "",
        *table(("command", "does"), ((f"[`vario {name}`](#vario-{name})", _plain(told)) for name, (_, told) in found.items())),
        "",
        "`vario --version` says which version it is.",
        "",
        "## Exit codes",
        "",
        *table(("code", "means"), CODES),
        "",
        "Of several paths the worst counts, in the order 2, 3, 1, 0. No command ends in a traceback; `VARIO_DEBUG=1` shows the",
        "one behind an internal error.",
    ]
    for name, (parser, told) in found.items():
        lines += ["", f"## vario {name}", "", f"`{usage(name, parser)}`", "", _plain(parser.description or _sentence(told))]
        if name in NEEDS:
            lines += ["", f"Extras: {NEEDS[name]}."]
        shared = shared_of(parser)
        known = {_sign(a) for group in shared.values() for a in group}
        own = [a for a in options_of(parser) if _sign(a) not in known]
        if own:
            lines += ["", *table(("option", "does"), _rows(own))]
        if shared:
            links = ", ".join(f"[{title[0].lower()}{title[1:]}](#{_anchor(title)})" for title in shared)
            lines += ["", f"And the options of: {links}."]
    lines += ["", "## Options of several commands"]
    for title, add in SHARED.items():
        lines += ["", f"### {title}", "", *table(("option", "does"), _rows(options_of(_with(add))))]
    return "\n".join(lines) + "\n"


def _sentence(told: str) -> str:
    return f"{told[0].upper()}{told[1:]}."
