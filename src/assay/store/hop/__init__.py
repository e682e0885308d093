"""The results of batch tests in a folder of JSONL files, as questions can be asked of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.core.errors import UsageError
from assay.store.hop.audit import Audit, read_audit
from assay.store.hop.config import FieldAggregation, ViewConfig
from assay.store.hop.lines import line_at
from assay.store.hop.perf import perf_summary
from assay.store.hop.stats import number, stats
from assay.store.hop.table import IDENTITY, Stamp, Tables, changed

__all__ = ["Audit", "BaseDataStore", "FieldAggregation", "ViewConfig", "read_audit"]


class BaseDataStore:
    """Reads the JSONL files of one folder, not of folders below it, and never writes.

    Any thread may ask at any time. A reload reads beside the old tables and then takes their place, so that
    nobody waits for it and nobody sees half of it.
    """

    def __init__(self, folder: Path | str, config: ViewConfig | None = None) -> None:
        self.folder = Path(folder)
        self.config = config or ViewConfig()
        self._loading = threading.Lock()
        self._tables: Tables | None = None

    def load_results(self, force_reload: bool = False) -> int:
        """The number of results, errors among them. Reads if a file is new, gone or changed, or if told."""
        return self._load(force=force_reload).total

    @property
    def bad_lines(self) -> int:
        """Lines that hold neither an object nor a pair: torn ones, mostly. They are in no other number."""
        return self._current().bad_lines

    def get_stats(self, profile: str | None = None) -> dict[str, Any]:
        """`total`, `errors`, `completed`, `parse_errors` and one value for each output field of the config.

        Without a config the fields that occur are looked at, and their values say how.
        """
        return stats(self._current(), self.config.output_fields, profile)

    def get_profiles(self) -> list[dict[str, Any]]:
        """Each profile in alphabetical order, with its results and last meta line; None is no profile."""
        tables = self._current()
        counts = dict(tables.query("select profile, count(*) from results group by profile"))
        names = sorted({*counts, *tables.metas} - {None}) + ([None] if None in counts else [])
        return [
            {"profile": name, "total": counts.get(name, 0), "meta": tables.metas.get(name)} for name in names
        ]

    def query_results(
        self, offset: int = 0, limit: int = 50, sort_by: str | None = None, ascending: bool = False
    ) -> list[dict[str, Any]]:
        """Some results, each as one object, in the order of the files or of a column; NULL stands last."""
        if min(offset, limit) < 0:
            raise UsageError(f"offset {offset} and limit {limit} must not be negative")
        tables = self._current()
        try:
            return self._page(tables, self._order(tables, sort_by, ascending), [limit, offset])
        except (OSError, ValueError):
            tables = self._load(force=True)
        try:
            return self._page(tables, self._order(tables, sort_by, ascending), [limit, offset])
        except (OSError, ValueError) as error:
            raise UsageError(f"files in {self.folder} change while they are read; ask again") from error

    def get_error_distribution(self) -> list[dict[str, Any]]:
        """What the errors say, most frequent first; long messages count by their first 1,000 characters."""
        sql = "select error, count(*) from odd where failed group by error order by 2 desc, error"
        return [{"value": error, "count": count} for error, count in self._current().query(sql)]

    def get_perf_summary(self) -> dict[str, Any]:
        """Durations of runs and, if any step was observed, of operators; see `perf_summary`."""
        return perf_summary(self._current())

    def sortable_columns(self) -> list[str]:
        """What results may be sorted by: as the config says, else what every result has and fields found."""
        return list(self._sortable(self._current()))

    def _normalize_audit(self, rec: Mapping[str, Any] | list[Any]) -> dict[str, Any] | None:
        """A line of a results file as one object; None for meta lines, the observer's, and lines of input."""
        audit = read_audit(rec, self.config.audit_key_field)
        return audit.flat() if audit is not None else None

    def _current(self) -> Tables:
        return self._tables or self._load(force=False)

    def _load(self, *, force: bool) -> Tables:
        with self._loading:
            paths = self._paths()
            known = self._tables
            if known is not None and not force and known.stamps == _stamps(paths):
                return known
            tables = Tables(self.config)
            tables.read(paths)
            self._tables = tables
            return tables

    def _paths(self) -> list[Path]:
        if not self.folder.is_dir():
            raise UsageError(
                f"there is no folder {self.folder}; name the one with the results, such as TestCases"
            )
        return sorted(path for path in self.folder.glob("*.jsonl") if path.is_file())

    def _sortable(self, tables: Tables) -> dict[str, str]:
        """The columns by the names that a user may say."""
        fields = {path[0]: column.name for path, column in tables.columns.items() if len(path) == 1}
        known = fields | {name: name for name in IDENTITY}
        return {name: known[name] for name in self.config.sortable_columns or [*IDENTITY, *fields]}

    def _order(self, tables: Tables, sort_by: str | None, ascending: bool) -> str:
        if sort_by is None:
            return ""
        allowed = self._sortable(tables)
        if sort_by not in allowed:
            raise UsageError(f"cannot sort by {sort_by!r}; there are {', '.join(allowed)}")
        column, way = allowed[sort_by], "asc" if ascending else "desc"
        return f"{number(column)} {way} nulls last, {column} {way} nulls last, "

    def _page(self, tables: Tables, order: str, values: list[int]) -> list[dict[str, Any]]:
        """The lines as they stand in the files. ValueError if they stand elsewhere now."""
        if changed(tables.stamps):
            raise ValueError("a file was replaced")
        sql = f"select file, start from results order by {order}file, start limit ? offset ?"  # noqa: S608
        places = [(tables.files[file], start) for file, start in tables.query(sql, values)]
        found = [self._normalize_audit(line_at(path, start)) for path, start in places]
        if None in found:
            raise ValueError("a line is no result any more")
        return [row for row in found if row is not None]


def _stamps(paths: list[Path]) -> dict[Path, Stamp]:
    return {path: Stamp.of(path) for path in paths}
