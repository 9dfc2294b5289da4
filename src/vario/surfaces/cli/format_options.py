"""`--format text|json`, and `--json` for short: the same pair wherever a command can answer a program."""

from __future__ import annotations

import argparse

FORMATS = ("text", "json")


def add_format(parser: argparse.ArgumentParser, told: str = "text for people, json for programs", *more: str) -> None:
    """Both options; the last one given counts, and text where none is.

    Args:
        parser: the command's. told: what each format is here. more: formats beside the two.
    """
    parser.add_argument("--format", choices=(*FORMATS, *more), default="text", help=told)
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="same as --format json")
