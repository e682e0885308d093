from __future__ import annotations

import errno
import json
import os
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from assay.core.errors import DamagedRun, DiskFull, InputError, RunBusy, StopRun
from assay.core.types import ASK, COMMON, NO_CASE, Call, End, Failure, Record, Request, Response, Score
from assay.files.redact import is_secret
from assay.journal.folder import RunFolder, lock_folder
from assay.journal.index import RunIndex
from assay.journal.journal import Journal
from assay.journal.lines import SYNC_SECONDS, JournalFile, SyncThread
from assay.journal.run_files import read_info

SCORER = "s@1"


def open_journal(folder: Path, secrets: list[str] | None = None) -> Journal:
    return Journal(folder, [SCORER], secrets or [])


def end(index: int, stage: str = ASK, try_: int = 1, status: str = "ok") -> End:
    return End(index, f"k{index}", "set", "m", stage, try_, status, [])  # type: ignore[arg-type]


def record(index: int, text: str = "x", try_: int = 1) -> Record:
    return Record(index, f"k{index}", "set", "m", try_, "answer", data=text)


def call(index: int, n: int = 0, try_: int = 1, text: str = "reply") -> Call:
    request = Request(model="m", prompt="p")
    return Call(index, f"k{index}", "set", "m", ASK, try_, "h", n, request, Response(text))


def test_reading_is_in_data_order_whatever_the_order_of_writing(tmp_path: Path) -> None:
    """The journal grows in order of completion; cases are read by their place in the data."""
    journal = open_journal(tmp_path)
    for index in (2, 0, 1):
        journal.end_case(end(index), [record(index, f"answer {index}")])
    journal.close()
    again = open_journal(tmp_path)
    assert [again.reader.records(index)[0].data for index in range(3)] == ["answer 0", "answer 1", "answer 2"]
    assert again.done_map(4, retry_failed=False) == b"\0\0\0\0", "nothing is scored yet"
    again.close()


def test_records_of_a_try_that_did_not_end_do_not_count(tmp_path: Path) -> None:
    """Only an end commits; its lines are those of its own try."""
    journal = open_journal(tmp_path)
    journal.write_records([record(0, "lost")])
    kept = end(0, try_=1)
    kept.lines.extend(journal.write_records([record(0, "first"), record(0, "sécond")])[0])
    kept.lines.extend(journal.write_records([record(0, "third")])[0])
    journal.end_case(kept, [record(0, "fourth"), record(0, "last")])
    told = [line.data for line in journal.reader.records(0)]
    assert told == ["first", "sécond", "third", "fourth", "last"]
    journal.close()


def test_a_score_counts_for_the_try_it_judged(tmp_path: Path) -> None:
    """A case that is asked again loses the score of its earlier try, also after a restart."""
    journal = open_journal(tmp_path)
    journal.end_case(end(0, status="subject_error"), [])
    journal.end_scoring(end(0, SCORER), [Score(0, "k0", "set", "m", SCORER, "em", value=0.0)])
    assert journal.done_map(1, retry_failed=False) == b"\1"
    journal.end_case(end(0, try_=2), [record(0, try_=2)])
    assert journal.done_map(1, retry_failed=False) == b"\0"
    journal.close()
    again = open_journal(tmp_path)
    assert again.done_map(1, retry_failed=False) == b"\0"
    again.close()


def failed(n: int, kind: str) -> Call:
    return Call(0, "k0", "set", "m", ASK, 1, "h", n, None, None, Failure(kind, "no"))


def test_an_interrupted_try_asks_again_what_an_endpoint_failed_to_answer_last(tmp_path: Path) -> None:
    """A try that ended with a failure replays its replies only."""
    journal = open_journal(tmp_path)
    journal.call(call(0))
    journal.call(failed(1, "timeout"))
    journal.close()
    interrupted = open_journal(tmp_path)
    assert set(interrupted.replies(0, ASK, 0)) == {(ASK, "h", 0)}
    interrupted.end_case(end(0, status="infra_error"), [])
    interrupted.close()
    ended = open_journal(tmp_path)
    assert set(ended.replies(0, ASK, ended.last_try(0))) == {(ASK, "h", 0)}
    ended.close()


