"""Projects in HOP's layout: the example, tasks found by their names, and reports on the files of TestCases/."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.commands import Job, typed

EXAMPLE = Path(__file__).parents[2] / "examples" / "hop-project"
BATCHHOPTEST = "from assay.cli.main import batchhoptest; batchhoptest()"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, in the current folder."""
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLE, folder)
    monkeypatch.chdir(folder)
    return folder


def new_results(project: Path, task: str, stem: str) -> list[Path]:
    """The result files that the example does not have itself."""
    before = {path.name for path in (EXAMPLE / "Tasks" / task / "TestCases").iterdir()}
    paths = (project / "Tasks" / task / "TestCases").glob(f"{stem}_*.jsonl")
    return sorted(path for path in paths if path.name not in before)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def outcome(row: dict[str, Any]) -> tuple[str, int, Any]:
    return row["profile"], row["id"], json.loads(row["hop_result"])


def test_batchhoptest_runs_the_example_as_documented(project: Path) -> None:
    words = ["TicketTriage", "tickets.jsonl", "--workers", "4", "--profiles", "quick", "careful"]
    done = Job(["-c", BATCHHOPTEST, *words], project).run()
    assert done.code == 0, done.err
    (path,) = new_results(project, "TicketTriage", "tickets")
    metas = [line for line in lines_of(path) if "_type" in line]
    assert [(meta["profile"], meta["run_llm"]) for meta in metas] == [
        ("quick", "models/small.jsonl"),
        ("careful", "models/large.jsonl"),
    ]
    rows = [line for line in lines_of(path) if "_type" not in line]
    assert [row["profile"] for row in rows] == ["quick"] * 6 + ["careful"] * 6
    assert outcome(rows[1]) == ("quick", 2, {"queue": "technical", "urgency": 5, "page_someone": True})
    assert outcome(rows[3])[2]["queue"] == "technical"
    assert outcome(rows[9])[2]["queue"] == "billing"
    assert rows[2]["hop_stats"]["retry_count"] == 1


def test_without_profiles_every_profile_of_a_chinese_task_runs(project: Path) -> None:
    """From the folder of the tasks: task, data and settings are found from there."""
    done = Job(["-c", BATCHHOPTEST, "ClauseCheck", "条款", "--workers", "2"], project).run()
    assert done.code == 0, done.err
    (path,) = new_results(project, "ClauseCheck", "条款")
    rows = [line for line in lines_of(path) if "_type" not in line]
    assert [row["profile"] for row in rows] == ["quick"] * 4 + ["careful"] * 4 + ["best"] * 4
    assert outcome(rows[2]) == ("quick", 3, ["UNCERTAIN", {"verdict": "Uncertain"}])
    assert outcome(rows[11]) == ("best", 4, {"consistent": True, "verdict": "True"})


def test_a_batch_over_results_in_either_form_has_the_same_rows(project: Path) -> None:
    for name in ("tickets_20260219_103000.jsonl", "tickets_20260218_171500.jsonl"):
        folder = f"out-{Path(name).stem}"
        assert typed("hop", "TicketTriage", name, "--profiles", "best", "--output-dir", folder) == 0
        (path,) = (project / folder).glob("tickets_*.jsonl")
        rows = [outcome(line) for line in lines_of(path) if "_type" not in line]
        assert [row[1] for row in rows] == [1, 2, 3, 4, 5, 6]
        assert all(row[2]["queue"] for row in rows)


def test_the_contract_in_tables_is_shown_and_checked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("check", "Tasks/TicketTriage", "Tasks/ClauseCheck") == 0
    out = capsys.readouterr().out
    assert "metainfo.md:10: read inputs: subject string, body string, plan string?" in out
    assert "metainfo.md:16: read outputs: consistent bool, verdict string" in out
    assert "not part of the contract: 'TicketTriage' on line 1; 'Run mode' on line 22" in out
    assert "Tasks/TicketTriage: task folder (hop): " in out
    assert typed("hop", "TicketTriage", "tickets.jsonl", "--profiles", "best") == 0
    capsys.readouterr()
    assert typed("check", "Tasks/TicketTriage") == 0
    out = capsys.readouterr().out
    assert "1 result file as written" in out
    assert "read inputs: subject string" in out
    data = project / "Tasks" / "TicketTriage" / "TestCases" / "broken.jsonl"
    data.write_text('{"id": 1, "tag": "t", "subject": "x"}\n{"id": 2, "tag": "t", "subject": 3, "body": "b"}\n')
    assert typed("hop", "TicketTriage", "broken.jsonl") == 2
    err = capsys.readouterr().err
    assert "broken.jsonl:1 $.body: the contract requires this input, but the row lacks it" in err
    assert "broken.jsonl:2 $.subject: the contract requires string, found 3" in err


