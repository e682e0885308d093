"""Changes of files that are made to hurt their readers: `mutated(random, data)` returns other bytes.

JSON, JSON lines, YAML and zip archives are changed in their structure, so that the readers come further than the first
brace. Everything is changed in its bytes too. The same `random` gives the same change.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

import yaml

DEEP = 100_000
ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2**31,
    2**63,
    -(2**63) - 1,
    10**400,
    1e308,
    -0.0,
    float("nan"),
    float("inf"),
    "",
    " ",
    "x",
    "0",
    "1e999",
    "nan",
    "true",
    "null",
    "\x00",
    "\ud800",
    "\u202e\u2028",
    "\ufeff",
    "𝒳" * 3,
    "a\r\nb",
    "x" * 5_000,
    "9" * 5_000,
    "../../../../etc/passwd",
    "/dev/zero",
    "file:///etc/passwd",
    "__class__",
    "{{ ''.__class__ }}",
    "{{ x",
    "{% for a in range(999999999) %}{% endfor %}",
    "{{ 'a' * 10**10 }}",
    "a.__class__ == 1",
    "1 +",
    "(a+)+$",
    "(?P<n",
    "regex:(",
    "2024-13-45T99:99:99Z",
    "0001-01-01",
    "9999-12-31T23:59:59+14:00",
    "-5 days",
    "D1:999999999999999999999",
    "!!python/object/apply:os.system",
    [],
    {},
    [[]],
    [None],
    [{}],
    {"": None},
    {"a": {"a": {"a": []}}},
    {"\ud800": 1},
    {"__proto__": {}, "id": None, "type": [], "name": {}},
    list(range(300)),
]
_PIECES = [
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"\xf4\x90\x80\x80",
    b"\r",
    b"\r\n",
    b"\n\n\n",
    b"\t",
    b"\x0b",
    b"\x1a",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"NaN",
    b"-Infinity",
    b"1e400",
    b"9" * 5_000,
    b"0" * 400 + b".5",
    b"[" * 500,
    b"{" * 500,
    b'{"a":' * 500,
    b"[" * DEEP,
    b"- " * 200,
    b"&a [*a, *a]",
    b"*nobody",
    b"<<: *a",
    b"? ",
    b"!!binary x",
    b"!function x.y",
    b"---\n",
    b"...\n",
    b"%YAML 9.9\n",
    b"'",
    b'"',
    b"\\",
    b"\\u12",
    b"\\ud800",
    b",",
    b":",
    b"}",
    b"]",
    b"|",
    b">",
    b"#",
    b"```",
    b"```yaml\n",
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"PAR1",
]
_ENCODINGS = ["utf-16", "utf-32", "utf-8-sig", "latin-1", "gbk", "utf-7", "cp037"]


def mutated(random: Random, data: bytes) -> bytes:
    """Return the bytes with one to three changes."""
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        change = random.choice([_change_values, _change_values, _change_values, _change_bytes, _change_lines])
        data = change(random, data)
    if random.random() < 0.05:
        data = _encode_otherwise(random, data)
    return data


def _change_values(random: Random, data: bytes) -> bytes:
    """Change values of the format that the bytes are in."""
    for read, write in _FORMATS:
        try:
            value = read(data)
        except (ValueError, RecursionError, yaml.YAMLError, zipfile.BadZipFile, NotImplementedError, OSError):
            continue
        if isinstance(value, (dict, list)) and value:
            put_odd_value(random, value)
            try:
                return write(random, value)
            except (ValueError, RecursionError, yaml.YAMLError):
                break
    return _change_bytes(random, data)


def put_odd_value(random: Random, value: Any) -> None:
    """Replace, remove, repeat or rename one value of a JSON value, at any depth."""
    if not value:
        return
    for _ in range(50):
        key: Any = random.choice(list(value)) if isinstance(value, dict) else random.randrange(len(value))
        if isinstance(value[key], (dict, list)) and value[key] and random.random() < 0.8:
            value = value[key]
            continue
        break
    kind = random.randrange(7)
    if kind == 0:
        del value[key]
    elif kind == 1 and isinstance(value, list):
        value.insert(random.randrange(len(value) + 1), deepcopy(value[key]))
    elif kind == 1:
        value[str(random.choice(ODD_VALUES))[:50]] = deepcopy(value[key])
    elif kind == 2 and isinstance(value[key], str):
        value[key] = mutated_text(random, value[key])
    elif kind == 3:
        value[key] = [value[key]] if random.random() < 0.5 else {"a": value[key]}
    else:
        value[key] = deepcopy(random.choice(ODD_VALUES))  # the next change may be inside it


def mutated_text(random: Random, text: str) -> str:
    """Return a text with a piece of it removed, repeated or replaced."""
    start, end = sorted((random.randrange(len(text) + 1), random.randrange(len(text) + 1)))
    piece = random.choice(["", text[start:end] * 3, "\x00", "\ud800", "{{", "}}", "'", "\n", "*", "(", "9" * 30])
    return text[:start] + piece + text[end:]


def _change_bytes(random: Random, data: bytes) -> bytes:
    start, end = sorted((random.randrange(len(data) + 1), random.randrange(len(data) + 1)))
    kind = random.randrange(6)
    if kind == 0:
        return data[:start]
    if kind == 1:
        return data[:start] + data[end:]
    if kind == 2:
        return data[:end] + data[start:]
    if kind == 3 and start < len(data):
        return data[:start] + bytes([data[start] ^ (1 << random.randrange(8))]) + data[start + 1 :]
    return data[:start] + random.choice(_PIECES) + data[start if kind == 4 else end :]


def _change_lines(random: Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    first, second = random.randrange(len(lines)), random.randrange(len(lines))
    kind = random.randrange(5)
    if kind == 0:
        lines[first], lines[second] = lines[second], lines[first]
    elif kind == 1:
        lines.insert(first, lines[second])
    elif kind == 2:
        del lines[first]
    elif kind == 3:
        lines[first] = _change_bytes(random, lines[first])
    else:
        lines[first] = b" " * random.randrange(60) + lines[first].lstrip()
    return (b"\r\n" if random.random() < 0.1 else b"\n").join(lines)


def _encode_otherwise(random: Random, data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode(random.choice(_ENCODINGS), "replace")


def _read_lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def _write_json(random: Random, value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=random.random() < 0.8, indent=random.choice([None, None, 1]))
    return text.encode("utf-8", "surrogatepass")


def _write_lines(random: Random, value: Any) -> bytes:
    return b"\n".join(_write_json(random, item).replace(b"\n", b" ") for item in value) + b"\n"


def _read_yaml(data: bytes) -> Any:
    # Libyaml's parser calls itself for every level. What is deep stays for changes of bytes.
    if len(data) > 50_000 or data.count(b"[") + data.count(b"{") > 300:
        raise ValueError
    return yaml.safe_load(data)


def _write_yaml(random: Random, value: Any) -> bytes:
    text: str = yaml.safe_dump(value, allow_unicode=random.random() < 0.5, sort_keys=False)
    return text.encode("utf-8", "surrogatepass")


def change_member(random: Random, data: bytes) -> bytes:
    """Return a zip archive in which one member is changed, renamed, left out, or much larger than it looks."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as source:
            contents = {name: source.read(name) for name in source.namelist()}
    except (zipfile.BadZipFile, NotImplementedError):  # Python 3.11 has no zstd
        return mutated(random, data)
    chosen, kind = random.choice(list(contents)), random.randrange(8)
    content = contents.pop(chosen)
    if kind == 1:
        contents[mutated_text(random, chosen).replace("\x00", "") or "x"] = content
    elif kind == 2:
        contents[chosen] = b" " * 20_000_000
    elif kind > 2:
        contents[chosen] = mutated(random, content)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name.encode("utf-8", "replace").decode(), content)
    return target.getvalue()


_FORMATS: list[tuple[Callable[[bytes], Any], Callable[[Random, Any], bytes]]] = [
    (json.loads, _write_json),
    (_read_lines, _write_lines),
    (_read_yaml, _write_yaml),
]
