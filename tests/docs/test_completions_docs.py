"""docs/completions.md: every command is run on a recorded run with completions, and every table is that of the code."""

from __future__ import annotations

import contextlib
import importlib
import json
import random
import re
import shutil
from pathlib import Path

import page_parts
import pytest
from record_golden import ANSWER, answer_format, habit, problem

import vario
from tests.conftest import ROOT, recorded
from tests.docs.telling import (
    Told,
    commands_of,
    is_printed,
    is_understood,
    on_ray,
    quoted,
    run,
    table_below,
    tell,
    text_of,
)
from vario.catalogue import FROM_SAMPLES, lookup
from vario.instruments import review
from vario.project_file import COLUMN_WORDS
from vario.rules import find_rule
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.base import OWN_SAMPLES
from vario.sources.sampled import FOLDER_SETTINGS, SampleOptions
from vario.surfaces import excerpts, privacy
from vario.verdict import dossier, reading_list
from vario.verdict import review as queue

pl = pytest.importorskip("polars")

from vario.sources import sampled  # noqa: E402
from vario.sources.rollouts import counting, dumps, series  # noqa: E402
from vario.sources.rollouts.layouts import LAYOUTS, layout_of  # noqa: E402

PAGE = "completions"
TEXT = text_of(PAGE)
SAID = " ".join(TEXT.split())
GROUPS, SIZE = 8, 8
SECRET = "api_key=sk-this-is-nobodys-key-0000"
FOUND = table_below(PAGE, "What is found by itself")
ALONE = "verifiers, by itself"
"""The row of a library that no dialect speaks of."""


# the runs of the page


def right_answers(drawn: random.Random, total: int, tied: int) -> list[int]:
    """How many of each group are right: so many groups all of them, in the others some and not all."""
    some = [1] * (GROUPS - tied)
    for _ in range(total - SIZE * tied - len(some)):
        some[drawn.choice([i for i, n in enumerate(some) if n < SIZE - 1])] += 1
    made = [SIZE] * tied + some
    drawn.shuffle(made)
    return made


def answers(drawn: random.Random, a: int, b: int, wanted: dict[str, int]) -> list[str]:
    """Completions as the base model of the recorded runs writes them: so many right, wrong, and without a tag."""
    made: list[str] = []
    left = dict(wanted)
    while any(left.values()):
        text = habit(a, b, drawn)
        tag = ANSWER.search(text.strip())
        kind = "bare" if tag is None else "right" if int(tag[1]) == a + b else "wrong"
        if left[kind]:
            left[kind] -= 1
            made.append(text)
    drawn.shuffle(made)
    return made


def write_completions(folder: Path) -> None:
    """What `log_completions=True` would have left beside this log: its rewards, step by step."""
    drawn = random.Random(7)
    rows = [r for r in json.loads((folder / "trainer_state.json").read_text())["log_history"] if "reward" in r]
    (folder / "completions").mkdir()
    right = 0
    for row in rows:
        paid = round(GROUPS * SIZE * row["rewards/correctness/mean"])
        tagged = round(GROUPS * SIZE * row["rewards/answer_format/mean"])
        right = min(paid or right, tagged)  # the policy went on answering when its reward broke
        of_group = right_answers(drawn, right, round(GROUPS * row["frac_reward_zero_std"]) if paid else 0)
        bare = [0] * GROUPS
        for _ in range(GROUPS * SIZE - tagged):
            bare[drawn.choice([i for i in range(GROUPS) if bare[i] + of_group[i] < SIZE])] += 1
        table: dict[str, list[object]] = {n: [] for n in ("step", "prompt", "completion", "correctness", "answer_format", "advantage")}  # fmt: skip
        for group_right, group_bare in zip(of_group, bare, strict=True):
            a, b = problem(drawn)
            texts = answers(drawn, a, b, {"right": group_right, "bare": group_bare, "wrong": SIZE - group_right - group_bare})  # fmt: skip
            scores = [float(bool(paid) and t.strip().endswith(f"<a>{a + b}</a>")) for t in texts]
            mean = sum(scores) / SIZE
            spread = (sum((s - mean) ** 2 for s in scores) / (SIZE - 1)) ** 0.5
            table["step"] += [row["step"]] * SIZE
            table["prompt"] += [f"{a}+{b}="] * SIZE
            table["completion"] += texts
            table["correctness"] += scores
            table["answer_format"] += answer_format(texts)
            table["advantage"] += [(s - mean) / (spread + 1e-4) for s in scores]
        pl.DataFrame(table).write_parquet(folder / f"completions/completions_{row['step']:05d}.parquet")


