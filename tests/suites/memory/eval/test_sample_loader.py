"""A loader of one's own: `--dataset FILE.py:load`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.core.errors import InputError, UsageError
from assay.suites.memory.eval.sample_files import load_samples

from support.commands import typed

PAGE = Path(__file__).parents[4] / "docs" / "memory-eval.md"


def own_file(folder: Path, *changes: tuple[str, str]) -> str:
    """Write the loader of the page, with other texts, and return what --dataset takes."""
    code = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    assert "def load" in code
    for old, new in changes:
        assert old in code, old
        code = code.replace(old, new)
    (folder / "diary.py").write_text(code)
    (folder / "diary.txt").write_text("I live in Bern.\nI moved to Basel.\n")
    return f"{folder / 'diary.py'}:load"


def test_the_loader_of_the_page_loads_samples(tmp_path: Path) -> None:
    """Points without `raw` are written as files write them. The texts of the evidence are found by id."""
    (sample,) = load_samples(own_file(tmp_path)).samples
    assert [session.id for session in sample.sessions] == ["S1", "S2"]
    assert sample.sessions[1].points[0].raw == {
        "memory_id": "p2",
        "memory_content": "I moved to Basel.",
        "memory_source": "primary",
        "is_update": False,
        "original_memories": [],
    }
    ((_, part, question),) = sample.questions_after("S2")
    assert (part, question.contents) == ("end/1", ("I moved to Basel.",))


def test_a_run_with_ones_own_loader_writes_the_files(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def answer(prompt, params):\n    return 'Basel'\n")
    command = ["memory", "eval", "--dataset", own_file(tmp_path), "--baseline", "bm25", "--judge", "offline"]
    command += ["--model", f"python/{tmp_path / 'model.py'}:answer", "--output-dir", str(tmp_path / "out")]
    assert typed(*command) == 0
    (line,) = (tmp_path / "out" / "pipeline_qa.jsonl").read_text().splitlines()
    assert json.loads(line)["gold_evidence_contents"] == ["I moved to Basel."]
    assert len((tmp_path / "out" / "session_records.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('answer="Basel"', "answer=7", "checkpoints[0].questions[0].answer: Expected `str`, got `int`"),
        ('("S2",)', '("S3",)', "checkpoint 'end': the sample has no session 'S3'"),
        ('f"S{number}"', '"S2"', "sessions: duplicate id 'S2'"),
        ("enumerate(lines, 1)", "enumerate([])", "sessions: is empty: a sample needs at least one session"),
    ],
)
def test_a_wrong_sample_is_refused_with_file_and_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    loader = own_file(tmp_path, (old, new))
    with pytest.raises(InputError) as caught:
        load_samples(loader)
    assert f"{loader} (diary.py:" in str(caught.value)
    assert f", sample 0: {message}" in str(caught.value)


def test_two_samples_of_one_id_are_refused(tmp_path: Path) -> None:
    loader = own_file(tmp_path, ("    yield Sample(", "    for _ in range(2): yield Sample("))
    with pytest.raises(InputError, match="sample 1: the id 'diary' is also that of sample 0"):
        load_samples(loader)


def test_an_exception_of_the_loader_has_its_line(tmp_path: Path) -> None:
    loader = own_file(tmp_path, ("diary.txt", "gone.txt"))
    with pytest.raises(InputError, match=r"it raised FileNotFoundError: .*diary\.py:\d+: "):
        load_samples(loader)


@pytest.mark.parametrize(
    ("name", "message"),
    [("NUMBER", "must be a function"), ("takes", "called as f()"), ("lod", "did you mean 'load'")],
)
def test_something_else_is_no_loader(tmp_path: Path, name: str, message: str) -> None:
    loader = own_file(tmp_path)
    with (tmp_path / "diary.py").open("a") as file:
        file.write("\nNUMBER = 3\ndef takes(path): ...\n")
    with pytest.raises(UsageError) as caught:
        load_samples(loader.replace(":load", f":{name}"))
    assert message in str(caught.value)


def test_a_loader_without_samples_is_refused(tmp_path: Path) -> None:
    loader = own_file(tmp_path, ("    yield Sample(", "    if False: yield Sample("))
    with pytest.raises(InputError, match="it returned no sample"):
        load_samples(loader)
