"""Every model name of the real harness is known here."""

from __future__ import annotations

from lm_eval.models import MODEL_MAPPING

from assay.suites.task.harness_models import NAMES


def test_every_model_name_of_the_harness_maps_or_is_refused_with_a_sentence() -> None:
    assert set(MODEL_MAPPING) <= NAMES
