"""The form of a suite filled with the options of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay.journal.run_files import read_info, write_info
from assay.view.run_options import options_of_run
from view.test_case_pages import sources_of, words_of

from support import view_runs
from support.web import Page


def spec(**values: Any) -> dict[str, Any]:
    """The options of a task, as run.json has them."""
    options = {name: values.pop(name) for name in list(values) if name in assay.spec("task").options.__struct_fields__}
    made = assay.spec("task", tasks=["t.yaml"], **options)
    return {**msgspec.to_builtins(made), **values}


def double(a: int) -> str:
    return str(2 * a)


def texts(root: Path, **values: Any) -> tuple[dict[str, str], list[str]]:
    found = options_of_run(spec(**values), "task", root, root)
    return found.values, found.left_out


def test_only_options_that_differ_from_their_default_have_a_text(tmp_path: Path) -> None:
    values, left_out = texts(
        tmp_path,
        model="openai/gpt",
        num_fewshot=3,
        gen_kwargs={"temperature": 0.5, "top_p": 1},
        apply_chat_template=True,
        log_samples=False,
        fewshot_as_multiturn=False,
        limit=10.0,
        base_url="http://127.0.0.1:1/v1",
    )
    assert left_out == []
    assert values == {
        "tasks": "t.yaml",
        "num_fewshot": "3",
        "gen_kwargs": "temperature=0.5,top_p=1",
        "apply_chat_template": "1",
        "log_samples": "",
        "fewshot_as_multiturn": "false",
        "model": "openai/gpt",
        "limit": "10",
        "base_url": "http://127.0.0.1:1/v1",
    }


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"base_url": "https://ann:pw@host/v1"}, "--base-url: it may contain a key"),
        ({"base_url": "https://host/v1?key=sesame"}, "--base-url: it may contain a key"),
        ({"model_args": {"api_key": "sesame"}}, "--model-args: it may contain a key"),
        (
            {"gen_kwargs": {"stop": ["a"]}},
            "--gen-kwargs: its values cannot be written as name=value,name=value",
        ),
        (
            {"gen_kwargs": {"stop": "a,b"}},
            "--gen-kwargs: its values cannot be written as name=value,name=value",
        ),
        ({"quiet": True}, "quiet: the form has no such option"),
    ],
)
def test_secrets_and_what_the_form_cannot_have_are_left_out_with_a_reason(
    tmp_path: Path, values: dict[str, Any], reason: str
) -> None:
    found, left_out = texts(tmp_path, **values)
    assert left_out == [reason]
    assert found == {"tasks": "t.yaml"}
    assert "sesame" not in str(left_out)


def test_paths_begin_in_the_folder_of_the_server(tmp_path: Path) -> None:
    root = tmp_path / "root"
    folder = root / "sub"
    folder.mkdir(parents=True)
    for path in (folder / "t.yaml", folder / "m.py", folder / "gpt", tmp_path / "outside.yaml"):
        path.touch()
    found = options_of_run(spec(model="python/m.py:answer", include_path=["../.."]), "task", folder, root)
    assert found.values == {"tasks": "sub/t.yaml", "model": "python/sub/m.py:answer"}
    assert found.left_out == ["--include-path: ../.. is outside of the folder of this server"]
    # A name of a model is no path, even if there is a file of this name.
    assert options_of_run(spec(model="openai/gpt"), "task", folder, root).values["model"] == "openai/gpt"


def test_the_page_of_a_run_leads_to_its_form_with_its_options(tmp_path: Path) -> None:
    run = view_runs.task_run(tmp_path / "one", repeats=1)
    name = str(run.folder.relative_to(tmp_path))
    info = read_info(run.folder)
    info.spec["options"]["model_args"] = {"api_key": "sesame"}
    write_info(run.folder, info)
    address = f"/start/task?from={name}"
    (page,) = sources_of(tmp_path, f"/run/{name}")
    assert address in Page(page).links()
    (source,) = sources_of(tmp_path, address)
    values = {each.get("name"): each.get("value") for tag, each in Page(source).elements if tag == "input"}
    assert values["tasks"] == "one/numbers.yaml"
    assert values["model"] == "python/one/model.py:answer"
    assert values["output_dir"] == "one/out"
    assert "--model-args: it may contain a key" in source
    assert "sesame" not in source
    (words,) = words_of(tmp_path, f"/start/hop?from={name}", status=400)
    assert "is a run of task, not of hop" in words
    words_of(tmp_path, "/start/task?from=../..", f"/start/none?from={name}", status=404)


def test_a_run_of_a_python_program_has_no_such_link(tmp_path: Path) -> None:
    run = assay.evaluate([{"a": 1, "b": "2"}], answer=double, score=[assay.exact_match("b")], output_dir=tmp_path)
    name = str(run.folder.relative_to(tmp_path))
    (page,) = sources_of(tmp_path, f"/run/{name}")
    assert "Start again" not in page
