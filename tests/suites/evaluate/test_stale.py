"""No stale numbers: after any change that could change a result, the numbers are those of a fresh run."""

from __future__ import annotations

import io
import os
import runpy
import subprocess
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path

import pytest

import assay

HELPERS = """
FACTOR = 10

def scale(number):
    return number * FACTOR
"""

PROGRAM = '''
"""A program that evaluates a function; it prints its metrics."""
import sys
from pathlib import Path

import assay
import helpers

OFFSET = 1
THRESHOLD = 0.5


def shift(number):
    return number + OFFSET


def make_answer(step):
    def answer(number):
        with open("calls.txt", "a") as file:
            file.write("x")
        return helpers.scale(shift(number)) + step  # the result

    return answer


def near(answer, target) -> bool:
    return abs(answer - target) <= THRESHOLD


def ask(prompt):
    with open("calls.txt", "a") as file:
        file.write("x")
    return prompt.upper()


ROWS = [
    {"number": 1, "wanted": 20},
    {"number": 2, "wanted": 31},
]
if sys.argv[1] == "function":
    scorers = [near, "exact_match", lambda answer: answer]
    run = assay.evaluate(ROWS, answer=make_answer(0), score=scorers, target="wanted", quiet=True)
else:
    run = assay.evaluate(
        ROWS, model=ask, prompt="say {{ number }}", score=[lambda answer: len(answer)], target="wanted", quiet=True
    )
print([[metric.name, metric.value] for _, metric in run.report.metrics()])
'''


def start(folder: Path, which: str) -> tuple[str, int]:
    """Execute the program; returns its numbers and how often the function was called.

    In this process, since a new one takes half a second: only `assay` itself is imported before.
    """
    calls = folder / "calls.txt"
    calls.write_text("")
    output = io.StringIO()
    sys.modules.pop("helpers", None)
    sys.path.insert(0, str(folder))
    words, sys.argv = sys.argv, ["program.py", which]
    # Python's own import would take the bytecode of a helper that was changed within the second.
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with chdir(folder), redirect_stdout(output):
            runpy.run_path("program.py", run_name="__main__")
    finally:
        sys.argv, sys.dont_write_bytecode = words, writes
        sys.path.remove(str(folder))
        sys.modules.pop("helpers", None)
    return output.getvalue(), len(calls.read_text())


def start_process(folder: Path, which: str) -> tuple[str, int]:
    """The same in a process of its own."""
    calls = folder / "calls.txt"
    calls.write_text("")
    done = subprocess.run(
        [sys.executable, "program.py", which],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, len(calls.read_text())


def write(folder: Path, program: str = PROGRAM, helpers: str = HELPERS) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "program.py").write_text(program)
    (folder / "helpers.py").write_text(helpers)


def replaced(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("which", "old", "new", "calls"),
    [
        pytest.param("function", "+ step  # the result", "- step + 1", 2, id="body of the function"),
        pytest.param("function", "OFFSET = 1", "OFFSET = 2", 2, id="a constant that a helper uses"),
        pytest.param("function", "number + OFFSET", "number - OFFSET", 2, id="body of a helper"),
        pytest.param("function", "make_answer(0)", "make_answer(5)", 2, id="a captured value"),
        pytest.param("function", "THRESHOLD = 0.5", "THRESHOLD = 2", 0, id="threshold of a scorer"),
        pytest.param("function", "<= THRESHOLD", "<= THRESHOLD * 4", 0, id="body of a scorer"),
        pytest.param("function", '"number": 2', '"number": 3', 2, id="a row"),
        pytest.param("function", '"wanted": 31', '"wanted": 30', 0, id="a gold value"),
        pytest.param("model", "say {{ number }}", "tell {{ number }}", 2, id="the prompt"),
        pytest.param("model", "prompt.upper()", "prompt.upper() * 2", 2, id="body of a model function"),
        pytest.param("model", "len(answer)", "len(answer) + 1", 0, id="body of a lambda that scores"),
        pytest.param("function", "# the result", "# what comes of it", 0, id="a comment in the function"),
        pytest.param("function", "\nif sys.argv", "\n# Which way to run.\nif sys.argv", 0, id="a comment elsewhere"),
        pytest.param("function", "import sys\n", "import sys\nimport json\n", 0, id="an import elsewhere"),
    ],
)
def test_after_a_change_the_numbers_are_those_of_a_fresh_run(
    tmp_path: Path, which: str, old: str, new: str, calls: int
) -> None:
    """Only what the change concerns is asked again; a comment concerns nothing."""
    write(tmp_path / "work")
    first, asked = start(tmp_path / "work", which)
    assert asked == 2
    changed = replaced(PROGRAM, old, new)
    write(tmp_path / "work", changed)
    again, asked_again = start(tmp_path / "work", which)
    write(tmp_path / "fresh", changed)
    fresh, _ = start(tmp_path / "fresh", which)
    assert again == fresh
    assert asked_again == calls
    is_harmless = "#" in new or new.startswith("import")
    assert (again != first) is not is_harmless


def test_a_helper_in_another_file_of_the_user_counts(tmp_path: Path) -> None:
    """`helpers.scale` is followed to its constant, in a module that the program only imports."""
    write(tmp_path / "work")
    start(tmp_path / "work", "function")
    changed = replaced(HELPERS, "FACTOR = 10", "FACTOR = 11")
    write(tmp_path / "work", helpers=changed)
    again, calls = start(tmp_path / "work", "function")
    write(tmp_path / "fresh", helpers=changed)
    assert again == start(tmp_path / "fresh", "function")[0]
    assert calls == 2


def test_tags_that_are_added_to_a_finished_run_group_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag column may be gold: its changed values count too."""
    monkeypatch.chdir(tmp_path)
    slices = []
    for tags, kind in (([], "even"), (["kind"], "even"), (["kind"], "odd")):
        run = assay.evaluate(
            [{"number": 2, "kind": kind}],
            answer=str,
            score=[lambda answer: answer == "2"],
            target="kind",
            tags=tags,
            version="1",
        )
        assert run.report is not None
        slices.append([part.name for part in run.report.entries[0].slices])
    assert slices == [[], ["even"], ["odd"]]


def test_another_target_column_scores_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the columns that are gold stay the same."""
    monkeypatch.chdir(tmp_path)
    rows = [{"q": "a", "upper": "A", "lower": "a"}]
    numerators = []
    for target, other in (("upper", "lower"), ("lower", "upper")):
        same = assay.scorer(lambda answer, target: answer == target, name="same")
        run = assay.evaluate(
            rows,
            answer=lambda q: q.upper(),
            score=[same, "exact_match", assay.exact_match(other, name="other")],
            target=target,
            name="columns",
        )
        numerators.append([run[name].numerator for name in ("same", "exact_match", "other")])
    assert numerators == [[1, 1, 0], [0, 0, 1]]


def test_an_unused_helper_in_another_file_does_not_count(tmp_path: Path) -> None:
    write(tmp_path / "work")
    start(tmp_path / "work", "function")
    write(tmp_path / "work", helpers=HELPERS + "\n\ndef unused():\n    return 1\n")
    assert start(tmp_path / "work", "function")[1] == 0


def test_the_same_program_asks_nothing_the_second_time(tmp_path: Path) -> None:
    write(tmp_path / "work")
    first, calls = start_process(tmp_path / "work", "function")
    assert calls == 2
    assert start_process(tmp_path / "work", "function") == (first, 0)
