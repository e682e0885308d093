"""Task files as they are written: YAML with what it includes, each key with the place it came from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import InputError, Problem
from assay.core.yamlfile import YamlFile, load_yaml


class Origin(NamedTuple):
    """Where a key is written: a file, and the keys above it there."""

    file: YamlFile
    above: tuple[str | int, ...] = ()

    def where(self, *key: str | int) -> str:
        """`file:line` of the key or the nearest one above it."""
        return self.file.where(*self.above, *key)


class Settings(NamedTuple):
    """Values with their origins, and every file that was read for them, the first one first."""

    values: dict[str, Any]
    origins: dict[str, Origin]
    files: list[YamlFile]

    def over(self, values: dict[str, Any], origin: Origin) -> Settings:
        """The same with some values replaced by those that stand elsewhere."""
        if not values:
            return self
        return Settings(self.values | values, self.origins | dict.fromkeys(values, origin), self.files)


class TaskFiles:
    """Reads files once: thousands of tasks may include the same one."""

    def __init__(self) -> None:
        self._included_before: dict[str, Settings] = {}

    def read(self, path: Path) -> Settings:
        """A file merged over what it includes."""
        return self._merged(path, ())

    def _merged(self, path: Path, above: tuple[str, ...]) -> Settings:
        file = load_yaml(path)
        name = os.path.normpath(path)
        if name in above:
            raise InputError(Problem(str(path), "this file includes itself"))
        merged = Settings({}, {}, [file])
        for included in self._included(file):
            more = self._once(included, (*above, name))
            merged.values.update(more.values)
            merged.origins.update(more.origins)
            merged.files.extend(more.files)
        own = {key: value for key, value in file.value.items() if key != "include"}
        return merged.over(own, Origin(file))

    def _once(self, path: Path, above: tuple[str, ...]) -> Settings:
        name = os.path.normpath(path)
        if name not in self._included_before:
            self._included_before[name] = self._merged(path, above)
        return self._included_before[name]

    def _included(self, file: YamlFile) -> list[Path]:
        named = file.value.get("include") or []
        found = []
        for name in named if isinstance(named, list) else [named]:
            path = file.path.parent / str(name)
            if os.path.normpath(path) not in self._included_before and not path.is_file():
                raise InputError(Problem(file.where("include"), f"there is no file {str(name)!r} to include"))
            found.append(path)
        return found
