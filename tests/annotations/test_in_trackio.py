"""trackio: alerts of a run in a real project, read back by trackio itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.annotations.told import driven, rows_of
from tests.conftest import GOLDEN

pytest.importorskip("trackio")

CODE = """
import trackio
with contextlib.redirect_stdout(io.StringIO()):
    for name in ("drift", "twice", "twice"):
        trackio.init(project="p", name=name, config={{"beta": 0.001}}, embed=False, auto_log_gpu=False, auto_log_cpu=False)
        for row in json.load(open("{rows}")):
            trackio.log({{f"train/{{k}}": v for k, v in row.items()}}, step=int(row["step"]))
        trackio.finish()
def alerts():
    (run,) = [r for r in trackio.Api().runs("p") if r.name == "drift"]
    return sorted([a["title"], a["text"], a["level"], a["step"]] for a in run.alerts())
first = judged("trackio://p/drift")
command("annotate", "trackio://p/drift", "--to", "trackio://p/drift")
found["first"] = alerts()
found["same"] = judged("trackio://p/drift") == first
command("annotate", "trackio://p/drift", "--to", "trackio://p/drift")
found["second"] = alerts()
found["runs"] = sorted(r.name for r in trackio.Api().runs("p"))
for name in ("p/none", "p/twice", "none/drift"):
    command("annotate", "{golden}", "--no-replay", "--to", "trackio://" + name)
"""


def test_alerts_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(rows_of(GOLDEN / "grpo-drift")))
    code = CODE.format(rows=tmp_path / "rows.json", golden=GOLDEN / "grpo-drift")
    told, found = driven(code, TRACKIO_DIR=str(tmp_path / "home"), HF_HUB_OFFLINE="1", PYTHONWARNINGS="ignore")
    by_name = {title: (text, level, step) for title, text, level, step in found["first"]}
    text, level, step = by_name["vario/findings/kl-rises-while-reward-falls"]
    assert (level, step) == ("error", 43)
    assert text.startswith("critical, since step 43")
    assert by_name["vario/verdict"][1:] == ("info", 140)
    assert all(name.startswith("vario/") for name in by_name)
    assert found["same"], "what was written back is no metric"
    assert found["second"] == found["first"], "what is there is not repeated"
    assert found["runs"] == ["drift", "twice", "twice"], "no run was made"
    assert [t["code"] for t in told] == [1, 0, 1, 0, 2, 2, 2]
    assert told[1]["out"] == "", "trackio tells nothing of itself"
    for failed, said in zip(told[4:], ("no such run", "2 runs have that name", "does not exist"), strict=True):
        assert said in failed["err"]
        assert failed["err"].count("\n") == 1
    assert not (tmp_path / "home" / "none.db").exists()
