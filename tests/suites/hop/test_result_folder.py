"""Result files of any tool, counted: both wrappers, pairs, errors, and lines that are no results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import assay.hop
from assay.core.errors import UsageError
from assay.hop import analyse, data_store

from servers.fake_openai import FakeOpenAI
from support.hop_batch import Batch, as_lines, numbered, numbers, results_of
from support.hop_document import META, RESULT, VERIFY, VIEW

FLAT = {"id": 1, "tag": "t", "n": 1, "expected_answer": 2}
OK = {"retry_count": 0, "execution_path": [], "status": "OK"}


def flat(result: Any, **more: Any) -> dict[str, Any]:
    return {**FLAT, "hop_result": result, "hop_stats": OK, "profile": "p", **more}


def counts(tmp_path: Path, *lines: Any, profile: str = "p") -> tuple[int, int, int, int]:
    """Total, errors, completed and correct of all."""
    (tmp_path / "r.jsonl").write_text(as_lines(lines))
    figures = numbers(analyse(tmp_path))[profile]
    return figures["total"], figures["errors"], figures["completed"], figures["correct_of_all"]["numerator"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (flat('{"answer": 2}'), (1, 0, 1, 1)),
        (flat({"answer": 2}), (1, 0, 1, 1)),
        (flat('["OK", "{\\"answer\\": 2}"]'), (1, 0, 1, 1)),
        (flat('["FAIL", {"answer": 2}]'), (1, 0, 0, 1)),
        (flat('["FAIL", "no source"]'), (1, 0, 0, 0)),
        (flat('{"result": "{\\"answer\\": 2}"}'), (1, 0, 1, 1)),
        (flat('{"answer": 3}'), (1, 0, 1, 0)),
        (flat("no json"), (1, 0, 1, 0)),
        (flat(None, hop_stats={"status": "ERROR", "error": "gone"}), (1, 1, 0, 0)),
        (flat(None, hop_stats={"status": "ERROR"}), (1, 1, 0, 0)),
        ('{"id": 1, "hop_result": "{\\"answer\\": 2}", "score": NaN, "profile": "p"}', (1, 0, 1, 0)),
        (flat('{"answer": 2}', hop_stats={**OK, "execution_path": ["a", 1, {"op": "x"}]}), (1, 0, 1, 1)),
        (flat('{"answer": 2}', hop_stats="nothing"), (1, 0, 1, 1)),
    ],
)
def test_forms_of_a_flat_row(tmp_path: Path, line: Any, expected: tuple[int, int, int, int]) -> None:
    """Whatever stands in `hop_result`, the row counts."""
    assert counts(tmp_path, line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"input": FLAT, "result": '{"answer": 2}'}, (1, 0, 1, 1)),
        ({"input": FLAT, "error": "timeout"}, (1, 1, 0, 0)),
        ({"input": FLAT, "result": '{"answer": 2}', "error": "timeout"}, (1, 1, 0, 0)),
        ({"input": {"input": FLAT, "result": "{}"}, "result": '{"answer": 2}'}, (1, 0, 1, 1)),
    ],
)
def test_forms_of_a_view_row(tmp_path: Path, line: Any, expected: tuple[int, int, int, int]) -> None:
    """It has no profile; its expectations stand in its input."""
    assert counts(tmp_path, line, profile="(none)") == expected


def test_bare_pairs_are_results(tmp_path: Path) -> None:
    """Of nobody knows which row: counted by their status, compared with nothing."""
    pairs = [["OK", '{"answer": 2}'], ["FAIL", "no source"], ["ERROR", "timeout"], ["USA", "UK"]]
    assert counts(tmp_path, *pairs, profile="(none)") == (3, 1, 1, 0)


def test_a_folder_of_many_tools(tmp_path: Path) -> None:
    """All of the document's lines with blank, torn and foreign ones: results are counted, the rest passed over."""
    observed = {"type": "run_end", "run_id": "r", "timestamp": 1.0, "duration": 1, "status": "OK"}
    (tmp_path / "a.jsonl").write_text(as_lines([META, "", RESULT, *VIEW, *VERIFY, "[1]", "nonsense"]))
    (tmp_path / "b.jsonl").write_text(as_lines([flat('{"answer": 2}')]) + '{"id": 2, "hop_result": "{')
    (tmp_path / "observer.jsonl").write_text(as_lines([observed]))
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "notes.txt").write_text("no")
    report = assay.hop.analyse(tmp_path, all_files=True)
    figures = numbers(report)
    assert {name: (one["total"], one["errors"]) for name, one in figures.items()} == {
        "kimi-full": (1, 0),
        "(none)": (2, 1),
        "p": (1, 0),
    }
    assert report.notices == [
        f"{tmp_path}/b.jsonl: 1 line cannot be read as JSON and was left out: line 2",
        f"{tmp_path}/a.jsonl: 1 line cannot be read as JSON and was left out: line 9",
        f"{tmp_path}/a.jsonl: 3 lines have no result and were left out: lines 6, 7, 8",
    ]
    assert list(numbers(analyse(tmp_path / "b.jsonl"))) == ["p"]


def test_without_any_result(tmp_path: Path) -> None:
    """Only meta lines are no results."""
    (tmp_path / "a.jsonl").write_text(META)
    with pytest.raises(UsageError, match="no result row"):
        numbers(analyse(tmp_path))


