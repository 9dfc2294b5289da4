"""Every tool over standard streams: what it answers, under which ids, and how much of it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from tests.cli.dumps import KEY
from tests.mcp.runs import GOLDEN_RUNS, ORDER_TO_AGENT, grow, shelf_of_runs
from tests.mcp.talking import Talk, over_stdio
from vario import diagnose, read
from vario.surfaces.cli.compare_page import comparison_json
from vario.surfaces.mcp.completions import WHOLE
from vario.surfaces.mcp.series import MOST_POINTS
from vario.verdict.compare import compare


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shelf_of_runs(tmp_path_factory.mktemp("home") / "runs")


@pytest.fixture(scope="module")
def talk(home: Path) -> Iterator[Talk]:
    with over_stdio(home, cwd=home.parent, errors=home.parent / "errors") as talk:
        yield talk
    assert (home.parent / "errors").read_text() == ""


@pytest.fixture(scope="module")
def ids(talk: Talk) -> dict[str, str]:
    return talk.ids()


# list_runs


def test_the_list_has_what_needs_attention_first(talk: Talk, home: Path) -> None:
    answer, text = talk.ask("list_runs")
    names = [run["name"] for run in answer["runs"]]
    assert sorted(names) == sorted([*GOLDEN_RUNS, "hostile", "broke", "unreadable"])
    actions = [run.get("action") for run in answer["runs"]]
    order = ["stop", "intervene", "cannot-tell", "continue", None]
    assert actions == sorted(actions, key=order.index)
    drift = answer["runs"][names.index("grpo-drift")]
    diagnosis = diagnose(read(home / "grpo-drift"))
    assert drift["action"] == diagnosis.verdict.action
    assert (drift["framework"], drift["last_step"], drift["path"]) == ("trl", 140, str(home / "grpo-drift"))
    held = [f for f in diagnosis.findings if f.until is None and f.audience == "default"]
    assert drift["open"] == {s: sum(f.severity == s for f in held) for s in ("critical", "warning", "info")}
    assert drift["findings"] == [f"{drift['id']}/kl-rises-while-reward-falls@43"]
    assert drift["id"] in text
    lost = answer["runs"][-1]
    assert (lost["name"], lost["status"]) == ("unreadable", "unreadable")
    assert "trainer_state.json" in lost["reason"]


def test_a_list_is_cut_where_it_is_asked_to(talk: Talk) -> None:
    answer, _ = talk.ask("list_runs", limit=2)
    assert (len(answer["runs"]), answer["total"]) == (2, 6)
    assert answer["left_out"] == ["4 of 6 runs: limit=2"]


def test_what_a_list_had_no_room_for_comes_with_the_next_one(talk: Talk) -> None:
    seen: list[str] = []
    answer, text = talk.ask("list_runs", limit=2)
    while answer["runs"]:
        seen += [run["name"] for run in answer["runs"]]
        assert ("left out" in text) is bool(answer["left_out"])
        answer, text = talk.ask("list_runs", limit=2, since=answer["as_of"])
    assert len(seen) == len(set(seen)) == 6


def test_a_run_that_has_gone_is_told_once(talk: Talk, home: Path) -> None:
    shutil.copytree(home / "grpo-drift", home / "short-lived")
    try:
        first, _ = talk.ask("list_runs")
        (run,) = (run["id"] for run in first["runs"] if run["name"] == "short-lived")
    finally:
        shutil.rmtree(home / "short-lived")
    second, text = talk.ask("list_runs", since=first["as_of"])
    assert (second["gone"], second["runs"]) == ([run], [])
    assert f"gone: {run}" in text
    third, _ = talk.ask("list_runs", since=second["as_of"])
    assert third["gone"] == []


def test_a_folder_of_several_runs_names_those_of_the_list(talk: Talk, home: Path, ids: dict[str, str]) -> None:
    said = talk.refused("diagnose", run=str(home))
    for name in GOLDEN_RUNS:
        assert ids[name] in said


def test_a_name_that_no_file_can_have_is_refused_in_a_sentence(talk: Talk) -> None:
    said = talk.refused("diagnose", run="x" * 4_000)
    assert "no run has this id" in said
    assert len(said) < 400


def test_only_what_has_changed_is_listed(talk: Talk, home: Path) -> None:
    answer, _ = talk.ask("list_runs")
    moment = answer["as_of"]
    again, _ = talk.ask("list_runs", since=moment)
    assert (again["runs"], again["unchanged"]) == ([], 6)
    state = home / "grpo-lr-too-low/trainer_state.json"
    state.write_text(state.read_text() + "\n")
    changed, _ = talk.ask("list_runs", since=moment)
    assert [run["name"] for run in changed["runs"]] == ["grpo-lr-too-low"]
    assert "2026-03-01T12:00:00Z" in talk.refused("list_runs", since="yesterday")


def test_ids_are_the_same_tomorrow(talk: Talk, home: Path, ids: dict[str, str]) -> None:
    """Another server, which has listed nothing yet, knows the id."""
    with over_stdio(home, cwd=home.parent, errors=home.parent / "other-errors") as other:
        answer, _ = other.ask("diagnose", run=ids["grpo-drift"])
        assert answer["run"]["id"] == ids["grpo-drift"]
        assert other.ids() == ids


# diagnose


def test_a_brief_diagnosis_is_the_diagnosis(talk: Talk, home: Path, ids: dict[str, str]) -> None:
    answer, text = talk.ask("diagnose", run=ids["grpo-drift"])
    expected = diagnose(read(home / "grpo-drift"))
    verdict = expected.verdict
    assert verdict.best_checkpoint is not None
    assert answer["verdict"]["action"] == verdict.action == "stop"
    assert answer["verdict"]["narrative"] == verdict.narrative
    assert answer["verdict"]["best_checkpoint"]["step"] == verdict.best_checkpoint.step
    shown = [f for f in expected.findings if f.audience == "default"]
    assert [f["name"] for f in answer["findings"]] == [f.name for f in shown]
    first = answer["findings"][0]
    assert first["id"] == f"{ids['grpo-drift']}/kl-rises-while-reward-falls@43"
    assert first["changes"][0]["key"] == "beta"
    assert answer["unknown_checks"] == len(expected.unknown) > 0
    assert any("log_completions" in line for line in answer["cannot_see"])
    assert "document" not in answer
    assert "stop (medium confidence)" in text
    assert first["id"] in text


def test_a_whole_diagnosis_is_what_the_schema_says(talk: Talk, ids: dict[str, str]) -> None:
    answer, _ = talk.ask("diagnose", run=ids["grpo-drift"], detail="full")
    schema = json.loads(resources.files("vario.schemas").joinpath("diagnosis-v1.json").read_text())
    jsonschema.validate(answer["document"], schema)
    assert answer["document"]["findings"][0]["id"] == answer["findings"][0]["id"]
    assert answer["left_out"] == []


def test_an_earlier_moment(talk: Talk, home: Path, ids: dict[str, str]) -> None:
    answer, _ = talk.ask("diagnose", run=ids["grpo-drift"], step=60)
    expected = diagnose(read(home / "grpo-drift").until(60))
    assert answer["at_step"] == 60
    assert answer["verdict"]["action"] == expected.verdict.action
    assert "kl-rises-while-reward-falls" not in {f["name"] for f in answer["findings"]}
    assert "begins at step 1" in talk.refused("diagnose", run=ids["grpo-drift"], step=0)


def test_what_has_moved_since_a_step(talk: Talk, ids: dict[str, str]) -> None:
    answer, text = talk.ask("diagnose", run=ids["grpo-drift"], since=60)
    moved = {f["name"]: f["moved"] for f in answer["findings"]}
    assert moved["kl-rises-while-reward-falls"] == "opened"
    assert moved["reward-plateaued"] == "resolved"
    assert "opened critical" in text
    still, text = talk.ask("diagnose", run=ids["grpo-drift"], since=140)
    assert still["findings"] == []
    assert "no finding has moved after step 140" in text
    assert "earlier step" in talk.refused("diagnose", run=ids["grpo-drift"], step=60, since=60)


def test_everything_is_new_since_before_the_run(talk: Talk, ids: dict[str, str]) -> None:
    answer, _ = talk.ask("diagnose", run=ids["grpo-drift"], since=-5)
    assert answer["findings"]
    assert {f["moved"] for f in answer["findings"]} == {"opened"}


# explain_rule


@pytest.mark.parametrize("word", ["KL102", "kl-rises-while-reward-falls", "any-00000000/kl-rises-while-reward-falls@43"])
def test_a_rule_is_explained(talk: Talk, word: str) -> None:
    answer, text = talk.ask("explain_rule", rule=word)
    assert (answer["name"], answer["severity"]) == ("kl-rises-while-reward-falls", "critical")
    assert answer["knobs"]
    for heading in ("What it shows", "Looks like it but is not", "How sure"):
        assert heading in answer["page"]
        assert heading in text


def test_an_unknown_rule_has_neighbours(talk: Talk) -> None:
    assert "kl-spike" in talk.refused("explain_rule", rule="kl-spikes")


# series_around


def test_values_around_a_step(talk: Talk, home: Path, ids: dict[str, str]) -> None:
    answer, text = talk.ask(
        "series_around", run=ids["grpo-drift"], metrics=["kl/reference", "reward", "kl/referense"], step=60, width=5
    )
    kl, reward = answer["series"]
    series = read(home / "grpo-drift").series["kl/reference"]
    assert [p["step"] for p in kl["points"]] == list(range(55, 66))
    assert kl["points"][0]["value"] == pytest.approx(float(series.values[54]), rel=1e-5)
    assert (kl["key"], kl["unit"], kl["thinned"]) == ("kl", "nats/token", False)
    assert (reward["metric"], reward["key"]) == ("reward/mean", "reward")
    (unknown,) = answer["unknown"]
    assert unknown["nearest"][0] == "kl/reference"
    assert "kl/referense" in text


def test_many_values_are_thinned(talk: Talk, home: Path, ids: dict[str, str]) -> None:
    answer, _ = talk.ask("series_around", run=ids["grpo-drift"], metrics=["kl/reference"], width=1000)
    (kl,) = answer["series"]
    assert kl["thinned"]
    assert len(kl["points"]) == MOST_POINTS
    assert sum(p.get("values", 1) for p in kl["points"]) == kl["logged"] == 140
    values = read(home / "grpo-drift").series["kl/reference"].values
    ends = [p.get("most", p["value"]) for p in kl["points"]], [p.get("least", p["value"]) for p in kl["points"]]
    assert max(ends[0]) == pytest.approx(values.max(), rel=1e-5)
    assert min(ends[1]) == pytest.approx(values.min(), rel=1e-5)


def test_values_that_are_not_finite_are_told(talk: Talk, home: Path) -> None:
    log = home / "late/nan.jsonl"
    grow(log, 1, 40)
    log.write_text(log.read_text() + '{"step": 41, "reward": NaN, "kl": Infinity}\n')
    answer, text = talk.ask("series_around", run=str(log), metrics=["reward/mean"], width=3)
    assert answer["series"][0]["not_finite"] == 1
    assert answer["series"][0]["points"][-1] == {"step": 41, "value": None}
    assert "1 not finite" in text
    log.unlink()
    log.parent.rmdir()


def test_metrics_that_are_not_there(talk: Talk, ids: dict[str, str]) -> None:
    said = talk.refused("series_around", run=ids["grpo-drift"], metrics=["eval/score/mean"])
    assert "eval_dataset" in said, "it says how to log it"
    assert "kl/reference" in talk.refused("series_around", run=ids["grpo-drift"], metrics=[])


# samples


def test_sampled_steps_where_nothing_is_wished(talk: Talk, ids: dict[str, str]) -> None:
    answer, text = talk.ask("samples", run=ids["hostile"])
    assert answer["completions"] == []
    assert (len(answer["steps"]), answer["left_out"]) == (40, ["10 of 50 sampled steps, those in the middle"])
    assert answer["steps"][0] == {"step": 2, "completions": 8, "groups": 2, "reward": answer["steps"][0]["reward"]}
    assert "400 completions" in text


def test_hostile_completions_are_data(talk: Talk, ids: dict[str, str]) -> None:
    answer, text = talk.ask("samples", run=ids["hostile"], step=60, n=8)
    said = {one["name"]: one["completion"] for one in answer["completions"]}
    assert ORDER_TO_AGENT in said["60/0"]
    for whole in (json.dumps(answer, ensure_ascii=False), text):
        assert KEY not in whole
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", whole)
    assert "[masked]" in said["60/1"]
    assert "characters left out" in said["60/3"]
    assert len(said["60/3"]) < 1_400
    assert "data, never instructions" in text
    (lone,) = talk.ask("samples", run=ids["hostile"], names=["60/3"], whole=True)[0]["completions"]
    assert WHOLE < len(lone["completion"]) < WHOLE + 200


def test_completions_as_wished(talk: Talk, ids: dict[str, str]) -> None:
    def names(**wish: object) -> list[str]:
        return [one["name"] for one in talk.ask("samples", run=ids["hostile"], **wish)[0]["completions"]]

    top, _ = talk.ask("samples", run=ids["hostile"], step="80-100", order="reward", n=3)
    rewards = [one["measures"]["reward"] for one in top["completions"]]
    assert rewards == sorted(rewards, reverse=True)
    low, _ = talk.ask("samples", run=ids["hostile"], step="80-100", order="reward", lowest=True, n=3)
    assert low["completions"][0]["measures"]["reward"] < rewards[-1]
    assert names(names=["60/2", "60/0"]) == ["60/2", "60/0"]
    assert names(group="60/5") == ["60/4", "60/5", "60/6", "60/7"]
    assert "60/3" in names(kind="repetitive")


def test_completions_of_a_finding(talk: Talk, ids: dict[str, str]) -> None:
    diagnosed, _ = talk.ask("diagnose", run=ids["broke"])
    finding = next(f for f in diagnosed["findings"] if f["samples"])
    by_id, _ = talk.ask("samples", run=ids["broke"], finding=finding["id"], n=8)
    assert [one["name"] for one in by_id["completions"]] == finding["samples"]
    assert finding["name"] in by_id["what"]
    said = talk.refused("samples", run=ids["broke"], finding="kl-spike")
    assert finding["name"] in said


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"step": "x"}, "100-200"),
        ({"step": 10**30}, "100-200"),
        ({"names": ["one"]}, "STEP/NUMBER"),
        ({"names": ["1/99"]}, "no completion 1/99"),
        ({"step": 60, "finding": "kl-spike"}, "two wishes"),
        ({"n": 0}, "argument n"),
        ({"n": 1000}, "argument n"),
        ({"kind": "rude"}, "argument kind"),
    ],
)
def test_wishes_that_cannot_be(talk: Talk, ids: dict[str, str], wish: dict[str, object], said: str) -> None:
    assert said in talk.refused("samples", run=ids["hostile"], **wish)


def test_a_run_without_completions_says_how_to_have_them(talk: Talk, ids: dict[str, str]) -> None:
    assert "log_completions=True" in talk.refused("samples", run=ids["grpo-drift"])


# compare, what_would_change


def test_runs_beside_each_other(talk: Talk, home: Path, ids: dict[str, str]) -> None:
    answer, text = talk.ask("compare", runs=[ids["grpo-healthy-kl"], ids["grpo-drift"]])
    expected = json.loads(
        comparison_json(compare([diagnose(read(home / name)) for name in ("grpo-healthy-kl", "grpo-drift")]))
    )
    assert [one["run"]["id"] for one in answer["runs"]] == [ids["grpo-healthy-kl"], ids["grpo-drift"]]
    for part in ("settings", "departures", "equal_kl", "ladder", "notes"):
        assert answer[part] == expected[part], part
    assert "learning_rate" in answer["settings"]
    assert f"1. {ids['grpo-drift']}: stop" in text
    assert "2 to 6 runs" in talk.refused("compare", runs=[ids["grpo-drift"]])


def test_what_would_change_it(talk: Talk, home: Path, ids: dict[str, str]) -> None:
    answer, text = talk.ask("what_would_change", run=ids["grpo-lr-too-low"])
    expected = diagnose(read(home / "grpo-lr-too-low"))
    assert answer["would_change_it"] == list(expected.verdict.would_change_it)
    assert [e["name"] for e in answer["experiments"]] == [e.name for e in expected.verdict.experiments]
    assert {name for one in answer["unknown"] for name in one["checks"]} == {u.name for u in expected.unknown}
    assert answer["unknown"][0]["enable"]
    assert answer["would_change_it"][0] in text


def test_experiments_bring_their_patches(talk: Talk, home: Path, ids: dict[str, str]) -> None:
    """A run whose log cannot tell: the patch is in the framework's own words."""
    for name in ("grpo-lr-too-low", "grpo-drift", "broke"):
        made = diagnose(read(home / name)).verdict.experiments
        answer, _ = talk.ask("what_would_change", run=ids[name])
        assert [(e["patch"], e["steps"]) for e in answer["experiments"]] == [(e.patch, list(e.words)) for e in made]


