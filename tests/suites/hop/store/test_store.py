"""A folder of results as numbers, pages and errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.errors import UsageError
from assay.suites.hop.store import BaseDataStore, FieldAggregation, ViewConfig

from support.hop_result_lines import ERROR, OK, flat

CONFIG = ViewConfig(
    task_name="VerifyFast",
    output_fields=[
        FieldAggregation("score", "int", "mean"),
        FieldAggregation("bad", "bool", "rate"),
        FieldAggregation("label", "string", "distribution"),
        FieldAggregation("errors", "array", "distribution", sub_field="type"),
        FieldAggregation("note", "string", "non_null_rate"),
    ],
    sortable_columns=["id", "score", "label"],
    audit_key_field="score",
)


def write(path: Path, recs: list[Any]) -> Path:
    path.write_text("".join(json.dumps(rec) + "\n" for rec in recs), encoding="utf-8")
    return path


def result(id_: int, fields: dict[str, Any], profile: str | None = "a") -> dict[str, Any]:
    return flat(json.dumps(fields), id=id_, profile=profile)


def error(id_: int, text: str, profile: str = "a") -> dict[str, Any]:
    return flat(None, {**ERROR, "error": text}, id=id_, profile=profile)


def make(folder: Path, *recs: Any, config: ViewConfig | None = CONFIG) -> BaseDataStore:
    write(folder / "results.jsonl", list(recs))
    return BaseDataStore(folder, config)


def test_a_folder_of_everything(tmp_path: Path) -> None:
    """Both wrappers, meta lines, observer records, input, blank, foreign and torn lines: each is what it is."""
    rows = [{"_type": "meta", "profile": "a", "run_llm": "m1"}, result(1, {"score": 4}), error(2, "timeout")]
    path = write(tmp_path / "batch.jsonl", rows)
    with path.open("a", encoding="utf-8") as file:
        file.write("\n  \n" + json.dumps(result(3, {"score": 5}))[:-20])
    viewed = [{"input": {"id": 1}, "result": '{"score": 1}'}, {"input": {"id": 2}, "error": "x"}]
    write(tmp_path / "view.jsonl", [*viewed, {"type": "run_end", "run_id": 1, "duration": 2.0, "status": "OK"}])
    write(tmp_path / "cases.jsonl", [{"id": 1, "tag": "t", "question": "q", "expected_score": 3}])
    started = {"type": "run_start", "run_id": 2, "timestamp": 1.5, "hoplet": "h", "input": {}}
    write(
        tmp_path / "observer.jsonl",
        [started, {"type": "run_end", "run_id": 2, "duration": 4.0, "result": "{}"}],
    )
    write(tmp_path / "frontend-debug.jsonl", [{"ts": 1, "level": "error", "message": "m", "context": {}}])
    run = tmp_path / "assay" / "run-1"
    run.mkdir(parents=True)
    write(run / "records.jsonl", [result(9, {"score": 9})])
    (tmp_path / "empty.jsonl").touch()
    store = BaseDataStore(tmp_path, CONFIG)
    assert store.load_results() == 4
    assert store.bad_lines == 1
    stats = store.get_stats()
    assert (stats["total"], stats["errors"], stats["completed"], stats["avg_score"]) == (4, 2, 2, 2.5)
    assert store.get_stats("a")["total"] == 2
    assert store.get_perf_summary()["total_runs"] == 2
    meta = rows[0]
    assert store.get_profiles() == [
        {"profile": "a", "total": 2, "meta": meta},
        {"profile": None, "total": 2, "meta": None},
    ]
    assert [row["id"] for row in store.query_results()] == [1, 2, 1, 2]


def test_bare_pairs_are_results_without_an_id(tmp_path: Path) -> None:
    """They count, are shown in their place, and may be errors; another list is a bad line."""
    path = tmp_path / "pairs.jsonl"
    lines = [["OK", '{"score": 4}'], ["USA", "UK"], ["ERROR", "late"], ["UNCERTAIN", {"score": 1}]]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    store = BaseDataStore(tmp_path, CONFIG)
    assert (store.load_results(), store.bad_lines) == (3, 1)
    assert store.get_stats()["avg_score"] == 2.5
    shown = [(row.get("score"), row["hop_status"], row["hop_outcome"]) for row in store.query_results()]
    assert shown == [(4, "OK", "OK"), (None, "ERROR", None), (1, "OK", "UNCERTAIN")]
    assert store.get_error_distribution() == [{"value": "late", "count": 1}]


def test_numbers_have_their_names_and_decimals(tmp_path: Path) -> None:
    """Means have one decimal, rates four and every result in the denominator, errors too."""
    store = make(
        tmp_path,
        result(1, {"score": 1, "bad": True, "label": "x", "errors": [{"type": "a"}, {"type": "b"}], "note": ""}),
        result(
            2,
            {"score": "2.25", "bad": "True", "label": "y", "errors": [{"type": "a"}, "b", {}], "note": None},
        ),
        result(3, {"score": "many", "bad": None, "label": "y", "errors": [], "note": [1]}),
        result(4, {"score": True, "bad": 1, "label": 3, "errors": None}),
        result(5, {"score": [7], "bad": "yes", "label": "NaN"}),
        error(6, "timeout"),
        flat("no JSON", id=7),
    )
    assert store.get_stats() == {
        "total": 7,
        "errors": 1,
        "completed": 6,
        "parse_errors": 1,
        "avg_score": 1.6,
        "bad_rate": 0.2857,
        "label_distribution": [
            {"value": "y", "count": 2},
            {"value": "NaN", "count": 1},
            {"value": "x", "count": 1},
            {"value": 3, "count": 1},
        ],
        "errors_distribution": [{"value": "a", "count": 2}, {"value": "b", "count": 2}],
        "note_non_null_rate": 0.2857,
    }


def test_infinities_are_no_numbers(tmp_path: Path) -> None:
    store = make(tmp_path, result(1, {"score": 3}), result(2, {"score": "inf"}), result(3, {"score": "nan"}))
    (tmp_path / "big.jsonl").write_text(json.dumps(flat('{"score": 1e400}')) + "\n", encoding="utf-8")
    assert store.get_stats()["avg_score"] == 3.0


def test_a_profile_without_results_has_no_numbers(tmp_path: Path) -> None:
    stats = make(tmp_path, result(1, {"score": 3}), result(2, {"score": 1}, None)).get_stats("b")
    assert (stats["total"], stats["avg_score"], stats["bad_rate"], stats["label_distribution"]) == (
        0,
        None,
        None,
        [],
    )


def test_the_last_meta_line_of_a_profile_counts(tmp_path: Path) -> None:
    """A file of meta lines only has no results."""
    first, last = ({"_type": "meta", "profile": "a", "run_llm": name} for name in ("one", "two"))
    store = make(tmp_path, first, last)
    assert store.load_results() == 0
    assert store.get_profiles() == [{"profile": "a", "total": 0, "meta": last}]


def test_without_a_config_the_fields_that_occur_are_looked_at(tmp_path: Path) -> None:
    """Numbers have a mean, booleans a rate, few texts a distribution, all else how often it is there."""
    store = make(
        tmp_path,
        *(result(n, {"score": n, "bad": n > 1, "label": "ab"[n % 2], "long": "x" * (300 + n)}) for n in range(3)),
        result(3, {"late/~key": [1], "score": None}),
        config=None,
    )
    assert store.get_stats() == {
        "total": 4,
        "errors": 0,
        "completed": 4,
        "parse_errors": 0,
        "bad_rate": 0.25,
        "label_distribution": [{"value": "a", "count": 2}, {"value": "b", "count": 1}],
        "late/~key_non_null_rate": 0.25,
        "long_non_null_rate": 0.75,
        "avg_score": 1.0,
    }
    assert {"id", "tag", "profile", "score", "late/~key"} <= set(store.sortable_columns())
    assert [row["id"] for row in store.query_results(sort_by="score")] == [2, 1, 0, 3]


def test_an_empty_folder_has_no_results(tmp_path: Path) -> None:
    store = BaseDataStore(tmp_path)
    assert store.load_results() == 0
    assert store.get_stats() == {"total": 0, "errors": 0, "completed": 0, "parse_errors": 0}
    assert (store.query_results(), store.get_error_distribution(), store.bad_lines) == ([], [], 0)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder .*nowhere"):
        BaseDataStore(tmp_path / "nowhere").load_results()


def test_errors_are_counted_by_what_they_say(tmp_path: Path) -> None:
    store = make(tmp_path, error(1, "b"), error(2, "a"), error(3, "b"), result(4, {"score": 1}))
    assert store.get_error_distribution() == [{"value": "b", "count": 2}, {"value": "a", "count": 1}]


def test_pages_are_sorted_by_number_then_text(tmp_path: Path) -> None:
    """Nothing stands last either way; equal ones keep the order of the data."""
    scores: list[Any] = [10, 9, None, "2", "x", 9]
    store = make(tmp_path, *(result(n, {"score": score}) for n, score in enumerate(scores)))

    def ids(**options: Any) -> list[int]:
        return [row["id"] for row in store.query_results(**options)]

    assert ids() == [0, 1, 2, 3, 4, 5]
    assert ids(sort_by="score") == [0, 1, 5, 3, 4, 2]
    assert ids(sort_by="score", ascending=True) == [3, 1, 5, 0, 4, 2]
    assert ids(sort_by="score", offset=1, limit=2) == [1, 5]
    assert ids(sort_by="id") == [5, 4, 3, 2, 1, 0]
    assert ids(offset=5) == [5]
    assert ids(limit=0) == []
    with pytest.raises(UsageError, match="must not be negative"):
        store.query_results(limit=-1)


@pytest.mark.parametrize("name", ["tag", "f0", "score; drop table results", "1", "score desc, (select 1)", ""])
def test_only_listed_columns_sort(tmp_path: Path, name: str) -> None:
    """Another name is refused with the names there are, and reaches no query."""
    store = make(tmp_path, result(1, {"score": 1}))
    with pytest.raises(UsageError, match="cannot sort by .*; there are id, score, label"):
        store.query_results(sort_by=name)
    assert store.get_stats()["total"] == 1


def test_names_of_fields_and_profiles_are_data(tmp_path: Path) -> None:
    """Quotes, slashes and SQL in them do nothing but name."""
    evil = "a' or 1=1; drop table results; --\"$.*/~"
    config = ViewConfig(output_fields=[FieldAggregation(evil, "int", "mean")], sortable_columns=[evil])
    store = make(tmp_path, result(1, {evil: 2}, evil), result(2, {evil: 4}, "b"), config=config)
    assert store.get_stats(evil)[f"avg_{evil}"] == 2.0
    assert store.get_stats("' or 1=1 --")["total"] == 0
    assert [row["id"] for row in store.query_results(sort_by=evil)] == [2, 1]
    assert BaseDataStore(tmp_path).get_stats()[f"avg_{evil}"] == 3.0


def test_a_sub_field_of_an_object_has_a_mean(tmp_path: Path) -> None:
    config = ViewConfig(output_fields=[FieldAggregation("quality", "int", "mean", sub_field="depth")])
    store = make(tmp_path, result(1, {"quality": {"depth": 2}}), result(2, {"quality": {"depth": 4}}), config=config)
    assert store.get_stats()["avg_quality"] == 3.0


def test_long_values_count_whole_in_a_distribution(tmp_path: Path) -> None:
    labels = ["x" * 500 + end for end in "aab"]
    store = make(tmp_path, *(result(n, {"label": label}) for n, label in enumerate(labels)))
    assert [one["count"] for one in store.get_stats()["label_distribution"]] == [2, 1]


def test_odd_characters_are_kept_or_replaced(tmp_path: Path) -> None:
    """Half a surrogate pair inside of a result costs that character only."""
    texts = ['{"label": "\\u0000"}', '{"label": "\\ud800"}', '{"label": "é漢"}']
    store = make(tmp_path, *(flat(text, id=n) for n, text in enumerate(texts)))
    values = {one["value"] for one in store.get_stats()["label_distribution"]}
    assert values == {"\0", "?", "é漢"}
    assert len(store.query_results()) == 3


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    """Only then, or if told to; lines that were added are not there before `load_results`."""
    store = make(tmp_path, result(1, {"score": 1}))
    assert store.load_results() == 1
    before = store._tables
    assert store.load_results() == 1
    assert store._tables is before
    with (tmp_path / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(result(2, {"score": 3})) + "\n")
    assert store.get_stats()["total"] == 1
    assert len(store.query_results()) == 1
    assert store.load_results() == 2
    assert store.load_results(force_reload=True) == 2
    write(tmp_path / "more.jsonl", [result(3, {"score": 1})])
    assert store.load_results() == 3


def test_a_page_of_a_file_that_was_replaced_is_of_the_new_one(tmp_path: Path) -> None:
    store = make(tmp_path, result(1, {"score": 1}), result(2, {"score": 1}))
    store.load_results()
    new = write(tmp_path / "new", [result(7, {"score": 1, "label": "long"})])
    new.replace(tmp_path / "results.jsonl")
    assert [row["id"] for row in store.query_results()] == [7]


def test_a_replaced_file_is_sorted_by_its_new_values(tmp_path: Path) -> None:
    """Lines where they were, and one more: only the file itself tells."""
    store = make(tmp_path, result(1, {"score": 1}), result(2, {"score": 2}))
    assert [row["id"] for row in store.query_results(sort_by="score")] == [2, 1]
    new = write(tmp_path / "new", [result(n, {"score": 9 - n}) for n in (1, 2, 3)])
    new.replace(tmp_path / "results.jsonl")
    assert [row["id"] for row in store.query_results(sort_by="score")] == [1, 2, 3]


def test_a_page_of_a_file_that_was_written_over_is_of_the_new_lines(tmp_path: Path) -> None:
    """In place and longer than before, so that only the lines tell."""
    store = make(tmp_path, result(1, {"score": 1}), result(2, {"score": 1}))
    store.load_results()
    write(tmp_path / "results.jsonl", [result(n, {"score": 1, "note": "x" * 50}) for n in (7, 8, 9)])
    assert [row["id"] for row in store.query_results()] == [7, 8, 9]


def test_many_threads_ask_while_one_reloads(tmp_path: Path) -> None:
    """Every answer is of one whole reading, before or after."""
    store = make(tmp_path, *(result(n, {"score": n % 5}) for n in range(100)), error(100, "e"))
    seen: list[tuple[int, int, int]] = []
    wrong: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(4):
                seen.append((store.get_stats()["total"], len(store.query_results(sort_by="score")), store.bad_lines))
                store.get_perf_summary()
        except BaseException as problem:  # noqa: BLE001
            wrong.append(problem)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        assert store.load_results(force_reload=True) == 101
    for thread in threads:
        thread.join()
    assert wrong == []
    assert set(seen) == {(101, 50, 0)}
    assert len(seen) == 32


def test_a_config_of_a_view_is_accepted_and_checked() -> None:
    """Settings of windows are left out; an aggregation that there is not is named with those there are."""
    said = {"task_name": "T", "width": 1200, "output_fields": [{"field_name": "score", "agg_type": "mean"}]}
    assert msgspec.convert(said, ViewConfig).output_fields[0].key == "avg_score"
    with pytest.raises(UsageError, match="'score': there is no aggregation 'median'; there are mean, rate"):
        FieldAggregation("score", "int", "median")  # type: ignore[arg-type]


def test_duckdb_is_loaded_by_the_first_question_only() -> None:
    code = "import sys, assay.suites.hop.store; sys.exit(bool({'duckdb', 'numpy'} & set(sys.modules)))"
    env = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=env).returncode == 0


def test_own_status_is_ok(tmp_path: Path) -> None:
    """What the function said of its answer stands beside whether the call came back."""
    row = make(tmp_path, flat(["UNCERTAIN", '{"score": 1}'], OK)).query_results()[0]
    assert (row["hop_status"], row["hop_outcome"], row["score"]) == ("OK", "UNCERTAIN", 1)
