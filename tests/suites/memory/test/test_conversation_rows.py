"""Conversations are read again for each pass, one at a time, and their numbers are unique."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from benchmarks.longmemeval_file import write_file

import assay
from assay.core.errors import InputError
from assay.runner.opening import open_run
from assay.suites.memory.test.conversation import Conversation, ConversationQuestion, ConversationSession
from assay.suites.memory.test.conversation_rows import ConversationRows
from assay.suites.memory.test.loaders import find_loader
from assay.suites.memory.test.pipeline_caller import PipelineCaller

from suites.memory.test.files import EXAMPLES
from support.commands import typed
from support.memory_talks import file_of


def conversation(index: int, name: str = "") -> Conversation:
    session = ConversationSession.of(1, "", [("Nora", f"I am {index}."), ("Ben", "Good.")])
    question = ConversationQuestion.of("Who?", ["D1:1"], {"category": index % 2}, reference=index)
    return Conversation.of(index, name or f"c{index}", [session], [question])


def rows(*conversations: Conversation, limit: float | None = None, **names: list[str]) -> ConversationRows:
    return ConversationRows(
        lambda: conversations, PipelineCaller, source="own.py:load", set_name="own", limit=limit, **names
    )


def test_a_pass_gives_the_chosen_conversations_with_their_keys() -> None:
    all_rows = rows(*map(conversation, range(4)))
    assert [row.data.conversation.sample_id for row in all_rows.iterate()] == ["c0", "c1", "c2", "c3"]
    assert [row.key for row in all_rows.iterate()] == all_rows.keys
    some = rows(*map(conversation, range(4)), task_ids=["0003", "c1"])
    assert [(row.number, row.data.conversation.index) for row in some.iterate()] == [(0, 1), (1, 3)]
    assert some.keys == [all_rows.keys[1], all_rows.keys[3]]
    assert [row.number for row in some.iterate(lambda number: number == 0)] == [1]


def test_keys_of_data_without_roles_stay_as_they_are() -> None:
    """Runs are continued by these keys. They are those of the first version; roles and dates came later."""
    load = find_loader("locomo").conversations
    talks = ConversationRows(
        lambda: load(EXAMPLES / "talks.json"), PipelineCaller, source="talks.json", set_name="locomo"
    )
    assert talks.keys == ["586dc44f8ea5ed45", "a8645240dd3f1fbb", "9c0c2b737da65956"]


@pytest.mark.parametrize(("limit", "count"), [(None, 4), (1, 1), (3, 3), (9, 4), (0.5, 2)])
def test_a_limit_is_a_number_or_a_share(limit: float | None, count: int) -> None:
    limited = rows(*map(conversation, range(4)), limit=limit)
    assert len(limited) == len(list(limited)) == len(limited.keys) == count


def test_only_a_pass_to_the_last_chosen_conversation_is_read() -> None:
    read: list[int] = []

    def load() -> Iterator[Conversation]:
        for index in range(4):
            read.append(index)
            yield conversation(index)

    chosen = ConversationRows(load, PipelineCaller, source="own.py:load", set_name="own", task_ids=["c1"])
    read.clear()
    assert len(list(chosen)) == 1
    assert read == [0, 1]


def test_two_conversations_of_one_index_are_refused() -> None:
    """They would be written to the same file."""
    with pytest.raises(InputError, match=r"own.py:load: the conversations 'a' and 'b' have the same index, 0"):
        rows(conversation(0, "a"), conversation(0, "b"))


def test_equal_conversations_have_different_keys() -> None:
    first = conversation(0, "a")
    twins = rows(first, msgspec.structs.replace(first, index=1))
    assert twins.keys[1] == f"{twins.keys[0]}~2"


LOADER = """\
from assay.suites.memory.test.conversation import Conversation, ConversationQuestion, ConversationSession

def listed(path):
    return list(streamed(path))

def streamed(path):
    with path.with_name("calls").open("a") as calls:
        print("call", file=calls)
    for index, text in enumerate(path.read_text().splitlines()):
        session = ConversationSession.of(1, "", [("me", text)])
        questions = [
            ConversationQuestion.of("First word?", ["D1:1"], {}, reference=text.split()[0]),
            ConversationQuestion.of("Why?", [], {}),
            ConversationQuestion.of("How?", ["nowhere"], {}),
        ]
        yield Conversation.of(index, text, [session], questions)
"""


@pytest.mark.parametrize(("name", "calls"), [("streamed", 2), ("listed", 1)])
def test_a_generator_is_started_for_each_pass_and_a_list_is_loaded_once(tmp_path: Path, name: str, calls: int) -> None:
    (tmp_path / "own.py").write_text(LOADER)
    data = tmp_path / "post.txt"
    data.write_text("Dear all\nSo long\n")
    loader = find_loader(f"{tmp_path / 'own.py'}:{name}")
    assert list(loader.conversations(data)) == list(loader.conversations(data))
    assert (tmp_path / "calls").read_text() == "call\n" * calls


def test_a_loader_that_does_not_count_its_questions_has_the_right_places(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(LOADER)
    (tmp_path / "post.txt").write_text("Dear all\nSo long\n")
    options = {"data": str(tmp_path / "post.txt"), "dataset": f"{tmp_path / 'own.py'}:streamed"}
    spec = assay.spec("memory-test", memory=["bm25"], no_answer=True, output_dir=str(tmp_path / "out"), **options)
    run = assay.run(spec)
    assert [path.name for path in run.files if path.stem.isdigit()] == ["0000.json", "0001.json"]
    invalid = file_of(run)["dataset_statistics"]["invalid_questions"]
    assert [(each["question_index"], each["reason"]) for each in invalid] == [
        (2, "no_evidence"),
        (3, "unparsable_evidence"),
    ]


def test_a_loader_with_two_conversations_of_one_index_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.py").write_text(LOADER.replace("Conversation.of(index,", "Conversation.of(0,"))
    (tmp_path / "post.txt").write_text("Dear all\nSo long\n")
    loader = f"{tmp_path / 'own.py'}:streamed"
    command = f"memory test --dataset {loader} --data {tmp_path / 'post.txt'} --memory bm25 --no-answer"
    assert typed(*command.split(), "--output-dir", str(tmp_path / "out")) == 2
    message = f"{loader}: the conversations 'Dear all' and 'So long' have the same index, 0"
    assert message in capsys.readouterr().err


def test_a_large_file_is_never_in_memory(tmp_path: Path) -> None:
    """Keys, gold and two passes need far less memory than the file has bytes."""
    path = tmp_path / "data.json"
    write_file(path, 120, 6_000_000)
    options = {"dataset": "longmemeval", "data": str(path), "output_dir": str(tmp_path / "out")}
    spec = assay.spec("memory-test", memory=["bm25"], no_answer=True, **options)
    tracemalloc.start()
    try:
        suite = open_run(spec, asks=False).suite
        assert len(suite.data_identity()) == 120
        assert suite.score_identity()
        assert sum(len(row.data.questions) for row in suite.rows().iterate()) == 120
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size * 2 / 3