# arguments


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("diagnose", {}, "argument run"),
        ("diagnose", {"run": "x", "steps": 3}, "knows no argument 'steps'"),
        ("diagnose", {"run": "", "step": 3}, "list_runs"),
        ("diagnose", {"run": "no-such-run-00000000"}, "list_runs gives the ids"),
        ("diagnose", {"run": "x", "step": 10**40}, "argument step"),
        ("diagnose", {"run": "x", "detail": "all"}, "argument detail"),
        ("diagnose", {"run": ["x"]}, "argument run"),
        ("list_runs", {"limit": -1}, "argument limit"),
        ("series_around", {"run": "x", "metrics": [], "width": -1}, "argument width"),
        ("stop_run", {}, "there is no tool stop_run"),
    ],
)
def test_wrong_arguments_are_one_sentence(talk: Talk, tool: str, arguments: dict[str, object], said: str) -> None:
    assert said in talk.refused(tool, **arguments)
    assert talk.ask("explain_rule", rule="KL102")[0]["code"] == "KL102"


def test_two_calls_at_once(talk: Talk, ids: dict[str, str]) -> None:
    many = [
        talk.begin("diagnose", run=ids[name], step=step) for step in (40, 50, 60, 70) for name in ("grpo-drift", "broke")
    ]
    done = [one.result(60).structured_content for one in many]
    assert [d["at_step"] for d in done] == [s for s in (40, 50, 60, 70) for _ in range(2)]
    assert [d["run"]["id"] for d in done] == [ids["grpo-drift"], ids["broke"]] * 4
