"""A folder as a data set: which split a file belongs to is in its name, or in the folder's README."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from assay.core.errors import InputError, Problem
from assay.suites.task.data.files import matching

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "parquet": ("parquet", {}),
    "arrow": ("arrow", {}),
    "jsonl": ("json", {}),
    "json": ("json", {}),
    "csv": ("csv", {}),
    "ndjson": ("json", {}),
    "tsv": ("csv", {"sep": "\t"}),
    "txt": ("text", {}),
}
"""Endings of data files; of two that are as frequent, the first is taken."""
_WORDS = {
    "train": "train|training",
    "validation": "validation|valid|dev|val",
    "test": "test|testing|eval|evaluation",
}
_IGNORED = {
    "README.md",
    "config.json",
    "dataset_info.json",
    "dataset_infos.json",
    "dataset_dict.json",
    "state.json",
}
_SHARD = re.compile(r"(?P<split>.+)-\d{5}-of-\d{5}.*\..*")
_NOT_OPTIONS = {"config_name", "data_files", "data_dir", "default", "description", "version", "drop_labels"}


class Layout(NamedTuple):
    """Files by split, and how they are read."""

    kind: str
    options: dict[str, Any]
    files: dict[str, list[Path]]


def layout(folder: Path, name: str | None, options: dict[str, Any], where: Callable[..., str]) -> Layout:
    """What is in a folder: the files that are named, or its README names, or those with telling names."""
    if (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file():
        message = f"{folder} was written by save_to_disk; write it as Parquet or JSON (to_parquet, to_json)"
        raise InputError(Problem(where("dataset_path"), message))
    place = where("dataset_name" if name else "dataset_path")
    if options.get("data_files") is not None:
        place = where("dataset_kwargs", "data_files")
        chosen: dict[str, Any] = {"data_files": options["data_files"], "data_dir": options.get("data_dir")}
    elif options.get("data_dir"):
        place = where("dataset_kwargs", "data_dir")
        chosen = {"data_dir": options["data_dir"]}
    else:
        chosen = _configuration(folder, name, place)
    files = _configured(folder, chosen, place)
    kind, more = _kind(files, folder, place)
    own = {key: value for key, value in chosen.items() if key not in _NOT_OPTIONS}
    return Layout(kind, more | own, _of_kind(files, kind))


def by_split(folder: Path) -> dict[str, list[Path]]:
    """Files by split: by `data/test-00000-of-00001.parquet`, by folder, by file name; else as `train`."""
    paths = [path for path in matching(folder, "**") if _is_data(path.relative_to(folder))]
    for rule in (_by_shard, _by_folder, _by_name):
        found: dict[str, list[Path]] = {}
        for path in paths:
            for split in rule(path.relative_to(folder)):
                found.setdefault(split, []).append(path)
        if found:
            order = [split for split in _WORDS if split in found]
            return {split: found[split] for split in order + sorted(set(found) - set(order))}
    return {"train": paths} if paths else {}


def _is_data(path: Path) -> bool:
    hidden = any(part[0] == "." for part in path.parts) or any(
        part.startswith("__") for part in path.parts[:-1]
    )
    return not hidden and path.name not in _IGNORED and any(ending in KINDS for ending in _endings(path))


def _endings(path: Path) -> list[str]:
    return [ending.lower() for ending in path.name.split(".")[1:]]


def _by_shard(path: Path) -> list[str]:
    found = _SHARD.fullmatch(path.name) if path.parts[:-1] == ("data",) else None
    return [found["split"]] if found else []


def _by_folder(path: Path) -> list[str]:
    return [
        split
        for split, words in _WORDS.items()
        if any(re.fullmatch(rf"(.*[-._ 0-9])?({words})([-._ 0-9].*)?", part) for part in path.parts[:-1])
    ]


def _by_name(path: Path) -> list[str]:
    return [
        split
        for split, words in _WORDS.items()
        if re.fullmatch(rf"(.*[-._ 0-9])?({words})[-._ 0-9].*", path.name)
    ]


def _kind(files: dict[str, list[Path]], folder: Path, where: str) -> tuple[str, dict[str, Any]]:
    """The most frequent kind; all splits must have the same."""
    endings = Counter(
        end for paths in files.values() for path in paths for end in _endings(path) if end in KINDS
    )
    if not endings:
        known = ", ".join(f".{ending}" for ending in KINDS)
        raise InputError(Problem(where, f"there are no data files in {folder} ({known})"))
    order = list(KINDS)
    return KINDS[max(endings, key=lambda ending: (endings[ending], -order.index(ending)))]


def _of_kind(files: dict[str, list[Path]], kind: str) -> dict[str, list[Path]]:
    kept = {
        split: [
            path for path in paths if any(KINDS[end][0] == kind for end in _endings(path) if end in KINDS)
        ]
        for split, paths in files.items()
    }
    return {split: paths for split, paths in kept.items() if paths}


def _configuration(folder: Path, name: str | None, where: str) -> dict[str, Any]:
    """The README's configuration of this name; an empty one where it has none and none is asked for."""
    known = {str(each.get("config_name", "default")): each for each in _configurations(folder)}
    if name in known:
        return known[name]
    if name is not None and known:
        raise InputError(Problem(where, f"{folder} has no data set {name!r}; it has {', '.join(known)}"))
    if name is not None and name != "default":
        if (folder / name).is_dir():
            return {"data_dir": name}
        raise InputError(Problem(where, f"{folder} has no data set {name!r}: there is no such folder in it"))
    default = [each for each in known.values() if each.get("default")] or [*known.values()][: len(known) == 1]
    if not default and known:
        raise InputError(Problem(where, f"set dataset_name to one of {', '.join(known)}"))
    return default[0] if default else {}


def _configurations(folder: Path) -> list[dict[str, Any]]:
    """The `configs` between the first two lines `---` of README.md."""
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8-sig", errors="replace") if readme.is_file() else ""
    if not text.startswith("---"):
        return []
    try:
        head = yaml.safe_load(text.split("\n---", 1)[0].removeprefix("---"))
    except yaml.YAMLError as error:
        raise InputError(Problem(str(readme), f"not YAML between the lines ---: {error}")) from None
    configs = head.get("configs") if isinstance(head, dict) else None
    return [each for each in configs if isinstance(each, dict)] if isinstance(configs, list) else []


def _configured(folder: Path, chosen: dict[str, Any], where: str) -> dict[str, list[Path]]:
    base = folder / str(chosen.get("data_dir") or "")
    if chosen.get("data_files") is None:
        return by_split(base)
    found = {}
    for split, patterns in patterns_by_split(chosen["data_files"], where).items():
        found[split] = [path for pattern in patterns for path in matching(base, pattern)]
        if not found[split]:
            raise InputError(Problem(where, f"there is no data file {patterns[0]!r} in {base}"))
    return found


def patterns_by_split(data_files: Any, where: str) -> dict[str, list[str]]:
    """File names by split, in every way they are written; files of no split are `train`."""
    if isinstance(data_files, list) and data_files and all(isinstance(each, dict) for each in data_files):
        data_files = {each.get("split", "train"): each.get("path") for each in data_files}
    if isinstance(data_files, (str, list)):
        data_files = {"train": data_files}
    if not isinstance(data_files, dict):
        raise InputError(Problem(where, "expected data_files: a file, a list of files, or files by split"))
    found = {str(split): [named] if isinstance(named, str) else named for split, named in data_files.items()}
    for named in found.values():
        if not isinstance(named, list) or not named or not all(isinstance(name, str) for name in named):
            raise InputError(Problem(where, f"expected a file or a list of files, found {named!r}"))
    return found
