"""The state of a page in its address.

    state = read_address(RowQuery, request.query)       # a struct; raises UsageError for a value of the wrong form
    write_address(state, page=2)                        # "?failed=1&page=2"

The address holds the whole state, so that a reload, the back button and a link in a mail show the same page. The fields
of the struct are the names in the address. Values that are the default of their field are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from assay.core.errors import UsageError

StateT = TypeVar("StateT", bound=Struct)


def read_address(state: type[StateT], query: Mapping[str, object]) -> StateT:
    """Return the state that an address has. Empty values and names that the state does not have are left out.

    A name that may occur several times comes as a list. Raises UsageError for a value of the wrong form.
    """
    values = {name: query[name] for name in state.__struct_fields__ if query.get(name)}
    try:
        return msgspec.convert(values, state, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"the address has a value that is not valid: {error}") from None


def write_address(state: Struct, **changes: object) -> str:
    """Return the part of an address after its path, with some values changed. The struct omits its defaults."""
    return "?" + urlencode(address_fields(replace(state, **changes)), errors="replace")


def address_fields(state: Struct) -> list[tuple[str, str]]:
    """Return the names and values of an address, for the hidden fields of a form. A list has a field for each item."""
    fields = []
    for name, value in msgspec.to_builtins(state).items():
        items = value if isinstance(value, list | tuple) else [value]
        fields += [(name, _text(item)) for item in items]
    return fields


def _text(value: object) -> str:
    if isinstance(value, float):
        return str(value).removesuffix(".0")  # people type 18, not 18.0
    return "1" if value is True else str(value)
