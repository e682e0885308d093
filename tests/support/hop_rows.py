"""Files of rows, and what is read and said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.errors import InputError
from assay.suites.hop.contract import Contract, OutputField
from assay.suites.hop.rows import HopRow, read_rows

META = {
    "_type": "meta",
    "profile": "a",
    "run_llm": "m",
    "verify_llm": "m",
    "run_params": {},
    "timestamp": "t",
}


OBSERVED = {"type": "step", "run_id": "r", "timestamp": 1.0, "step": 1, "op": "hop_get"}


CONTRACT = Contract(
    inputs={"question": "string", "top": "int"},
    outputs={"answer": OutputField(type="string")},
    optional=frozenset({"top"}),
)


def file(tmp_path: Path, *lines: Any, end: str = "\n") -> Path:
    path = tmp_path / "rows.jsonl"
    texts = [line if isinstance(line, str) else msgspec.json.encode(line).decode() for line in lines]
    path.write_text("\n".join(texts) + end)
    return path


def row(id_: int | str, question: str = "?", **more: Any) -> dict[str, Any]:
    return {"id": id_, "tag": "t", "question": question, **more}


def read(path: Path, contract: Contract | None = None) -> list[HopRow]:
    """The rows of a file."""
    return read_rows(path, contract).rows


def errors(path: Path, contract: Contract | None = None) -> list[str]:
    with pytest.raises(InputError) as found:
        read_rows(path, contract)
    return [str(problem).removeprefix(f"{path}:") for problem in found.value.problems]


def warnings(path: Path, contract: Contract | None = None) -> list[str]:
    return [str(problem).removeprefix(f"{path}:") for problem in read_rows(path, contract).warnings]
