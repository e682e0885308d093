"""The Batch tab: real batches in processes of their own, started, stopped and continued from the page."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.store.runs import is_locked, run_folders
from assay.suites.hop.batch_lines import normalize_input
from view.hop.test_pages import Client, post, text_of, visit

from support.hop_task import row, write_lines, write_task
from support.web import view_of

BATCH = "/hop/batch/Tasks/Verify"
MODES = "plain wait raise plain unsure"
SECONDS = 60.0


async def until(client: Client, *parts: str) -> str:
    """Look at the page until it has all these texts."""
    end = time.monotonic() + SECONDS
    while True:
        text = await text_of(client, BATCH)
        if all(part in text for part in parts):
            return text
        assert time.monotonic() < end, text
        await asyncio.sleep(0.1)


async def all_quiet(task: Path) -> None:
    """Wait until no process works on a batch of the task."""
    end = time.monotonic() + SECONDS
    while any(map(is_locked, run_folders(task))):
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


@pytest.fixture(autouse=True)
def _end_of_waiting(tmp_path: Path) -> Iterator[None]:
    """Functions that still wait end, so that no process outlives a test that failed."""
    yield
    for hoplet in tmp_path.rglob("Hoplet"):
        (hoplet.parent / "gate").touch()


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_batch_is_stopped_and_continued_and_ends_in_the_views_form(tmp_path: Path) -> None:
    task = write_task(tmp_path / "Tasks" / "Verify", rows=MODES)

    async def look(client: Client) -> None:
        text = await text_of(client, BATCH)
        assert "rows.jsonl (5 records)" in text
        assert "Workers Start Batch Refresh" in text
        status, text = await post(client, BATCH, do="start", file="rows.jsonl", workers="2")
        assert status == 303, text
        await until(client, "Running batch running", "4/5 (80%) 1 errors", "Stop")
        status, text = await post(client, BATCH, do="start", file="rows.jsonl", workers="2")
        assert (status, "A batch of this task is running." in text) == (400, True)
        (folder,) = run_folders(task)
        run = str(folder.relative_to(tmp_path))
        await post(client, BATCH, do="stop", run=run)
        await post(client, BATCH, do="stop", run=run)  # the row waits for ever, so it is ended
        await all_quiet(task)
        assert "Last batch" in await until(client, "Continue", "4/5 (80%) 1 errors")
        (task / "gate").touch()
        status, text = await post(client, BATCH, do="continue", run=run)
        assert status == 303, text
        text = await until(client, "5/5 (100%) 1 errors -- Done: rows_", "Last batch finished")
        assert list(run_folders(task)) == [folder]

    visit(tmp_path, look)
    (output,) = (task / "TestCases").glob("rows_*.jsonl")
    meta, *lines = read_lines(output)
    assert meta["_type"] == "meta"
    assert [line["input"] for line in lines] == [row(number, mode) for number, mode in enumerate(MODES.split(), 1)]
    assert [set(line) for line in lines] == [{"input", "error"} if n == 2 else {"input", "result"} for n in range(5)]
    assert lines[2]["error"].startswith("[ValueError] the source is down")
    assert json.loads(lines[0]["result"])["score"] == 5
    assert json.loads(lines[4]["result"])[0] == "UNCERTAIN"


def test_an_earlier_output_is_an_input_again_without_nesting(tmp_path: Path) -> None:
    task = write_task(tmp_path / "Tasks" / "Verify")
    wrapped = {"input": {"input": row(1), "result": "{}"}, "error": "late"}
    flat = {**row(2), "hop_result": "{}", "hop_stats": {"status": "OK"}, "profile": "p"}
    write_lines(task / "TestCases" / "old.jsonl", [{"_type": "meta", "profile": "p"}, wrapped, flat])

    async def look(client: Client) -> None:
        assert "old.jsonl (2 records)" in await text_of(client, BATCH)
        status, text = await post(client, BATCH, do="start", file="old.jsonl", workers="20")
        assert status == 303, text
        await until(client, "2/2 (100%) 0 errors -- Done: old_")

    visit(tmp_path, look)
    (output,) = (task / "TestCases").glob("old_*.jsonl")
    lines = read_lines(output)[1:]
    assert [line["input"] for line in lines] == [row(1), row(2)]
    assert [normalize_input(line) for line in lines] == [row(1), row(2)]


def test_a_batch_outlives_its_view_and_another_view_finds_and_stops_it(tmp_path: Path) -> None:
    task = write_task(tmp_path / "Tasks" / "Verify", rows="plain wait")

    async def start(client: Client) -> None:
        status, text = await post(client, BATCH, do="start", file="rows.jsonl", workers="5")
        assert status == 303, text
        await until(client, "1/2 (50%) 0 errors")
        async with view_of(tmp_path) as second:
            assert "Running batch running" in await text_of(second, BATCH)
            status, _ = await post(second, BATCH, do="start", file="rows.jsonl", workers="5")
            assert status == 400

    async def stop(client: Client) -> None:
        await until(client, "Running batch running", "1/2 (50%) 0 errors", "Stop")
        (folder,) = run_folders(task)
        for _ in range(2):
            await post(client, BATCH, do="stop", run=str(folder.relative_to(tmp_path)))
        await all_quiet(task)
        await until(client, "Continue")

    visit(tmp_path, start)
    visit(tmp_path, stop)


def test_only_choices_of_the_form_start_a_batch(tmp_path: Path) -> None:
    task = write_task(tmp_path / "Tasks" / "Verify", rows="plain")
    (tmp_path / "other.jsonl").write_text("{}\n")

    async def look(client: Client) -> None:
        for wrong in (
            {"file": "../../../other.jsonl", "workers": "5"},
            {"file": "--dry-run", "workers": "5"},
            {"file": "rows.jsonl", "workers": "21"},
            {"file": "rows.jsonl", "workers": "0"},
            {"file": "rows.jsonl", "workers": "1; x"},
        ):
            status, text = await post(client, BATCH, do="start", **wrong)
            assert status == 400, text
        for action in ("stop", "continue", "x"):
            assert (await post(client, BATCH, do=action, run="../.."))[0] == 400
        # Without the token of the page nothing starts.
        form = {"do": "start", "file": "rows.jsonl", "workers": "5"}
        assert (await client.post(BATCH, data=form)).status == 403

    visit(tmp_path, look)
    assert list(run_folders(task)) == []


def test_a_damaged_run_does_not_keep_anybody_from_the_next_batch(tmp_path: Path) -> None:
    task = write_task(tmp_path / "Tasks" / "Verify", rows="plain")
    broken = task / "TestCases" / "assay" / "2026-01-01T00-00-00-hop-0123456789abcdef"
    broken.mkdir(parents=True)
    (broken / "run.json").write_text("{}")

    async def look(client: Client) -> None:
        text = await text_of(client, BATCH)
        assert "Start Batch" in text
        assert "run.json" in text

    visit(tmp_path, look)


def test_a_batch_that_cannot_start_says_why(tmp_path: Path) -> None:
    task = write_task(tmp_path / "Tasks" / "Verify")
    write_lines(task / "TestCases" / "bad.jsonl", [{"id": 1, "tag": "t", "claim": 7}])

    async def look(client: Client) -> None:
        status, text = await post(client, BATCH, do="start", file="bad.jsonl", workers="5")
        assert status == 400
        assert "The batch did not start." in text
        assert "the contract requires string, found 7" in text

    visit(tmp_path, look)
