"""Tables of reports, and columns that were randomised before they were stored: from the policy's text to claims.

Knows: limits of reports, what each kind of table allows. Must not know: the data, decoding, how devices draw. What a mechanism
promises is computed by `local.claims` from its probabilities; a policy that writes a smaller epsilon beside them is refused. Each
column of a table of reports is randomised or said to be plain: what is left out is hidden, and what is neither is refused.
"""

from __future__ import annotations

from collections.abc import Mapping as Entries
from collections.abc import Sequence as Series
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Final, assert_never

from dpproxy.local.claims import Binary, Claim, ClaimError, Direct, Duchi, Hadamard, Laplace, Levels, Plane
from dpproxy.local.laws import MOST
from dpproxy.policy import names, scalars
from dpproxy.policy.columns import read_values
from dpproxy.policy.model import ColumnPolicy, ColumnRole, Randomised, ReleasedList, Reports, TableKind, Value
from dpproxy.policy.problems import Mark, suggestion
from dpproxy.policy.reader import Reader, kind
from dpproxy.policy.report_keys import CLAIM, MECHANISMS, RANDOMISED, RELEASED_LIST, REPORTS
from dpproxy.policy.tree import Mapping, Node, Scalar
from dpproxy.policy.written_claims import KEYS, NEEDED, REMEDY, NoEpsilonError, WrittenClaim, claim_of_keys
from dpproxy.table_terms import TableName

DAY: Final = 86_400_000  # milliseconds
LONGEST: Final = 2 * 366
"""Days that reports are kept at most: what is older helps nobody to see how things are, and adds up."""
LEAST: Final = 100
"""Reports of a group that is shown, at least."""
CENTRAL_CELLS: Final = 65_536
"""Values that a report may have where noise is added on top: each is a group of the measurement."""
VERSIONS: Final = 32_767  # of a smallint


def read_reports(reader: Reader, node: Node, table: TableName) -> Reports | None:
    """Return what a table of reports is said to hold. Problems are recorded in `reader`."""
    reader.positions["reports", str(table)] = node.at
    keys = reader.mapping(node, REPORTS)
    if not keys or "epsilon" not in keys:
        return None
    epsilon = _epsilon(reader, keys["epsilon"])
    per_day = reader.integer(keys["per_day"], "per_day", 1, 1000) if "per_day" in keys else 1
    least = reader.integer(keys["at_least"], "at_least", LEAST, 10**9) if "at_least" in keys else Reports.at_least
    answers = reader.choice(keys["answers"], "`answers`", ("fresh", "memoised")) if "answers" in keys else "fresh"
    rows = reader.choice(keys["rows"], "`rows`", ("reports", "cells")) if "rows" in keys else "reports"
    days = _days(reader, keys["keep"]) if "keep" in keys else None
    if epsilon is None or per_day is None or least is None:
        return None
    return Reports(epsilon, per_day, days, least, answers != "memoised", rows == "cells")


def _epsilon(reader: Reader, node: Node) -> Fraction | None:
    amount = reader.decimal(node, "epsilon")
    if amount is not None and not 0 < amount <= MOST:
        what = f"the epsilon of a report is above 0 and at most {MOST}"
        reader.problem(node.at, what, "write what one report tells, as in 4", "out-of-range")
        return None
    return Fraction(amount) if amount is not None else None


def _days(reader: Reader, node: Node) -> int | None:
    time = scalars.milliseconds(node.text) if isinstance(node, Scalar) else None
    if time is None or time % DAY:
        reader.problem(node.at, f"`keep` cannot be {kind(node)}", "write days or weeks, as in 90d", "wrong-type")
        return None
    if time > LONGEST * DAY:
        what = "reports are kept for more than two years"
        reader.problem(node.at, what, "write at most 730d: the reports of a device add up", "out-of-range")
        return None
    return time // DAY


