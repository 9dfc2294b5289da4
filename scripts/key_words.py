"""Patterns of keys as people read them: `rewards/(?P<part>.+)/mean` is shown as `rewards/*/mean`.

`*` stands for any name, `N` for a number, `{a, b}` for one of several words, `[x]` for a part that may
be absent. Only the regular expressions that dialects use are understood; for another the pattern
itself is shown, which is never wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ANY, NUMBER = "\1", "\0"
"""Stand-ins until the whole key is written: a key may hold a star or a capital N of its own."""
_DIGITS = re.compile(r"\[(?:-|\\d|\d-\d|\\?\.)+\]")
_ASSERTIONS = ("(?!", "(?=", "(?<!", "(?<=")


class _NotUnderstood(Exception):
    """The pattern uses something that this file does not know."""


@dataclass
class _Reader:
    """Reads one pattern from left to right; `shown` says whether for people, or as a key that matches."""

    text: str
    shown: bool
    at: int = 0
    groups: list[str] = field(default_factory=list)
    """What each capturing group became, in the order in which they open: another place may name it again."""

    def alternatives(self) -> list[str]:
        """The words between bars, up to the end or the closing bracket of a group."""
        found, word = [], ""
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.text[self.at] == "|":
                self.at += 1
                found.append(word)
                word = ""
            else:
                word += self.piece()
        return [*found, word]

    def piece(self) -> str:
        """One character, class or group, with what says how often it comes."""
        asserts = self.text.startswith(_ASSERTIONS, self.at)
        one = self.atom()
        mark = self.text[self.at : self.at + 1]
        if mark == "{":
            raise _NotUnderstood
        if not mark or mark not in "?*+":
            return one
        self.at += 1
        if self.text[self.at : self.at + 1] in ("?", "+") or asserts:
            raise _NotUnderstood
        if mark == "?":
            return f"[{one}]" if self.shown else ""
        if one != NUMBER and self.shown:
            return ANY
        return one

    def atom(self) -> str:
        """One character, class or group; what only looks ahead or behind is nothing."""
        text, at = self.text, self.at
        if text[at] == "(":
            return self.group()
        if text[at] == "[":
            end = text.index("]", at + 2) + 1
            self.at = end
            return self.one_of(text[at:end])
        if text[at] == "\\":
            self.at += 2
            letter = text[at + 1]
            if letter == "d":
                return NUMBER if self.shown else "1"
            if letter == "w":
                return ANY if self.shown else "w"
            if letter.isdigit() and 0 < int(letter) <= len(self.groups):
                return self.groups[int(letter) - 1]
            if letter.isalnum():
                raise _NotUnderstood
            return letter
        self.at += 1
        if text[at] == ".":
            return ANY if self.shown else "x"
        if text[at] in "^$":
            return ""
        return text[at]

    def one_of(self, members: str) -> str:
        """A class in square brackets."""
        if _DIGITS.fullmatch(members):
            return NUMBER if self.shown else "1"
        inside = members[1:-1]
        if not self.shown:
            return "x" if re.fullmatch(members, "x") else "A" if re.fullmatch(members, "A") else inside[-1]
        if inside in ("A-Z", "a-z"):
            return f"{{{inside}}}"
        if inside.startswith("^") or "-" in inside or "\\" in inside:
            return ANY
        return f"{{{', '.join(inside)}}}"

    def group(self) -> str:
        """What stands in round brackets."""
        opening = next((o for o in (*_ASSERTIONS, "(?:", "(?P<part>", "(") if self.text.startswith(o, self.at)), "")
        if opening == "(" and self.text.startswith("(?", self.at):
            raise _NotUnderstood
        self.at += len(opening)
        place = len(self.groups)
        if opening in ("(", "(?P<part>"):
            self.groups.append("")
        found = self.alternatives()
        if self.text[self.at : self.at + 1] != ")":
            raise _NotUnderstood
        self.at += 1
        one = self.one_word(opening, found)
        if opening in ("(", "(?P<part>"):
            self.groups[place] = one
        return one

    def one_word(self, opening: str, found: list[str]) -> str:
        """The alternatives of a group as one word."""
        if opening in _ASSERTIONS:
            return ""
        if not self.shown:
            return found[0]
        if any(f.strip(ANY) == "" and f for f in found):
            return ANY
        if len(found) == 1:
            return found[0]
        if "" in found:
            return f"[{'|'.join(f for f in found if f)}]"
        return f"{{{', '.join(found)}}}"


def _read(pattern: str, *, shown: bool) -> list[str] | None:
    reader = _Reader(pattern, shown)
    try:
        found = reader.alternatives()
    except (_NotUnderstood, ValueError, IndexError):
        return None
    return found if reader.at == len(pattern) else None


def in_words(pattern: str) -> tuple[str, ...]:
    """The keys of a pattern as people read them, one for each alternative."""
    found = _read(pattern, shown=True)
    if found is None:
        return (pattern,)
    single = (re.sub(rf"{ANY}+", "*", re.sub(rf"{NUMBER}+", "N", f)) for f in found)
    return tuple(dict.fromkeys(single))


def examples(pattern: str) -> tuple[str, ...]:
    """For each alternative a key that matches; none where the pattern is not understood."""
    return tuple(_read(pattern, shown=False) or ())
