"""`assay show RUN --question ID`: one question of a memory run, in every test and with every memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import assay

from support.commands import typed
from support.memory_samples import Samples, sample
from support.memory_talks import Talks, talk


@pytest.fixture
def talks(tmp_path: Path) -> Talks:
    """Two conversations; the evidence of a question of the first one is two messages."""
    first = talk(4, "ann")
    first["questions"][3]["evidence"] = ["D1:1", "D1:4"]
    return Talks(tmp_path, first, talk(3, "ben"))


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what a command prints."""
    capsys.readouterr()
    assert typed("show", *words) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the message of a command that fails."""
    capsys.readouterr()
    assert typed("show", *words) == 2
    return capsys.readouterr().err


def test_a_question_has_its_texts_scores_verdicts_and_items(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    run = talks.run(judge="offline", segments=2, top_k=1)
    lines = shown(capsys, str(run.folder), "ann", "--question", "4").splitlines()
    cells = [" ".join(line.split()) for line in lines]
    assert cells[0] == "question 4 of ann with own"
    assert "question who likes fruit4" in cells
    assert "category plain" in cells
    assert "reference Bob likes fruit4" in cells
    assert "evidence D1:1, D1:4" in cells
    # One row for each test that asked the question: the second one. D1:1 was not among the retrieved items.
    (row,) = [cell for cell in cells if cell.startswith("2 ") and "D1:4*" in cell]
    assert row == "2 1.000 1.000 1.000 0.500 D1:1 D1:4* Bob likes fruit4"
    assert any(cell.startswith("2 judge Correct") for cell in cells)
    assert "1 D1:4 evidence Ann: Bob likes fruit4" in cells
    assert "D1:1 missed Ann: Bob likes fruit1" in cells
    assert "D1:4 rank 1 Ann: Bob likes fruit4" in cells


def test_the_own_loader_of_a_run_is_found_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run names its loader and its data as they were typed, in the folder where it was started."""
    project = tmp_path / "project"
    project.mkdir()
    talks = Talks(project)
    (project / "letters.py").write_text(
        "from assay.suites.memory.test.loaders import find_loader\n"
        "def read(path):\n"
        "    return list(find_loader('plain').conversations(path))\n"
    )
    monkeypatch.chdir(project)
    talks.run(dataset="letters.py:read", data="talks.json", output_dir="out")
    monkeypatch.chdir(tmp_path)

    words = ("project/out", "0", "--question", "1")
    assert "add --code project/letters.py (" in shown(capsys, *words)
    assert "Ann: Bob likes fruit1" in shown(capsys, *words, "--code", "project/letters.py")


def test_an_earlier_question_is_shown_in_every_test(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    run = talks.run(segments=2)
    output = shown(capsys, str(run.folder), "ann", "--question", "who likes fruit1")
    rows = [line for line in output.splitlines() if "D1:1*" in line]
    assert [row.split()[0] for row in rows] == ["1", "2"]


def test_every_memory_is_shown(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    run = talks.run(memory=[talks.own, "none"], no_answer=True)
    output = shown(capsys, str(run.folder), "--question", "ben/3")
    assert "question 3 of ben with own" in output
    assert "question 3 of ben with none" in output


def test_texts_of_changed_data_are_not_shown(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """A text of another version of the data would be a wrong one."""
    run = talks.run(no_answer=True)
    data = talks.folder / "talks.json"
    data.write_text(data.read_text().replace("Ann", "Eve"))
    output = shown(capsys, str(run.folder), "ann", "--question", "1")
    assert "Eve" not in output
    assert "the data file of the run is unknown, gone or changed" in output


def test_a_name_that_fits_several_conversations_or_none_is_refused(
    talks: Talks, capsys: pytest.CaptureFixture[str]
) -> None:
    run = talks.run(no_answer=True)
    folder = str(run.folder)
    message = refused(capsys, folder, "--question", "2")
    assert f"2 conversations have a question '2': ann, ben. Name one: assay show {folder} ann" in message
    assert "ann of" in refused(capsys, folder, "ann", "--question", "99")
    assert "has no case 'eve'" in refused(capsys, folder, "eve", "--question", "1")


def test_an_imported_run_shows_what_its_files_have(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    run = talks.run(no_answer=True, top_k=1)
    (summary,) = [path for path in run.files if path.name == "summary.json"]
    imported = assay.import_results(summary.parent, str(talks.folder / "runs"), data=talks.folder / "talks.json")
    native = shown(capsys, str(run.folder), "ann", "--question", "4")
    assert shown(capsys, str(imported.folder), "ann", "--question", "4") == native
    without = assay.import_results(summary.parent, str(talks.folder / "runs2"))
    output = shown(capsys, str(without.folder), "ann", "--question", "4")
    assert "D1:1 missed –" in [" ".join(line.split()) for line in output.splitlines()]


def test_a_question_of_a_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = Samples(tmp_path / "samples", sample("s1"), sample("s2"))
    run = samples.run()
    part = "probe_2/1"
    assert f"{part}  Correct" in shown(capsys, str(run.folder), "s2")
    output = shown(capsys, str(run.folder), "s2", "--question", part)
    imported = assay.import_results(samples.out, str(tmp_path / "runs"))
    for text in (output, shown(capsys, str(imported.folder), "s2", "--question", part)):
        cells = [" ".join(line.split()) for line in text.splitlines()]
        assert cells[0] == f"question {part} of s2 with bm25"
        assert any(cell.startswith("question answering ") for cell in cells)
        assert any(cell.startswith("1 ") and "cited" in cell for cell in cells)
        assert any(cell.startswith("rank item score") for cell in cells)


def test_other_suites_have_no_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = assay.import_results(Path(__file__).parents[1] / "golden" / "lm_eval" / "out" / "b_em", str(tmp_path))
    assert "a task run has no questions inside its cases" in refused(capsys, str(run.folder), "--question", "1")


def test_a_number_is_the_id_of_a_conversation_before_it_is_a_position(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Talks(tmp_path, talk(3, "1"), talk(3, "7")).run(no_answer=True)
    assert "question 2 of 1 with own" in shown(capsys, str(run.folder), "1", "--question", "2")
    assert "question 2 of 7 with own" in shown(capsys, str(run.folder), "@1", "--question", "2")
    assert "question 2 of 1 with own" in shown(capsys, str(run.folder), "0", "--question", "2")
