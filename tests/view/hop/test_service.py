"""HOP's published classes, built and called as its documents "HopView" and "HopletView" do."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.hop import (
    BaseDataStore,
    BaseService,
    FieldAggregation,
    HopletObserver,
    ViewConfig,
    create_fastapi_app,
    create_pywebview_app,
)

from support.hop_task import row, write_lines, write_task

VIEW_CONFIG = ViewConfig(
    task_name="Verify",
    hoplet_name="verify_model_output",
    description="Three-stage audit",
    hop_func_name="hop_verify",
    input_fields={"claim": "str", "mode": "str"},
    output_fields=[
        FieldAggregation("score", "int", "mean", "Average score"),
        FieldAggregation("supported", "bool", "rate", "Supported"),
        FieldAggregation("errors", "array", "distribution", "Kinds of errors", sub_field="kind"),
    ],
    empty_table_schema="score INTEGER, supported BOOLEAN",
    sortable_columns=frozenset({"score", "profile"}),
    audit_key_field="score",
    window_title="Verify Hoplet",
)
INPUT = {"claim": "it rained", "mode": "plain", "quick": False}


def service_of(task: Path) -> BaseService:
    """As a task's `View/app.py` builds it."""
    observer = HopletObserver(os.path.join(task, "TestCases", "observer.jsonl"))  # noqa: PTH118
    return BaseService(
        VIEW_CONFIG,
        os.path.join(task, "Hoplet"),  # noqa: PTH118
        os.path.join(task, "TestCases"),  # noqa: PTH118
        observer=observer,
    )


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_config_is_the_dataclass_of_the_document() -> None:
    assert (VIEW_CONFIG.window_width, VIEW_CONFIG.window_height) == (1200, 820)
    assert (VIEW_CONFIG.retry_quota, VIEW_CONFIG.max_feedback_rounds) == (None, 5)
    assert dataclasses.replace(VIEW_CONFIG, retry_quota=2).retry_quota == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        VIEW_CONFIG.task_name = "Other"  # type: ignore[misc]


def test_a_store_takes_the_config_first_and_a_log_of_another_folder(tmp_path: Path) -> None:
    folder = tmp_path / "TestCases"
    folder.mkdir()
    result = {**row(1), "hop_result": '{"score": 4, "supported": true}', "hop_stats": {"status": "OK"}}
    write_lines(folder / "a.jsonl", [{**result, "profile": "fast"}, {**result, "id": 2}])
    log = tmp_path / "observer.jsonl"
    write_lines(log, [{"type": "run_end", "run_id": "1", "timestamp": 1.0, "duration": 2.0, "status": "OK"}])
    store = BaseDataStore(VIEW_CONFIG, str(folder), observer_log=str(log))
    assert (store.config, store.testcases_dir, store.observer_log) == (VIEW_CONFIG, str(folder), str(log))
    assert store.load_results(force_reload=True) == 2
    assert store.get_stats(profile="fast")["avg_score"] == 4.0
    assert store.get_error_distribution() == []
    assert store.get_perf_summary()["total_runs"] == 1
    (best,) = store.query_results(offset=0, limit=1, sort_by="score", ascending=False)
    assert best["score"] == 4
    store.close()
    # A log that is in the folder, too, counts once.
    assert BaseDataStore(VIEW_CONFIG, tmp_path, log).get_perf_summary()["total_runs"] == 1


def test_a_result_is_completed_only_with_the_status_ok(tmp_path: Path) -> None:
    """As in the report of a run and in the View's history."""
    rows = [
        {"id": 1, "hop_result": '{"score": 4}', "hop_stats": {"status": "OK"}},
        {"id": 2, "hop_result": '["FAIL", {"score": 1}]', "hop_stats": {"status": "OK"}},
        {"id": 3, "hop_result": '["OK", {"score": 1}]', "hop_stats": {"status": "OK"}},
        {"id": 4, "hop_result": "null", "hop_stats": {"status": "ERROR", "error": "late"}},
    ]
    write_lines(tmp_path / "a.jsonl", rows)
    stats = BaseDataStore(tmp_path).get_stats()
    assert (stats["total"], stats["errors"], stats["completed"]) == (4, 1, 2)


def test_a_task_runs_and_is_observed(tmp_path: Path) -> None:
    """The answer has the output of the function beside the three keys of the session."""
    task = write_task(tmp_path / "Verify")
    answer = asyncio.run(service_of(task).run_task(INPUT))
    assert (answer["answer"], answer["hop_status"], answer["iteration"]) == ("checked: it rained", "OK", 1)
    assert answer["session_id"]
    start, end = lines_of(task / "TestCases" / "observer.jsonl")
    assert (start["input"]["claim"], end["status"]) == ("it rained", "OK")


def test_feedback_goes_to_the_same_session_until_it_is_confirmed(tmp_path: Path) -> None:
    service = service_of(write_task(tmp_path / "Verify"))

    async def talk() -> None:
        first = await service.run_task({**INPUT, "mode": "ask"})
        assert first["hop_status"] == "LACK_OF_INFO"
        second = await service.submit_feedback(first["session_id"], "In 2019.")
        third = await service.submit_feedback(first["session_id"], "A公司.")
        assert (second["iteration"], third["iteration"], third["hop_status"]) == (2, 3, "OK")
        assert third["feedback"] == ["In 2019.", "A公司."]
        assert "waits for feedback" in (await service.submit_feedback(first["session_id"], "?"))["error"]
        for word in ("confirm, good", "OK", "确认", "好的", "可以"):
            unsure = await service.run_task({**INPUT, "mode": "unsure"})
            confirmed = await service.submit_feedback(unsure["session_id"], word)
            assert confirmed == {**unsure, "hop_status": "CONFIRMED"}
        unsure = await service.run_task({**INPUT, "mode": "unsure"})
        again = await service.submit_feedback(unsure["session_id"], "No, look again.")
        assert (again["hop_status"], again["iteration"]) == ("UNCERTAIN", 2)

    asyncio.run(talk())


