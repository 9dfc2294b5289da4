"""`vario diagnose` with completions: where they are found, what their columns mean, and what is quoted of them."""

from __future__ import annotations

import json
import shutil
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

pl = pytest.importorskip("polars")

from tests.cli.dumps import A_STEP, broken_at, trl_run  # noqa: E402
from vario.surfaces.cli import main  # noqa: E402
from vario.surfaces.excerpts import LENGTH, MOST_FINDINGS  # noqa: E402

Capture = pytest.CaptureFixture[str]
MAP = ("step=when", "prompt=q", "completion=said", "reward=acc")
TOML = 'step = "when"\nprompt = "q"\ncompletion = "said"\nreward = "acc"\n'


@pytest.fixture(autouse=True)
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diagnose")
    trl_run(folder / "good")
    trl_run(folder / "broken", broken_at(60))
    trl_run(folder / "bare", dump=False)
    return folder


def mine(path: Path, steps: range = range(1, 101)) -> Path:
    """A table in words of somebody's own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"when": s, "q": f"question {s}/{n // 4}", "said": f"zebra {s} {n}", "acc": float(n % 2), "brevity": 0.5}
        for s in steps
        for n in range(A_STEP)
    ]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def diagnosed(capsys: Capture, path: Path, *more: object) -> dict:
    code = main(["diagnose", str(path), "--json", "--no-replay", *map(str, more)])
    out, error = capsys.readouterr()
    assert code in (0, 1), error
    return json.loads(out)


def refused(capsys: Capture, path: Path, *more: object) -> str:
    assert main(["diagnose", str(path), "--no-replay", *map(str, more)]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("vario: ")
    assert error.count("\n") == 1
    assert "internal error" not in error
    return error


def mapping(*more: str) -> list[str]:
    return [word for item in (*MAP, *more) for word in ("--samples-map", item)]


def counted(document: dict) -> set[str]:
    return {name for name, metric in document["run"]["metrics"].items() if metric.get("counted")}


# where they are


def test_what_lies_beside_the_log_is_counted(made: Path, capsys: Capture) -> None:
    document = diagnosed(capsys, made / "good")
    assert document["run"]["samples"] == {
        "places": [str(made / "good" / "completions")], "counted": 400, "texts_measured": 400, "steps": 50,
    }  # fmt: skip
    assert {"samples/reward/mean", "text/group-diversity", "signal/solved-share"} <= counted(document)
    assert document["run"]["metrics"]["reward/mean"] == {"key": "reward", "points": 100}, "what is logged stays logged"
    assert document["run"]["metrics"]["text/group-diversity"]["key"] == "completions/*.parquet"


def test_they_can_be_left_alone(made: Path, capsys: Capture) -> None:
    document = diagnosed(capsys, made / "broken", "--no-samples")
    assert document["run"]["samples"] is None
    assert not counted(document)
    for finding in document["findings"]:
        assert "read" not in finding
    assert main(["diagnose", str(made / "broken"), "--no-samples", "--no-replay"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "vario samples RUN" not in out
    assert "cannot be told without its completions: log_completions=True" in out


def test_a_place_of_ones_own(made: Path, tmp_path: Path, capsys: Capture) -> None:
    dump = mine(tmp_path / "elsewhere" / "t.jsonl")
    for place in (dump, dump.parent):
        document = diagnosed(capsys, made / "bare", "--samples", place, *mapping())
        assert document["run"]["samples"]["counted"] == 100 * A_STEP
        assert document["run"]["metrics"]["samples/reward/mean"]["points"] == 100
        assert document["run"]["framework"] == "trl"
    some = diagnosed(capsys, made / "bare", "--samples", mine(tmp_path / "a.jsonl", range(1, 11)), "--samples",
                     mine(tmp_path / "b.jsonl", range(11, 31)), *mapping())  # fmt: skip
    assert (some["run"]["samples"]["counted"], some["run"]["samples"]["steps"]) == (30 * A_STEP, 30)
    pattern = diagnosed(capsys, made / "bare", "--samples", tmp_path / "[ab].jsonl", *mapping())
    assert pattern["run"]["samples"]["steps"] == 30


def test_the_place_that_is_named_stands_for_what_is_found(made: Path, tmp_path: Path, capsys: Capture) -> None:
    document = diagnosed(capsys, made / "good", "--samples", mine(tmp_path / "t.jsonl", range(1, 11)), *mapping())
    assert document["run"]["samples"]["counted"] == 10 * A_STEP


def test_reward_functions_are_named(made: Path, tmp_path: Path, capsys: Capture) -> None:
    dump = mine(tmp_path / "t.jsonl")
    table = tmp_path / "t.parquet"
    pl.read_ndjson(dump).write_parquet(table)
    for place in (dump, table):
        document = diagnosed(capsys, made / "bare", "--samples", place, *mapping("reward.short=brevity", "reward.none=nowhere"))
        assert "reward/component/short/mean" in counted(document)
        assert not {"reward/component/brevity/mean", "reward/component/none/mean"} & counted(document)
        assert document["run"]["samples"]["steps"] == 100


def test_a_column_that_nobody_knows(made: Path, tmp_path: Path, capsys: Capture) -> None:
    dump = mine(tmp_path / "t.jsonl")
    error = refused(capsys, made / "bare", "--samples", dump, "--samples-map", "words=said")
    assert "--samples-map knows no column 'words'" in error
    assert "completion" in error and "reward.NAME" in error
    for item in ("completion", "completion=", "=said"):
        assert "--samples-map" in refused(capsys, made / "bare", "--samples", dump, "--samples-map", item)
    assert "'reward.'" in refused(capsys, made / "bare", "--samples", dump, "--samples-map", "reward.=acc")


def test_a_place_without_completions(made: Path, tmp_path: Path, capsys: Capture) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "log.jsonl").write_text("".join(json.dumps({"step": s, "loss": 0.5}) + "\n" for s in range(9)))
    for place in (empty, tmp_path / "nowhere", tmp_path / "log.jsonl", mine(tmp_path / "t.jsonl")):
        error = refused(capsys, made / "good", "--samples", place)
        assert f"--samples: no completions that vario can read in {place}" in error
        assert "--samples-map completion=KEY" in error


def test_a_step_of_another_run_is_told(made: Path, tmp_path: Path, capsys: Capture) -> None:
    document = diagnosed(capsys, made / "bare", "--samples", mine(tmp_path / "t.jsonl", range(5000, 5003)), *mapping())
    (told,) = [w for w in document["run"]["warnings"] if "of one run?" in w]
    assert "steps 5000 to 5002" in told


# vario.toml


@pytest.fixture
def bare(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made / "bare", tmp_path / "bare")
    return tmp_path / "bare"


def test_a_pattern_is_read_from_where_the_file_stands(bare: Path, capsys: Capture) -> None:
    for part, steps in (("a", range(1, 41)), ("b", range(41, 101))):
        mine(bare / "mine" / f"part-{part}.jsonl", steps)
    mine(bare / "mine" / "other.jsonl")
    (bare / "vario.toml").write_text(f'[samples]\nplace = "mine/part-*.jsonl"\n{TOML}')
    document = diagnosed(capsys, bare)
    assert (document["run"]["samples"]["counted"], document["run"]["samples"]["steps"]) == (100 * A_STEP, 100)


def test_a_list_and_an_absolute_path(bare: Path, tmp_path: Path, capsys: Capture) -> None:
    far = mine(tmp_path / "far" / "one.jsonl", range(1, 41))
    mine(bare / "two.jsonl", range(41, 61))
    (bare / "vario.toml").write_text(f'[samples]\nplace = ["{far}", "two.jsonl"]\n{TOML}')
    assert diagnosed(capsys, bare)["run"]["samples"]["steps"] == 60
    (bare / "vario.toml").write_text(f'[samples]\nplace = "{tmp_path}/f*/*.jsonl"\n{TOML}')
    assert diagnosed(capsys, bare)["run"]["samples"]["steps"] == 40


def test_columns_alone_are_for_what_is_found(bare: Path, capsys: Capture) -> None:
    mine(bare / "rollouts" / "t.jsonl")
    (bare / "vario.toml").write_text(f"[samples]\n{TOML}")
    assert diagnosed(capsys, bare)["run"]["samples"]["steps"] == 100


def test_the_command_line_wins(bare: Path, tmp_path: Path, capsys: Capture) -> None:
    (bare / "vario.toml").write_text(f'[samples]\nplace = "nowhere.jsonl"\n{TOML.replace("said", "wrong")}')
    dump = mine(tmp_path / "t.jsonl", range(1, 31))
    document = diagnosed(capsys, bare, "--samples", dump, "--samples-map", "completion=said")
    assert document["run"]["samples"]["steps"] == 30
    assert document["run"]["samples"]["texts_measured"] > 0
    assert "nowhere.jsonl" in refused(capsys, bare)


def test_an_address_in_somebody_elses_file_is_refused(bare: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "vario.toml").write_text('[samples]\nplace = "s3://bucket/rollouts"\n')
    error = refused(capsys, bare)
    assert "[samples] place is an address" in error
    assert "name the address with --samples" in error
    import fsspec

    store = fsspec.filesystem("memory")
    store.pipe("/dumps/t.jsonl", mine(bare.parent / "t.jsonl", range(1, 31)).read_bytes())
    (bare / "vario.toml").write_text(f'[samples]\nplace = "memory://dumps"\n{TOML}')
    monkeypatch.chdir(bare)  # where one stands, the file is one's own
    assert diagnosed(capsys, bare)["run"]["samples"]["steps"] == 30
    store.store.clear()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[samples]\nplace = 3\n", ("[samples] place", 'place = "dumps"')),
        ('[samples]\nplace = ["a", ""]\n', ("[samples] place",)),
        ('[samples]\nwords = "x"\n', ("[samples] knows no column 'words'", "completion")),
        ("[samples]\ncompletion = 3\n", ("[samples]", 'completion = "text"')),
        ('[samples]\ncompletion = ""\n', ("[samples]", 'completion = "text"')),
    ],
)
def test_a_wrong_entry_is_told(bare: Path, capsys: Capture, text: str, words: tuple[str, ...]) -> None:
    (bare / "vario.toml").write_text(text)
    error = refused(capsys, bare)
    assert all(word in error for word in (str(bare / "vario.toml"), *words)), error


# what is quoted


def test_findings_quote_what_they_point_to(made: Path, capsys: Capture) -> None:
    document = diagnosed(capsys, made / "broken")
    quoting = [f for f in document["findings"] if any("excerpt" in s for s in f.get("read", {}).get("samples", []))]
    assert "reward-function-broke" in [f["name"] for f in quoting]
    assert 1 <= len(quoting) <= MOST_FINDINGS
    assert all(f["severity"] != "info" for f in quoting)
    for sample in quoting[0]["read"]["samples"]:
        table = pl.read_parquet(made / "broken" / "completions" / f"completions_{sample['step']:05}.parquet")
        assert sample["excerpt"] == table["completion"][sample["number"]]
    main(["diagnose", str(made / "broken"), "--no-replay"])
    out = capsys.readouterr().out
    assert out.count("Let x be") == 2, "two of a finding are enough for the eye"
    assert max(map(len, out.splitlines())) <= 80


def test_no_more_than_three_findings_are_quoted(tmp_path: Path, capsys: Capture) -> None:
    """Many faults at once: only what stands on top is quoted."""
    run = trl_run(tmp_path / "run", broken_at(60), texts={(s, n): "loop " * 200 for s in range(40, 101) for n in range(A_STEP)})
    document = diagnosed(capsys, run)
    lists = [f for f in document["findings"] if "read" in f and f["severity"] != "info"]
    texts = {(s["step"], s["number"]) for f in lists[:MOST_FINDINGS] for s in f["read"]["samples"]}
    assert lists
    for finding in document["findings"]:
        for sample in finding.get("read", {}).get("samples", []):
            assert ("excerpt" in sample) == ((sample["step"], sample["number"]) in texts)
            assert len(sample.get("excerpt", "")) <= LENGTH + len(" [...] ")


def test_no_text_means_none(made: Path, capsys: Capture) -> None:
    for more in ((), ("--json",), ("--pedantic",)):
        main(["diagnose", str(made / "broken"), "--no-text", "--no-replay", *more])
        out = " ".join(capsys.readouterr().out.split())
        assert not any(word in out for word in ("Let x be", "so the answer", "How much is", "excerpt"))
        assert "reward-function-broke" in out


def test_a_dump_that_goes_meanwhile_takes_no_diagnosis_with_it(made: Path, tmp_path: Path, capsys: Capture) -> None:
    run = tmp_path / "run"
    shutil.copytree(made / "broken", run)
    for file in sorted((run / "completions").iterdir())[30:]:
        file.write_bytes(file.read_bytes()[:50])
    document = diagnosed(capsys, run)
    assert "reward-function-broke" in [f["name"] for f in document["findings"]]
    assert any("the other files were used" in w for w in document["run"]["warnings"])


# the schema


def schema() -> dict:
    return json.loads((resources.files("vario") / "schemas" / "diagnosis-v1.json").read_text())


def test_the_schema_knows_what_completions_add(made: Path, capsys: Capture) -> None:
    document = diagnosed(capsys, made / "broken")
    validator = jsonschema.Draft202012Validator(schema())
    validator.validate(document)
    (finding,) = [f for f in document["findings"] if f["name"] == "reward-function-broke"]
    assert finding["dossier"]["step"] == 60
    for path, wrong in (
        (("read", "samples", 0, "step"), "60"),
        (("read", "samples", 0, "number"), -1),
        (("read", "samples", 0, "excerpt"), 3),
        (("read", "what"), None),
        (("dossier", "step"), "60"),
        (("dossier", "differences"), {}),
        (("dossier", "differences", 0, "spreads"), "many"),
        (("dossier", "text"), 3),
    ):
        broken = json.loads(json.dumps(finding))
        place = broken
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = wrong
        assert list(validator.iter_errors({**document, "findings": [broken]})), path
    for where, wrong in (("samples", {"places": "x"}), ("metrics", {"reward/mean": {"key": "x", "points": 3, "counted": "yes"}})):
        assert list(validator.iter_errors({**document, "run": {**document["run"], where: wrong}})), where
    assert not list(validator.iter_errors({**document, "run": {**document["run"], "samples": None}}))