def test_the_contract_beside_the_results(tmp_path: Path) -> None:
    """That of the task whose TestCases these are: its bands are counted without naming it."""
    for name in ("Hoplet", "TestCases"):
        (tmp_path / name).mkdir()
    (tmp_path / "Hoplet" / "metainfo.md").write_text(
        "---\nname: t\noutputs: {answer: {type: int, bands: {L: [0, 1], H: [2, 9]}}}\n---\n"
    )
    (tmp_path / "TestCases" / "r.jsonl").write_text(as_lines([flat('{"answer": 5}')]))
    figures = numbers(analyse(tmp_path / "TestCases"))["p"]
    assert figures["bands"]["answer"]["matrix"]["H"] == {"L": 0, "H": 1}
    assert figures["correct_of_all"]["value"] == 1.0


@pytest.mark.parametrize("folder", ["out", "."])
def test_the_contract_of_a_bare_function(tmp_path: Path, folder: str) -> None:
    """It stands beside the results, or beside the folder they are in."""
    (tmp_path / "contract.yaml").write_text("outputs: {answer: {type: int, within: 3}}\n")
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "r.jsonl").write_text(as_lines([flat('{"answer": 5}')]))
    assert numbers(analyse(tmp_path / folder))["p"]["correct_of_all"]["value"] == 1.0


def test_an_endpoint_that_fails_is_an_error_row_and_asked_again(tmp_path: Path) -> None:
    """The batch is not complete; the next start asks what is missing and writes the same file."""
    code = "async def hop(n, session):\n    return {'said': await session.model.chat(f'n{n}')}\n"
    batch = Batch(tmp_path, code, numbered(3))
    with FakeOpenAI(always={"n2": "500"}) as server:
        options = {"model": "openai/fake", "base_url": server.url, "max_retries": 0}
        first = batch.run(**options)
        assert (first.exit_code, first.summary.state, first.summary.infra_error) == (3, "incomplete", 1)
        statuses = [row["hop_stats"]["status"] for row in results_of(first)]
        assert statuses == ["OK", "ERROR", "OK"]
        assert "server had an error" in results_of(first)[1]["hop_stats"]["error"]
        server.behave()
        second = batch.run(**options)
    assert (second.exit_code, second.summary.this_start["paid"], second.files) == (0, 1, first.files)
    assert [row["hop_stats"]["status"] for row in results_of(second)] == ["OK"] * 3


def test_a_store_counts_fields_as_the_contract_says(tmp_path: Path) -> None:
    """Of a task's folder, or with the contract of a target; labels and keys of lists with them."""
    for name in ("Hoplet", "TestCases"):
        (tmp_path / "Task" / name).mkdir(parents=True)
    (tmp_path / "Task" / "Hoplet" / "Hop.py").write_text("def hop(n):\n    return {}\n")
    (tmp_path / "Task" / "Hoplet" / "contract.yaml").write_text(
        "name: Sums\nfunction: hop\ninputs: {n: int}\naudit_key: fine\noutputs:\n"
        "  fine: bool\n  score: {type: int, aggregate: non_null_rate, label: how good}\n"
        "  errors: {type: array, sub_field: kind}\n"
    )
    lines = [
        flat('{"fine": true, "score": 4, "errors": [{"kind": "a"}, {"kind": "b"}, {"kind": "a"}]}'),
        {"id": 2, "fine": False},
    ]
    folder = tmp_path / "Task" / "TestCases"
    (folder / "r.jsonl").write_text(as_lines(lines))
    expected = {
        "fine_rate": 0.5,
        "score_non_null_rate": 0.5,
        "errors_distribution": [{"value": "a", "count": 2}, {"value": "b", "count": 1}],
    }
    for store in (data_store(tmp_path / "Task"), data_store(folder, str(tmp_path / "Task"))):
        assert store.load_results() == 2
        assert {name: store.get_stats()[name] for name in expected} == expected
        assert store.config.output_fields[1].display_label == "how good"
        assert (store.config.hoplet_name, store.config.hop_func_name) == ("Sums", "hop")
        assert store.config.input_fields == {"n": "int"}


def test_a_store_of_files_that_nobody_told_of(tmp_path: Path) -> None:
    """Without a contract the fields that occur are counted."""
    (tmp_path / "r.jsonl").write_text(as_lines([flat('{"answer": 2}')]))
    assert data_store(tmp_path).get_stats()["avg_answer"] == 2


def test_profiles_of_files_are_compared_on_the_rows_they_share(tmp_path: Path) -> None:
    """By id; the last of rows that stand there twice counts, an error is wrong, other rows are left out."""
    wrong = {"hop_stats": {"status": "ERROR", "error": "x"}}
    lines = [
        *(flat('{"answer": 2}', id=n, profile="a") for n in range(4)),
        flat('{"answer": 0}', id=0, profile="b"),
        flat(None, id=1, profile="b", **wrong),
        flat('{"answer": 0}', id=2, profile="b"),
        flat('{"answer": 2}', id=2, profile="b"),
        flat('{"answer": 2}', id=9, profile="b"),
        {"id": 3, "hop_result": "{}", "profile": "b"},
        *({"hop_result": '{"answer": 2}', "expected_answer": 2, "profile": name} for name in "ab"),
    ]
    (tmp_path / "r.jsonl").write_text(as_lines(lines))
    figures = numbers(analyse(tmp_path))
    assert figures["a"]["compared_with"] == {}
    row = figures["b"]["compared_with"]["a"]
    assert (row["n"], row["wins"], row["losses"], row["ties"]) == (3, 0, 2, 1)
    assert row["base"] == 1.0
