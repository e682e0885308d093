"""No value in a settings file, a contract or a row is a traceback: each is read or is a problem with its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from assay.core.errors import InputError
from assay.suites.hop.contract import find_contract
from assay.suites.hop.rows import read_rows
from assay.suites.hop.settings import load_settings

Read = TypeVar("Read")
ODD = [
    "",
    "null",
    "[]",
    "{}",
    "3",
    "-1.5",
    "yes",
    "text",
    "[[1]]",
    "{1: 2}",
    ".nan",
    "2020-01-01",
    "!function a.b",
    "''",
]
SETTINGS = [
    "{}",
    "defaults: {}\nllms: {{a: {{model: m}}}}\nprofiles: {{p: {{run: a}}}}",
    "defaults: {{t: {}}}\nllms: {{a: {{model: m}}}}\nprofiles: {{p: {{run: a}}}}",
    "llms: {}\nprofiles: {{p: {{run: a}}}}",
    "llms: {{a: {}}}\nprofiles: {{p: {{run: a}}}}",
    "llms: {{a: {{model: {}}}}}\nprofiles: {{p: {{run: a}}}}",
    "llms: {{a: {{model: m, base_url: {}}}}}\nprofiles: {{p: {{run: a}}}}",
    "llms: {{a: {{model: m, params: {}}}}}\nprofiles: {{p: {{run: a}}}}",
    "llms: {{a: {{model: m}}}}\nprofiles: {}",
    "llms: {{a: {{model: m}}}}\nprofiles: {{p: {}}}",
    "llms: {{a: {{model: m}}}}\nprofiles: {{p: {{run: {}}}}}",
    "llms: {{a: {{model: m}}}}\nprofiles: {{p: {{run: a, verify: {}}}}}",
]
CONTRACTS = [
    "{}",
    *(f"{key}: {{}}" for key in ("name", "version", "inputs", "outputs", "audit_key", "function")),
    "inputs: [{}]",
    "inputs: {{a: {}}}",
    *(f"inputs: {{{{a: {{{{{key}: {{}}}}}}}}}}" for key in ("type", "required")),
    "outputs: [{}]",
    "outputs: {{a: {}}}",
    *(
        f"outputs: {{{{a: {{{{{key}: {{}}}}}}}}}}"
        for key in ("type", "aggregate", "compare", "tolerance", "bands", "within", "label", "sub_field")
    ),
    "outputs: {{a: {{bands: {{B: {}}}}}}}",
    "outputs: {{a: {{bands: {{B: [{}, 1]}}}}}}",
]


def outcome(read: Callable[[], Read], path: Path) -> Read | None:
    """What was read, or None if it was refused with places in the file."""
    try:
        return read()
    except InputError as error:
        problems = error.problems
    assert problems
    assert all(problem.where.startswith(str(path)) for problem in problems)
    return None


@pytest.mark.parametrize("frame", SETTINGS)
def test_settings(tmp_path: Path, frame: str) -> None:
    path = tmp_path / "settings.yaml"
    for value in ODD:
        path.write_text(frame.format(value))
        outcome(lambda: load_settings(path), path)


@pytest.mark.parametrize("frame", CONTRACTS)
def test_contracts(tmp_path: Path, frame: str) -> None:
    path = tmp_path / "contract.yaml"
    for value in ODD:
        path.write_text(frame.format(value))
        actual = outcome(lambda: find_contract(tmp_path), path)
        assert msgspec.json.encode(actual)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
NAMES = """id tag difficulty description input result error _type type run_id timestamp
hop_result hop_stats profile expected expected_ expected_x q""".split()  # noqa: SIM905 - easier to read
names = st.sampled_from(NAMES)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.dictionaries(names, values, max_size=6), max_size=4))
def test_rows(tmp_path: Path, records: list[dict[str, Any]]) -> None:
    """Each row has an id of its own, and no answer and no result is among the fields."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    whole = outcome(lambda: read_rows(path), path)
    actual = whole.rows if whole else []
    assert len({str(row.id) for row in actual}) == len(actual)
    for row in actual:
        assert not any(key.startswith(("expected", "hop_")) or key == "profile" for key in row.fields)
        assert row.record["id"] == row.id
