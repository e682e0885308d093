"""The pages of HOP tasks, as the server sends them: forms, trials, files and numbers."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from assay.view.hop.site import HOP
from assay.view.site import SITE

from support.commands import environment
from support.hop_task import row, write_lines, write_task
from support.web import Page, view_of

Client = TestClient[Any, Any]
RUN, HISTORY = "/hop/run/Tasks/Verify", "/hop/history/Tasks/Verify"
INPUTS = {"in-0": "The sky.", "in-1": '"plain"', "in-2": "5"}


def visit(root: Path, look: Callable[[Client], Awaitable[None]]) -> None:
    """Open the pages of a folder and look at them."""

    async def work() -> None:
        async with view_of(root) as client:
            await look(client)

    asyncio.run(work())


async def text_of(client: Client, address: str) -> str:
    """The text of a page, with single spaces."""
    response = await client.get(address)
    assert response.status == 200, await response.text()
    return words_of(await response.text())


def words_of(source: str) -> str:
    """The text of the main part of a page, with single spaces between the texts of its elements."""
    main = source[source.index("<main") : source.index("</main>")]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", main)).split())


async def post(client: Client, address: str, **values: str) -> tuple[int, str]:
    """Send a form of the page. Returns the status, and the text of the page that is shown in the end."""
    app = client.app
    assert app is not None
    form = {"token": app[SITE].guard.page_token, **values}
    response = await client.post(address, data=form, allow_redirects=False)
    if response.status != 303:
        return response.status, words_of(await response.text())
    place = response.headers["Location"]
    trial = re.search(r"trial=([^#&]*)", place)
    if trial is not None:
        for each in app[HOP].trials._trials.values():
            await each.wait()
    return 303, await text_of(client, place)


def trial_id(client: Client) -> str:
    """The id of the newest trial."""
    assert client.app is not None
    trials: list[str] = list(client.app[HOP].trials._trials)
    return trials[-1]


def test_task_folders_are_found_and_have_five_tabs(tmp_path: Path) -> None:
    write_task(tmp_path / "Tasks" / "Verify", rows="plain")
    (tmp_path / "outside").mkdir()

    async def look(client: Client) -> None:
        page = Page(await (await client.get("/hop")).text())
        tabs = [link for link in page.links() if link.startswith("/hop/")]
        assert tabs == [f"/hop/{tab}/Tasks/Verify" for tab in ("run", "batch", "history", "stats", "perf")]
        for tab in tabs:
            assert (await client.get(tab)).status == 200
        for place in ("/hop/run/outside", "/hop/run/..%2fx", "/hop/stats/Tasks", "/hop/perf/%00"):
            assert (await client.get(place)).status == 404

    visit(tmp_path, look)


def test_tasks_of_one_name_are_listed_with_their_folders(tmp_path: Path) -> None:
    for folder in ("Verify", "old/Verify"):
        write_task(tmp_path / folder, rows="plain")

    async def look(client: Client) -> None:
        text = await text_of(client, "/hop")
        assert "2 tasks" in text
        assert text.count("Verify") == 3
        assert text.count("old/Verify") == 1

    visit(tmp_path, look)


def test_a_link_that_leads_out_of_the_folder_is_no_task(tmp_path: Path) -> None:
    write_task(tmp_path / "elsewhere" / "Verify", rows="plain")
    inside = write_task(tmp_path / "served" / "Mixed", rows="plain")
    (tmp_path / "served" / "Verify").symlink_to(tmp_path / "elsewhere" / "Verify")
    (inside / "TestCases" / "link.jsonl").symlink_to(tmp_path / "elsewhere/Verify/TestCases/rows.jsonl")

    async def look(client: Client) -> None:
        assert (await client.get("/hop/run/Verify")).status == 404
        assert "/hop/run/Verify" not in Page(await (await client.get("/hop")).text()).links()
        assert "link.jsonl" not in await text_of(client, "/hop/history/Mixed")

    visit(tmp_path / "served", look)


def test_each_input_has_the_widget_of_its_type_and_the_example_fills_them(tmp_path: Path) -> None:
    write_task(tmp_path / "Tasks" / "Verify")

    async def look(client: Client) -> None:
        source = await (await client.get(f"{RUN}?example=1")).text()
        page = Page(source)
        widgets = {
            attributes["name"]: (tag, attributes.get("type", ""))
            for tag, attributes in page.elements
            if attributes.get("name", "").startswith("in-")
        }
        assert widgets == {
            "in-0": ("textarea", ""),
            "in-1": ("select", ""),
            "in-2": ("input", "number"),
            "in-3": ("select", ""),
            "in-4": ("input", "checkbox"),
            "in-5": ("textarea", ""),
        }
        assert "The sky is blue.</textarea>" in source
        assert 'value="5" step="1"' in source
        assert '<option value="&#34;plain&#34;" selected>plain</option>' in source

    visit(tmp_path, look)


def test_a_result_is_a_card_with_gauge_badge_table_and_json(tmp_path: Path) -> None:
    write_task(tmp_path / "Tasks" / "Verify")

    async def look(client: Client) -> None:
        status, text = await post(client, RUN, do="run", **INPUTS)
        assert status == 303
        assert "Round 1 OK" in text
        assert "answer Copy checked: The sky." in text
        assert "Score 5 GOOD" in text
        assert "supported true" in text
        assert "confidence 0.75" in text
        assert "kind severity text number high 200 instead of 120 style low 很长" in text
        # A result ends the trial and its process.
        assert "Retry" not in text
        assert client.app is not None
        (trial,) = client.app[HOP].trials._trials.values()
        assert not trial.has_process

    visit(tmp_path, look)


def test_inputs_that_cannot_be_read_stay_in_the_form_and_nothing_runs(tmp_path: Path) -> None:
    write_task(tmp_path / "Tasks" / "Verify")

    async def look(client: Client) -> None:
        wrong = {"in-0": "kept", "in-1": '"other"', "in-2": "4.5", "in-5": "[1"}
        status, text = await post(client, RUN, do="run", **wrong)
        assert status == 400
        assert "3 fields cannot be read. Nothing was run." in text
        assert "Choose one of the values." in text
        assert "This field needs a whole number." in text
        assert "This is not JSON" in text
        assert "kept" in text
        assert client.app is not None
        assert client.app[HOP].trials._trials == {}

    visit(tmp_path, look)


def test_feedback_rounds_go_to_the_same_process_until_the_function_is_satisfied(tmp_path: Path) -> None:
    write_task(tmp_path / "Tasks" / "Verify")

    async def look(client: Client) -> None:
        _, text = await post(client, RUN, do="run", **{**INPUTS, "in-1": '"ask"'})
        assert "LACK_OF_INFO" in text
        assert "To answer, the function needs: Which year? Which 公司?" in text
        assert "Feedback 2 rounds left" in text
        assert "Confirm" not in text
        trial = trial_id(client)
        status, text = await post(client, RUN, do="feedback", trial=trial, feedback=" ")
        assert (status, "Write the feedback first." in text) == (400, True)
        _, text = await post(client, RUN, do="feedback", trial=trial, feedback="in 2019")
        assert "Feedback 1 round left" in text
        _, text = await post(client, RUN, do="feedback", trial=trial, feedback="公司 A")
        assert "Round 3 OK" in text
        # The function got all feedback, and counted three calls in one process.
        assert "in 2019 公司 A calls 3" in text

    visit(tmp_path, look)


def test_an_uncertain_result_can_be_confirmed_also_without_rounds_left(tmp_path: Path) -> None:
    write_task(tmp_path / "Tasks" / "Verify")

    async def look(client: Client) -> None:
        _, text = await post(client, RUN, do="run", **{**INPUTS, "in-1": '"unsure"'})
        assert "UNCERTAIN" in text
        assert "Send feedback Confirm" in text
        trial = trial_id(client)
        for _ in range(2):
            _, text = await post(client, RUN, do="feedback", trial=trial, feedback="more")
        assert "No round of feedback is left." in text
        status, _ = await post(client, RUN, do="feedback", trial=trial, feedback="more")
        assert status == 400
        _, text = await post(client, RUN, do="confirm", trial=trial)
        assert "Confirmed by you" in text
        assert "Send feedback" not in text

    visit(tmp_path, look)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("fail", "not verified 1"),
        ("raise", "[ValueError] the source is down"),
        ("die", "The function ended its process."),
    ],
)
def test_a_failed_call_keeps_the_inputs_and_can_be_repeated_as_often_as_the_contract_says(
    tmp_path: Path, mode: str, message: str
) -> None:
    write_task(tmp_path / "Tasks" / "Verify")

    async def look(client: Client) -> None:
        _, text = await post(client, RUN, do="run", **{**INPUTS, "in-1": f'"{mode}"'})
        assert message in text
        assert "The sky." in text
        assert "Retry 1 retry left" in text
        _, text = await post(client, RUN, do="retry", trial=trial_id(client))
        assert "Round 2" in text
        assert "No retry is left." in text
        status, _ = await post(client, RUN, do="retry", trial=trial_id(client))
        assert status == 400

    visit(tmp_path, look)


def test_cancel_kills_the_function_and_keeps_the_inputs(tmp_path: Path) -> None:
    write_task(tmp_path / "Tasks" / "Verify")

    async def look(client: Client) -> None:
        app = client.app
        assert app is not None
        form = {"token": app[SITE].guard.page_token, "do": "run", **INPUTS, "in-1": '"wait"'}
        response = await client.post(RUN, data=form, allow_redirects=False)
        place = response.headers["Location"]
        assert "Running for" in await text_of(client, place)
        (trial,) = app[HOP].trials._trials.values()
        _, text = await post(client, RUN, do="cancel", trial=trial.id)
        assert "Cancelled. The inputs are kept." in text
        assert "The sky." in text
        assert not trial.has_process

    visit(tmp_path, look)


def test_history_shows_both_forms_with_expected_values_meta_cards_and_other_records(tmp_path: Path) -> None:
    task = write_task(tmp_path / "Tasks" / "Verify")
    result = json.dumps({"score": 4, "supported": "True", "note": "长"}, ensure_ascii=False)
    lines = [
        {"_type": "meta", "profile": "fast", "run_llm": "Kimi", "run_params": {"temperature": 0.1}},
        {**row(1), "hop_result": result, "hop_stats": {"status": "OK", "retry_count": 2}, "profile": "fast"},
        {"input": row(2), "result": json.dumps({"score": 5})},
        {"input": {"claim": "no id"}, "error": "timeout"},
        ["UNCERTAIN", '{"score": 1}'],
        row(9),
        "not JSON at all",
    ]
    write_lines(task / "TestCases" / "mixed.jsonl", lines)
    write_lines(task / "TestCases" / "empty.jsonl", [])
    observed = {"type": "run_start", "run_id": "r", "timestamp": 1.0}
    write_lines(task / "TestCases" / "observer.jsonl", [observed])
    write_lines(task / "TestCases" / "frontend-debug.jsonl", [{"ts": 1, "level": "error", "message": "m"}])

    async def look(client: Client) -> None:
        text = await text_of(client, HISTORY)
        assert "Select a result file" in text
        assert "mixed.jsonl 4 results" in text
        assert "observer.jsonl" not in text
        assert "frontend-debug" not in text
        assert "Empty" in await text_of(client, f"{HISTORY}?file=empty.jsonl")
        text = await text_of(client, f"{HISTORY}?file=mixed.jsonl")
        assert "Records 6 4 with a result Completed 2 of 4 results Errors 1 of 4 results" in text
        assert "Right 100.0 % 2 of 2 with expected values" in text
        assert "Profile fast run_llm Kimi" in text
        # 4 and 5 are the same band.
        assert "Row 1 OK Tag odd Profile fast Retries 2 Score 4 GOOD = expected 5 GOOD" in text
        assert "Row 2 OK Tag even Score 5 GOOD = expected 4 GOOD" in text
        assert "supported true" in text
        assert "Record #3 ERROR timeout" in text
        assert "Record #4 UNCERTAIN" in text
        assert "Record #5" in text
        assert "not JSON at all" in text
        assert "There is no file 'gone'" in await text_of(client, f"{HISTORY}?file=gone")
        assert (await client.get(f"{HISTORY}?file=mixed.jsonl&page=2")).status == 400

    visit(tmp_path, look)


def test_history_of_a_task_without_files_says_so(tmp_path: Path) -> None:
    write_task(tmp_path / "Tasks" / "Verify")

    async def look(client: Client) -> None:
        assert "No results" in await text_of(client, HISTORY)

    visit(tmp_path, look)


def test_long_files_have_pages_and_grow_while_they_are_shown(tmp_path: Path) -> None:
    task = write_task(tmp_path / "Tasks" / "Verify")
    path = task / "TestCases" / "many.jsonl"
    lines = [{"input": row(number), "result": '{"score": 5}'} for number in range(1, 46)]
    write_lines(path, lines)

    async def look(client: Client) -> None:
        text = await text_of(client, f"{HISTORY}?file=many.jsonl&page=3")
        assert "Page 3 of 3" in text
        assert "Row 41 " in text
        assert "Row 40 " not in text
        assert "Right 100.0 % 45 of 45" in text
        with path.open("a") as file:
            file.write(json.dumps({"input": row(46), "error": "late"}) + "\n")
        text = await text_of(client, f"{HISTORY}?file=many.jsonl&page=3")
        assert "Row 46 ERROR Tag even late" in text
        assert "45 of 46" in text

    visit(tmp_path, look)


def test_stats_have_cards_bars_and_a_profile_selector(tmp_path: Path) -> None:
    task = write_task(tmp_path / "Tasks" / "Verify")
    errors = [{"kind": "number"}, {"kind": "style"}, {"kind": "number"}]
    lines = [
        {**row(1), "hop_result": {"score": 4, "supported": True, "errors": errors}, "profile": "fast"},
        {**row(2), "hop_result": {"score": 1, "supported": False}, "profile": "slow"},
        {**row(3), "hop_result": None, "hop_stats": {"status": "ERROR", "error": "late"}, "profile": "fast"},
    ]
    write_lines(task / "TestCases" / "r.jsonl", [{"_type": "meta", "profile": "idle"}, *lines])

    async def look(client: Client) -> None:
        text = await text_of(client, "/hop/stats/Tasks/Verify")
        assert "Total 3 results" in text
        idle = await text_of(client, "/hop/stats/Tasks/Verify?profile=idle")
        assert "No result in TestCases/ names the profile idle" in idle
        assert "Errors 1 of 3 (33.3%)" in text
        assert "Score 2.5 mean of 2 numbers in 3 results" in text
        assert "supported 33.3% true, of 3 results" in text
        assert "errors 3 values Value Chart Count number 2 67 % style 1 33 %" in text
        assert "Errors 1 value Value Chart Count late 1 100 %" in text
        text = await text_of(client, "/hop/stats/Tasks/Verify?profile=slow")
        assert "Total 1 results of slow" in text
        assert "Score 1.0 mean of 1 numbers in 1 results" in text
        assert "There is no result of the profile 'x'" in await text_of(client, "/hop/stats/Tasks/Verify?profile=x")

    visit(tmp_path, look)


def test_perf_has_times_and_operators_or_a_sentence_without_steps(tmp_path: Path) -> None:
    task = write_task(tmp_path / "Tasks" / "Verify")
    log = task / "TestCases" / "observer.jsonl"
    ends = [
        {"type": "run_end", "run_id": str(n), "timestamp": 1.0, "duration": float(n), "status": "OK"} for n in (1, 2, 3)
    ]

    async def look(client: Client) -> None:
        assert "No call of the function was observed yet" in await text_of(client, "/hop/perf/Tasks/Verify")
        write_lines(log, ends)
        text = await text_of(client, "/hop/perf/Tasks/Verify")
        assert "Average 2.00 s of 3 calls P50 2.00 s of 3 calls P95 2.90 s of 3 calls" in text
        assert "The function has no traced steps" in text
        step = {"type": "step", "run_id": "1", "timestamp": 1.0, "step": 1, "op": "hop_get", "task": "t"}
        steps = [
            {**step, "status": "OK", "duration": 2.0, "retry_count": 1},
            {**step, "status": "FAIL", "duration": 4.0, "retry_count": 0},
        ]
        write_lines(log, [*ends, *steps])
        text = await text_of(client, "/hop/perf/Tasks/Verify")
        assert "hop_get 2 50.0 % 3.0 s 0.50" in text

    visit(tmp_path, look)


def test_a_task_with_an_invalid_contract_says_what_is_wrong_and_cannot_run(tmp_path: Path) -> None:
    task = write_task(tmp_path / "Tasks" / "Verify", rows="plain")
    (task / "Hoplet" / "metainfo.md").write_text("---\ninputs: {n: nonsense}\n---\n")

    async def look(client: Client) -> None:
        text = await text_of(client, RUN)
        assert "nonsense" in text
        status, text = await post(client, RUN, do="run", **{"in-0": "1"})
        assert (status, "cannot run now" in text) == (400, True)

    visit(tmp_path, look)


def test_the_process_of_a_function_ends_with_its_server(tmp_path: Path) -> None:
    """Its input ends when the server is killed. The function would run on for nobody, and cost money."""
    task = write_task(tmp_path / "Verify")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "assay.view.hop.process", str(task), str(scratch), ""]
    request = {"fields": {"claim": "c", "mode": "wait", "quick": False}}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), start_new_session=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.close()
        assert process.wait(60) == -signal.SIGKILL
        # The child that removes the folder has this pipe too, until it has done so.
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert not scratch.exists()
