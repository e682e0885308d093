"""Result files lose their secrets as the journal does, whatever their size."""

from __future__ import annotations

import csv
import html
import json
import re
import shutil
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path
from urllib.parse import quote, quote_plus

import msgspec
import pytest

from assay.files.redact import Redactor

from support.commands import environment

KEY, WORDS = "sk-0f8fad5b9cb", "correct horse battery"
ODD = "Zq9-vX7\"k\\é/€'+<&t\n\U0001f600 w0"
PIECE = 1 << 20


@pytest.mark.parametrize(
    "value",
    [
        {KEY: 1, f"my {KEY}": 2, "plain": KEY},
        {WORDS: WORDS, f"é {WORDS}": 1, f"{WORDS} 7": 1},
        {f'say "{WORDS}': 1, f'{WORDS}" too': 1, "text": f'{{"{WORDS}": 1}}'},
        [WORDS, {"a": [WORDS, KEY]}, {"x" * 2000: KEY}],
    ],
)
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", " : ")])
def test_a_json_file_keeps_the_same_keys_as_the_journal(
    tmp_path: Path, value: object, ascii_only: bool, separators: tuple[str, str]
) -> None:
    """Only keys that are plain words stay."""
    redactor, path = Redactor([KEY, WORDS]), tmp_path / "results.json"
    path.write_text(json.dumps(value, ensure_ascii=ascii_only, separators=separators))
    assert redactor.redact_file(path)
    assert json.loads(path.read_text()) == redactor.clean(value)
    assert not redactor.redact_file(path)


@pytest.mark.parametrize(
    "secret", [KEY, 'p"ss\\w\u00f6rd/long', "key+with=signs&more", "k&y+w'th/signs=", "it's a <key> & more"]
)
def test_a_secret_is_found_however_it_is_spelled(tmp_path: Path, secret: str) -> None:
    """Arguments of tools are JSON inside a text, messages of endpoints quote URLs."""
    redactor = Redactor([secret])
    spellings = [
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret, safe=""),
        quote_plus(secret),
        html.escape(secret),
        html.escape(secret).replace("&#x27;", "&#39;"),
        html.escape(secret).replace("&#x27;", "&apos;"),
        html.escape(secret, quote=False),
        quote(secret),
        re.sub("%..", lambda match: match[0].lower(), quote_plus(secret)),
        json.dumps(secret)[1:-1].replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"),
        json.dumps(secret)[1:-1].replace("/", r"\/"),
    ]
    expected = ["it is [redacted]."] * len(spellings)
    assert redactor.clean([f"it is {each}." for each in spellings]) == expected
    path = tmp_path / "results.json"
    path.write_text(json.dumps([f"it is {each}." for each in spellings]))
    assert redactor.redact_file(path)
    assert json.loads(path.read_text()) == expected


def test_a_finish_reason_is_a_text_of_the_endpoint() -> None:
    """Only the reasons that assay asks for stay, even if a secret has the same letters."""
    redactor = Redactor([KEY, WORDS, "content_filter_"])
    for finish in (KEY, WORDS, f"stop {KEY}"):
        line = msgspec.json.encode({"type": "call", "response": {"text": "x", "finish": finish}})
        assert "[redacted]" in msgspec.json.decode(redactor(line))["response"]["finish"]
    line = msgspec.json.encode({"type": "call", "response": {"text": KEY, "finish": "content_filter"}})
    assert msgspec.json.decode(redactor(line))["response"] == {
        "text": "[redacted]",
        "finish": "content_filter",
    }


def test_a_text_file_has_no_keys_that_could_stay(tmp_path: Path) -> None:
    path = tmp_path / "results.txt"
    path.write_text(f'"{WORDS}": 2')
    assert Redactor([WORDS]).redact_file(path)
    assert path.read_text() == '"[redacted]": 2'


