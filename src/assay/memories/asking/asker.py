"""Questions to the model and replies that can be used: asked once more with a hint where one cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from assay.core.errors import CaseFailed
from assay.core.memory import Around
from assay.core.types import Failure
from assay.memories.asking.replies import choice_in, lines_in, rating_in, text_in
from assay.memories.asking.wording import messages

PARAMS: dict[str, Any] = {"temperature": 0}
_SHOWN = 200
T = TypeVar("T")


class Asker:
    """Asks with the prompts of this package. A second useless reply is the memory's failure, by name."""

    def __init__(self, around: Around, memory: str) -> None:
        self._ask = around.ask
        self._memory = memory

    async def text(self, prompt: str, **values: str) -> str:
        """Any reply that is not empty."""
        return await self._usable(prompt, values, text_in)

    async def lines(self, prompt: str, number: int, **values: str) -> list[str]:
        """At most so many lines, and at least one."""
        return (await self._usable(prompt, {**values, "number": str(number)}, lines_in))[:number]

    async def choice(self, prompt: str, **values: str) -> bool:
        """Yes or no."""
        return await self._usable(prompt, values, choice_in)

    async def rating(self, prompt: str, otherwise: float, **values: str) -> float:
        """From 1 to 10; `otherwise` is what the formula's authors take where there is none."""
        found, _ = await self._asked(prompt, values, rating_in)
        return otherwise if found is None else found

    async def _usable(self, prompt: str, values: dict[str, str], read: Callable[[str], T | None]) -> T:
        found, reply = await self._asked(prompt, values, read)
        if found is None:
            said = f"{self._memory} asked for {prompt!r} twice and cannot use the reply {reply[:_SHOWN]!r}"
            raise CaseFailed(Failure("failed_step", f"{said}; a more able model may help", prompt))
        return found

    async def _asked(
        self, prompt: str, values: dict[str, str], read: Callable[[str], T | None]
    ) -> tuple[T | None, str]:
        reply = await self._ask(messages(prompt, values), dict(PARAMS))
        if (found := read(reply)) is None:
            reply = await self._ask(messages(prompt, values, again=True), dict(PARAMS))
            found = read(reply)
        return found, reply
