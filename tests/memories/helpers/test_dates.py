"""Dates of sessions as moments."""

from __future__ import annotations

import pytest

from assay.memories.helpers.dates import read_date


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2023-05-08", "2023-05-08T00:00:00"),
        ("2024-02-05 09:15", "2024-02-05T09:15:00"),
        ("2024-02-05T09:15:30Z", "2024-02-05T09:15:30"),
        ("2023/05/20 (Sat) 02:21", "2023-05-20T02:21:00"),
        ("1:56 pm on 8 May, 2023", "2023-05-08T13:56:00"),
        ("12:05 am on 1 September, 2022", "2022-09-01T00:05:00"),
        ("May 8th, 2023", "2023-05-08T00:00:00"),
        ("8th of May 2023", "2023-05-08T00:00:00"),
        ("2024年3月5日 14:30", "2024-03-05T14:30:00"),
        ("31 February 2023", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_date_is_read_in_the_forms_of_the_data_sets(text: str, moment: str | None) -> None:
    found = read_date(text)
    assert (found and found.replace(tzinfo=None).isoformat()) == moment