def test_an_interrupted_try_replays_refusals_and_failures_after_which_its_case_went_on(
    tmp_path: Path,
) -> None:
    """Later requests may contain what the case did without the reply: asked again, they would be paid twice."""
    journal = open_journal(tmp_path)
    journal.call(failed(0, "timeout"))
    journal.call(Call(0, "k0", "set", "m", ASK, 1, "without it", 0, None, Response("paid")))
    journal.call(failed(1, "refusal"))
    journal.close()
    interrupted = open_journal(tmp_path)
    assert set(interrupted.replies(0, ASK, 0)) == {(ASK, "h", 0), (ASK, "without it", 0), (ASK, "h", 1)}
    interrupted.close()


def test_a_continued_run_remembers_no_call_of_a_case_that_is_solved_and_scored(tmp_path: Path) -> None:
    """Of a million judged cases that would be 185 MB."""
    journal = open_journal(tmp_path)
    for index in range(2):
        judged = Call(index, f"k{index}", "set", "m", "judge", 1, "h", 0, None, Response("right"))
        journal.call(judged)
        journal.end_case(end(index), [record(index)])
    journal.end_scoring(end(0, SCORER), [Score(0, "k0", "set", "m", SCORER, "em", value=1.0)])
    journal.close()
    again = open_journal(tmp_path)
    assert [bool(again.replies(index, "judge", 1)) for index in range(2)] == [False, True]
    again.close()


def test_a_case_that_lost_its_worker_replays_the_failures_of_this_start(tmp_path: Path) -> None:
    """To ask again would repeat all retries of the call."""
    journal = open_journal(tmp_path)
    journal.keep_open_calls()
    journal.call(Call(0, "k0", "set", "m", ASK, 1, "h", 0, None, None, Failure("timeout", "slow")))
    assert set(journal.replies(0, ASK, 0)) == {(ASK, "h", 0)}
    journal.close()


def test_secrets_are_replaced_wherever_they_stand(tmp_path: Path) -> None:
    """A secret of eight characters or more is not written, escaped or not; offsets stay right."""
    secret, odd = "sk-1234567890", 'p"ss\\wörd-long'
    journal = open_journal(tmp_path, [secret, odd, "short"])
    journal.call(call(0, text=f"my key is {secret}, short, {odd}"))
    journal.end_case(end(0), [record(0, f"{secret}{odd}"), record(0, "after")])
    assert journal.reader.records(0)[1].data == "after"
    journal.close()
    for path in tmp_path.glob("*.jsonl"):
        text = path.read_text()
        assert secret not in text
        assert odd not in text
        assert json.dumps(odd)[1:-1] not in text
    assert "[redacted], short, [redacted]" in (tmp_path / "calls.jsonl").read_text()


ORDINARY = (
    "1",
    "true",
    "response",
    "messages",
    "subject_error",
    "first_wrong",
    "not-needed",
    "12345678",
    "2026-01-28",
    "x" * 40,
    "a1b2-c3",
)
SECRETS = (
    "sk-my-server",
    "hunter2hunter2",
    "p@ssword!",
    "0f8fad5b-d9cb-469f",
    "correct horse battery",
    "abcdefghijklmnop",
)


def test_ordinary_words_and_numbers_are_no_secrets(tmp_path: Path) -> None:
    """Whatever the name of their variable is. A file's path is none either: the file has the secret."""
    file = tmp_path / "credentials-0f8fad5b.json"
    assert is_secret(str(file))
    file.touch()
    assert [value for value in (*ORDINARY, str(file)) if is_secret(value)] == []
    assert [value for value in SECRETS if not is_secret(value)] == []


