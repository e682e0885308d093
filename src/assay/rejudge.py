"""Judges a run that is there by another judge: of what it was told only its judge changes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from assay.connecting import Unasked
from assay.core import registry
from assay.core.events import Notify
from assay.core.spec import RunSpec, fields
from assay.journal.folder import RunInfo, read_info
from assay.start import Start

_JUDGE = "judge"


def starting(spec: RunSpec, observers: Sequence[Notify]) -> Start:
    """A start of the run that a spec means.

    A suite whose `own_run(spec)` names a folder has that run's records judged; no other model is asked.
    """
    suite = registry.find("suite", spec.suite)
    folder = suite.own_run(spec) if hasattr(suite, "own_run") else None
    if folder is None:
        return Start(spec, observers)
    info = read_info(folder)
    others = {role: told[1] for role, told in info.parts["ask"].get("models", {}).items()}
    stand_in = Unasked(info.spec["base_url"] or "", others, asked=frozenset({_JUDGE}))
    return Start(_as_asked(spec, info), observers, unasked=stand_in)


def _as_asked(spec: RunSpec, info: RunInfo) -> RunSpec:
    """What affects replies is as the run has it; what affects scores is as it is told now."""
    asked = {f.name for f in fields(RunSpec) if f.mark == "ask"} - {"suite", "options"}
    own = {f.name for f in fields(type(spec.options)) if f.mark == "ask"}
    before = info.spec["options"]
    options = msgspec.to_builtins(spec.options) | {name: before[name] for name in own & before.keys()}
    return msgspec.structs.replace(
        spec,
        **{name: info.spec[name] for name in asked},
        options=msgspec.convert(options, type(spec.options)),
    )
