"""A suite with its models, before anything is written: what the steps of a run share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assay.core.errors import UsageError
from assay.core.events import Event, Noted, Notify
from assay.core.protocols import Model
from assay.core.roles import lacks
from assay.core.spec import RunSpec
from assay.core.suite import Suite
from assay.engine.connect import ReplayOnlyModel
from assay.engine.prices import read_prices, reports_prices
from assay.files.redact import Redactor, secrets_of
from assay.usercode.model_args import argument_notices


class OpenedRun:
    """A suite with its models, prices, secrets and observers. Raises UsageError for options that cannot work."""

    def __init__(
        self,
        suite: Suite[Any, Any],
        models: Mapping[str, Model],
        observers: Sequence[Notify] = (),
        *,
        asks: bool = True,
        trusted: bool = True,
    ) -> None:
        """With `asks=False` no case runs: the replies that the run has are scored.

        `trusted` is False if settings and records come from a run folder that may be somebody else's: nothing is
        written outside of the output folder then, and a record that the suite cannot read is damage.
        """
        self.suite = suite
        self.spec = suite.spec
        self.models = models
        self.asks = asks
        self.trusted = trusted
        self._observers = list(observers)
        # A run has two events for each case, and nearly always one observer.
        self.notify = self._observers[0] if len(self._observers) == 1 else self._notify_all
        _check_models(suite, models, asks=asks)
        _check_executor(self.spec)
        self.argument_notices = argument_notices(self.spec, suite.roles.values()) if asks else []
        self.prices = read_prices(self.spec.prices)
        self.secrets = secrets_of(suite.roles.values(), self.spec.gen_kwargs)
        self.redactor = Redactor(self.secrets)
        self._check_options_for_secrets()

    @property
    def has_python_model(self) -> bool:
        """Whether a model of the run is the user's code. Its replies may depend on the files that it reads."""
        return any(role.model.startswith("python/") for role in self.suite.roles.values())

    def notice(self, sentences: Sequence[str]) -> None:
        """Tell the observers, without secrets."""
        for sentence in sentences:
            self.notify(Noted(self.redactor.clean(sentence)))

    def check_max_cost(self) -> None:
        """Raise UsageError if --max-cost could never stop the run, because the price of a model is not known."""
        if self.spec.max_cost is None:
            return
        if not self.suite.roles:
            raise UsageError("--max-cost limits nothing: this run asks no model")
        for name, role in self.suite.roles.items():
            model = self.models[name]
            if isinstance(model, ReplayOnlyModel) or reports_prices(role.model, model.endpoint):
                continue
            if self.prices.find(role.model) is None:
                raise UsageError(
                    f"--max-cost cannot be kept: {self.prices.name} has no price for {role.model}. "
                    "Pass a table with --prices (docs/prices.md); a model that costs nothing has the prices 0. "
                    "Or leave --max-cost out"
                )

    async def close(self) -> None:
        """Close every model's connections, and stop the processes that the suite started.

        All of them, also if one raises. The first error is raised at the end.
        """
        models = {id(model): model for model in self.models.values()}.values()
        errors: list[BaseException] = []
        for close in (*(model.close for model in models), self.suite.close):
            try:
                await close()
            except BaseException as error:  # noqa: BLE001 - a cancelled close must not leave servers of other models running
                errors.append(error)
        if errors:
            raise errors[0]

    def _check_options_for_secrets(self) -> None:
        options = msgspec.to_builtins(self.spec)
        if self.redactor.clean(options) != options:
            raise UsageError(
                "an option contains a secret of the environment. Options are saved in the run folder: "
                "leave the secret in its variable, and pass the variable's name"
            )

    def _notify_all(self, event: Event) -> None:
        for observer in self._observers:
            observer(event)


def _check_models(suite: Suite[Any, Any], models: Mapping[str, Model], *, asks: bool) -> None:
    """Raise UsageError if a role has no model, or a model that lacks an ability the role needs."""
    shared = suite.shared_endpoint
    if shared is not None and shared not in suite.roles:
        raise UsageError(f"this run has no model for the role {shared!r}, which its code may call")
    marks = {role.mark for role in suite.roles.values()}
    if suite.spec.judge_kwargs and "score" not in marks:
        raise UsageError("--judge-kwargs has no effect: this run asks no judge. Name a model with --judge")
    if suite.spec.gen_kwargs and "ask" not in marks and asks:
        raise UsageError("--gen-kwargs has no effect: this run asks no model. Remove it")
    for name, role in suite.roles.items():
        if missing := role.needs - models[name].can:
            raise UsageError(lacks(role.model, missing))


def _check_executor(spec: RunSpec) -> None:
    """Raise UsageError for options of Ray without Ray."""
    given = {
        "--address": spec.address is not None,
        "--workers": spec.workers is not None,
        "--worker-cpus": spec.worker_cpus != 1.0,
        "--worker-gpus": spec.worker_gpus != 0.0,
    }
    if spec.executor == "local" and any(given.values()):
        flag = next(flag for flag, is_given in given.items() if is_given)
        raise UsageError(f"{flag} has no effect without --executor ray. Add it, or remove {flag}")