def test_a_secret_that_is_a_word_of_the_journal_leaves_its_lines_readable(tmp_path: Path) -> None:
    """Texts are redacted; names of fields, numbers, and the words by which lines are found are not."""
    secret, key = "context_overflow", "sk-0f8fad5b"
    journal = open_journal(tmp_path, [secret, key, "12345678", "response"])
    failure = Failure(secret, f"{secret} fails", http=12345678)
    request = Request(model="m", messages=[{"role": "user", "content": secret, secret: key}])
    journal.call(Call(0, secret, "set", "m", ASK, 1, secret, 12345678, request, Response(f"my response: {secret}")))
    ended = End(0, "k0", "set", "m", ASK, 1, "subject_error", [], failure, calls=12345678)
    data = {secret: [secret, 12345678], key: "12345678"}
    journal.end_case(ended, [Record(0, "k0", "set", "m", 1, "answer", data=data)])
    journal.close()
    again = open_journal(tmp_path)
    (call,) = again.replies(0, ASK, 0).values()
    assert (call.case, call.hash, call.n) == (secret, secret, 12345678)
    assert call.response == Response("my response: [redacted]")
    assert call.request is not None
    assert call.request.messages == [{"role": "user", "content": "[redacted]", secret: "[redacted]"}]
    assert again.reader.records(0)[0].data == {secret: ["[redacted]", 12345678], "[redacted]": "12345678"}
    end_ = again.reader.end(0)
    assert end_ is not None
    assert end_.failure == Failure(secret, "[redacted] fails", http=12345678)
    again.close()


def test_a_name_of_plain_words_stays_although_it_is_a_secret(tmp_path: Path) -> None:
    """Lines are grouped by set, subject, metric and part, so these must stay the same in all of them."""
    words, key = "correct horse battery", "sk-0f8fad5b"
    journal = open_journal(tmp_path, [words, key])
    head = (0, "k0", words, f"of {key}")
    journal.end_case(End(*head, ASK, 1, "ok", []), [Record(*head, 1, "answer", words, data=words)])
    score = Score(*head, scorer=SCORER, metric=words, part=words, value=1.0, reason=words)
    journal.end_scoring(End(*head, SCORER, 1, "ok", []), [score])
    journal.close()
    again = open_journal(tmp_path)
    (read,) = again.reader.records(0)
    assert (read.set, read.subject, read.part, read.data) == (words, "of [redacted]", words, "[redacted]")
    again.close()
    (line,) = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()[1:]]
    assert (line["metric"], line["part"], line["reason"]) == (words, words, "[redacted]")


def test_the_journal_returns_the_lines_that_it_has_written(tmp_path: Path) -> None:
    """A case and its scorers go on with these, so a replay gives them the same."""
    key = "sk-0f8fad5b"
    journal = open_journal(tmp_path, [key])
    plain = call(0, text="plain")
    assert journal.call(plain) is plain
    arguments = json.dumps({"q": key + '"'})
    logged = journal.call(
        replace(plain, n=1, response=Response(key, data={"arguments": arguments}, reasoning=f"I know {key}"))
    )
    assert logged.response == Response(
        "[redacted]", data={"arguments": json.dumps({"q": '[redacted]"'})}, reasoning="I know [redacted]"
    )
    kept = end(0)
    offsets, (early,) = journal.write_records([record(0, key)])
    kept.lines.extend(offsets)
    ended, records = journal.end_case(
        replace(kept, status="subject_error", failure=Failure("user_code", key)),
        [record(0, "a"), record(0, key)],
    )
    journal.close()
    again = open_journal(tmp_path)
    assert [item.data for item in again.reader.records(0)] == ["[redacted]", "a", "[redacted]"]
    assert [early.data, *(item.data for item in records)] == ["[redacted]", "a", "[redacted]"]
    assert ended == again.reader.end(0)
    again.close()


