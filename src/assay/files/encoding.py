"""The message about bytes that are not UTF-8, for `language/prompts.py`. It is written in `read.py`."""

from assay.files.read import not_utf8

__all__ = ["not_utf8"]
