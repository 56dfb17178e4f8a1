"""The notebook under `examples` runs as a reader runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    notebook = nbformat.read(  # type: ignore[no-untyped-call]  # it has no types
        ROOT / "examples" / "quickstart.ipynb", as_version=4
    )
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not kept"
    folder = tmp_path_factory.mktemp("desk")
    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources=resources
    ).execute()


def outputs(executed: Any, begin: str) -> list[Any]:
    cell = next(cell for cell in executed.cells if cell.source.startswith(begin))
    found: list[Any] = cell.outputs
    return found


def shown(executed: Any, begin: str) -> str:
    return str(outputs(executed, begin)[-1].data["text/plain"])


def test_the_bar_is_one_output_and_ends_at_the_last_iteration(executed: Any) -> None:
    bars = [
        one for one in outputs(executed, "import longhaul") if one.output_type == "display_data"
    ]
    assert len(bars) == 1
    assert "<progress" in bars[0].data["text/html"]
    assert "(100 %)" in bars[0].data["text/plain"]


def test_a_run_shows_itself_with_its_curve(executed: Any) -> None:
    (cell,) = [cell for cell in executed.cells if cell.source == "run"]
    card = cell.outputs[0].data["text/html"]
    assert "finished" in card
    assert "<svg" in card


def test_the_loaded_agent_balances_the_pole(executed: Any) -> None:
    assert float(shown(executed, "import gymnasium")) > 60


def test_the_class_of_a_cell_is_trained(executed: Any) -> None:
    assert float(shown(executed, "import numpy")) > 0.9


def test_the_listener_stops_the_run(executed: Any) -> None:
    assert "ended by the listener StopWhenGood: the mean return is" in shown(
        executed, "class StopWh"
    )