def with_randomised(
    reader: Reader,
    node: Node | None,
    columns: Entries[str, ColumnPolicy],
    table: TableName,
    whose: TableKind,
    reports: Reports | None,
) -> dict[str, ColumnPolicy]:
    """Return the columns of a table with what is said of those that devices randomised."""
    listed = {names.column(written): item for written, item in node.entries.items()} if isinstance(node, Mapping) else {}
    marked = {name: item for name, item in listed.items() if isinstance(item, Mapping) and "randomised" in item.entries}
    alone = reports.epsilon if reports is not None and len(marked) == 1 else None
    found = dict(columns)
    for name, item in marked.items():
        if name in found:
            made = _Column(reader, table, name, whose, reports, alone).read(item)
            hull = _hull(made)
            listed_here = made.values if made is not None and isinstance(made.values, tuple) else None
            found[name] = replace(found[name], randomised=made, values=listed_here, range=hull)
    _rules(reader, listed, found, table, whose, reports)
    return found


def _hull(made: Randomised | None) -> tuple[Decimal, Decimal] | None:
    claims = [claim for _, claim in made.claims] if made is not None else []
    ends = [(claim.low, claim.high) for claim in claims if isinstance(claim, Levels | Laplace | Duchi)]
    if not ends:
        return None
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return Decimal(low.numerator) / low.denominator, Decimal(high.numerator) / high.denominator


def _rules(
    reader: Reader,
    listed: Entries[str | None, Node],
    columns: Entries[str, ColumnPolicy],
    table: TableName,
    whose: TableKind,
    reports: Reports | None,
) -> None:
    """What columns of each kind of table may be."""
    randomised = {name: c.randomised for name, c in columns.items() if c.randomised is not None}
    for name, column in columns.items():
        at, said = listed[name].at, names.written(name)
        marked = isinstance(listed[name], Mapping) and "randomised" in listed[name].entries  # type: ignore[union-attr]
        match whose:
            case TableKind.REPORTS:
                if column.role is ColumnRole.PLAIN and not column.plain and not marked:
                    what = f"column `{name}` of a table of reports is neither `plain` nor `randomised`"
                    fix = f"write `{said}: {{ plain: true }}` if everybody may know it, else `{said}: hidden`"
                    reader.problem(at, what, fix, "reports")
            case TableKind.PEOPLE | TableKind.PUBLIC:
                if column.plain:
                    what = f"column `{name}` is `plain`, and table `{table}` holds no reports"
                    reader.problem(at, what, "remove `plain`, or give the table `reports`", "reports")
                if marked and whose is TableKind.PUBLIC:
                    what = f"column `{name}` of public table `{table}` is randomised: its rows would be shown as they are"
                    reader.problem(at, what, "give the table `reports` or a `unit`, in place of `public`", "reports")
            case _:
                assert_never(whose)
    if whose is TableKind.REPORTS and reports is not None:
        _of_reports(reader, table, columns, randomised, reports)
    stored = [made.stored for made in randomised.values()]
    for name, made in randomised.items():
        if stored.count(made.stored) > 1 or (made.stored != name and made.stored in columns):
            what = f"the reports of `{name}` are stored in `{made.stored}`, which another column of the policy is"
            reader.problem(listed[name].at, what, "write in `from` a stored column of its own", "duplicate")


def _of_reports(
    reader: Reader, table: TableName, columns: Entries[str, ColumnPolicy], made: Entries[str, Randomised], reports: Reports
) -> None:
    at = reader.positions["reports", str(table)]
    if not made:
        if not any(reader.positions.get(("randomised", str(table), name)) for name in columns):
            what, fix = f"no column of `{table}` is randomised", "write `randomised` for one, or give the table a `unit`"
            reader.problem(at, what, fix, "reports")
        return
    whole = sum((each.epsilon for each in made.values()), Fraction(0))
    if whole > reports.epsilon:
        told = ", ".join(f"{name} {_decimal(each.epsilon)}" for name, each in made.items())
        what = f"a report of `{table}` tells epsilon {_decimal(whole)} ({told}), and `reports` says {_decimal(reports.epsilon)}"
        reader.problem(at, what, f"write `epsilon: {_decimal(whole)}`, or randomise more", "claim")
    for name in ("claim", *(("n",) if reports.cells else ())):
        if name in columns and columns[name].role is not ColumnRole.HIDDEN:
            what = f"column `{name}` of a table of reports is read by the proxy itself"
            reader.problem(reader.positions["tables", str(table), name], what, "remove it", "reports")
    for name, each in made.items():
        place = reader.positions["tables", str(table), name]
        bits = any(_form(claim) == "bits" for _, claim in each.claims)
        if bits and (not reports.cells or len(made) > 1):
            what = f"bit vectors, as those of `{name}`, are stored as cells, one column in a table"
            reader.problem(place, what, "write `rows: cells` in `reports`, or use pgr, which is one number a report", "reports")
        if not reports.fresh and not all(isinstance(claim, Binary | Direct) for _, claim in each.claims):
            what = f"answers to `{name}` are memoised, and a repeated report of this mechanism tells devices apart"
            reader.problem(place, what, "use rr or krr, or write `answers: fresh`", "reports")


