"""A verifier of the user's own: `(task, context, result) -> (status, reason)`, sync or async."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.core import user_code
from assay.core.errors import ModelError
from assay.core.status import FAIL, known_status
from assay.core.user_code import UserCodeError
from assay.solvers.hop.verifiers import Ask, Subject, Verdict, Verifier
from assay.solvers.hop.wording import as_text


def by(function: Callable[..., Any]) -> Verifier:
    """A sync one runs in a thread. One that raises, or answers in another form, fails the result."""

    async def verify(subject: Subject, _: Ask) -> Verdict:
        try:
            found = await user_code.call(function, (*subject.given, subject.result))
        except (UserCodeError, ModelError) as error:
            raised = UserCodeError.of(error)
            return Verdict(FAIL, raised.message, raised.type_name)
        status = known_status(found[0]) if isinstance(found, (tuple, list)) and len(found) == 2 else None
        if status is None:
            return Verdict(
                FAIL, f"the verifier returned {as_text(found)[:100]}, not (status, reason)", "TypeError"
            )
        return Verdict(status, as_text(found[1]))

    return verify
