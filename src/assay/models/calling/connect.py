"""Connects the models of a run by name, and stands in for them where a run is only read.

model = connect(spec, "openai/gpt-4o-mini")      # nothing is sent yet
model = ReplayOnlyModel(endpoint="http://…/v1")  # scores logged replies, raises for a new request
"""

from __future__ import annotations

from assay.core import registry
from assay.core.connect import CHAT, FORWARD, LIKELIHOOD, TEXT, Connection, Role, role_of
from assay.core.errors import StopRun, UsageError
from assay.core.protocols import Model
from assay.core.spec import RunSpec
from assay.core.types import Request, Response


def connect(spec: RunSpec, named: str | Role) -> Model:
    """Connect a model of the run. Raises UsageError for a name that no provider knows; sends nothing."""
    role = role_of(named)
    provider, _, name = role.model.partition("/")
    if not name:
        problem = f"{role.model!r} is not a model" if role.model else "no model is named"
        raise UsageError(
            f"{problem}; write PROVIDER/NAME, such as local/smollm2. `assay models` lists providers"
        )
    connection = Connection(
        name=name,
        base_url=role.base_url or spec.base_url,
        timeout=spec.timeout,
        concurrency=spec.concurrency,
        seed=spec.seed,
        args=role.args,
        key=role.key,
        env_file=role.env_file,
    )
    model: Model = registry.find("model", provider).connect(connection)
    return model


class ReplayOnlyModel:
    """Takes the place of a run's models when its logged replies are scored or judged again.

    It has the endpoint that the run knew, because the endpoint is part of every request's hash.
    """

    can = frozenset({CHAT, TEXT, LIKELIHOOD, FORWARD})

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    async def send(self, request: Request, seed: int) -> Response:
        """Raise StopRun: only requests whose reply is missing in the log get here."""
        raise StopRun("a reply is missing, and this command asks nothing; the run's own command asks for it")

    async def close(self) -> None:
        """Nothing is open."""
