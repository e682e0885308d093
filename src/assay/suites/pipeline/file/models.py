"""Which models a pipeline asks: what --model names, and those its steps name themselves."""

from __future__ import annotations

from assay.core import registry

MAIN = "main"
_WITH_NAMES = ("openai", "openai-completions")
"""Providers that know many models by name: a step may then name one without its provider."""


class Models:
    """Gives each step the role of its model, and remembers which roles there are."""

    def __init__(self, main: str) -> None:
        self.main = main
        self._providers = set(registry.names("model"))
        self.roles: dict[str, str] = {}
        self.notices: list[str] = []

    def role(self, named: str | None) -> str:
        """The role of a step's model. A bare name is another model of the main one's provider."""
        full = self._full(named) if named else self.main
        role = MAIN if full == self.main else full
        self.roles.setdefault(role, full)
        return role

    def _full(self, named: str) -> str:
        provider = self.main.partition("/")[0]
        if named.partition("/")[0] in self._providers and "/" in named:
            return named
        if provider in _WITH_NAMES:
            return f"{provider}/{named}"
        notice = f"{self.main or 'no model'} answers in place of {named!r}, which has no provider"
        if notice not in self.notices:
            self.notices.append(notice)
        return self.main