def _form(claim: Claim) -> str:
    return claim.space.form


def _decimal(amount: Fraction) -> str:
    """An epsilon as a policy would have it written: rounded up to six places."""
    value = (Decimal(amount.numerator) / amount.denominator).quantize(Decimal("1e-6"), ROUND_CEILING)
    return f"{value.normalize():f}"


@dataclass(frozen=True)
class _Column:
    """Reads one randomised column. `alone`: the epsilon it has where it says none."""

    reader: Reader
    table: TableName
    name: str
    whose: TableKind
    reports: Reports | None
    alone: Fraction | None

    def read(self, item: Mapping) -> Randomised | None:
        node = item.entries["randomised"]
        self.reader.positions["randomised", str(self.table), self.name] = node.at
        keys = self.reader.mapping(node, RANDOMISED)
        stored = self._stored(item.entries["from"]) if "from" in item.entries else self.name
        if keys is None or stored is None:
            return None
        values = self._values(keys["values"]) if "values" in keys else None
        if "values" in keys and values is None:
            return None
        claims = self._versions(keys, node.at, values)
        if not claims:
            return None
        if isinstance(values, ReleasedList):
            written = WrittenClaim(self.reader, keys).integer("count", 0) or 0
            values = replace(values, count=max(written, *(claim.candidates or 0 for _, claim in claims)))
        if self.whose is TableKind.PEOPLE:
            self._central(node.at, claims)
        if len({_form(claim) for _, claim in claims}) > 1:
            self._problem(
                node.at, f"the claims of `{self.name}` store reports in different forms", "write them as columns of their own"
            )
        return Randomised(claims, stored, values)

    def _problem(self, at: Mark, what: str, fix: str) -> None:
        self.reader.problem(at, what, fix, "claim")

    def _stored(self, node: Node) -> str | None:
        text = self.reader.text(node, "from")
        return names.column(text) if text is not None else None

    def _values(self, node: Node) -> tuple[Value, ...] | ReleasedList | None:
        if not isinstance(node, Mapping):
            return read_values(self.reader, node)
        keys = self.reader.mapping(node, RELEASED_LIST) or {}
        written = keys.get("table")
        place = names.table_column(written.text) if isinstance(written, Scalar) else None
        if place is None:
            if written is not None:
                self._problem(written.at, f"`table` cannot be {kind(written)}", "write `table: table.column`")
            return None
        order = self.reader.text(keys["order"], "order") if "order" in keys else None
        return ReleasedList(*place, 0, names.column(order) if order is not None else None)

    def _versions(
        self, keys: Entries[str, Node], at: Mark, values: tuple[Value, ...] | ReleasedList | None
    ) -> tuple[tuple[int, Claim], ...]:
        common = {key: node for key, node in keys.items() if key != "claims"}
        if "claims" not in keys:
            claim = self._claim(common, at, values)
            return ((1, claim),) if claim is not None else ()
        listed = self.reader.named(keys["claims"], "`claims`")
        if self.whose is TableKind.PEOPLE:
            self._problem(keys["claims"].at, "claims by number are of tables of reports", "write one claim, without `claims`")
            return ()
        found: dict[int, Claim] = {}
        for written, node in listed.entries.items() if listed else ():
            own = self.reader.mapping(node, CLAIM)
            if not written.isdigit() or not 1 <= int(written) <= VERSIONS:
                self._problem(
                    listed.keys[written] if listed else at, f"a claim is numbered, not `{written[:40]}`", "write a number from 1"
                )
            elif own is not None and (claim := self._claim({**common, **own}, node.at, values)) is not None:
                found[int(written)] = claim
        if listed is not None and not listed.entries:
            self._problem(listed.at, "`claims` is empty", "write `claims: { 1: { epsilon: 4 } }`, or leave it out")
        return tuple(sorted(found.items(), key=lambda pair: pair[0]))

    def _claim(self, keys: Entries[str, Node], at: Mark, values: tuple[Value, ...] | ReleasedList | None) -> Claim | None:
        by = self.reader.choice(keys["by"], "`by`", MECHANISMS) if "by" in keys else None
        if by is None:
            if "by" not in keys:
                self.reader.problem(at, "a claim has no `by`", "add `by:` with the mechanism, as in `by: auto`", "missing-key")
            return None
        for key in keys.keys() - {"by", "epsilon", *KEYS[by]}:
            self._problem(keys[key].at, f"`{key}` means nothing to {by}", "remove it")
        missing = [key for key in NEEDED.get(by, ()) if key not in keys]
        for key in missing:
            purpose = RANDOMISED.keys[key].purpose.rstrip(".")
            self.reader.problem(at, f"{by} has no `{key}`", f"add `{key}:` ({purpose[0].lower()}{purpose[1:]})", "missing-key")
        return None if missing else self._made(by, WrittenClaim(self.reader, keys), at, values)

    def _made(self, by: str, written: WrittenClaim, at: Mark, values: tuple[Value, ...] | ReleasedList | None) -> Claim | None:
        known = len(self.reader.problems)
        count = written.integer("count")
        if count is None and values is not None:
            count = len(values) if isinstance(values, tuple) else None
            if count is None and by not in ("flh", "cms", "hcms"):
                what = f"a table lists the values of `{self.name}`, and nothing says how many the claim is about"
                self._problem(at, what, "add `count:`, the number of values that devices know")
                return None
        if isinstance(values, tuple) and count is not None and count > len(values):
            self._problem(
                at, f"the claim is about {count} values, of which {len(values)} are listed", "lower `count`, or list them"
            )
            return None
        said = _epsilon(self.reader, written.keys["epsilon"]) if "epsilon" in written.keys else None
        epsilon = said if said is not None else self.alone
        try:
            claim = claim_of_keys(by, written, epsilon, count or 0)
        except ClaimError as wrong:
            if len(self.reader.problems) == known:
                fix = REMEDY.get(by, "write other probabilities, or `epsilon` in their place")
                fix = "write `epsilon`, or the mechanism's probabilities" if isinstance(wrong, NoEpsilonError) else fix
                self._problem(at, str(wrong), fix)
            return None
        if len(self.reader.problems) > known:
            return None
        if said is not None and claim.epsilon > said:
            what = f"devices that do so tell epsilon {_decimal(claim.epsilon)}, more than the {_decimal(said)} that is written"
            self._problem(written.keys["epsilon"].at, what, f"write `epsilon: {_decimal(claim.epsilon)}`, or leave it out")
        return claim

    def _central(self, at: Mark, claims: Series[tuple[int, Claim]]) -> None:
        """Columns of tables with a unit are measured, with noise, by their reports: few of them."""
        for _, claim in claims:
            few = isinstance(claim, Plane | Hadamard) and claim.space.size <= CENTRAL_CELLS
            if not few and not isinstance(claim, Binary | Direct | Levels):
                what = f"a column of a table with a unit cannot be randomised by {claim.name}"
                fix = "use rr, krr or levels, or pgr or hcms of at most 65536 different reports; or give the table `reports`"
                self._problem(at, what, fix)


def check_lists(reader: Reader, tables: Entries[TableName, tuple[TableKind, Entries[str, ColumnPolicy]]]) -> None:
    """Candidates that a table lists are those of a public table of the policy, in a column that is shown."""
    public = {name: columns for name, (whose, columns) in tables.items() if whose is TableKind.PUBLIC}
    for table, (_, columns) in tables.items():
        for name, column in columns.items():
            listed = column.randomised.values if column.randomised is not None else None
            if not isinstance(listed, ReleasedList):
                continue
            at = reader.positions["tables", str(table), name]
            if listed.table not in public:
                what = f"the values of `{name}` are listed in `{listed.table}`, which is no public table of the policy"
                reader.problem(at, what, suggestion(str(listed.table), map(str, public)), "reports")
            for each in (listed.column, *((listed.order,) if listed.order else ())):
                known = public.get(listed.table, {}).get(each)
                if known is not None and known.role is not ColumnRole.PLAIN:
                    what = f"the values of `{name}` are listed by `{listed.table}.{each}`, which is hidden"
                    reader.problem(at, what, "show that column", "reports")
