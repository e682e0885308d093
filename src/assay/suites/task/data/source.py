"""Where a task's documents come from: files, a folder, or a data set by name; and which splits there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import InputError, MissingExtra, Problem
from assay.suites.task.data import folders, hub
from assay.suites.task.data.csv_rows import CsvOptions
from assay.suites.task.data.docs import FORMATS, Docs
from assay.suites.task.data.files import find_files
from assay.suites.task.data.spool import spool_rows

# What says how data is fetched, and means nothing for files that are here.
_FETCHING = frozenset(
    {"trust_remote_code", "cache_dir", "num_proc", "keep_in_memory", "verification_mode", "download_mode"}
    | {"token", "revision", "streaming", "save_infos", "ignore_verifications", "download_config"}
)
_PART = re.compile(r"([\w.\-]+)(?:\[(?:(-?\d+)(%)?)?:(?:(-?\d+)(%)?)?\])?")


class Source:
    """One data set, as a task file names it. `where` gives `file:line` of one of the file's keys."""

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
        self._remote: Any = None
        self._layout = self._find()

    def splits(self) -> list[str]:
        """The splits there are. For a data set by name, this loads it."""
        return list(self._layout.files if self._layout else self._loaded())

    def open(self, split: str) -> Docs:
        """The documents of a split, or of parts of splits: `test`, `train[:10%]`, `train+test`."""
        if split in self.splits():
            return self._whole(split)
        parts = [_PART.fullmatch(part.strip()) for part in split.split("+")]
        for part in parts:
            if part is None or part[1] not in self.splits():
                name = split if part is None else part[1]
                message = f"there is no split {name!r}; there are {', '.join(self.splits())}"
                raise InputError(Problem(self._place(), message))
        rows = self._parts([part for part in parts if part])
        return spool_rows(rows, Path(f"{self.path}:{split}"), " document {}")

    def _parts(self, parts: list[re.Match[str]]) -> Iterator[dict[str, Any]]:
        for part in parts:
            docs = self._whole(part[1])
            total = docs.look().total
            start, stop, _ = slice(_bound(part[2], part[3], total), _bound(part[4], part[5], total)).indices(
                total
            )
            for doc in docs.rows(stop):
                if doc.number >= start:
                    yield docs.parse(doc)

    def _whole(self, split: str) -> Docs:
        found = self._layout
        if found is None:
            return hub.docs_of(self._loaded()[split], self.path, self.name, split)
        return Docs(found.kind, found.files[split], found.options)

    def _loaded(self) -> Any:
        if self._remote is None:
            self._remote = hub.load(self.path, self.name, self.options, self._where("dataset_path"))
        return self._remote

    def _place(self) -> str:
        return self._where("dataset_kwargs", "data_files")

    def _find(self) -> folders.Layout | None:
        """The files; None where the data set is one by name, or one that only `datasets` can read."""
        if self.path in FORMATS:
            return self._of_format()
        for base in (Path(), self._beside):
            if (base / self.path).is_dir():
                return self._of_folder(base / self.path)
        self._check_name()
        return None

    def _check_name(self) -> None:
        """A name that cannot be one on the Hub is a folder or file that is not there."""
        where = self._where("dataset_path")
        for base in (Path(), self._beside):
            if (base / self.path).is_file():
                kind = folders.KINDS.get(Path(self.path).suffix[1:], ("json", {}))[0]
                message = f"{self.path!r} is a file: write dataset_path: {kind} and name it in data_files"
                raise InputError(Problem(where, message))
        if self.path.startswith((".", "/", "~")) or self.path.count("/") > 1:
            raise InputError(Problem(where, f"there is no folder {self.path!r}"))
        if not hub.installed():
            known = ", ".join(FORMATS)
            what = f"{where}: {self.path!r} is no file format ({known}) and no folder; a data set by name"
            raise MissingExtra(what, "hf")

    def _of_format(self) -> folders.Layout | None:
        reading = self._reading(self.path)
        if reading is None:
            return None
        base = self._data_dir()
        if self.options.get("data_files") is None:
            return folders.Layout(self.path, reading, self._of_data_dir(base))
        found = {}
        for split, named in folders.patterns_by_split(self.options["data_files"], self._place()).items():
            found[split] = self._files(named, base)
            if not found[split]:
                shown = named[0] if len(named) == 1 else named
                raise InputError(Problem(self._place(), f"there is no data file {shown!r}"))
        return folders.Layout(self.path, reading, found)

    def _files(self, named: list[str], base: Path | None) -> list[Path]:
        if base is None:
            return find_files(named, self._beside)
        return find_files([str(base.absolute() / name) for name in named], self._beside)

    def _of_data_dir(self, base: Path | None) -> dict[str, list[Path]]:
        if base is None:
            message = "expected data_files: a file, a list of files, or files by split"
            raise InputError(Problem(self._place(), message))
        found = folders.by_split(base)
        if not found:
            raise InputError(
                Problem(self._where("dataset_kwargs", "data_dir"), f"there are no data files in {base}")
            )
        return found

    def _data_dir(self) -> Path | None:
        named = self.options.get("data_dir")
        if named is None:
            return None
        for base in (Path(), self._beside):
            if (base / str(named)).is_dir():
                return base / str(named)
        raise InputError(Problem(self._where("dataset_kwargs", "data_dir"), f"there is no folder {named!r}"))

    def _of_folder(self, folder: Path) -> folders.Layout | None:
        found = folders.layout(folder, self.name, self.options, self._where)
        reading = self._reading(found.kind)
        return None if reading is None else found._replace(options=found.options | reading)

    def _reading(self, kind: str) -> dict[str, Any] | None:
        """The options of reading; None where one, or a file, is such that only `datasets` can read it."""
        given = {
            key: value
            for key, value in self.options.items()
            if key not in _FETCHING and key not in ("data_files", "data_dir") and value is not None
        }
        foreign = [key for key in given if key not in FORMATS[kind].options]
        if "://" in str(self.options.get("data_files")):
            foreign.append("data_files")
        if foreign and not hub.installed():
            what = f"{self._where('dataset_kwargs', foreign[0])}: reading {kind} with this {foreign[0]!r}"
            raise MissingExtra(what, "hf")
        return None if foreign else self._checked(kind, given)

    def _checked(self, kind: str, given: dict[str, Any]) -> dict[str, Any]:
        if kind == "csv":
            try:
                msgspec.convert(given, CsvOptions)
            except msgspec.ValidationError as error:
                raise InputError(Problem(self._where("dataset_kwargs"), str(error))) from None
        by = given.get("sample_by", "line")
        if by not in ("line", "paragraph", "document"):
            where = self._where("dataset_kwargs", "sample_by")
            raise InputError(Problem(where, f"expected line, paragraph or document, found {by!r}"))
        return given


def _bound(number: str | None, percent: str | None, total: int) -> int | None:
    """Where a part begins or ends; shares are rounded to the nearest row."""
    if number is None:
        return None
    return round(int(number) * total / 100) if percent else int(number)
