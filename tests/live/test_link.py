"""Messages over pipes: whole or not at all, never a wait without end, and no pipe of a parent's in its children."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from vario.surfaces.live import link


@pytest.fixture
def ends():
    made = link.pipe()
    yield made
    for fd in made:
        link.close(fd)


def test_messages_arrive_as_they_were_sent(ends) -> None:
    inward, outward = ends
    sent = [("rows", [(1, 0.5, {"kl": math.inf})]), ("end", "closed"), ("text", "é" * 300_000)]

    def send() -> None:
        for message in sent:
            link.write(outward, *message)
        link.close(outward)

    thread = threading.Thread(target=send)
    thread.start()
    assert [link.read(inward) for _ in sent] == sent
    assert link.read(inward) is None
    thread.join()


def test_a_message_that_ends_in_its_middle_is_none(ends) -> None:
    inward, outward = ends
    data = pickle.dumps(("rows", list(range(100))))
    os.write(outward, link.LENGTH.pack(len(data)) + data[:-5])
    link.close(outward)
    assert link.read(inward) is None


@pytest.mark.parametrize(
    "words",
    [b"Usage: python [options]\n", link.LENGTH.pack(5) + b"hello", link.LENGTH.pack(len(d := pickle.dumps([1]))) + d],
)
def test_words_of_another_program_are_no_message(ends, words: bytes) -> None:
    inward, outward = ends
    os.write(outward, words)
    with pytest.raises(link.NoMessage):
        link.read(inward)


def test_where_nobody_reads_the_writer_can_be_called_off(ends) -> None:
    _, outward = ends
    os.set_blocking(outward, False)
    asked = []

    def given_up() -> bool:
        asked.append(1)
        return len(asked) > 1

    with pytest.raises(link.GivenUp):
        link.write(outward, b"x" * 10_000_000, given_up=given_up)
    assert len(asked) == 2


def test_what_is_closed_is_closed_once(ends) -> None:
    inward, outward = ends
    link.close(inward)
    with Path(os.devnull).open() as other:  # takes the number that has become free
        assert other.fileno() == inward
        link.close(inward)
        os.fstat(other.fileno())
    with pytest.raises(OSError):
        link.write(outward, "nobody reads")


def test_a_forked_child_holds_no_end_of_the_pipe(ends) -> None:
    inward, outward = ends
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        for fd in (inward, outward):
            try:
                os.fstat(fd)
            except OSError:
                os.write(tell, b"closed ")
        link.close(outward)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(told, 100) == b"closed closed "
    link.write(outward, "still ours")
    assert link.read(inward) == ("still ours",)
    for fd in (told, tell):
        os.close(fd)


def test_a_pipe_is_no_standard_stream_of_a_process_that_closed_its_own() -> None:
    code = """
        import os, sys
        from vario.surfaces.live import link
        out = os.dup(1)
        for fd in (0, 1, 2):
            os.close(fd)
        ends = link.pipe()
        os.write(out, repr(min(ends) > 2 and not any(map(os.get_inheritable, ends))).encode())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, check=True)
    assert done.stdout == b"True"
