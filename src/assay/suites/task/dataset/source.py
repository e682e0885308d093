"""Finds a task's documents: in files, in a folder, or in a data set of the Hugging Face Hub.

    source = DataSource("json", None, {"data_files": {"test": "test.jsonl"}}, Path("tasks"), config.where)
    documents = source.open("test")

Files and folders are read by assay itself, with the rules by which `datasets` assigns files to splits. Data
sets of the Hub, URLs, and options of `datasets` that assay does not implement need the package `datasets`
(the extra `hf`).
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import InputError, MissingExtra, Problem, similar_file
from assay.files.paths import can_exist
from assay.files.read import read_file
from assay.files.yaml_files import YAML_BY_PROGRAMS, decode_yaml
from assay.suites.task.dataset.documents import Documents, spool_rows
from assay.suites.task.dataset.formats import FORMATS, CsvOptions, find_files, glob_files
from assay.usercode.named_code import runs_only_named_code

# Options of `load_dataset` about downloads and caches. They have no effect on local files.
_DOWNLOAD_OPTIONS = frozenset(
    {"trust_remote_code", "cache_dir", "num_proc", "keep_in_memory", "verification_mode", "download_mode"}
    | {"token", "revision", "streaming", "save_infos", "ignore_verifications", "download_config"}
)
# A split, or a part of one: `train`, `train[:10%]`, `train[5:-1]`.
_SPLIT_PART = re.compile(r"([\w.\-]+)(?:\[(?:(-?\d+)(%)?)?:(?:(-?\d+)(%)?)?\])?")


class DataLayout(NamedTuple):
    """The files of each split, their format (a key of FORMATS) and the options for reading them."""

    kind: str
    options: dict[str, Any]
    files: dict[str, list[Path]]


class DataSource:
    """One data set of a task file.

    Relative paths are looked up in the working directory, as in the harness, then in `beside`, the folder of
    the task file. `where(key, ...)` returns `file:line` of a key.
    """

    def __init__(
        self,
        path: str,
        name: str | None,
        options: dict[str, Any] | None,
        beside: Path,
        where: Callable[..., str],
    ) -> None:
        self.path = path
        self.name = name
        self.options = options or {}
        self._beside = beside
        self._where = where
        self._loaded: Mapping[str, Any] | None = None
        self._layout = self._find_layout()

    @property
    def is_local(self) -> bool:
        """Whether the documents are in local files. Others are loaded by the package `datasets`, which may run code."""
        return self._layout is not None

    def splits(self) -> list[str]:
        """Return the names of the splits. A data set of the Hub is downloaded for this."""
        return list(self._layout.files if self._layout else self._load())

    def open(self, split: str) -> Documents:
        """Open a split, or parts of splits: `test`, `train[:10%]`, `train+test`."""
        splits = self.splits()
        if split in splits:
            return self._open_whole(split)
        parts: list[re.Match[str]] = []
        for text in split.split("+"):
            part = _SPLIT_PART.fullmatch(text.strip())
            if part is None or part[1] not in splits:
                name = split if part is None else part[1]
                message = f"there is no split {name!r}; there are {', '.join(splits)}"
                raise InputError(Problem(self._where("dataset_kwargs", "data_files"), message))
            parts.append(part)
        return spool_rows(self._rows_of_parts(parts), Path(f"{self.path}:{split}"), " document {}")

    def _rows_of_parts(self, parts: list[re.Match[str]]) -> Iterator[dict[str, Any]]:
        for part in parts:
            documents = self._open_whole(part[1])
            total = documents.scan().total
            begin, end = _boundary(part[2], part[3], total), _boundary(part[4], part[5], total)
            start, stop, _ = slice(begin, end).indices(total)
            for document in documents.rows(stop):
                if document.number >= start:
                    yield documents.parse(document)

    def _open_whole(self, split: str) -> Documents:
        layout = self._layout
        if layout is not None:
            return Documents(layout.kind, layout.files[split], layout.options)
        return spool_loaded_rows(self._load()[split], self.path, self.name, split)

    def _load(self) -> Mapping[str, Any]:
        if self._loaded is None:
            self._loaded = load_with_datasets(self.path, self.name, self.options, self._where("dataset_path"))
        return self._loaded

    def _find_layout(self) -> DataLayout | None:
        """Return the files. None for a data set that only `datasets` can read, such as one of the Hub."""
        if self.path in FORMATS:
            return self._layout_of_format()
        where = self._where("dataset_path")
        if not can_exist(self.path):
            raise InputError(Problem(where, "this can be neither a folder nor the name of a data set"))
        for base in (Path(), self._beside):
            if (base / self.path).is_dir():
                layout = folder_layout(base / self.path, self.name, self.options, self._where)
                options = self._read_options(layout.kind)
                if options is None:
                    return None
                return layout._replace(options=layout.options | options)
        self._check_hub_name()
        return None

    def _check_hub_name(self) -> None:
        """Raise an error for a path that cannot be a name on the Hub: a file, or a folder that does not exist."""
        where = self._where("dataset_path")
        for base in (Path(), self._beside):
            if (base / self.path).is_file():
                kind = _ENDINGS.get(Path(self.path).suffix[1:], ("json", {}))[0]
                message = f"{self.path!r} is a file: write dataset_path: {kind} and name it in data_files"
                raise InputError(Problem(where, message))
        if self.path.startswith((".", "/", "~")) or self.path.count("/") > 1:
            raise InputError(Problem(where, f"there is no folder {self.path!r}"))
        if not datasets_installed():
            formats = ", ".join(FORMATS)
            feature = (
                f"{where}: {self.path!r} is not a file format ({formats}) and not a folder; "
                "a data set of the Hugging Face Hub"
            )
            raise MissingExtra(feature, "hf")

    def _layout_of_format(self) -> DataLayout | None:
        """Return the files of `dataset_path: json` and other formats, which are listed in `dataset_kwargs`."""
        options = self._read_options(self.path)
        if options is None:
            return None
        folder = self._data_dir()
        data_files = self.options.get("data_files")
        place = self._where("dataset_kwargs", "data_files")
        if data_files is None:
            if folder is None:
                message = "expected data_files: a file, a list of files, or files by split"
                raise InputError(Problem(place, message))
            files = files_by_split(folder)
            if not files:
                where = self._where("dataset_kwargs", "data_dir")
                raise InputError(Problem(where, f"there are no data files in {folder}"))
            return DataLayout(self.path, options, files)
        files = {}
        for split, names in _patterns_by_split(data_files, place).items():
            paths = names if folder is None else [str(folder.absolute() / name) for name in names]
            files[split] = find_files(paths, self._beside)
            if not files[split]:
                missing = names[0] if len(names) == 1 else names
                raise InputError(
                    Problem(place, f"there is no data file {missing!r}{similar_file(self._beside / names[0])}")
                )
        return DataLayout(self.path, options, files)

    def _data_dir(self) -> Path | None:
        name = self.options.get("data_dir")
        if name is None:
            return None
        for base in (Path(), self._beside) if can_exist(str(name)) else ():
            if (base / str(name)).is_dir():
                return base / str(name)
        raise InputError(Problem(self._where("dataset_kwargs", "data_dir"), f"there is no folder {name!r}"))

    def _read_options(self, kind: str) -> dict[str, Any] | None:
        """Return the options for reading the files. None if an option or a URL needs `datasets`."""
        not_for_reading = {*_DOWNLOAD_OPTIONS, "data_files", "data_dir"}
        options = {
            key: value for key, value in self.options.items() if key not in not_for_reading and value is not None
        }
        unsupported = [key for key in options if key not in FORMATS[kind].options]
        if "://" in str(self.options.get("data_files")):
            unsupported.append("data_files")
        if unsupported:
            if not datasets_installed():
                key = unsupported[0]
                feature = f"{self._where('dataset_kwargs', key)}: reading {kind} with this {key!r}"
                raise MissingExtra(feature, "hf")
            return None
        if kind == "csv":
            try:
                msgspec.convert(options, CsvOptions)
            except msgspec.ValidationError as error:
                raise InputError(Problem(self._where("dataset_kwargs"), str(error))) from None
        by = options.get("sample_by", "line")
        if by not in ("line", "paragraph", "document"):
            where = self._where("dataset_kwargs", "sample_by")
            raise InputError(Problem(where, f"expected line, paragraph or document, found {by!r}"))
        return options


def _boundary(number: str | None, percent: str | None, total: int) -> int | None:
    """Return the row at which a part of a split begins or ends. Percentages are rounded to the nearest row."""
    if number is None:
        return None
    return round(int(number) * total / 100) if percent else int(number)


# Folders

# Extensions of data files, with their format and options. If two are equally frequent in a folder, the first
# one here is used.
_ENDINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "parquet": ("parquet", {}),
    "arrow": ("arrow", {}),
    "jsonl": ("json", {}),
    "json": ("json", {}),
    "csv": ("csv", {}),
    "ndjson": ("json", {}),
    "tsv": ("csv", {"sep": "\t"}),
    "txt": ("text", {}),
}
# Words in file and folder names by which `datasets` recognises a split.
_SPLIT_WORDS = {
    "train": "train|training",
    "validation": "validation|valid|dev|val",
    "test": "test|testing|eval|evaluation",
}
# JSON and Markdown files that describe a data set and are not part of its data.
_NO_DATA = {
    "README.md",
    "config.json",
    "dataset_info.json",
    "dataset_infos.json",
    "dataset_dict.json",
    "state.json",
}
# The file names of the Hub, such as `data/test-00000-of-00001.parquet`.
_SHARD = re.compile(r"(?P<split>.+)-\d{5}-of-\d{5}.*\..*")
# Keys of a README's configuration that are not options for reading files.
_CONFIG_KEYS = {"config_name", "data_files", "data_dir", "default", "description", "version", "drop_labels"}


def folder_layout(folder: Path, name: str | None, options: dict[str, Any], where: Callable[..., str]) -> DataLayout:
    """Return the files of a folder by split.

    The first of these that exists decides: `data_files` or `data_dir` in the task file, a configuration in the
    folder's README.md, the names of files and folders.
    """
    if (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file():
        message = f"{folder} was written by save_to_disk; write it as Parquet or JSON (to_parquet, to_json)"
        raise InputError(Problem(where("dataset_path"), message))
    place = where("dataset_name" if name else "dataset_path")
    configuration: dict[str, Any]
    if options.get("data_files") is not None:
        place = where("dataset_kwargs", "data_files")
        configuration = {"data_files": options["data_files"], "data_dir": options.get("data_dir")}
    elif options.get("data_dir"):
        place = where("dataset_kwargs", "data_dir")
        configuration = {"data_dir": options["data_dir"]}
    else:
        configuration = _readme_configuration(folder, name, place)

    base = folder / str(configuration.get("data_dir") or "")
    files: dict[str, list[Path]] = {}
    if configuration.get("data_files") is None:
        files = files_by_split(base)
    else:
        for split, patterns in _patterns_by_split(configuration["data_files"], place).items():
            files[split] = [path for pattern in patterns for path in glob_files(base, pattern)]
            if not files[split]:
                raise InputError(Problem(place, f"there is no data file {patterns[0]!r} in {base}"))

    # As in `datasets`, all splits have the most frequent format. Files of other formats are ignored.
    endings = Counter(ending for paths in files.values() for path in paths for ending in _data_endings(path))
    if not endings:
        endings_text = ", ".join(f".{ending}" for ending in _ENDINGS)
        raise InputError(Problem(place, f"there are no data files in {folder} ({endings_text})"))
    order = list(_ENDINGS)
    most_frequent = max(endings, key=lambda ending: (endings[ending], -order.index(ending)))
    kind, read_options = _ENDINGS[most_frequent]
    files_of_kind = {}
    for split, paths in files.items():
        same = [path for path in paths if any(_ENDINGS[ending][0] == kind for ending in _data_endings(path))]
        if same:
            files_of_kind[split] = same
    more_options = {key: value for key, value in configuration.items() if key not in _CONFIG_KEYS}
    return DataLayout(kind, read_options | more_options, files_of_kind)


def files_by_split(folder: Path) -> dict[str, list[Path]]:
    """Group the data files of a folder by split, with the first rule that matches any file.

    The rules are those of `datasets`: file names of the Hub (`data/test-00000-of-00001.parquet`), folder names
    (`test/a.json`), file names (`test.json`). If none matches, all files are the split `train`.
    """
    paths = []
    for path in glob_files(folder, "**"):
        parts = path.relative_to(folder).parts
        is_hidden = any(part[0] == "." for part in parts) or any(part.startswith("__") for part in parts[:-1])
        if not is_hidden and path.name not in _NO_DATA and _data_endings(path):
            paths.append(path)
    for rule in (_split_of_shard, _splits_of_folders, _splits_of_name):
        files: dict[str, list[Path]] = {}
        for path in paths:
            for split in rule(path.relative_to(folder)):
                files.setdefault(split, []).append(path)
        if files:
            order = [split for split in _SPLIT_WORDS if split in files]
            return {split: files[split] for split in order + sorted(set(files) - set(order))}
    return {"train": paths} if paths else {}


def _data_endings(path: Path) -> list[str]:
    """Return the extensions of a file name that are data formats: `["jsonl"]` for `test.jsonl.gz`."""
    return [ending for ending in path.name.lower().split(".")[1:] if ending in _ENDINGS]


def _split_of_shard(path: Path) -> list[str]:
    match = _SHARD.fullmatch(path.name) if path.parts[:-1] == ("data",) else None
    return [match["split"]] if match else []


def _splits_of_folders(path: Path) -> list[str]:
    splits = []
    for split, words in _SPLIT_WORDS.items():
        pattern = rf"(.*[-._ 0-9])?({words})([-._ 0-9].*)?"
        if any(re.fullmatch(pattern, part) for part in path.parts[:-1]):
            splits.append(split)
    return splits


def _splits_of_name(path: Path) -> list[str]:
    splits = []
    for split, words in _SPLIT_WORDS.items():
        if re.fullmatch(rf"(.*[-._ 0-9])?({words})[-._ 0-9].*", path.name):
            splits.append(split)
    return splits


def _readme_configuration(folder: Path, name: str | None, where: str) -> dict[str, Any]:
    """Return the configuration `name` of the folder's README.md.

    Without a name this is the default configuration, or {} if the README has none.
    """
    readme = folder / "README.md"
    content = read_file(readme, YAML_BY_PROGRAMS.document) if readme.is_file() else b""
    text = content.decode("utf-8-sig", "replace")
    entries: Any = None
    if text.startswith("---"):
        block = text.split("\n---", 1)[0].removeprefix("---")
        head = decode_yaml(block, f"{readme} between the lines ---")
        entries = head.get("configs") if isinstance(head, dict) else None
    configs: dict[str, dict[str, Any]] = {}
    for config in entries if isinstance(entries, list) else []:
        if isinstance(config, dict):
            configs[str(config.get("config_name", "default"))] = config

    if name in configs:
        return configs[name]
    if name is not None and configs:
        raise InputError(Problem(where, f"{folder} has no data set {name!r}; it has {', '.join(configs)}"))
    if name is not None and name != "default":
        if (folder / name).is_dir():
            return {"data_dir": name}
        raise InputError(Problem(where, f"{folder} has no data set {name!r}: there is no such folder in it"))
    for config in configs.values():
        if config.get("default") or len(configs) == 1:
            return config
    if configs:
        raise InputError(Problem(where, f"set dataset_name to one of {', '.join(configs)}"))
    return {}


def _patterns_by_split(data_files: Any, where: str) -> dict[str, list[str]]:
    """Return file names and patterns by split. All forms of `data_files` are accepted.

    Files without a split belong to `train`, as in `datasets`.
    """
    if isinstance(data_files, list) and data_files and all(isinstance(item, dict) for item in data_files):
        splits = [item.get("split", "train") for item in data_files]
        for split in splits:
            if isinstance(split, (list, dict)):
                raise InputError(Problem(where, f"expected the name of a split, found {split!r}"))
        data_files = dict(zip(splits, (item.get("path") for item in data_files), strict=True))
    if isinstance(data_files, (str, list)):
        data_files = {"train": data_files}
    if not isinstance(data_files, dict):
        raise InputError(Problem(where, "expected data_files: a file, a list of files, or files by split"))
    patterns: dict[str, list[str]] = {}
    for split, value in data_files.items():
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise InputError(Problem(where, f"expected a file or a list of files, found {names!r}"))
        patterns[str(split)] = names
    return patterns


# The Hugging Face Hub

# Turns off telemetry, and progress bars that would overwrite ours.
_HF_ENVIRONMENT = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_UPDATE_DOWNLOAD_COUNTS": "0",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
}
_OFFLINE_SWITCHES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")


def datasets_installed() -> bool:
    """Return whether the optional package `datasets` is installed, without importing it."""
    return importlib.util.find_spec("datasets") is not None


def load_with_datasets(path: str, name: str | None, options: dict[str, Any], where: str) -> Mapping[str, Any]:
    """Load all splits with the package `datasets`. Its cache and its offline switch apply."""
    if not datasets_installed():
        raise MissingExtra(f"{where}: the data set {path!r}", "hf")
    # `datasets` reads these variables when it is imported.
    for key, value in _HF_ENVIRONMENT.items():
        os.environ.setdefault(key, value)
    import datasets

    # Version 4 has no loading scripts any more and raises an error for this option. A script that a run names may not
    # run when the run is only looked at.
    if int(datasets.__version__.split(".")[0]) >= 4 or runs_only_named_code():
        options = {key: value for key, value in options.items() if key != "trust_remote_code"}
    try:
        loaded = datasets.load_dataset(path, name, **options)
    except Exception as error:
        raise InputError(Problem(where, _load_error(path, name, error))) from error
    return loaded if isinstance(loaded, Mapping) else {str(loaded.split): loaded}


def _load_error(path: str, name: str | None, error: Exception) -> str:
    """Return a message for an error of `datasets`, with a hint for the known causes."""
    kind, message = type(error).__name__, str(error).strip().split("\n")[0]
    title = f"{path!r}" if name is None else f"{path!r} ({name})"
    offline = [key for key in _OFFLINE_SWITCHES if os.environ.get(key, "").upper() in ("1", "ON", "YES", "TRUE")]
    if offline and kind in ("ConnectionError", "OfflineModeIsEnabled", "DatasetNotFoundError", "ValueError"):
        return (
            f"the data set {title} is not in the cache, and {offline[0]} is set: "
            f"unset it to download the data, or name local files ({message})"
        )
    if kind == "DatasetNotFoundError":
        return f"there is no data set {title}, or it is not open to you ({message})"
    if isinstance(error, (ConnectionError, TimeoutError)):
        return f"the data set {title} is not in the cache and cannot be downloaded: {message}"
    return f"the data set {title} cannot be loaded: {kind}: {message}"


def spool_loaded_rows(rows: Iterable[Any], path: str, name: str | None, split: str) -> Documents:
    """Copy a loaded split to a spool. Messages name its documents `path:name:split document 7`."""
    title = ":".join(part for part in (path, name, split) if part)
    return spool_rows(rows, Path(title), " document {}")