def write_loop(folder: Path) -> None:
    """A loop of one's own: its log, and a table of samples with two lines that broke, and a text with a key in it."""
    drawn = random.Random(3)
    (folder / "dumps").mkdir(parents=True)
    log = [{"step": s, "reward": round(0.3 + 0.005 * s + drawn.gauss(0.0, 0.02), 4), "kl": 0.001 * s} for s in range(1, 61)]  # fmt: skip
    (folder / "my-loop.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log))
    shown = json.loads(re.search(r"^```json\n(.*?)```", TEXT, flags=re.MULTILINE | re.DOTALL)[1])  # type: ignore[index]
    for row in log:
        rows = []
        for group in range(4):
            for _ in range(4):
                paid = float(drawn.random() < row["reward"])
                rows.append({"iter": row["step"], "prompt_id": f"{row['step']}-{group}", "question": f"{group} plus {row['step']}?", "text": f"It is {group + row['step'] + 1 - int(paid)}.", "acc": paid})  # fmt: skip
        if row["step"] == shown["iter"]:
            rows[3] = shown
            rows[4]["text"] = f"It is 12. {SECRET}"
        lines = [json.dumps(one) for one in rows] + (
            ['{"iter": 30, "text": "It i', '{"iter"'] if row["step"] == 30 else []
        )
        (folder / f"dumps/part-{row['step']:03d}.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    recorded("grpo-reward-bug", home / "runs/my-run")
    write_completions(home / "runs/my-run")
    write_loop(home / "loop")
    shutil.copytree(home / "runs/my-run", home / "bucket/my-run")
    return home


@pytest.fixture(scope="module")
def told(home: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Told]:
    """The whole page; whoever is asked for a mark says `hacked`."""
    here = tmp_path_factory.mktemp("told")
    shutil.copytree(home, here, dirs_exist_ok=True)
    return tell(PAGE, here, answers="h\n" * 20)


def of(told: list[Told], line: str) -> list[Told]:
    found = [done for done in told if done.line == line]
    assert found, line
    return found


# its commands


COMMANDS = [line for line in dict.fromkeys(commands_of(PAGE)) if "--ray" not in line]


@pytest.mark.parametrize("line", COMMANDS)
def test_command_runs(line: str, told: list[Told]) -> None:
    for done in of(told, line):
        assert done.code in ((0, 1) if "diagnose" in line else (0,)), done.out
        assert "internal error" not in done.out
        assert done.out.strip()


def test_what_the_page_shows_is_printed(told: list[Told]) -> None:
    assert sum(len(done.shown) for done in told) > 8
    for done in told:
        is_printed(done)


def test_what_is_printed_fits_a_terminal(told: list[Told]) -> None:
    for done in told:
        if done.line.startswith(("vario diagnose", "vario samples")):
            assert max(map(len, done.out.splitlines())) <= 80 or "file://" in done.out, done.out


def test_commands_in_sentences_are_understood() -> None:
    is_understood(PAGE, "diagnose", "samples")


def test_it_is_linked() -> None:
    assert "](completions.md)" in (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert "](docs/completions.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_links_lead_somewhere() -> None:
    for page, anchor in re.findall(r"\]\(([\w/-]+\.md)?(?:#([\w-]+))?\)", TEXT):
        text = TEXT if not page else (ROOT / "docs" / page).read_text(encoding="utf-8")
        heads = {
            re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        }
        assert not anchor or anchor in heads, f"{page}#{anchor}"


# what is found


def test_every_framework_is_in_the_table_with_its_switch() -> None:
    rows = {page_parts.title_of(d): d for d in DIALECTS}
    assert {re.sub(r"\[(.*)\]\(.*\)", r"\1", row[0]) for row in FOUND} == {*rows, ALONE}
    for first, switch, _ in FOUND:
        name, link = re.fullmatch(r"\[(.*)\]\((.*)\)", first).groups() if first != ALONE else (ALONE, "")  # type: ignore[union-attr]
        if name in rows:
            assert link == f"frameworks/{rows[name].name}.md"
            said = rows[name].samples
            assert switch.replace("`", "") == (said if said == OWN_SAMPLES else said.removesuffix(f"; {OWN_SAMPLES}"))


def test_every_layout_has_a_file_in_the_table() -> None:
    titles = {d.name: page_parts.title_of(d) for d in DIALECTS}
    files = {re.sub(r"\[(.*)\]\(.*\)", r"\1", row[0]): quoted(row[2]) for row in FOUND}
    for layout in LAYOUTS:
        mine = files[titles[layout.name] if layout.name != "generic" else ALONE]
        assert any(layout.recognises(f"my-run/{file}", layout.needs) for file in mine), layout.key
    for name, mine in files.items():
        for file in mine:
            known = [one for one in LAYOUTS if one.files.search(f"my-run/{file}")]
            assert known or name == titles["generic"], file


def test_a_table_in_common_words_is_found_beside_the_log(tmp_path: Path) -> None:
    (file,) = (name for row in FOUND if "own loop" in row[0] for name in quoted(row[2]))
    words = FOUND[-1][1].split(": ")[1].split(", ")
    assert layout_of(file, words) is not None
    rows = [dict(zip(words, (s, f"{g}?", f"{g}{i}!", i % 2), strict=True)) for s in range(1, 31) for g in range(4) for i in range(4)]  # fmt: skip
    (tmp_path / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps({"step": s, "reward": 0.5, "kl": 0.1}) + "\n" for s in range(1, 31)))  # fmt: skip
    assert vario.read(tmp_path).samples.counted == len(rows)  # type: ignore[union-attr]


def test_the_settings_that_name_a_folder_are_told() -> None:
    for setting in FOLDER_SETTINGS:
        assert setting in TEXT


# what is counted


def named() -> set[str]:
    return {name for row in table_below(PAGE, "What is counted") for name in quoted(row[1])}


def test_every_metric_that_is_counted_is_told_in_a_theme() -> None:
    assert named() == FROM_SAMPLES
    for theme, *_ in table_below(PAGE, "What is counted"):
        assert re.search(r"\(metrics\.md#(\w+)\)", theme)


def test_what_is_counted_where_the_log_lacks_it(home: Path) -> None:
    """The list below the table: nothing is counted that the page is silent about."""
    rest = re.compile(
        r"(reward|length)/(mean|min|max|std|std/batch)|length/(terminated|solved|unsolved)/mean"
        r"|reward/component/.*|advantage/(min|max)|staleness/mean"
    )
    counted = vario.read(home / "runs/my-run").series
    for name, one in counted.items():
        if one.counted:
            family = lookup(name).name
            assert family in FROM_SAMPLES or rest.fullmatch(name), name


def test_counted_and_logged(home: Path) -> None:
    run_ = vario.read(home / "runs/my-run")
    assert run_.series["reward/mean"].key == "reward"
    assert run_.series["samples/reward/mean"].counted
    assert not run_.series["signal/zero-variance-share"].counted
    assert run_.series["samples/zero-variance-share"].counted
    assert run_.series["reward/std/within-group"].counted, "TRL logs the batch's"
    assert set(series.LOGGED_AS) == {n for n in named() if n.startswith("samples/") and "source" not in n and n != "samples/reward/se"}  # fmt: skip
    assert series.COMPLETE == 0.9
    assert "nine tenths of its logged steps or more" in SAID
    assert find_rule("metric-contradicts-samples")
    for name in series.LOGGED_AS.values():
        assert lookup(name)


def test_numbers_of_the_page() -> None:
    assert (counting.DRAWN, dumps.PIECE_BYTES, series.MOST_KEPT) == (128, 64 << 20, 200_000)
    assert (series.LARGE, series.MOST_WORKERS) == (256 << 20, 8)
    assert (excerpts.LENGTH, excerpts.MOST_FINDINGS, excerpts.LARGE) == (160, 3, 64 << 20)
    assert (privacy.SHOWN, privacy.MOST, queue.LATE) == (1_200, 200_000, 0.25)
    assert (review.LEAST, review.LATE, importlib.import_module("vario.rules.reward_hacking").MARKED) == (6, 0.5, 0.3)
    assert (reading_list.HOW_MANY, reading_list.A_GROUP, reading_list.LATE) == (8, 2, 0.5)
    assert (dossier.NEIGHBOURS, dossier.MOST) == (8, 5)
    for said in (
        "128 completions of each step", "pieces of 64 MiB", "200,000 of them at the most", "160 characters of each",
        "the first three findings", "larger than 64 MiB", "1,200 characters", "up to 200,000", "last quarter of the run",
        "Six marks of well-paid completions from the last half", "three in ten", "names eight of them",
        "later half of the stretch", "at most two of one group", "the eight sampled steps before it",
        "the five that differ most", "256 MiB or more", "8 at the most",
    ):  # fmt: skip
        assert said in SAID, said


def test_columns_of_a_table_are_told() -> None:
    told = {name for row in table_below(PAGE, "A table of your own") for name in quoted(row[0])}
    assert told == {*COLUMN_WORDS, "reward.NAME"}


def test_the_project_file_says_what_the_options_say(told: list[Told]) -> None:
    (by_options,) = (done for done in told if "--samples-map" in done.line)
    by_file, *_ = of(told, "vario diagnose loop/my-loop.jsonl")
    assert by_options.out == by_file.out
    assert "text/group-diversity" in by_file.out


# reading


def test_what_can_be_wished_is_told() -> None:
    sentence = SAID.split("`--by` takes")[1].split(". ")[0]
    assert quoted(f"{sentence}".split("`--only` takes")[0]) == list(sampled.ORDERS)
    assert quoted(sentence.split("`--only` takes")[1]) == list(sampled.KINDS)


def test_the_answer_that_is_shown_is_right_and_unpaid(told: list[Told]) -> None:
    (done,) = of(told, "vario samples runs/my-run 91/3")
    prompt, completion = re.search(r"prompt\n +(\S+)=\n +completion\n.*<a>(\d+)</a>", done.out).groups()  # type: ignore[union-attr]
    assert sum(map(int, prompt.split("+"))) == int(completion)
    assert "reward 0" in done.out


def test_a_finding_names_the_completions_that_the_command_shows(told: list[Told]) -> None:
    (done,) = of(told, "vario samples runs/my-run --finding reward-function-broke")
    finding = re.search(r"read 8 completions.*?\(([\d/\s]+)\)", of(told, "vario diagnose runs/my-run")[0].out)
    assert re.findall(r"^(\d+/\d+) ", done.out, flags=re.MULTILINE) == finding[1].split()  # type: ignore[index]


def test_without_text_nothing_is_quoted(told: list[Told]) -> None:
    assert "<a>" in of(told, "vario diagnose runs/my-run")[0].out
    assert "<a>" not in of(told, "vario diagnose runs/my-run --no-text")[0].out
    assert "<a>" not in of(told, "vario samples runs/my-run --group 91/3 --no-text")[0].out


def test_a_key_is_masked(told: list[Told]) -> None:
    assert SECRET.partition("=")[2] not in "".join(done.out for done in told)


# marks


def test_the_file_of_marks_holds_no_text(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "loop", tmp_path / "loop")
    (tmp_path / "loop/vario.toml").write_text(re.search(r"```toml\n(.*?)```", TEXT, re.DOTALL)[1])  # type: ignore[index]
    with contextlib.chdir(tmp_path):
        done = run("vario samples loop/my-loop.jsonl --review 16", "h\n" * 16)
        assert done.code == 0, done.out
        rows = [json.loads(line) for line in Path("loop/vario-marks.jsonl").read_text().splitlines()]
        assert len(rows) == 16
        assert {key for row in rows for key in row} == {"step", "number", "mark", "reward", "known_at"}
        assert {row["mark"] for row in rows} == {"hacked"}
        again = run("vario samples loop/my-loop.jsonl --review 2", "q\n").out
        assert not any(f"\n{row['step']}/{row['number']} " in again for row in rows)
        heard = run("vario diagnose loop/my-loop.jsonl").out
    assert re.search(r"critical\[RU105\] reward-hacking .*a person marked \d+ of \d+ well-paid", heard, re.DOTALL)


# large dumps


def test_processes_give_the_same(told: list[Told]) -> None:
    alone = of(told, "vario diagnose runs/my-run")[0].out
    assert of(told, "vario diagnose runs/my-run --workers 2")[0].out == alone
    assert of(told, "vario diagnose runs/my-run --samples s3://bucket/my-run/completions")[0].out == alone
    (there,) = of(told, "vario diagnose s3://bucket/my-run")
    assert there.out.split("\n\n", 1)[1] == alone.split("\n\n", 1)[1]


def test_ray_gives_the_same(told: list[Told], home: Path) -> None:
    (line,) = (line for line in commands_of(PAGE) if "--ray" in line)
    with contextlib.chdir(home), on_ray():
        assert run(line).out == of(told, "vario diagnose runs/my-run")[0].out


def test_python_of_the_page(told: list[Told], home: Path) -> None:
    (done,) = (done for done in told if "SampleOptions" in done.line)
    counted, mean, diversity, finding = done.out.splitlines()
    assert counted == "9600 counted, 9600 measured"
    assert float(mean) == 0.0
    assert 0.0 < float(diversity) < 1.0
    assert finding.startswith("reward-function-broke ((")
    assert vario.read(home / "runs/my-run", samples=SampleOptions(read=False)).samples is None
