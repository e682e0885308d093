"""Makes GGUF files for tests: SmolLM2 with other fields in its header, as a base model or one of another context."""

from __future__ import annotations

import struct
from pathlib import Path

_ALIGNMENT = 32
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def rewrite_gguf(source: Path, target: Path, fields: dict[str, str | int | None]) -> Path:
    """Copy a model with some fields of its header changed: a text, a whole number, or None to leave it out."""
    data = source.read_bytes()
    version, tensors, count = struct.unpack_from("<IQQ", data, 4)
    place, kept = 24, []
    for _ in range(count):
        start = place
        key, place = _string(data, place)
        place = _skip(data, place)
        if key not in fields:
            kept.append(data[start:place])
    kept += [_field(key, value) for key, value in fields.items() if value is not None]
    infos_start = place
    for _ in range(tensors):
        _, place = _string(data, place)
        (dimensions,) = struct.unpack_from("<I", data, place)
        place += 4 + 8 * dimensions + 4 + 8
    head = data[:4] + struct.pack("<IQQ", version, tensors, len(kept)) + b"".join(kept) + data[infos_start:place]
    target.write_bytes(head + bytes(-len(head) % _ALIGNMENT) + data[place + -place % _ALIGNMENT :])
    return target


def split_gguf(source: Path, folder: Path, name: str) -> list[Path]:
    """Write a model as two files, as llama.cpp's gguf-split does: half of the tensors each, all fields in the first."""
    data = source.read_bytes()
    version, tensors, count = struct.unpack_from("<IQQ", data, 4)
    place = 24
    for _ in range(count):
        place = _skip(data, _string(data, place)[1])
    fields, infos = data[24:place], []
    for _ in range(tensors):
        start = place
        _, place = _string(data, place)
        place += 4 + 8 * struct.unpack_from("<I", data, place)[0] + 4
        infos.append((data[start:place], struct.unpack_from("<Q", data, place)[0]))
        place += 8
    body = data[place + -place % _ALIGNMENT :]
    ends = [offset for _, offset in infos[1:]] + [len(body)]
    half, paths = tensors // 2, []
    for number, chosen in enumerate((range(half), range(half, tensors))):
        split = _number("split.no", number, 2) + _number("split.count", 2, 2)
        split += _number("split.tensors.count", tensors, 5)
        head = b"GGUF" + struct.pack("<IQQ", version, len(chosen), (0 if number else count) + 3)
        head += split + (b"" if number else fields)
        base = infos[chosen[0]][1]
        head += b"".join(infos[each][0] + struct.pack("<Q", infos[each][1] - base) for each in chosen)
        paths.append(folder / f"{name}-{number + 1:05d}-of-00002.gguf")
        paths[-1].write_bytes(head + bytes(-len(head) % _ALIGNMENT) + body[base : ends[chosen[-1]]])
    return paths


def tiny_header(**fields: str | int) -> bytes:
    """A GGUF file with fields and no weights: `general__name="x"` is the field general.name."""
    items = [_field(key.replace("__", "."), value) for key, value in fields.items()]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(items)) + b"".join(items)


def tiny_field(key: str, kind: int, value: bytes) -> bytes:
    """A field with any type and any bytes as its value."""
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


def _number(key: str, value: int, kind: int) -> bytes:
    form = {2: "<IH", 5: "<Ii"}[kind]
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack(form, kind, value)


def _field(key: str, value: str | int) -> bytes:
    name = struct.pack("<Q", len(key)) + key.encode()
    if isinstance(value, int):
        return name + struct.pack("<II", 4, value)
    text = value.encode()
    return name + struct.pack("<IQ", 8, len(text)) + text


def _string(data: bytes, place: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, place)
    return data[place + 8 : place + 8 + length].decode(), place + 8 + length


def _skip(data: bytes, place: int) -> int:
    (kind,) = struct.unpack_from("<I", data, place)
    place += 4
    if kind == 8:
        return _string(data, place)[1]
    if kind != 9:
        return place + _SIZES[kind]
    kind, count = struct.unpack_from("<IQ", data, place)
    place += 12
    if kind != 8:
        return int(place + count * _SIZES[kind])
    for _ in range(count):
        place += 8 + struct.unpack_from("<Q", data, place)[0]
    return place
