"""`vario report` as a command: the files it writes, Markdown as GitHub reads it, pictures, options, refusals."""

from __future__ import annotations

import re
import shutil
from html import unescape
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

import vario
from tests.browser.reports import BROKEN_OUT, PWNED, TURNED, climbing, hostile, logged
from tests.cli.dumps import KEY, trl_run
from tests.conftest import GOLDEN
from vario.surfaces import sentences
from vario.surfaces.charts.marks import marks_of
from vario.surfaces.charts.names import slug
from vario.surfaces.cli import FAILED, NOTHING, OK, main
from vario.surfaces.report.markdown import plain

DRIFT = GOLDEN / "grpo-drift"
IMAGE = re.compile(r"^!\[(.+)\]\(([^()\s]+)\)$", flags=re.MULTILINE)


def shown(markdown: str) -> str:
    """What a reader sees of a line of text: escapes and entities resolved as CommonMark resolves them."""
    return unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", markdown)).replace("\u200b", "")


def written(tmp_path: Path, run: Path, *options: str, name: str = "report.md") -> str:
    assert main(["report", str(run), "-o", str(tmp_path / name), *options]) == OK
    return (tmp_path / name).read_text(encoding="utf-8")


def test_markdown_and_the_pictures_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = written(tmp_path, DRIFT, name="pull request (2).md")
    assert not capsys.readouterr().out
    diagnosis = vario.diagnose(vario.read(DRIFT))
    images = IMAGE.findall(text)
    assert len(images) > 8
    assert text.count("![") == len(images)
    for told, target in images:
        file = tmp_path / unquote(target)
        root = ElementTree.parse(file).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        title = root.find("{http://www.w3.org/2000/svg}title")
        assert title is not None
        assert title.text == shown(told)
    (folder,) = (p for p in tmp_path.iterdir() if p.is_dir())
    assert {p.name for p in folder.iterdir()} == {Path(unquote(target)).name for _, target in images}
    seen = shown(text)
    assert diagnosis.verdict.narrative in seen
    assert sentences.heading(diagnosis) in seen
    for name, fact in sentences.facts(diagnosis.verdict):
        assert f"- **{name}**: {fact}" in seen
    for mark in marks_of(diagnosis):
        assert f"### {mark.letter}. {mark.finding.name} ({mark.finding.severity}; {sentences.when_and_how_sure(mark.finding)})" in seen
        for line in mark.finding.evidence:
            assert f"- {line}" in seen
    for line in [*(f"{n.name}: {n.text}" for n in diagnosis.notes), *sentences.unseen(diagnosis)]:
        assert f"- {line}" in seen


@pytest.mark.parametrize(
    "text",
    [
        "@octocat and @org/team",
        "fixes #12, GH-7, org/name#3",
        "http://127.0.0.1/x and https://example.org and www.example.org",
        "a&#64;b &lt;script&gt; &amp;",
        "a\\b `c` *d* _e_ [f](g) <h> ~i~ | j $k$ ![l](m)",
        "- a", "+ a", "1. a", "12) a", "=== a", "# a", "> a",
        "--- a", PWNED, BROKEN_OUT,
    ],
)  # fmt: skip
def test_markdown_shows_text_as_it_is_and_calls_nobody(text: str) -> None:
    made = plain(text)
    assert shown(made) == text
    read = unescape(made)
    for call in (r"@\w", r"#\d", r"\bGH-\d", r"://", r"\bwww\."):
        assert not re.search(call, read), made
    bare = re.sub(r"\\[!-/:-@\[-`{-~]", "", made)
    assert not re.search(r"[<>`*_\[\]|~$\\]", bare), "each mark has its backslash"
    assert not re.match(r"[-+=>]|\d+[.)]|#{1,6} ", bare if bare[:1] == made[:1] else "x")
    assert not re.search(r"&(?!amp;|#8203;)", made)


def test_hostile_names_and_completions_in_markdown(tmp_path: Path) -> None:
    text = written(tmp_path, hostile(tmp_path / "run"), "--name", f"@octocat {PWNED} {TURNED}")
    assert "\u202e" not in text
    assert "\x00" not in text
    assert not re.search(r"(?<!\\)<(?!/?(sub|details|summary)>)", text)
    assert not re.search(r"@\w", unescape(text))
    images = IMAGE.findall(text)
    assert text.count("![") - text.count("\\![") == len(images)
    assert len({target for _, target in images}) == len(images)
    for _, target in images:
        file = tmp_path / unquote(target)
        assert len(file.name) < 120
        svg = file.read_text(encoding="utf-8")
        assert "\u202e" not in svg
        for element in ElementTree.fromstring(svg).iter():
            assert element.tag.rpartition("}")[2] in {"svg", "title", "style", "rect", "text", "path", "line", "g", "circle"}
            assert not any(word.startswith("on") or "href" in word for word in element.attrib)
    assert KEY not in text


