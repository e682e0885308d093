"""The function under test: it answers a question about a note, and says how sure it is.

`assay hop` calls `answer` once for each row and each profile of settings.yaml. Everything that you import may be used
here, and an exception costs one row only.
"""

from typing import Any


async def answer(session: Any, fields: dict[str, Any]) -> tuple[str, Any]:
    """Return a status and a result with the outputs of contract.yaml.

    `fields` has the inputs of the contract. `session` calls the models of the profile: calls that go through it are
    logged, retried, and replayed after an interruption.
    """
    status, reply = await session.hop_get(
        f"{fields['question']} Answer with one number.",
        fields["note"],
        int,
        verifier=in_note,
        hop_retry=2,  # ask at most twice; the second prompt contains the reason of the verifier
    )
    if status != "OK":
        return status, reply
    return "OK", {"number": reply, "large": reply >= 50}


def in_note(task: str, context: str, result: int) -> tuple[str, str]:
    """Your own verifier: accept a number only if the note contains it.

    It returns a status and a reason, and calls no model. Without `verifier=`, a second model call does the check.
    """
    if str(result) in context:
        return "OK", ""
    return "FAIL", f"the note does not contain the number {result}"
