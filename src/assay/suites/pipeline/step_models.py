"""Which model answers a step of a pipeline: that of --model, or one that the step or a test names."""

from __future__ import annotations

from assay.core import registry
from assay.core.errors import unknown
from assay.core.suite import MAIN

# Endpoints of these providers serve many models. A step may name another one without the provider.
_PROVIDERS_OF_MANY = ("openai", "openai-completions")


class StepModels:
    """Assigns a role to each step's model: `main` for --model, the model's name for any other.

    `roles` maps each used role to its model.
    """

    def __init__(self, main: str) -> None:
        self.main = main
        self._providers = set(registry.names("model"))
        self.roles: dict[str, str] = {}
        self.notices: list[str] = []

    def role(self, name: str | None) -> str:
        """Return the role of a step's model. A name without a provider is a model of the provider of --model."""
        full = self._full_name(name) if name else self.main
        role = MAIN if full == self.main else full
        self.roles.setdefault(role, full)
        return role

    def problem(self, name: str) -> str:
        """Return why a model that a test names cannot be reached, or "". Its provider must exist."""
        provider, slash, _ = name.partition("/")
        if not slash or provider in self._providers or self.main.partition("/")[0] in _PROVIDERS_OF_MANY:
            return ""
        return unknown("provider of models", provider, sorted(self._providers))

    def _full_name(self, name: str) -> str:
        if "/" in name and name.partition("/")[0] in self._providers:
            return name
        provider = self.main.partition("/")[0]
        if provider in _PROVIDERS_OF_MANY:
            return f"{provider}/{name}"
        # The provider of --model serves one model only, so the step's model cannot be reached.
        notice = f"{self.main or 'no model'} is used instead of {name!r}, which has no provider"
        if notice not in self.notices:
            self.notices.append(notice)
        return self.main
