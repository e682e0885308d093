"""The models of a run: connected by name, or stood in for where nothing is asked."""

from __future__ import annotations

from assay.core import registry
from assay.core.connect import CHAT, FORWARD, LIKELIHOOD, TEXT, Connection, Role, role_of
from assay.core.errors import StopRun, UsageError
from assay.core.protocols import Model
from assay.core.spec import RunSpec
from assay.core.types import Request, Response


def connect(spec: RunSpec, named: str | Role) -> Model:
    """One model of a run, checked by name; nothing is sent yet."""
    role = role_of(named)
    provider, slash, name = role.model.partition("/")
    if not slash or not name:
        given = f"{role.model!r} is not a model" if role.model else "no model is named"
        raise UsageError(
            f"{given}; write PROVIDER/NAME, such as local/smollm2. `assay models` lists providers"
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


class Unasked:
    """In place of a model where replies are only read."""

    can = frozenset({CHAT, TEXT, LIKELIHOOD, FORWARD})

    def __init__(
        self, endpoint: str, others: dict[str, str] | None = None, asked: frozenset[str] = frozenset()
    ) -> None:
        self.endpoint = endpoint
        self._others = others or {}
        self._asked = asked

    def playing(self, role: str) -> Unasked | None:
        """In place of the model of another role, at the endpoint that the run knew; None if it is asked."""
        return None if role in self._asked else Unasked(self._others.get(role, self.endpoint))

    async def send(self, request: Request, seed: int) -> Response:
        """Never: the loop asks nothing."""
        raise StopRun("a reply is missing, and this command asks nothing; the run's own command asks for it")

    async def close(self) -> None:
        """Nothing is open."""