def test_rounds_of_feedback_and_retries_have_their_limits(tmp_path: Path) -> None:
    service = service_of(write_task(tmp_path / "Verify"))
    service.config = dataclasses.replace(VIEW_CONFIG, retry_quota=1, max_feedback_rounds=1)

    async def talk() -> None:
        failed = await service.run_task({**INPUT, "mode": "fail"})
        assert (failed["hop_status"], failed["error"]) == ("FAIL", "not verified 1")
        again = await service.retry_task(failed["session_id"])
        assert (again["hop_status"], again["iteration"]) == ("FAIL", 2)
        assert "the most that are allowed" in (await service.retry_task(failed["session_id"]))["error"]
        raised = await service.run_task({**INPUT, "mode": "raise"})
        assert raised["hop_status"] == "FAIL"
        assert "the source is down" in raised["error"]
        unsure = await service.run_task({**INPUT, "mode": "unsure"})
        await service.submit_feedback(unsure["session_id"], "No.")
        refused = await service.submit_feedback(unsure["session_id"], "No.")
        assert "the most that are allowed" in refused["error"]

    asyncio.run(talk())


def test_a_call_that_runs_can_be_cancelled(tmp_path: Path) -> None:
    service = service_of(write_task(tmp_path / "Verify"))

    async def talk() -> None:
        running = asyncio.create_task(service.run_task({**INPUT, "mode": "wait"}))
        while not lines_in(tmp_path / "Verify" / "TestCases" / "observer.jsonl"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        (session_id,) = service._sessions
        cancelled = await service.cancel_task(session_id)
        assert cancelled == {"session_id": session_id, "hop_status": "CANCELLED"}
        assert (await running)["hop_status"] == "CANCELLED"
        assert "there is no run" in (await service.cancel_task(session_id))["error"]

    asyncio.run(talk())


def lines_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_batch_runs_beside_the_page_and_its_results_are_read(tmp_path: Path) -> None:
    service = service_of(write_task(tmp_path / "Verify", verify="plain raise fail"))

    async def batch() -> None:
        assert await service.list_test_files() == [
            {"name": "verify.jsonl", "size": (tmp_path / "Verify/TestCases/verify.jsonl").stat().st_size}
            | {"records": 3}
        ]
        idle = {"running": False, "completed": 0, "total": 0, "errors": 0, "output_file": ""}
        assert await service.get_batch_progress() == idle
        assert "there is no file" in (await service.start_batch("../Hoplet/Hop.py"))["error"]
        assert await service.start_batch("verify.jsonl", workers=2) == {"status": "started", "total": 3}
        assert "already running" in (await service.start_batch("verify.jsonl"))["error"]
        while (progress := await service.get_batch_progress())["running"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (progress["completed"], progress["total"], progress["errors"]) == (3, 3, 1)
        (listed,) = await service.list_results()
        assert Path(progress["output_file"]).name == listed["name"]
        assert listed.keys() == {"name", "size", "mtime"}
        records = await service.load_result(listed["name"])
        assert [sorted(set(record) - {"input"}) for record in records if "input" in record] == [
            *(["result"], ["error"], ["result"])
        ]
        assert "error" in await service.load_result("../settings.yaml")
        stats = await service.get_stats()
        assert (stats["total"], stats["errors"], stats["completed"], stats["avg_score"]) == (3, 1, 1, 5.0)
        assert (await service.get_perf_summary())["total_runs"] == 3

    asyncio.run(batch())


def test_a_log_of_the_frontend_is_kept_and_never_raises(tmp_path: Path) -> None:
    service = service_of(write_task(tmp_path / "Verify"))
    entry = {"ts": "2026-01-15T10:30:00.123Z", "level": "error", "message": "HTTP 500 错", "context": None}
    service.log_frontend(entry)
    service.log_frontend({"level": {1, 2}})
    assert lines_of(tmp_path / "Verify" / "TestCases" / "frontend-debug.jsonl") == [entry]
    service.testcases_dir = str(tmp_path / "gone")
    service.log_frontend(entry)
    assert asyncio.run(service_of(tmp_path / "Verify").list_test_files()) == []


def test_a_task_that_is_not_there_or_cannot_be_read_is_an_error_in_the_answer(tmp_path: Path) -> None:
    """Nothing is raised, whatever the page asks for."""
    task = write_task(tmp_path / "Verify", verify="plain")
    (task / "settings.yaml").write_text("profiles: 3")
    gone, broken = service_of(tmp_path / "Gone"), service_of(task)

    async def talk() -> None:
        for answer in (await gone.get_stats(), await gone.get_perf_summary(), await gone.run_task(INPUT)):
            assert "Gone" in answer["error"]
        for answer in (await broken.start_batch("verify.jsonl"), await broken.run_task(INPUT)):
            assert "settings.yaml" in answer["error"]

    asyncio.run(talk())


@pytest.mark.parametrize("create", [create_pywebview_app, create_fastapi_app])
def test_hops_window_and_server_point_to_the_view(create: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="assay view --open"):
        create(VIEW_CONFIG, BaseService(VIEW_CONFIG), str(tmp_path), debug=True)
