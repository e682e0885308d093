"""Files that are made to hurt: each is answered with a sentence, in bounded memory. Runs use the same readers."""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from assay.core.errors import InputError, Problem
from assay.files.json_objects import read_objects
from assay.files.read import BY_PEOPLE, BY_PROGRAMS, is_deeper, json_lines, object_lines, read_json
from assay.files.yaml_files import YAML_BY_PEOPLE, load_yaml, read_yaml

from support.commands import TIMEOUT, environment

DEEP = 100_000
# An archive and its unfolded content are never both in memory, so this is far more than is needed.
_MEMORY = 700 << 20


def hostile_files(folder: Path) -> dict[str, str]:
    """Write the files. Returns a part of the message about each."""
    aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    aliases += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))
    merges = "a0: &a0 {x: 1}\n"
    merges += "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 30))
    # Members of an archive can be repeated, which is faster than compressing gigabytes. The level makes them small: what
    # unfolds to more than 100 times the archive is soon known.
    blank, letters = gzip.compress(b" " * 10_000_000, 9), gzip.compress(b"a" * 10_000_000, 9)
    contents: dict[str, tuple[bytes, str]] = {
        "deep.json": (b"[" * DEEP + b"]" * DEEP, "nested more than"),
        "deep.jsonl": (b'{"a":' * DEEP + b"1" + b"}" * DEEP, "nested more than"),
        "deep.yaml": (b"a: " + b"[" * DEEP + b"]" * DEEP, "nested more than 40 levels deep"),
        "dashes.yaml": (b"a:\n  " + b"- " * DEEP, "nested more than 40 levels deep"),
        "aliases.yaml": (f"task: t\n{aliases}".encode(), "values, counting those that aliases"),
        "merges.yaml": (f"task: t\n{merges}".encode(), "values, counting those that aliases"),
        "list.json.gz": (
            gzip.compress(b'[{"a": 1},') + blank * 150,
            "unfolds to more than 100 times its size",
        ),
        "line.jsonl.gz": (letters * 150, "the line is longer than"),
    }
    for name, (content, _) in contents.items():
        (folder / name).write_bytes(content)
    os.mkfifo(folder / "pipe.jsonl")
    messages = {name: message for name, (_, message) in contents.items()}
    return messages | {"pipe.jsonl": "is a named pipe", "/dev/zero": "is a device"}


def bounded(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `assay` with little memory. It must not crash, and not hang."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))

    return subprocess.run(
        [sys.executable, "-m", "assay", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=limit,
    )


def test_hostile_files_are_checked_within_bounds(tmp_path: Path) -> None:
    """One process checks them all: none ends it, and each has its sentence."""
    messages = hostile_files(tmp_path)
    done = bounded(tmp_path, "check", *messages, "--json")
    assert (done.returncode, done.stderr) == (1, "")
    problems = {file["path"]: [each["message"] for each in file["problems"]] for file in json.loads(done.stdout)}
    for name, message in messages.items():
        assert any(message in each for each in problems[name]), (name, problems[name])


def test_a_run_over_hostile_files_is_refused(tmp_path: Path) -> None:
    hostile_files(tmp_path)
    (tmp_path / "none.jsonl").touch()
    model = ("--model", "script/none.jsonl")
    for words in (
        ("task", "--tasks", "aliases.yaml", *model),
        ("pipeline", "deep.yaml", *model),
        ("memory", "test", "--data", "deep.json", "--memory", "none", *model),
    ):
        done = bounded(tmp_path, *words)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        assert any(word in done.stderr for word in ("nested more than", "aliases")), done.stderr


READERS = """if True:
    import sys
    from pathlib import Path
    from assay.core.errors import InputError
    from assay.files.read import json_lines, object_lines, read_json
    from assay.files.json_objects import first_object, read_objects
    from assay.files.yaml_files import load_yaml, read_yaml
    from assay.suites.task.dataset.formats import open_data

    path = Path(sys.argv[1])
    for reader in (
        *(json_lines, read_json, read_yaml, object_lines, first_object),
        *(lambda each: read_objects(each, []), load_yaml, open_data),
    ):
        try:
            list(reader(path))
        except InputError as error:
            print(error)
"""


def test_every_reader_refuses_a_named_pipe(tmp_path: Path) -> None:
    """Whoever opens a pipe waits for its writer, so this is done in a process that can be ended."""
    os.mkfifo(tmp_path / "pipe")
    words = [sys.executable, "-c", READERS, str(tmp_path / "pipe")]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT)
    message = f"{tmp_path}/pipe: is a named pipe, not a file; write its content to a file first"
    assert (done.stdout.splitlines(), done.stderr) == ([message] * 8, "")


def test_values_of_ordinary_depth_are_read_and_deeper_ones_refused(tmp_path: Path) -> None:
    """The limit is exact, whichever reader reads the file."""
    path, document = tmp_path / "x.jsonl", tmp_path / "x.json"
    for levels, count in ((BY_PEOPLE.levels, 1), (BY_PEOPLE.levels + 1, 0)):
        text = '{"a":' * levels + "1" + "}" * levels
        path.write_text(text)
        problems: list[Problem] = []
        assert len(list(object_lines(path, problems))) == count
        assert len(list(read_objects(path, problems))) == count
        for whole in (text, f"[{text}]"):
            document.write_text(whole)
            assert len(list(read_objects(document, problems))) == count
        assert len(problems) == 4 * (1 - count)


def test_the_depth_of_documents_of_programs_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("[" * BY_PROGRAMS.levels + "]" * BY_PROGRAMS.levels)
    assert isinstance(read_json(path), list)
    path.write_text("[" * (BY_PROGRAMS.levels + 1) + "]" * (BY_PROGRAMS.levels + 1))
    with pytest.raises(InputError, match=r"x\.json: is nested more than 100 levels deep"):
        read_json(path)


def test_the_depth_of_a_value_is_exact_and_one_that_contains_itself_is_too_deep() -> None:
    """Lists, dicts and tuples are levels. A text has none, however many brackets it has."""
    value: object = "[" * 10
    for levels in range(5):
        assert not is_deeper(value, levels)
        assert levels == 0 or is_deeper(value, levels - 1)
        value = [(), value] if levels % 2 else {"a": 1, "b": value}
    ring: list[object] = []
    ring += [ring, (ring, ring)]
    assert is_deeper(ring, 300)


def test_a_long_line_is_read_and_an_endless_one_refused(tmp_path: Path) -> None:
    path, bounds = tmp_path / "x.jsonl", BY_PEOPLE._replace(line=100)
    path.write_text('{"a": "' + "x" * 80 + '"}\n{}\n')
    assert len(list(json_lines(path, bounds))) == 2
    path.write_text('{}\n{"a": "' + "x" * 100 + '"}\n')
    with pytest.raises(InputError, match="x.jsonl:2: the line is longer than 100 bytes"):
        list(json_lines(path, bounds))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 2024-13-45\n", "a value cannot be read"),
        ("? [a, b]\n: 1\n", "a key is a list or mapping"),
        ("a: &a [*a]\n", r"\*a is an alias of itself"),
    ],
)
def test_odd_yaml_is_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        load_yaml(tmp_path / "x.yaml")


