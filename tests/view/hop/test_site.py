"""BaseService: the document's rule, and batches over any file."""

from __future__ import annotations

import asyncio
import json
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError, UsageError
from assay.suites.hop.batch_lines import view_record
from assay.suites.hop.store import BaseDataStore
from assay.view.hop.service import BaseService

META = {"_type": "meta", "profile": "a"}
OBSERVED = {"type": "run_end", "run_id": "r", "timestamp": 1.0, "duration": 1.0, "status": "OK"}
Fields = dict[str, Any]
NOTHING = "it returned nothing; return a dict, JSON text or (status, result). Is a `return` or an `await` forgotten?"


class Status(Enum):
    OK = "OK"


def echo(fields: Fields) -> Fields:
    return {"given": fields}


def test_normalize_input_is_the_documents_rule() -> None:
    """A static method that takes off one level, and gives back anything else as it is."""
    inner = {"question": "?"}
    once = {"input": inner, "result": "{}"}
    assert BaseService._normalize_input(once) is inner
    assert BaseService._normalize_input({"input": once, "error": "x"}) is once
    assert BaseService._normalize_input(inner) is inner


def test_a_batch_takes_off_all_wrappers_and_stores_what_is_inside() -> None:
    """The function gets inputs only; the stored input is the record without results, whole otherwise."""
    row = {"id": 1, "tag": "t", "question": "?", "expected_answer": "gold"}
    flat = {**row, "hop_result": "{}", "hop_stats": {}, "profile": "a"}
    nested = view_record(view_record(row, result="{}"), error="late")
    records: list[Any] = [META, row, OBSERVED, ["OK", "{}"], flat, nested, view_record(META, error="x")]
    done = list(BaseService()._batch_worker(records, echo))
    assert done == [{"input": row, "result": '{"given": {"question": "?"}}'}] * 3


def test_three_rounds_over_own_output_nest_nothing() -> None:
    records: list[Fields] = [{"question": "一"}, {"question": "二", "id": 2}]
    first = list(BaseService()._batch_worker(records, echo))
    done = first
    for _ in range(3):
        done = list(BaseService()._batch_worker(done, echo))
        assert done == first
    assert [one["input"] for one in first] == records


def test_changes_by_the_function_are_not_written() -> None:
    def spoil(fields: Fields) -> Fields:
        fields["list"].append(1)
        return {}

    (done,) = BaseService()._batch_worker([{"list": []}], spoil)
    assert done["input"] == {"list": []}


def test_a_contract_says_what_the_function_gets() -> None:
    record = {"id": 1, "question": "?", "profile": "p", "more": 1}
    (done,) = BaseService()._batch_worker([record], echo, inputs={"question", "profile"})
    assert json.loads(done["result"])["given"] == {"question": "?", "profile": "p"}
    assert done["input"] == record


def test_errors_are_records_and_the_batch_goes_on() -> None:
    """What raises, exits, or gives something that is no JSON."""
    answers: list[Any] = [ValueError("no"), SystemExit(3), float("nan"), {1, 2}, b"x", {"fine": True}]

    def answer(fields: Fields) -> Any:
        found = answers[fields["n"]]
        if isinstance(found, BaseException):
            raise found
        return found

    service = BaseService()
    done = list(service._batch_worker([{"n": n} for n in range(len(answers))], answer))
    assert [sorted(one) for one in done] == [["error", "input"]] * 5 + [["input", "result"]]
    assert [one["error"] for one in done[:2]] == ["[ValueError] no", "[SystemExit] 3"]
    assert all(one["error"].startswith("the result is no JSON: ") for one in done[2:5])
    assert service.state == {"running": False, "completed": 6, "total": 6, "errors": 5, "output_file": None}


def test_the_function_may_be_async() -> None:
    async def later(fields: Fields) -> Fields:
        await asyncio.sleep(0)
        if fields["n"]:
            raise KeyError("late")
        return fields

    done = list(BaseService()._batch_worker([{"n": 0}, {"n": 1}], later))
    assert done == [
        {"input": {"n": 0}, "result": '{"n": 0}'},
        {"input": {"n": 1}, "error": "[KeyError] 'late'"},
    ]


def test_the_state_tells_how_far_it_is() -> None:
    """Data records count, meta lines do not; of a stream only what came so far is known."""
    service = BaseService()
    state = service.state
    batch = service._batch_worker([META, {"n": 1}, {"n": 2}], echo, output_file="out.jsonl")
    seen = [(state["running"], state["completed"], state["total"], state["output_file"]) for _ in batch]
    assert seen == [(True, 1, 2, "out.jsonl"), (True, 2, 2, "out.jsonl")]
    assert not state["running"]
    totals = [state["total"] for _ in service._batch_worker(iter([{"n": 1}, {"n": 2}]), echo)]
    assert totals == [1, 2]