def test_pictures_can_be_left_out(tmp_path: Path) -> None:
    text = written(tmp_path, DRIFT, "--charts", "none")
    assert "![" not in text
    assert "| metric | start | now | shape |" in text
    assert re.search(r"^\| reward/mean \| 0\.\d+ \| 0\.\d+ \| peaked \|$", text, re.MULTILINE)
    assert [p.name for p in tmp_path.iterdir()] == ["report.md"]


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(DRIFT), "-o", "-"]) == OK
    told = capsys.readouterr()
    assert told.out.startswith("<!doctype html>")
    assert not told.err
    assert main(["report", str(DRIFT), "-o", "-", "--format", "markdown"]) == OK
    told = capsys.readouterr()
    assert told.out.startswith("## STOP: ")
    assert "![" not in told.out, "nothing lies beside standard output"


def test_until_says_what_was_known_then(tmp_path: Path) -> None:
    early = vario.diagnose(vario.read(DRIFT).until(50))
    text = written(tmp_path, DRIFT, "--until", "50", "--charts", "none")
    assert early.verdict.narrative in shown(text)
    assert "steps 1 to 50 (50 logged)" in text
    assert "kl-rises-while-reward-falls" not in text


def test_pedantic_findings_are_shown_when_asked_for(tmp_path: Path) -> None:
    run, name = next(
        (path.parent, f.name)
        for path in sorted(GOLDEN.glob("*/label.json"))
        for f in vario.diagnose(vario.read(path.parent), replay=False).findings
        if f.audience == "pedantic"
    )
    one = ["--no-replay", "--charts", "none"]
    assert name not in written(tmp_path, run, *one)
    assert name in written(tmp_path, run, "--pedantic", *one)


def test_names_and_texts(tmp_path: Path) -> None:
    run = trl_run(tmp_path / "run", texts={(96, 1): f"the words of the model, {KEY}"})
    loud = written(tmp_path, run, name="a.html")
    assert "<h2 id=\"samples\">Completions</h2>" in loud
    assert KEY not in loud
    quiet = written(tmp_path, run, "--no-text", "--name", "the seventh", name="b.html")
    assert "Completions</h2>" not in quiet
    assert "so the answer is" in loud
    assert "so the answer is" not in quiet
    assert "<h1>the seventh</h1>" in quiet


def test_the_same_sentences_as_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", str(DRIFT), "--exit-zero"])
    packed = re.sub(r"\s+", "", capsys.readouterr().out)
    page = re.sub(r"\s+", "", unescape(re.sub(r"<[^>]+>", "", written(tmp_path, DRIFT, name="a.html"))))
    diagnosis = vario.diagnose(vario.read(DRIFT))
    told = [diagnosis.verdict.narrative, *(text for _, text in sentences.facts(diagnosis.verdict)), *sentences.unseen(diagnosis)]
    told += [line for f in diagnosis.findings if f.audience == "default" and f.severity != "info" for line in f.evidence]
    assert len(told) > 8
    for line in told:
        assert re.sub(r"\s+", "", line) in packed
        assert re.sub(r"\s+", "", line) in page


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["nowhere"], NOTHING, "nowhere"),
        ([str(DRIFT), "--until", "0"], FAILED, "no row to report on"),
        ([str(DRIFT), "-o", "nowhere/report.html"], FAILED, "nowhere/report.html"),
        ([str(DRIFT), "-o", "nowhere/report.md", "--charts", "none"], FAILED, "nowhere/report.md"),
        ([str(DRIFT), "-o", "file/report.md"], FAILED, "file"),
    ],
)
def test_refusals_are_one_line(
    options: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert main(["report", *options, "--no-replay"]) == code
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == 1
    assert not told.out
    assert "internal error" not in told.err


def test_several_runs_and_none_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        shutil.copytree(DRIFT, tmp_path / "runs" / name)
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html")]) == FAILED
    assert "--run" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_a_picture_in_a_file_of_its_own_is_sound(tmp_path: Path) -> None:
    columns = climbing(30)
    text = written(tmp_path, logged(tmp_path / "run", columns), "--no-replay")
    assert len(IMAGE.findall(text)) == len(list((tmp_path / "report-files").iterdir()))
    svg = (tmp_path / "report-files/reward-mean.svg").read_text(encoding="utf-8")
    drawn = ElementTree.fromstring(svg)
    assert drawn.get("viewBox") == "0 0 760 150"
    (style,) = drawn.findall("{http://www.w3.org/2000/svg}style")
    used = set(re.findall(r"var\(--(\w+)\)", style.text or ""))
    assert used <= set(re.findall(r"--(\w+):", style.text or "")), "a file of its own has all its colours"
    assert "prefers-color-scheme:dark" in (style.text or "")
    assert "url(" not in svg


def test_different_names_have_different_addresses() -> None:
    names = ["reward/mean", "a b", "a<b", "a\u202eb", "n" * 90, "n" * 91, "n" * 10_000, ""]
    made = [slug(name) for name in names]
    assert made[0] == "reward-mean"
    assert len(set(made)) == len(names)
    assert all(re.fullmatch(r"[\w-]{1,100}", address, re.ASCII) for address in made)