@pytest.mark.parametrize("count", [350, 1_000])
def test_too_many_values_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Some more than the bound, here a thousandth, and so many that the rest of the file is not even read."""
    monkeypatch.setattr("assay.files.yaml_files.YAML_BY_PEOPLE", YAML_BY_PEOPLE._replace(values=300))
    monkeypatch.setattr("assay.files.yaml_files._LARGE", 500)  # characters of a file whose values are counted first
    (tmp_path / "many.yaml").write_text("a: [" + "1," * count + "]")
    with pytest.raises(InputError, match=r"many\.yaml:1: has more than 300 values"):
        load_yaml(tmp_path / "many.yaml")
    (tmp_path / "few.yaml").write_text("a: [" + "1," * 290 + "]")
    assert len(load_yaml(tmp_path / "few.yaml").value["a"]) == 290


def test_yaml_with_many_brackets_side_by_side_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a:\n" + "- [1, {b: [2]}]\n" * 200)
    assert len(load_yaml(tmp_path / "x.yaml").value["a"]) == 200


@pytest.mark.parametrize("levels", [40, 41])
def test_levels_that_aliases_add_count(tmp_path: Path, levels: int) -> None:
    """Each line is shallow, and repeats the line before one level deeper. The mapping of the file is a level too."""
    chain = "a1: &a1 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(2, levels))
    path = tmp_path / "x.yaml"
    path.write_text(chain)
    assert len(read_yaml(path)) == levels - 1
    if levels == 40:
        assert len(load_yaml(path).value) == levels - 1
    else:
        with pytest.raises(InputError, match=r"x\.yaml:40: is nested more than 40 levels deep"):
            load_yaml(path)


def test_the_bounds_of_yaml_of_programs_are_wider(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    for levels in (100, 101):
        path.write_text("[" * levels + "]" * levels)
        if levels == 100:
            assert isinstance(read_yaml(path), list)
    with pytest.raises(InputError, match=r"x\.yaml: is nested more than 100 levels deep"):
        read_yaml(path)


def test_keys_are_no_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.files.yaml_files.YAML_BY_PROGRAMS", YAML_BY_PEOPLE._replace(values=5))
    (tmp_path / "x.yaml").write_text("a: 1\nb: [1, 2]\n")
    assert read_yaml(tmp_path / "x.yaml") == {"a": 1, "b": [1, 2]}
    (tmp_path / "x.yaml").write_text("a: 1\nb: [1, 2, 3]\n")
    with pytest.raises(InputError, match="has more than 5 values"):
        read_yaml(tmp_path / "x.yaml")


def test_an_alias_has_the_levels_of_what_it_repeats(tmp_path: Path) -> None:
    """Twenty levels and an alias of twenty more, each of them shallow."""
    path = tmp_path / "x.yaml"
    for inside in (19, 20):
        path.write_text(f"a: &a {'[' * 20}{']' * 20}\nb: {'[' * inside}*a{']' * inside}\n")
        if inside == 19:
            assert load_yaml(path).value["a"] == [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]
    with pytest.raises(InputError, match=r"x\.yaml:2: is nested more than 40 levels deep"):
        load_yaml(path)


def test_an_anchor_ends_with_its_document(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: &a [1]\n---\n*a\n")
    for reader in (load_yaml, read_yaml):
        with pytest.raises(InputError, match="another document"):
            reader(path)
