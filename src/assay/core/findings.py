"""Collects every problem of a YAML file, each with the line of its key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from assay.core.errors import InputError, Problem
from assay.core.registry import unknown
from assay.core.yamlfile import YamlFile

Key = tuple[str | int, ...]


class Findings:
    """What is wrong in one file so far."""

    def __init__(self, yaml: YamlFile) -> None:
        self.yaml = yaml
        self.problems: list[Problem] = []

    def add(self, key: Key, message: str, level: str = "error") -> None:
        """One problem at a key."""
        shown = ".".join(map(str, key))
        self.problems.append(
            Problem(self.yaml.where(*key), f"{shown}: {message}" if shown else message, level)
        )

    def known(self, value: dict[str, Any], allowed: Iterable[str], at: Key = ()) -> None:
        """Every key must be one of these; a wrong one is named with the nearest right one."""
        names = sorted(allowed)
        for key in value:
            if key not in names:
                self.add((*at, key), unknown("key", str(key), names))

    def typed(self, value: dict[str, Any], key: str, kinds: type | tuple[type, ...], at: Key = ()) -> Any:
        """The value of a key if it has the right type; None, and a problem unless it is absent, if not."""
        found = value.get(key)
        if found is None:
            return None
        wanted = kinds if isinstance(kinds, tuple) else (kinds,)
        if isinstance(found, bool) and bool not in wanted:
            found = None
        if not isinstance(found, wanted):
            names = " or ".join(_NAMES[kind] for kind in wanted)
            self.add((*at, key), f"expected {names}, found {value[key]!r}")
            return None
        return found

    def warnings(self) -> list[str]:
        """What is no error."""
        return [str(problem) for problem in dict.fromkeys(self.problems) if problem.level != "error"]

    def refuse(self) -> None:
        """Raise if anything is an error; each is told once, though every variant may find it."""
        errors = [problem for problem in dict.fromkeys(self.problems) if problem.level == "error"]
        if errors:
            raise InputError(errors)


_NAMES: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping",
}