@pytest.mark.parametrize("below", [".", "Tasks", "Tasks/ClauseCheck", "Tasks/ClauseCheck/Hoplet"])
def test_a_task_is_found_by_its_name_from_every_folder_of_the_project(
    project: Path, below: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project / below)
    assert typed("hop", "TicketTriage", "tickets.jsonl", "--dry-run") == 0
    out = capsys.readouterr().out
    assert "6 of" in out
    assert "quick, careful, best" in out


def test_task_and_data_can_be_flags_as_in_the_batch_runner(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("hop", "--task", "TicketTriage", "--data", "tickets.jsonl", "--workers", "3", "--dry-run") == 0
    assert "6 of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["TicketTirage", "tickets.jsonl"],
            "there is no task named 'TicketTirage'; did you mean 'TicketTriage'?",
        ),
        (["Other", "tickets.jsonl"], "there is no task named 'Other'; known: ClauseCheck, TicketTriage"),
        (
            ["TicketTriage", "ticket.jsonl"],
            "there is no file named 'ticket.jsonl'; did you mean 'tickets.jsonl'",
        ),
        (["TicketTriage", "tickets.jsonl", "--profiles", "quik"], "did you mean 'quick'?"),
        (
            ["--analyse", "TicketTirage"],
            "no file, folder or task named 'TicketTirage'; did you mean 'TicketTriage'?",
        ),
        (["TicketTriage", "tickets.jsonl", "--json"], "--json and --all belong to --analyse"),
    ],
)
def test_a_name_that_does_not_exist_is_answered_with_the_nearest(
    project: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("hop", *words) == 2
    assert message in capsys.readouterr().err
    assert not new_results(project, "TicketTriage", "tickets")


def test_another_wrapper_writes_another_file(project: Path) -> None:
    words = ["hop", "TicketTriage", "tickets.jsonl", "--profiles", "best"]
    assert typed(*words) == 0
    (flat,) = new_results(project, "TicketTriage", "tickets")
    content = flat.read_bytes()
    assert typed(*words, "--wrapper", "view") == 0
    view = flat.with_name(f"{flat.stem}_view.jsonl")
    assert new_results(project, "TicketTriage", "tickets") == [flat, view]
    assert flat.read_bytes() == content
    assert list(lines_of(view)[1]) == ["input", "result"]


def analysed(*words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert typed("hop", "--analyse", *words, "--json") == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def totals(document: dict[str, Any]) -> dict[str, int]:
    return {entry["name"]: entry["counts"]["total"] for entry in document["report"]["entries"]}


def table(document: dict[str, Any], profile: str, name: str) -> list[list[Any]]:
    (entry,) = [entry for entry in document["report"]["entries"] if entry["name"] == profile]
    (rows,) = [table["rows"] for table in entry["tables"] if table["name"] == name]
    return list(rows)


def test_analysing_counts_the_newest_run_and_says_so(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = "Tasks/TicketTriage/TestCases"
    document = analysed("TicketTriage", capsys=capsys)
    assert document["files"] == [f"{folder}/tickets_20260219_103000.jsonl"]
    assert document["not_counted"] == [f"{folder}/tickets_20260218_171500.jsonl"]
    assert totals(document) == {"quick": 6, "careful": 6}
    assert typed("hop", "--analyse", "TicketTriage") == 0
    shown = capsys.readouterr()
    assert f"quick: counted {folder}/tickets_20260219_103000.jsonl (6 rows)" in shown.out
    assert "1 other result file is not counted: tickets_20260218_171500.jsonl" in shown.err


def test_analysing_more_files_must_be_asked_for(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everything = {"quick": 6, "careful": 6, "(none)": 6}
    assert totals(analysed("TicketTriage", "--all", capsys=capsys)) == everything
    folder = "Tasks/TicketTriage/TestCases"
    names = [f"{folder}/tickets_20260219_103000.jsonl", f"{folder}/tickets_20260218_171500.jsonl"]
    assert totals(analysed(*names, capsys=capsys)) == everything
    assert totals(analysed(names[1], capsys=capsys)) == {"(none)": 6}


def test_statistics_of_fields_are_exact_and_say_how_many_rows_they_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rate counts an error as false, as HOP does. `stats` in the JSON document has HOP's own rounding."""
    rows: list[dict[str, Any]] = [
        {"id": n, "hop_result": json.dumps({"urgency": n, "open": True}), "hop_stats": {"status": "OK"}}
        for n in (1, 2, 4)
    ]
    rows.append({"id": 4, "hop_result": None, "hop_stats": {"status": "ERROR", "error": "gone"}})
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = analysed(str(tmp_path), capsys=capsys)
    (open_, urgency) = table(document, "(none)", "fields")
    assert urgency == ["urgency", "mean", pytest.approx(7 / 3), 3]
    assert open_ == ["open", "rate", 0.75, 4]
    assert document["stats"]["(none)"]["avg_urgency"] == 2.3
    assert typed("hop", "--analyse", str(tmp_path)) == 0
    shown = capsys.readouterr().out
    assert re.search(r"urgency +mean +2\.333 +3\n", shown)
    assert re.search(r"open +rate +0\.750 +4\n", shown)


def test_both_forms_of_one_run_are_counted_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["hop", "TicketTriage", "tickets.jsonl", "--profiles", "best"]
    assert typed(*words) == 0
    assert typed(*words, "--wrapper", "view") == 0
    capsys.readouterr()
    assert totals(analysed("TicketTriage", capsys=capsys)) == {"best": 6}
    assert totals(analysed("TicketTriage", "--all", capsys=capsys))["best"] == 6
    assert totals(analysed("TicketTriage", "--all", capsys=capsys))["(none)"] == 6


def test_analysing_takes_profiles(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert totals(analysed("TicketTriage", "--profiles", "careful", capsys=capsys)) == {"careful": 6}
    assert totals(analysed("TicketTriage", "--profiles", "careful", "quick", capsys=capsys)) == {
        "quick": 6,
        "careful": 6,
    }
    assert totals(analysed("TicketTriage", "--profiles", "(none)", capsys=capsys)) == {"(none)": 6}
    assert typed("hop", "--analyse", "TicketTriage", "--profiles", "carefull") == 2
    assert "there is no profile named 'carefull'; did you mean 'careful'?" in capsys.readouterr().err
    names = ["Tasks/TicketTriage/TestCases/tickets_20260219_103000.jsonl", "--profiles", "(none)"]
    assert typed("hop", "--analyse", *names) == 2


def test_analysing_shows_field_statistics_and_times(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log of HOP has no profile: calls belong to the rows with their input and result."""
    document = analysed("TicketTriage", capsys=capsys)
    assert table(document, "quick", "fields") == [
        ["queue", "distribution", "account 2, technical 2, billing 1", 5],
        ["urgency", "mean", 2.2, 5],
        ["page_someone", "rate", 1 / 6, 6],
    ]
    assert document["stats"]["careful"]["avg_urgency"] == 2.3
    ((count, p50, p95),) = table(document, "careful", "seconds")
    assert (count, round(p50, 3), round(p95, 3)) == (6, 2.555, 2.848)
    assert table(document, "quick", "operators") == [["hop_get", 5, 5, 1]]


def test_times_of_a_run_of_assay_belong_to_their_profile(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log of assay has the profile, so equal results of two profiles are told apart."""
    assert typed("hop", "ClauseCheck", "条款.jsonl", "--profiles", "careful", "best") == 0
    capsys.readouterr()
    document = analysed("ClauseCheck", capsys=capsys)
    profiles = [
        line["metadata"]["profile"]
        for line in lines_of(project / "Tasks" / "ClauseCheck" / "TestCases" / "observer.jsonl")
        if line["type"] == "run_end" and "metadata" in line
    ]
    assert sorted(profiles) == ["best"] * 4 + ["careful"] * 4
    for profile in ("careful", "best"):
        ((count, _, _),) = table(document, profile, "seconds")
        assert count == 4


def test_a_log_that_fits_no_row_is_summed_up_in_a_notice(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = project / "Tasks" / "TicketTriage" / "TestCases" / "observer.jsonl"
    log.write_text(log.read_text().replace('"input": {', '"input": {"session": 1, '))
    assert typed("hop", "--analyse", "TicketTriage") == 0
    shown = capsys.readouterr()
    assert "none of its 12 calls has the input and the result of a row" in shown.err
    assert "p50 " in shown.err
    assert "p50 s" not in shown.out


def commands_of_the_page() -> list[str]:
    """The commands of assay in the table of docs/coming-from/hop.md, in its order."""
    page = (EXAMPLE.parents[1] / "docs" / "coming-from" / "hop.md").read_text(encoding="utf-8")
    rows = page.partition("## Commands")[2].partition("\n## ")[0].splitlines()
    cells = [row.rsplit(" | ", 1)[-1] for row in rows if row.startswith("| ")]
    return [command for cell in cells for command in re.findall(r"`((?:assay|batchhoptest) [^`]+)`", cell)]


def test_every_command_of_the_table_for_hop_users_runs(project: Path) -> None:
    """In the order of the page, each with exit code 0. The server of `assay view` is only asked for its help."""
    commands = commands_of_the_page()
    assert len(commands) >= 13
    for command in commands:
        name, *words = shlex.split(command)
        if name == "batchhoptest":
            done = Job(["-c", BATCHHOPTEST, *words], project).run()
            assert done.code == 0, (command, done.err)
        elif words[0] == "view":
            assert typed("view", "--help") == 0
        else:
            assert typed(*words) == 0, command
