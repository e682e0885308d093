"""One call that goes backwards from the result to what would have to be true for it."""

from __future__ import annotations

from assay.core.status import UNCERTAIN, known_status
from assay.solvers.hop.replies import Unreadable, read_object
from assay.solvers.hop.schemas import VERDICT
from assay.solvers.hop.verifiers import Ask, Subject, Verdict
from assay.solvers.hop.wording import as_text, messages


async def verify(subject: Subject, ask: Ask) -> Verdict:
    """The verifying model's word. One that cannot be read is UNCERTAIN: the result is not to blame for it."""
    text = await ask(messages("reverse", subject.asked, {"result": as_text(subject.result)}, []), VERDICT)
    try:
        found = read_object(text)
    except Unreadable as error:
        return Verdict(UNCERTAIN, f"the verifier gave no verdict: {error}")
    status = known_status(str(found.get("verdict")).strip().upper())
    if status is None:
        return Verdict(UNCERTAIN, "the verifier gave no verdict that is known")
    return Verdict(status, as_text(found.get("reason", "")))
