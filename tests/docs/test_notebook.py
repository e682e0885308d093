"""examples/notebook/evaluate.ipynb runs in a real Jupyter kernel and prints what is committed with it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "evaluate.ipynb"


def printed(notebook: Any) -> list[list[str]]:
    """The words that each cell prints: layout may differ between versions of pandas. Progress on stderr is left out."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(output.text for output in cell.outputs if output.get("name") == "stdout").split() for cell in cells]


def test_the_notebook_prints_what_is_committed(tmp_path: Path) -> None:
    from nbclient import NotebookClient

    nbformat: Any = importlib.import_module("nbformat")  # it has no types
    committed = nbformat.read(NOTEBOOK, as_version=4)
    executed = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(executed, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert printed(executed) == printed(committed)
    assert all(printed(committed)[1:]), "every cell but the first prints something"


def test_the_notebook_holds_no_path_of_a_machine() -> None:
    text = NOTEBOOK.read_text()
    for folder in ("/home", "/root", "/tmp", "/Users", "site-packages"):
        assert folder not in text