def test_one_batch_at_a_time() -> None:
    """A second one is refused; after the first has ended or was given up, another may start."""
    service = BaseService()
    running = service._batch_worker([{"n": 1}, {"n": 2}], echo)
    next(running)
    with pytest.raises(UsageError, match="a batch is already running"):
        next(service._batch_worker([{"n": 3}], echo))
    assert service.state["completed"] == 1
    running.close()  # type: ignore[attr-defined]
    assert not service.state["running"]
    assert len(list(service._batch_worker([{"n": 3}], echo))) == 1


def test_a_subclass_may_have_another_rule() -> None:
    """`_batch_worker` goes through `_normalize_input`."""

    class Service(BaseService):
        @staticmethod
        def _normalize_input(rec: Fields) -> Fields:
            inner: Fields = rec.get("row", rec)
            return inner

    (done,) = Service()._batch_worker([{"row": {"row": {"n": 1}}}], echo)
    assert done["input"] == {"n": 1}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": "一"}, {"result": '{"a": "一"}'}),
        ('{"a":1}', {"result": '{"a":1}'}),
        (("OK", '{"a":1}'), {"result": '{"a":1}'}),
        ((Status.OK, {"a": 1}), {"result": '{"a": 1}'}),
        (("FAIL", "why"), {"result": '["FAIL", "why"]'}),
        (("UNCERTAIN", {"a": 1}), {"result": '["UNCERTAIN", {"a": 1}]'}),
        ([1, 2], {"result": "[1, 2]"}),
        (None, {"error": NOTHING}),
    ],
)
def test_results_are_written_as_by_a_batch(value: Any, said: Fields) -> None:
    """By the one rule of `assay hop`: JSON text stays, a status that says more than OK stands beside it."""
    (done,) = BaseService()._batch_worker([{"n": 1}], lambda _: value)
    assert done == {"input": {"n": 1}, **said}


def test_text_that_is_no_json_is_an_error() -> None:
    (done,) = BaseService()._batch_worker([{"n": 1}], lambda _: "plain")
    assert done["error"].startswith("the result is text that is not JSON")


def test_records_say_the_profile_that_was_chosen(tmp_path: Path) -> None:
    """Results and errors; the store tells profiles apart by it, and as input it is taken off again."""
    service = BaseService(profile="fast")
    first = list(service._batch_worker([{"n": 1}, {"m": 2}], lambda fields: {"n": fields["n"]}))
    assert [one["profile"] for one in first] == ["fast", "fast"]
    again = list(BaseService(profile="careful")._batch_worker(first, echo))
    assert [(one["input"], one["profile"]) for one in again] == [({"n": 1}, "careful"), ({"m": 2}, "careful")]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*first, *again]))
    stats = BaseDataStore(tmp_path).get_stats("fast")
    assert (stats["total"], stats["errors"]) == (2, 1)


def test_a_file_is_run_and_its_results_stand_in_test_cases(tmp_path: Path) -> None:
    """In the View's form, under a name of their own; the state tells how it went."""
    folder = tmp_path / "Tasks" / "Echo" / "TestCases"
    folder.mkdir(parents=True)
    rows = [
        META,
        {"id": 1, "n": 1},
        ["OK", "{}"],
        {"id": 2, "n": 0},
        view_record({"id": 3, "n": 4}, error="late"),
    ]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def divide(fields: Fields) -> Fields:
        return {"half": 1 / fields["n"]}

    service = BaseService()
    done = service._batch_worker(folder / "rows.jsonl", divide)
    (path,) = folder.glob("rows_*_view.jsonl")
    assert service.state == {
        "running": False,
        "completed": 3,
        "total": 3,
        "errors": 1,
        "output_file": str(path),
    }
    assert service.left_out == [1, 3]
    assert [json.loads(line) for line in path.read_text().splitlines()] == done
    assert done[0] == {"input": {"id": 1, "n": 1}, "result": '{"half": 1.0}'}
    assert list(done[1]) == ["input", "error"]
    again = BaseService()._batch_worker(str(path), divide)
    assert again == done
    assert len(list(folder.glob("rows_*_view.jsonl"))) == 2
    assert BaseDataStore(folder).load_results() == 6 + 2  # the pair and the late row of the input count too


def test_a_file_that_cannot_be_read_is_refused_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"n": 1}\nnonsense\n{"n": 2}\n[1, 2]\n')
    with pytest.raises(InputError) as raised:
        BaseService()._batch_worker(path, echo)
    assert [str(problem).partition(": ")[0] for problem in raised.value.problems] == [
        f"{path}:2",
        f"{path}:4",
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]
    with pytest.raises(InputError, match="there is no such file"):
        BaseService()._batch_worker(tmp_path / "gone.jsonl", echo)


def test_results_of_a_file_go_to_the_named_one(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"n": 1}\n')
    service = BaseService(profile="fast")
    service._batch_worker(tmp_path / "rows.jsonl", echo, output_file=str(tmp_path / "out.jsonl"))
    assert json.loads((tmp_path / "out.jsonl").read_text())["profile"] == "fast"
