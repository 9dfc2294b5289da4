"""A real notebook with a real kernel: what stands below the cells."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.conftest import GOLDEN
from tests.notebook.test_card import seen
from tests.sources.writers import run_python

for package in ("nbclient", "ipykernel", "pandas", "matplotlib"):
    pytest.importorskip(package)


CELLS = (
    f"import vario\ndiagnosis = vario.diagnose(vario.read({str(GOLDEN / 'grpo-drift')!r}))\ndiagnosis",
    "print(diagnosis)",
    "diagnosis.run.to_pandas().head(2)",
    "from vario.figures import panel\npanel(diagnosis, ['reward/mean'])",
)
EXECUTE = """
import json, sys
import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

notebook = new_notebook(cells=[new_code_cell(source) for source in json.load(open(sys.argv[1]))])
NotebookClient(notebook, timeout=100, kernel_name="python3").execute()
nbformat.validate(notebook)
nbformat.write(notebook, sys.argv[2])
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """What each cell gave."""
    home = tmp_path_factory.mktemp("notebook")
    (home / "cells.json").write_text(json.dumps(CELLS))
    places = {name: str(home / name.lower()) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR")}
    run_python(EXECUTE, str(home / "cells.json"), str(home / "done.ipynb"), **places)
    return [cell["outputs"] for cell in json.loads(Path(home / "done.ipynb").read_text())["cells"]]


def test_a_diagnosis_shows_its_card(outputs: list[list[dict[str, Any]]]) -> None:
    (output,) = outputs[0]
    page = seen("".join(output["data"]["text/html"]))
    assert page.elements[0] == ("div", {"class": "vario-card"})
    assert "STOP" in page.texts
    assert [tag for tag, _ in page.elements].count("figure") >= 3
    plain = "".join(output["data"]["text/plain"])
    assert plain.endswith("  kl-rises-while-reward-falls since 43>"), "where no HTML is shown"
    assert len(plain.splitlines()) == 2


def test_printed_it_is_two_lines(outputs: list[list[dict[str, Any]]]) -> None:
    (output,) = outputs[1]
    assert "".join(output["text"]).count("\n") == 2


def test_tables_and_figures_show_themselves(outputs: list[list[dict[str, Any]]]) -> None:
    assert "reward/mean" in "".join(outputs[2][0]["data"]["text/html"])
    (figure,) = outputs[3]
    with Image.open(io.BytesIO(base64.b64decode("".join(figure["data"]["image/png"])))) as image:
        assert image.width == int(3.25 * 150)
