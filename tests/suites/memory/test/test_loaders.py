"""Loaders are found by name. A user's loader is a function, or a class with its own statistics."""

from __future__ import annotations

from pathlib import Path

import pytest

import assay
from assay.core.errors import InputError, UsageError
from assay.suites.memory.test.loaders import dataset_names, find_loader, locomo
from assay.suites.memory.test.pipeline_caller import PipelineCaller
from assay.suites.memory.test.suite import MemoryTestSuite

from suites.memory.test.files import EXAMPLES, problems
from support.commands import typed

NEW = """\
from assay import Conversation, ConversationQuestion, ConversationSession, PipelineCaller


class Letters(PipelineCaller):
    @staticmethod
    def conversations(path):
        for index, text in enumerate(path.read_text().splitlines()):
            session = ConversationSession.of(1, "", [("me", text)])
            word = text.split()[0]
            question = ConversationQuestion.of("First word?", ["D1:1"], {"tone": "dry"}, reference=word)
            yield Conversation.of(index, text, [session], [question])

    def _get_dataset_stats(self):
        return {**super()._get_dataset_stats(), "total_letters": 1}


load = Letters.conversations
NUMBER = 3
"""


def test_the_names_are_those_of_the_files() -> None:
    page = (EXAMPLES.parents[1] / "docs" / "memory-test.md").read_text()
    assert dataset_names() == ["locomo", "longmemeval", "plain"]
    assert all(f"| `{name}` |" in page for name in dataset_names())
    loader = find_loader("locomo")
    assert (loader.name, loader.caller, loader.categories) == ("locomo", PipelineCaller, locomo.CATEGORIES)
    with pytest.raises(UsageError, match="no data set named 'lokomo'; did you mean 'locomo'"):
        find_loader("lokomo")


def test_a_data_set_of_ones_own_is_a_loader_and_its_statistics(tmp_path: Path) -> None:
    """A user's file with a loader and own statistics. The format's own keys come first."""
    (tmp_path / "letters.py").write_text(NEW)
    (tmp_path / "post.txt").write_text("Dear all\nSo long\n")
    loader = find_loader(f"{tmp_path / 'letters.py'}:Letters")
    first, second = loader.conversations(tmp_path / "post.txt")
    assert (loader.name, first.sample_id, second.task_id) == ("letters", "Dear all", "0001")
    statistics = loader.caller(second).dataset_statistics
    assert next(iter(statistics)) == "total_sessions"
    assert statistics["total_letters"] == 1
    assert loader.caller(second).questions[0].metadata == {"tone": "dry"}


def test_the_data_set_of_the_page_is_this_one() -> None:
    page = (EXAMPLES.parents[1] / "docs" / "memory-test.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    assert NEW.startswith(example)


def test_a_function_alone_has_the_usual_statistics(tmp_path: Path) -> None:
    (tmp_path / "letters.py").write_text(NEW)
    (tmp_path / "post.txt").write_text("Dear all\n")
    loader = find_loader(f"{tmp_path / 'letters.py'}:load")
    (only,) = loader.conversations(tmp_path / "post.txt")
    assert loader.caller(only).dataset_statistics["total_dialogs"] == 1
    with pytest.raises(UsageError, match="must be a function that takes a path"):
        find_loader(f"{tmp_path / 'letters.py'}:NUMBER")


@pytest.mark.parametrize("name", ["locomo", "longmemeval", "plain"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{]", ":1: is not JSON"),
        ('[\n{"a": 1},\n{"a" 2}]', ":3: is not JSON"),
        ("", ": is empty"),
        ("3", " $: must be a list of conversations"),
        ("[]", ": there is no conversation in it"),
        ("[{}]", " $[0]: is empty"),
        ("[[]]", " $[0]: must be an object, not a list"),
        ("\udcff[]", ":1: not UTF-8: byte 0xff"),
    ],
)
def test_files_that_are_not_data_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    """Every loader reports place and problem by the end of a pass over the data."""
    path = tmp_path / "data.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(InputError) as caught:
        list(find_loader(name).conversations(path))
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        list(find_loader("locomo").conversations(tmp_path / "none.json"))
    with pytest.raises(InputError, match="cannot be read"):
        list(find_loader("locomo").conversations(tmp_path))


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(b"\xef\xbb\xbf" + (EXAMPLES / "plain.json").read_bytes())
    assert len(list(find_loader("plain").conversations(path))) == 2


def test_ids_are_unique_and_many_problems_are_counted(tmp_path: Path) -> None:
    """--task-id needs unique ids."""
    conversation = {"id": "x", "sessions": [{"messages": [{"text": "hi"}]}], "questions": []}
    assert problems("plain", tmp_path / "data.json", [conversation, conversation]) == [
        "$[1]: duplicate id 'x', first used at $[0]"
    ]
    many = {**conversation, "questions": [3] * 1300}
    messages = problems("plain", tmp_path / "data.json", many)
    assert len(messages) == 1001
    assert messages[-1].endswith("and 300 more errors")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", "it returned None; return a list of Conversation objects"),
        ("return {'a': 1}", "it returned a dict; return a list of Conversation objects"),
        ("return [1]", "item 0 is a int, expected Conversation"),
        ("return [{}]", "item 0 is a dict, expected Conversation"),
        ("raise KeyError('gone')", "it raised KeyError: 'gone' (mine.py:4: raise KeyError('gone'))"),
        ("sys.exit(0)", "it raised SystemExit: 0 (mine.py:4: sys.exit(0))"),
        ("yield 3", "item 0 is a int, expected Conversation"),
    ],
)
def test_a_failing_loader_ends_the_command_with_a_message(
    tmp_path: Path, body: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 before the first request, without a Python traceback."""
    path = tmp_path / "mine.py"
    path.write_text(f"import sys\n\ndef load(path):\n    {body}\n")
    (tmp_path / "data.txt").write_text("")
    name = f"{path}:load"
    command = ("memory", "test", "--dataset", name, "--data", str(tmp_path / "data.txt"), "--memory", "bm25")
    assert typed(*command, "--no-answer", "--output-dir", str(tmp_path / "out")) == 2
    output = " ".join(capsys.readouterr().err.split())
    assert f"{name}: {message}" in output
    assert "Traceback" not in output


def test_failing_statistics_end_the_command_before_the_first_request(tmp_path: Path) -> None:
    """Statistics of a subclass are user code too."""
    (tmp_path / "letters.py").write_text(NEW.replace('"total_letters": 1', '"total_letters": 1 / 0'))
    (tmp_path / "post.txt").write_text("Dear all\n")
    suite = MemoryTestSuite(
        assay.spec(
            "memory-test",
            dataset=f"{tmp_path / 'letters.py'}:Letters",
            data=f"{tmp_path / 'post.txt'}",
            memory=["bm25"],
            no_answer=True,
        )
    )
    with pytest.raises(InputError, match=r"Letters._get_dataset_stats: \[ZeroDivisionError\]"):
        suite.rows()
