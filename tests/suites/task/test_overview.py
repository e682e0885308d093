"""`--dry-run` shows the planned calls of a task run, `--write-out` the first prompt of each task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import InputError, UsageError
from assay.core.suite import Overview
from assay.runner import api
from assay.suites.task.suite import TaskSuite

from support.task_project import FOUR, TaskProject, has_requests


def look(lab: TaskProject, *tasks: str, **options: Any) -> Overview:
    """What would be asked; nothing is."""
    overview = api.overview(lab.spec(*tasks, **options))
    assert not has_requests(lab)
    return overview


def test_calls_and_tokens_of_each_task_are_estimated(lab: TaskProject) -> None:
    """A call for each document and repeat; four characters a token; replies may have as many as allowed."""
    docs = [{"q": "x" * 40, "a": "1"}] * 3
    lab.task("t.yaml", docs=docs, repeats=5, generation_kwargs={"max_gen_toks": 100})
    lab.task("u.yaml", docs=FOUR)
    first, second = look(lab, "t.yaml", "u.yaml").calls
    assert (first.what, first.model, first.calls) == ("t", "python/model.py:echo", 15)
    assert (first.input_tokens, first.output_tokens) == (150, 1500)
    assert (second.what, second.calls, second.output_tokens) == ("u", 4, 4 * 256)


def test_many_documents_are_estimated_from_the_first_ones(lab: TaskProject) -> None:
    """The prompts of a thousand documents are not built."""
    lab.task(docs=[{"q": "x" * 8, "a": str(number)} for number in range(1000)])
    (planned,) = look(lab).calls
    assert (planned.calls, planned.input_tokens) == (1000, 2000)


def test_each_choice_is_a_call(lab: TaskProject) -> None:
    """Likelihoods have no output tokens."""
    model = lab.likely({" a": (-1.0, True), " b": (-2.0, False)})
    lab.task(output_type="multiple_choice", doc_to_choice=["a", "b"], doc_to_target="{{0}}")
    overview = look(lab, model=model)
    assert [(one.calls, one.output_tokens) for one in overview.calls] == [(4, 0)]
    texts = [section.text for section in overview.sections]
    assert texts == ["", "x", "how likely is: ' a'", "how likely is: ' b'", "target: 0"]


def test_a_judge_is_counted_with_its_votes(lab: TaskProject) -> None:
    """The offline judge makes no calls, so it has no line."""
    lab.task(docs=FOUR)
    judge = look(lab, judge="python/model.py:echo", votes=3).calls[1]
    assert (judge.what, judge.model, judge.calls) == ("judge", "python/model.py:echo", 12)
    assert [one.what for one in look(lab, judge="offline").calls] == ["t"]


def test_the_plan_shows_documents_and_examples(lab: TaskProject) -> None:
    """After --limit."""
    lab.task(docs=FOUR)
    facts = look(lab, limit=3).facts
    assert facts == {
        "model": "python/model.py:echo",
        "task t": "3 of 4 documents, generate_until, 0 examples before each",
    }


def test_the_first_prompt_is_shown_as_it_is_asked(lab: TaskProject) -> None:
    """With the description, as text or as messages."""
    lab.task(docs=FOUR, description="Add. ")
    assert [section.text for section in look(lab).sections] == ["", "Add. 1", "target: '1'"]
    chat = look(lab, apply_chat_template=True).sections[1].text
    assert '"role": "system"' in chat
    assert '"content": "1"' in chat


def test_invalid_data_is_refused(lab: TaskProject) -> None:
    """As in a run."""
    lab.task(docs=[])
    with pytest.raises(InputError, match="the data set is empty"):
        look(lab)


def test_listing_without_a_folder_lists_an_installed_lm_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --include-path and without the package, --list says what to do."""
    with pytest.raises(UsageError, match="pass the folder with --include-path DIR, or install the package lm_eval"):
        TaskSuite.instead_of_run(assay.spec("task", listing=True))
    tasks = tmp_path / "lm_eval" / "tasks"
    tasks.mkdir(parents=True)
    (tmp_path / "lm_eval" / "__init__.py").touch()
    (tasks / "riddles.yaml").write_text("task: riddles\n")
    monkeypatch.syspath_prepend(tmp_path)
    sections = TaskSuite.instead_of_run(assay.spec("task", listing=True))
    assert isinstance(sections, list)
    assert sections[0].table.rows == [["task", "riddles", str(tasks / "riddles.yaml")]]