def test_label_and_tags_stand_on_the_end_of_asking(tmp_path: Path) -> None:
    """They are read back with the end, whether or not it has a line of its own."""
    journal = open_journal(tmp_path)
    for index, records in enumerate([[record(0)], []]):
        named = End(index, f"k{index}", "set", "m", ASK, 1, "ok", [], label=f"row {index}", tags=("easy", "de"))
        journal.end_case(named, records)
    for index in range(2):
        ended = journal.reader.end(index)
        assert ended is not None
        assert (ended.label, ended.tags) == (f"row {index}", ("easy", "de"))
    journal.close()


def test_a_record_that_cannot_be_written_leaves_no_trace(tmp_path: Path) -> None:
    """The lines of its group go with it, and the journal opens."""
    journal = open_journal(tmp_path)
    journal.end_case(end(0), [record(0)])
    with pytest.raises(TypeError):
        journal.write_records([record(1), Record(1, "k1", "set", "m", 1, "answer", data=object())])
    journal.end_case(end(1), [record(1)])
    journal.close()
    again = open_journal(tmp_path)
    assert len(lines_of(tmp_path / "records.jsonl")) == 3
    assert not again.repairs
    assert again.counts(2)["ok"] == 2
    again.close()


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_line_is_one_json_object_with_its_place_and_checksum(tmp_path: Path) -> None:
    """The checksum is that of the line up to the key `crc`, so that any program can verify it."""
    journal = Journal(tmp_path, [SCORER], [], run="5f0c")
    journal.call(call(0, text="é"))
    journal.end_case(end(0), [record(0, "first"), record(0, "sécond")])
    journal.end_scoring(end(0, SCORER), [Score(0, "k0", "set", "m", SCORER, "em", value=1.0)])
    journal.close()
    for path, count in zip(sorted(tmp_path.glob("*.jsonl")), (2, 3, 2), strict=True):
        start, offset = zlib.crc32(f"5f0c/{path.stem}".encode()), 0
        raw_lines = path.read_bytes().splitlines(keepends=True)
        assert len(raw_lines) == count
        for raw, line in zip(raw_lines, lines_of(path), strict=True):
            covered = raw.partition(b',"crc":')[0]
            assert line["at"] == offset
            assert line["crc"] == f"{zlib.crc32(covered, start):08x}"
            offset += len(raw)


def test_a_run_folder_has_one_writer(tmp_path: Path) -> None:
    """The second who wants to write is told so."""
    lock_folder(tmp_path)
    with pytest.raises(RunBusy, match="another process"):
        lock_folder(tmp_path)


def test_a_folder_is_looked_through_by_its_one_writer(tmp_path: Path) -> None:
    """Another writer may be moving its files. A folder that is refused is not locked."""
    (tmp_path / "link").symlink_to(tmp_path)
    lock = lock_folder(tmp_path)
    with pytest.raises(RunBusy):
        RunFolder(tmp_path, is_new=False)
    os.close(lock)
    with pytest.raises(DamagedRun, match="is a link"):
        RunFolder(tmp_path, is_new=False)
    os.close(lock_folder(tmp_path))


def test_a_journal_of_another_version_is_not_touched(tmp_path: Path) -> None:
    """The first line says which format the file has; the message names both."""
    path = tmp_path / "calls.jsonl"
    path.write_text('{"type":"assay","file":"calls","schema":1}\n')
    with pytest.raises(InputError, match=f"{path}:1: .* format 1; .* reads and writes format 3.*--fresh"):
        open_journal(tmp_path)
    assert path.read_text() == '{"type":"assay","file":"calls","schema":1}\n'


def test_a_run_folder_of_another_version_is_refused(tmp_path: Path) -> None:
    """`run.json` names its format too, so that a finished run is refused without opening its journal."""
    (tmp_path / "run.json").write_text('{"schema": 1, "suite": "task", "anything": "else"}')
    with pytest.raises(InputError, match="run.json: .* format 1; .* format 3"):
        read_info(tmp_path)


