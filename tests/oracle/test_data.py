"""The stored results of data files and operations are what the real `datasets` gives. `make oracle` runs it.

`python tests/oracle/test_data.py` writes them anew.
"""

from __future__ import annotations

import json
import os
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from support.data_cases import FILES, OPERATIONS, File

pytestmark = pytest.mark.filterwarnings("default")  # those of other people's packages
GOLDEN = Path(__file__).parents[1] / "golden" / "datasets"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return imported(tmp_path_factory.mktemp("cache"))


def imported(cache: Path) -> Any:
    """The real package, with an empty cache and no network."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HOME": str(cache)}
    datasets = pytest.importorskip("datasets", reason="needs the package datasets: make oracle")
    datasets.disable_progress_bars()
    return datasets


def shown(value: Any) -> Any:
    """Points in time as samples files show them."""
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    return str(value) if isinstance(value, datetime) else value


def read(library: Any, file: File, folder: Path) -> Any:
    path = folder / "file"
    path.write_bytes(file.content)
    return shown(list(library.load_dataset(file.kind, data_files=str(path), split="train", **file.options)))


@pytest.mark.parametrize("name", FILES)
def test_files_are_read_as_stored(name: str, library: Any, tmp_path: Path) -> None:
    """`load_dataset` gives the stored rows."""
    stored = json.loads((GOLDEN / "files.json").read_text())[name]
    assert json.dumps(read(library, FILES[name], tmp_path)) == json.dumps(stored)


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_give_what_is_stored(name: str, library: Any) -> None:
    """`Dataset` gives the stored results."""
    stored = json.loads((GOLDEN / "operations.json").read_text())[name]
    assert json.dumps(shown(OPERATIONS[name](library))) == json.dumps(stored)


def write() -> None:
    with tempfile.TemporaryDirectory() as folder:
        library = imported(Path(folder))
        files = {}
        for at, (name, file) in enumerate(FILES.items()):
            (Path(folder) / str(at)).mkdir()
            files[name] = read(library, file, Path(folder) / str(at))
        operations = {name: shown(operation(library)) for name, operation in OPERATIONS.items()}
    for name, value in {"files": files, "operations": operations}.items():
        body = ",\n".join(f"{json.dumps(key)}: {json.dumps(item)}" for key, item in value.items())
        (GOLDEN / f"{name}.json").write_text("{\n" + body + "\n}\n")


if __name__ == "__main__":
    write()