def can_trace() -> bool:
    """Whether the system calls of a process can be seen. Some containers forbid it."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_trace(), reason="needs strace")
def test_the_copy_is_on_the_disk_before_it_takes_the_place_of_the_file(tmp_path: Path) -> None:
    """Otherwise a power cut could leave an empty file. Nothing but the order of system calls shows it."""
    path, calls = tmp_path / "results.json", tmp_path / "calls"
    path.write_text(json.dumps({"a": KEY}))
    program = """if True:
        import sys
        from pathlib import Path
        from assay.files.redact import Redactor
        Redactor([sys.argv[2]]).redact_file(Path(sys.argv[1]))
    """
    traced = ["strace", "-f", "-y", "-e", "trace=fsync,rename,renameat,renameat2", "-o", str(calls)]
    words = [*traced, sys.executable, "-c", program, str(path), KEY]
    subprocess.run(words, env=environment(), capture_output=True, check=True)
    found = [line.split(maxsplit=1)[1] for line in calls.read_text().splitlines() if str(tmp_path) in line]
    synced, renamed = found
    assert synced.startswith("fsync(")
    assert ".results.json.tmp" in synced
    assert renamed.startswith("rename")


def test_a_csv_file_has_no_keys_that_could_stay(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], ["1", f'{{"{WORDS}": 2}}'], ["2", f'"{WORDS}": "{KEY}"']])
    assert Redactor([KEY, WORDS]).redact_file(path)
    with path.open(newline="") as file:
        assert list(csv.reader(file))[1:] == [
            ["1", '{"[redacted]": 2}'],
            ["2", '"[redacted]": "[redacted]"'],
        ]


def test_a_large_file_is_rewritten_in_pieces_and_secrets_on_their_borders_are_found(tmp_path: Path) -> None:
    path, secrets = tmp_path / "samples.jsonl", [KEY, KEY + "-long-one"]
    text = bytearray(b"." * (12 * PIECE))
    for number in range(1, 6):
        secret = secrets[number % 2].encode()
        at = number * PIECE - 2 * number
        text[at : at + len(secret)] = secret
    expected = bytes(text)
    for secret_text in reversed(secrets):
        expected = expected.replace(secret_text.encode(), b"[redacted]")
    path.write_bytes(text)
    redactor = Redactor(secrets)
    tracemalloc.start()
    try:
        assert redactor.redact_file(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * PIECE
    finally:
        tracemalloc.stop()
    assert path.read_bytes() == expected


def test_other_users_cannot_read_the_copy_while_it_is_written(tmp_path: Path) -> None:
    """It gets the permissions of the file at its end. A copy that a killed run has left is in nobody's way."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"a": KEY}))
    path.chmod(0o644)
    left = tmp_path / ".results.json.tmp"
    left.touch(0o666)
    program = """if True:
        import os, stat, sys
        from pathlib import Path
        from assay.files.redact import Redactor

        def watch(event, args):
            if event == "os.chmod":
                print(oct(stat.S_IMODE(os.stat(args[0]).st_mode)))

        os.umask(0)
        sys.addaudithook(watch)
        Redactor([sys.argv[2]]).redact_file(Path(sys.argv[1]))
    """
    words = [sys.executable, "-c", program, str(path), KEY]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0o600\n", "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert path.read_text() == '{"a": "[redacted]"}'
    assert not left.exists()


@pytest.mark.parametrize(
    "written",
    [repr(ODD), repr(f"'\"{ODD}"), json.dumps(ODD), repr({"a": [ODD]}), " ".join(ODD.split())],
)
def test_a_secret_is_found_as_python_and_json_write_it(written: str) -> None:
    """Messages of checks quote values with `repr`, and bring texts into one line."""
    redactor = Redactor([ODD])
    assert longest_part(redactor.clean(f"found {written}"), ODD) < 6
    line = msgspec.json.encode({"reason": f"found {written}"})
    assert longest_part(msgspec.json.decode(redactor(line))["reason"], ODD) < 6


def test_the_mark_of_a_cut_changes_nothing() -> None:
    """Chinese texts have it too."""
    redactor = Redactor([KEY, WORDS])
    for text in ("好……", f"{KEY[:5]}…", f"…{KEY[-5:]}", "…"):
        line = msgspec.json.encode({"reason": text})
        assert redactor(line) is line
        assert redactor.clean(text) == text


def longest_part(text: str, secret: str) -> int:
    """Return the length of the longest part of the secret that the text contains."""
    text = text.replace("[redacted]", "\0")
    lengths = range(len(secret), 0, -1)
    return next((n for n in lengths if any(secret[at : at + n] in text for at in range(len(secret) - n + 1))), 0)
