"""Result files lose their secrets as the journal does, whatever their size."""

from __future__ import annotations

import csv
import json
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from assay.core.redact import Redactor

from support.commands import environment

KEY, WORDS = "sk-0f8fad5b9cb", "correct horse battery"
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
        from assay.core.redact import Redactor

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
