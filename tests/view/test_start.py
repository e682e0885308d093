"""The pages that start runs: a form for every suite, its command line, the plan, and what can go wrong."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_origin
from urllib.parse import quote, urlencode

import pytest
from aiohttp.test_utils import TestClient

from assay.cli.suite_command import suite_command
from assay.core.spec import RunSpec, fields
from assay.runner import api
from assay.store.notes import read_notes
from assay.store.runs import is_locked, run_folders, state_of
from assay.suites import command_table, find_options
from assay.view.guard import Guard
from assay.view.option_form import OptionForm
from assay.view.processes import LOG, may_write, read_end
from assay.view.site import SITE
from view.hostile import STRINGS
from view.test_hostile import check

from support.commands import run_here
from support.runs import Made, passed, run_of
from support.waiting_task import waiting_task
from support.web import Page, visit

SUITES = [command.name for command in command_table().values()]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
TASK = {"tasks": "sums.yaml", "model": "python/model.py:answer", "output_dir": "results"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with waiting_task(tmp_path / "work") as folder:
        yield folder


async def send(
    client: TestClient[Any, Any], guard: Guard, address: str, values: dict[str, str]
) -> tuple[int, str, str]:
    """Send a form of a page. Returns the status, where it leads, and the page."""
    body = urlencode({"token": guard.page_token, **values})
    response = await client.post(address, data=body, headers=FORM, allow_redirects=False)
    return response.status, response.headers.get("Location", ""), await response.text()


async def until(condition: Callable[[], bool]) -> None:
    async def wait() -> None:
        while not condition():  # noqa: ASYNC110 - the other side is another process
            await asyncio.sleep(0.02)

    await asyncio.wait_for(wait(), 60)


@pytest.mark.parametrize("suite", SUITES)
def test_a_filled_form_means_the_same_as_its_command_line(suite: str, tmp_path: Path) -> None:
    """Every field of every suite gets a value that is not its default."""
    options = find_options(suite)
    all_fields = {field.name: field for field in (*fields(options), *fields(RunSpec))}
    texts: dict[str, str] = {}
    expected: dict[str, Any] = {}
    for shown in OptionForm.of(suite, {}).fields:
        field = all_fields[shown.name]
        if shown.kind == "check":
            texts[shown.name], expected[shown.name] = "" if field.default else "1", not field.default
        elif shown.kind == "choice":
            texts[shown.name] = expected[shown.name] = shown.choices[-1]
        elif shown.kind == "pairs":
            lists = get_origin(get_args(field.type)[1]) is list
            texts[shown.name] = '{"a": [1, 2]}' if lists else "a=1,b=x y"
            expected[shown.name] = {"a": [1, 2]} if lists else {"a": 1, "b": "x y"}
        elif shown.kind == "list":
            texts[shown.name], expected[shown.name] = "one\ntwo\n", ["one", "two"]
        elif shown.kind == "names":
            texts[shown.name], expected[shown.name] = "some.yaml", ["some.yaml"]
        elif shown.kind == "number":
            texts[shown.name], expected[shown.name] = "1", 1
        elif shown.name == "seed":
            texts[shown.name], expected[shown.name] = "-7", -7
        else:
            texts[shown.name] = expected[shown.name] = f"some {shown.name}; $(rm) 'x'"
    words = OptionForm.of(suite, texts).words(tmp_path)
    command = suite_command(suite)
    spec = command.spec_of_words(words[len(options.command.split()) :])
    for name, value in expected.items():
        found = getattr(spec.options if name in options.__struct_fields__ else spec, name)
        assert str(found).lower() == str(value).lower() if isinstance(found, bool) else found == value, name


@pytest.mark.parametrize("suite", SUITES)
def test_every_option_has_a_label_its_help_and_its_default(suite: str, tmp_path: Path) -> None:
    async def look(client: TestClient[Any, Any], _: Guard) -> None:
        source = await (await client.get(f"/start/{suite}?model=local/smollm2")).text()
        page = Page(source)
        for field in OptionForm.of(suite, {}).fields:
            assert field.label in page.text
            assert " ".join(field.help.split()) in " ".join(page.text.split())
        attributes = [attributes for _, attributes in page.elements]
        assert {"local/smollm2", "16"} <= {
            value for each in attributes for value in (each.get("value"), each.get("placeholder")) if value
        }
        keys = {key for about in api.providers().values() for key in about.keys}
        assert {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"} <= keys
        assert all(f"{key} is" in page.text for key in keys)

    visit(tmp_path, look)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tasks": "/etc/passwd"}, "outside of"),
        ({"tasks": "sums.yaml,../other.yaml"}, "outside of"),
        ({"tasks": "link/sums.yaml"}, "outside of"),
        ({"tasks": "~/sums.yaml"}, "outside of"),
        ({"model": "python//etc/model.py:answer"}, "outside of"),
        ({"metadata": "/etc/metadata.json"}, "outside of"),
        ({"output_dir": "../elsewhere"}, "outside of"),
        ({"tasks": "--confirm-run-unsafe-code"}, "begins like an option"),
        ({"limit": "many"}, "--limit takes a number, found 'many'"),
        ({"concurrency": "1.5"}, "--concurrency takes a whole number"),
        ({"votes": "0"}, "--votes 0: expected a whole number of at least 1"),
    ],
)
def test_a_form_with_a_wrong_value_starts_nothing_and_keeps_its_values(
    folder: Path, values: dict[str, str], message: str
) -> None:
    (folder / "link").symlink_to(folder.parent)

    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        sent = {**TASK, "num_fewshot": "17", **values, "do": "start"}
        status, _, source = await send(client, guard, "/start/task", sent)
        assert status == 422
        assert message in Page(source).text
        assert 'value="17"' in source
        assert not (folder / "results").exists()

    visit(folder, act)


def test_a_run_is_planned_started_stopped_and_continued_by_forms(folder: Path) -> None:
    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        status, _, source = await send(client, guard, "/start/task", {**TASK, "do": "plan"})
        assert status == 200
        text = Page(source).text
        assert "6 of 6 documents" in text
        assert "assay task sums.yaml --output-dir" in text or "assay task sums.yaml --model" in text
        assert not (folder / "results").exists()
        # The plan has the values of the form, for the button that starts the run.
        hidden = {
            each["name"]: each["value"]
            for tag, each in Page(source).elements
            if tag == "input" and each["type"] == "hidden" and each["name"] != "token"
        }
        status, place, _ = await send(client, guard, "/start/task", {**hidden, "do": "start"})
        assert status == 303
        assert re.fullmatch(r"/run/results/assay/[^/]+", place)
        run = folder / place.removeprefix("/run/")
        await until(lambda: state_of(run).done == 3)
        source = await (await client.get(place)).text()
        assert "Stop</button>" in source
        address = place.removeprefix("/run")
        assert (await send(client, guard, f"/stop{address}", {}))[1] == place
        assert "Stop now</button>" in await (await client.get(place)).text()
        await send(client, guard, f"/stop{address}", {})
        await until(lambda: not is_locked(run))
        source = await (await client.get(place)).text()
        assert "Continue</button>" in source
        # The process frees its run first and prints its last lines then.
        await until(lambda: "Continue with: assay task" in read_end(run / LOG))
        assert "Continue with: assay task" in await (await client.get(f"/output{address}")).text()
        (folder / "go").touch()
        assert (await send(client, guard, f"/continue{address}", {}))[1] == place
        await until(lambda: state_of(run).state == "finished")
        assert list(run_folders(folder)) == [run]
        app = client.app
        assert app is not None
        await until(lambda: not app[SITE].processes.times_stopped(run))

    visit(folder, act)


def test_what_the_command_says_stands_beside_the_form(folder: Path) -> None:
    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        for do in ("plan", "start"):
            # `checks` names the boxes of the form. This one is set by default.
            values = {**TASK, "tasks": "missing.yaml", "checks": "log_samples", "do": do}
            status, _, source = await send(client, guard, "/start/task", values)
            assert status == 422
            (box,) = [each for _, each in Page(source).elements if each.get("name") == "log_samples"]
            assert "checked" not in box
            assert "missing.yaml" in Page(source).text
            assert 'value="missing.yaml"' in source

    visit(folder, act)


def test_no_value_of_a_form_becomes_markup(folder: Path) -> None:
    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        for text in STRINGS[::4]:
            values = {"tasks": text, "system_instruction": text, "model_args": text, "limit": text}
            status, _, source = await send(client, guard, "/start/task", values)
            assert status == 422
            check(source, f"the form with {text!r}")

    visit(folder, act)


def test_nothing_starts_stops_or_changes_without_the_token_of_the_page(folder: Path) -> None:
    run_of(folder / "results" / "assay" / "one", {"a": True})

    async def act(client: TestClient[Any, Any], _: Guard) -> None:
        run = "results/assay/one"
        for place in (
            "/start/task",
            "/quickstart",
            f"/stop/{run}",
            f"/continue/{run}",
            f"/notes/{run}",
        ):
            body = urlencode({**TASK, "do": "start", "text": "x"})
            assert (await client.post(place, data=body, headers=FORM)).status == 403
            assert (await client.get(place)).status in ((200,) if place == "/start/task" else (405,))

    visit(folder, act)


def test_notes_and_tags_are_written_on_the_page_of_the_run(tmp_path: Path) -> None:
    run = run_of(tmp_path / "assay" / "one", {"a": True})

    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        values = {"text": "shorter <b>prompt</b>", "tags": "baseline, night"}
        assert (await send(client, guard, "/notes/assay/one", values))[1] == "/run/assay/one#notes"
        assert read_notes(run).tags == ["baseline", "night"]
        assert "shorter <b>prompt</b>" in Page(await (await client.get("/run/assay/one")).text()).text
        await send(client, guard, "/notes/assay/one", {"remove": "night"})
        assert read_notes(run).tags == ["baseline"]
        assert (await send(client, guard, "/notes/assay/one", {"tags": "x" * 50}))[0] == 400

    visit(tmp_path, act)


def test_a_run_that_cannot_be_continued_from_a_page_says_why(tmp_path: Path) -> None:
    made = Made(tmp_path / "assay" / "half")
    made.case("a", [passed(1)])
    made.write_info(total=3)

    async def look(client: TestClient[Any, Any], guard: Guard) -> None:
        source = await (await client.get("/run/assay/half")).text()
        assert "Continue</button>" not in source
        status, _, source = await send(client, guard, "/continue/assay/half", {})
        assert status == 400

    visit(tmp_path, look)


def test_a_run_that_lacks_only_cases_with_bad_data_cannot_be_continued(tmp_path: Path) -> None:
    """The same command would meet the same rows."""
    (tmp_path / "rows.jsonl").write_text('{"q": "2+2", "a": "4"}\n{"a": "5"}\n')
    (tmp_path / "own.py").write_text("def question(doc):\n    return doc['q']\n")
    (tmp_path / "model.py").write_text("def answer(prompt, params):\n    return '4'\n")
    (tmp_path / "sums.yaml").write_text(
        "{task: sums, dataset_path: json, dataset_kwargs: {data_files: {test: rows.jsonl}}, test_split: test, "
        "output_type: generate_until, doc_to_text: !function own.question, doc_to_target: a, metric_list: [{metric: exact_match}]}"
    )
    words = ["task", "sums.yaml", "--model", "python/model.py:answer", "--output-dir", "out"]
    assert run_here(words, tmp_path).returncode == 2

    async def look(client: TestClient[Any, Any], guard: Guard) -> None:
        (name,) = [str(run.relative_to(tmp_path)) for run in run_folders(tmp_path)]
        source = await (await client.get(f"/run/{name}")).text()
        assert "Continue</button>" not in source
        assert "1 of 2 cases cannot be asked because of bad data" in source
        assert "Correct the task or its data" in source
        assert '<span class="badge bad_data">bad data</span>' in source
        assert '<span class="badge bad_data">bad data</span>' in await (await client.get(f"/case/1/{name}")).text()

    visit(tmp_path, look)


def test_a_folder_of_another_user_has_no_buttons(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    child = os.fork()
    if not child:
        if os.geteuid() == 0:  # may write everywhere
            os.setuid(65534)
        os._exit(may_write(tmp_path))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    tmp_path.chmod(0o755)
    assert may_write(tmp_path)


def test_the_quickstart_names_the_command_that_fetches_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))

    async def look(client: TestClient[Any, Any], _: Guard) -> None:
        for place in ("/", "/start"):
            text = Page(await (await client.get(place)).text()).text
            assert "assay models pull smollm2" in text
            assert "Start the quickstart" not in text

    visit(tmp_path, look)


def test_the_quickstart_writes_a_task_and_runs_it(weights: Path, tmp_path: Path) -> None:
    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        assert "Start the quickstart" in await (await client.get("/")).text()
        status, place, _ = await send(client, guard, "/quickstart", {})
        assert status == 303
        run = tmp_path / place.removeprefix("/run/")
        await until(lambda: state_of(run).state == "finished")

    visit(tmp_path, act)


def test_a_suite_that_is_a_file_is_not_loaded_by_an_address(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    made = Made(tmp_path / "assay" / "one", suite=f"{tmp_path}/evil.py:Evil")
    made.case("a", [passed(1)])
    made.finish(state="stopped")

    async def look(client: TestClient[Any, Any], _: Guard) -> None:
        for place in (
            f"/start/{quote(str(tmp_path), safe='')}%2Fevil.py:Evil",
            "/start/evil.py:Evil",
            "/start/tasks",
        ):
            response = await client.get(place)
            assert response.status == 404
        source = await (await client.get("/run/assay/one")).text()
        assert "Continue</button>" not in source
        assert (await client.get("/label/assay/one?by=ann")).status == 200
        assert not (tmp_path / "ran").exists()

    visit(tmp_path, look)


def test_a_page_cannot_start_a_command_of_its_choice() -> None:
    """--serve runs any program. Whoever can open the page gets no field for it."""
    for suite in ("task", "pipeline", "hop"):
        assert "serve" not in {field.name for field in OptionForm.of(suite, {"serve": "rm {port}"}).fields}