def test_a_disk_that_does_not_keep_what_is_written_stops_the_run(tmp_path: Path) -> None:
    """Where syncing fails, the next line is refused: a run does not go on as if all were well."""
    path = tmp_path / "calls.jsonl"
    file = JournalFile(path)
    (fd,) = [fd for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink() and fd.readlink() == path]
    with Path(os.devnull).open("wb") as null:
        os.dup2(null.fileno(), int(fd.name))  # takes every write, and cannot be synced
    syncer = SyncThread([file])
    time.sleep(5 * SYNC_SECONDS)
    file.add(call(0))
    with pytest.raises(StopRun, match="cannot write .*calls.jsonl"):
        file.write()
    syncer.close()
    file.close()


def test_calls_of_no_case_are_found_by_request_and_count(tmp_path: Path) -> None:
    """They are no case's history; only good replies count, and a failure does not hide the reply after it."""
    failed = Call(NO_CASE, "", "", "", COMMON, 1, "h", 1, None, None, Failure("timeout", "slow"))
    journal = open_journal(tmp_path)
    assert not journal.shared_replies(), "a new run was told nothing"
    for text, n in (("first", 0), ("third", 2)):
        journal.call(Call(NO_CASE, "", "", "", COMMON, 1, "h", n, None, Response(text)))
    journal.call(failed)
    journal.call(call(0, text="of a case"))
    journal.close()
    again = open_journal(tmp_path)
    assert not again.empty
    common, case = again.shared_replies(), again.replies(0, ASK, 0)
    told = [common.get((COMMON, "h", n)) for n in range(3)]
    assert [one and one.response and one.response.text for one in told] == ["first", None, "third"]
    assert [one.response and one.response.text for one in case.values()] == ["of a case"]
    assert again.index.spent.calls == 4
    again.end_case(end(0), [record(0)])
    again.close()
    open_journal(tmp_path).close()


def test_a_journal_without_such_calls_has_none(tmp_path: Path) -> None:
    """A journal from before there were any reads as it did, and a shared address finds nothing in it."""
    journal = open_journal(tmp_path)
    journal.call(call(0))
    journal.close()
    again = open_journal(tmp_path)
    assert again.shared_replies().get((COMMON, "h", 0)) is None
    assert list(again.replies(0, ASK, 0)) == [(ASK, "h", 0)]
    again.close()


def test_prices_of_cases_and_judges_are_summed_and_those_of_copied_replies_are_not(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    journal.call(Call(0, "a", "s", "m", ASK, 1, "h0", 0, None, Response("free")))
    assert journal.index.spent.cost is None  # no price is not a price of 0
    journal.call(Call(0, "a", "s", "m", ASK, 1, "h1", 0, None, Response("x", cost=0.25)))
    journal.call(Call(0, "a", "s", "m", "judge@1", 1, "h2", 0, None, Response("y", cost=0.5)))
    journal.call(Call(0, "a", "s", "m", ASK, 1, "h3", 0, None, Response("z", cost=8.0), attempts=0))
    for spent in (journal.index.spent, RunIndex.of_run(tmp_path).spent):
        assert (spent.calls, spent.cost, spent.copied_cost) == (3, 0.75, 8.0)
    assert "cost" not in to_builtins(journal.index.spent.counts()), "the summary has it beside the counts"
    journal.close()


def test_after_a_failed_sync_no_message_says_that_all_replies_are_saved(tmp_path: Path) -> None:
    """The next replies are dropped: the caller counts them."""
    file = JournalFile(tmp_path / "calls.jsonl", run="5f0c")
    file._sync_error = OSError(errno.ENOSPC, "No space left on device")
    file.add(Record(0, "key", "set", "m", 1, "answer", data="x"))
    with pytest.raises(StopRun, match=r"No space left on device\. Replies that were written before are saved") as stop:
        file.write()
    assert not isinstance(stop.value, DiskFull)
    file.close()
