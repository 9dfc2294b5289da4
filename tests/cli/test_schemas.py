"""What the commands print is what src/vario/schemas says of it, and the schemas leave no field out."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from tests.cli.dumps import broken_at, trl_run
from tests.conftest import GOLDEN, ROOT
from vario.catalogue import METRICS
from vario.rules import RULES
from vario.surfaces.cli import main
from vario.surfaces.live.notices import Kind

FOLDER = ROOT / "src/vario/schemas"
SCHEMAS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
REGISTRY: Any = Registry().with_resources(
    [(f"{name}.json", Resource.from_contents(schema)) for name, schema in SCHEMAS.items()]
)
Schema = Mapping[str, Any]
Node = tuple[Schema, Schema]
"""A part of a schema, and the schema that it stands in."""
RUNS = ("grpo-drift", "grpo-reward-bug", "grpo-healthy", "dpo-overtrain", "grpo-proxy-hack")


def said(*words: str) -> list[Any]:
    """What a command prints, a document a line or one over many."""
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        assert main(words) in (0, 1)
    try:
        return [json.loads(heard.getvalue())]
    except json.JSONDecodeError:
        return [json.loads(line) for line in heard.getvalue().splitlines()]


def check(name: str, document: Any) -> None:
    jsonschema.Draft202012Validator(SCHEMAS[name], registry=REGISTRY).validate(document)
    left = sorted(set(untold(document, [(SCHEMAS[name], SCHEMAS[name])])))
    assert not left, f"{name} does not tell of {left}"


def untold(value: Any, nodes: Sequence[Node], path: str = "") -> Iterator[str]:
    """Fields that are printed and that no part of the schema names."""
    every = [found for node, whole in nodes for found in opened(node, whole)]
    if isinstance(value, list):
        below = [(node["items"], whole) for node, whole in every if "items" in node]
        for item in value:
            yield from untold(item, below, f"{path}[]")
    if not isinstance(value, dict) or not any("properties" in node for node, _ in every):
        return
    for key, what in value.items():
        named = [(node["properties"][key], whole) for node, whole in every if key in node.get("properties", {})]
        free = [(f, whole) for node, whole in every if isinstance(f := node.get("additionalProperties"), dict)]
        if not named and not free:
            yield f"{path}.{key}"
        yield from untold(what, named or free, f"{path}.{key}")


def opened(node: Schema, whole: Schema) -> Iterator[Node]:
    """A schema with all that it refers to, each with the document that it stands in."""
    yield node, whole
    for word in ("anyOf", "oneOf", "allOf"):
        for one in node.get(word, ()):
            yield from opened(one, whole)
    if ref := node.get("$ref"):
        file, _, place = ref.partition("#/")
        found = of = SCHEMAS[Path(file).stem] if file else whole
        for name in place.split("/") if place else ():
            found = found[name]
        yield from opened(found, of)


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == f"{name}.json"
    validator = jsonschema.Draft202012Validator(SCHEMAS[name], registry=REGISTRY)
    assert not validator.is_valid({})
    assert not validator.is_valid({"schema": SCHEMAS[name]["title"].split()[1], "run": 1})


@pytest.mark.parametrize("run", RUNS)
def test_diagnosis(run: str) -> None:
    (document,) = said("diagnose", str(GOLDEN / run), "--json")
    check("diagnosis-v1", document)


def test_diagnosis_with_completions(tmp_path: Path) -> None:
    run = trl_run(tmp_path / "run", broken_at(60))
    (tmp_path / "vario.toml").write_text('[suppress]\nreward-function-broke = "we know"\n')
    with contextlib.chdir(tmp_path):
        (document,) = said("diagnose", str(run), "--json", "--pedantic")
    assert document["suppressed"]
    check("diagnosis-v1", document)


def test_comparison() -> None:
    (document,) = said("compare", str(GOLDEN / "grpo-drift"), str(GOLDEN / "grpo-healthy-kl"), "--json")
    assert document["departures"]
    assert document["equal_kl"]
    check("compare-v1", document)


def test_comparison_with_a_ladder() -> None:
    (document,) = said("compare", str(GOLDEN / "grpo-all-zero"), str(GOLDEN / "grpo-healthy-kl"), "--json")
    assert document["ladder"]
    check("compare-v1", document)


def test_fleet(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/trainer_state.json").write_text("{")
    lines = said("fleet", str(GOLDEN / "grpo-drift"), str(tmp_path), "--json", "--quiet")
    assert {line["schema"] for line in lines} == {"diagnosis/v1", "fleet/v1"}
    for line in lines:
        check("fleet-v1", line)


def test_baseline() -> None:
    (document,) = said("baseline", str(GOLDEN / "grpo-healthy-kl"), "--json")
    check("baseline-v1", document)
    assert said("baseline", str(GOLDEN / "grpo-healthy-kl")) == [document]


def test_baseline_is_printed_and_written(tmp_path: Path) -> None:
    (document,) = said("baseline", str(GOLDEN / "grpo-healthy-kl"), "--json", "-o", str(tmp_path / "before.json"))
    assert json.loads((tmp_path / "before.json").read_text()) == document


@pytest.mark.parametrize("run", RUNS)
def test_metrics(run: str) -> None:
    (document,) = said("metrics", str(GOLDEN / run), "--json")
    check("metrics-v1", document)


def test_known_metrics() -> None:
    (document,) = said("metrics", "--known", "--json")
    check("known-v1", document)
    assert [m["name"] for m in document["metrics"]] == list(METRICS)


def test_rules(tmp_path: Path) -> None:
    (listed,) = said("rule", "--json")
    check("rule-v1", listed)
    assert [r["code"] for r in listed["rules"]] == [rule.code for rule in RULES]
    for name in ("kl-runaway", "KL102"):
        (one,) = said("rule", name, "--json")
        check("rule-v1", one)
        assert one["page"].startswith(one["summary"])
    (tmp_path / "own.py").write_text(
        "from collections.abc import Iterator\nfrom vario.instruments import Reward\n"
        "from vario.rules.base import Evidence, Severity, Sign, rule\n\n\n@rule('MY001', 'my-own', Severity.INFO)\n"
        "def my_own(reward: Reward) -> Iterator[Sign]:\n    \"\"\"Mine.\"\"\"\n    yield Evidence('it is')\n"
    )
    (own,) = said("rule", "MY001", "--json", "--rules", str(tmp_path / "own.py"))
    check("rule-v1", own)
    assert own["family"] is None


def test_annotations(tmp_path: Path) -> None:
    run = str(GOLDEN / "grpo-drift")
    for more, written in ((("--dry-run",), False), ((), True)):
        (document,) = said("annotate", run, "--to", f"tensorboard:{tmp_path}", "--json", *more)
        check("annotate-v1", document)
        assert (document["run"], document["written"]) == (run, written)
        assert bool(list(tmp_path.rglob("*tfevents*"))) is written


def test_watching(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "grpo-drift", tmp_path / "run")
    with contextlib.chdir(tmp_path):
        lines = said("watch", "run", "--once", "--json", "--state", str(tmp_path / "state"))
        again = said("watch", "run", "--once", "--json", "--state", str(tmp_path / "state"))
        gone_through = said("watch", "run", "--rehearse", "--json")
    for line in (*lines, *again, *gone_through):
        check("watch-v1", line)
    opened = [line["finding"]["name"] for line in lines if line["is"] == "notice" and line["finding"]]
    (stands,) = (line for line in lines if line["is"] == "run")
    assert opened == [one["name"] for one in stands["open"]]
    assert not [line["finding"] for line in again if line["is"] == "notice" and line["finding"]], "told once"
    assert gone_through[-1]["is"] == "rehearsal"
    assert sum(line.get("alerted", False) for line in gone_through) == gone_through[-1]["alerts"]
    assert {kind.value for kind in Kind} == set(SCHEMAS["watch-v1"]["oneOf"][0]["properties"]["kind"]["enum"])


def test_samples(tmp_path: Path) -> None:
    run = str(trl_run(tmp_path / "run"))
    for wish in ((), ("--step", "2"), ("--step", "2", "--no-text"), ("--step", "2", "--tokens")):
        lines = said("samples", run, "--json", *wish)
        assert lines
        for line in lines:
            check("samples-v1", line)
    (marked,) = said("samples", run, "--json", "--mark", "2/0=good")
    check("samples-v1", marked)
    assert (marked["marked"], Path(marked["path"]).is_file()) == (1, True)


def test_alert(tmp_path: Path) -> None:
    log = tmp_path / "run"
    shutil.copytree(GOLDEN / "grpo-drift", log)
    (tmp_path / "vario.toml").write_text('[alerts]\nto = ["file:ALERT.json"]\n[act]\nsentinel = { severity = "critical", confidence = "medium", file = "ACT.json" }\n')
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main(["watch", "run", "--once"])
    check("alert-v1", json.loads((tmp_path / "ALERT.json").read_text()))
    check("act-v1", json.loads((tmp_path / "ACT.json").read_text()))
    assert {kind.value for kind in Kind} | {"digest", "test"} == set(SCHEMAS["alert-v1"]["properties"]["kind"]["enum"])
