"""Groups that rows reach by values their columns do not declare: NULL, numbers out of range, texts that are not listed.

Knows: expressions, declared domains. Must not know: data, engines. A declared domain says which groups are shown of a plain
column; it keeps nothing else out of a table. What becomes of such a *stray* value depends on the key. `CASE WHEN delay IS NULL
THEN 'cancelled' WHEN delay > 15 THEN 'late' END` makes a group of it that has a name in the statement: it is to be listed.
`date_trunc('month', day)` makes a value of it that is as little declared as itself: it is no group.

Which groups there are is found by trying: beside its declared values a column is tried with stray ones, each marked as such, and
a key whose value *carries* a stray one (`Trial.conditions`) is no group. A test carries nothing: it has two results, and NULL.
For a comparison with constants a few stray values stand for all (`_between`); of other tests every result is tried. All of this
is made of the policy and the statement, so that the groups listed say nothing of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from itertools import product

from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.operation import Test
from dpproxy.plan.properties import cells
from dpproxy.plan.properties.facts import SPANS, literal_number
from dpproxy.plan.properties.narrowing import outcomes
from dpproxy.sql.types import INTEGERS, TEXTS
from dpproxy.tree.expr import (
    FALSE,
    Call,
    Case,
    Cast,
    Column,
    Domain,
    Expr,
    InList,
    Lit,
    Ref,
    SeriesDomain,
    TableDomain,
    ValuesDomain,
    children,
    rebuilt,
    references,
    walk,
)
from dpproxy.tree.measured import Strays, Text

MAX_TOGETHER = 4  # tests of one column whose results are tried in all combinations: 3**4; of more, each by itself
_RESULTS: Mapping[Text, bool | None] = {"true": True, "false": False, None: None}


@dataclass(frozen=True)
class Trial:
    """Keys and conditions to be tried over declared and stray values together."""

    keys: tuple[tuple[int, Expr], ...]
    conditions: tuple[Expr, ...]
    strays: tuple[Strays, ...]


def values_beyond(column: Column, domain: Domain) -> tuple[bool, bool]:
    """Tell whether rows may hold NULL that the domain lacks, and other values that it lacks."""
    if not column.undeclared or isinstance(domain, TableDomain):
        return False, False
    declared = domain.nulls if isinstance(domain, SeriesDomain) else None in domain.values
    return column.nullable and not declared, column.type != "bool"


def trial(
    keys: Sequence[tuple[int, Expr]],
    columns: Sequence[tuple[Column, Domain]],
    conditions: Sequence[Expr],
    whole: Sequence[Expr] = (),
) -> Trial | None:
    """Return what is to be tried; None where no stray value makes a group. `whole`: the conditions as they are of rows, where
    `conditions` may have been made weaker, to be tried on days."""
    tried = {
        column.id: (column, domain)
        for column, domain in columns
        if any(values_beyond(column, domain)) and not any(_surely_carried(key, column.id) for _, key in keys)
    }
    if not tried:
        return None
    rewriting = _Rewriting({i: values_beyond(c, d)[1] for i, (c, d) in tried.items()}, {i: d for i, (_, d) in tried.items()})
    written = tuple((index, rewriting.key(key)) for index, key in keys)
    carried = [found for _, key in written if (found := rewriting.carried(key)) is not None]
    kept = [Call("bool", "is_not_true", (found,)) for found in carried]
    allowed = [rewriting.lenient(c) for c in conditions]
    everything = [*(e for _, key in keys for e in walk(key)), *(e for c in conditions for e in walk(c))]
    strays = tuple(_strays(c, d, rewriting, everything, whole) for c, d in tried.values())
    return Trial(written, (*allowed, *kept), strays)


def _surely_carried(expr: Expr, column: int) -> bool:
    """Whether nothing becomes of a stray value, NULL or other, but a value that carries it."""
    match expr:
        case Ref(column=found):
            return found.id == column
        case Cast(arg=arg):
            return _surely_carried(arg, column)
        case Call(op=op, args=args) if expr.type != "bool" and not operation(op).nulls.lenient:
            return any(_surely_carried(arg, column) for arg in args)
        case _:
            return False


@dataclass
class _Rewriting:
    """`others`: ids of the columns that have stray values; whether some of these are not NULL. `domains`: what is declared."""

    others: Mapping[int, bool]
    domains: Mapping[int, Domain]
    tests: dict[int, dict[Expr, Column]] = field(default_factory=dict)

    def stray(self, column: int) -> Ref:
        return Ref("bool", Column(-1_000_000 - column, "stray", "bool"))

    def other(self, column: Column) -> Expr:
        """Whether the value is stray and not NULL."""
        return Call("bool", "and", (self.stray(column.id), Call("bool", "is_not_null", (Ref(column.type, column),))))

    def key(self, expr: Expr) -> Expr:
        """The key, whose tests have any result for stray values that they say nothing of."""
        if expr.type != "bool" or not isinstance(expr, Call | InList):
            return rebuilt(expr, self.key)
        if isinstance(expr, Call) and operation(expr.op).test is Test.LOGIC:
            return rebuilt(expr, self.key)
        inexact = self._inexact(expr)
        if not inexact:
            return expr
        whens = tuple((self.other(c), Ref("bool", self._test(c, expr))) for c in inexact)
        return Case("bool", whens, expr)

    def _inexact(self, test: Expr) -> list[Column]:
        """The columns whose stray values, those tried, do not stand for all others in a test."""
        return [c for c in references(test) if self.others.get(c.id) and not clear(test, c)]

    def _test(self, column: Column, test: Expr) -> Column:
        known = self.tests.setdefault(column.id, {})
        return known.setdefault(test, Column(-2_000_000 - 1000 * column.id - len(known), "result", "bool"))

    def lenient(self, condition: Expr) -> Expr:
        """The condition, which may hold of stray values that it says nothing of."""
        unclear = self._inexact(condition)
        return Call("bool", "or", (condition, *(self._apart(condition, c) for c in unclear))) if unclear else condition

    def _apart(self, condition: Expr, column: Column) -> Expr:
        """Whether the value is stray, and the condition may hold of it: what equals one of the declared values is no stray."""
        other, declared = self.other(column), self.domains.get(column.id)
        match condition:
            case Call(op="=", args=(Ref(column=left), value)) if left.id == column.id:
                pass
            case Call(op="=", args=(value, Ref(column=right))) if right.id == column.id:
                pass
            case _:
                return other
        if not isinstance(declared, ValuesDomain) or value.type not in (column.type, *TEXTS) or column.type not in TEXTS:
            return other
        known = tuple(Lit(column.type, text) for text in declared.values if text is not None)
        return Call("bool", "and", (other, InList("bool", value, known, negated=True))) if known else other

    def carried(self, expr: Expr) -> Expr | None:
        """Whether the value is made of a stray one; None where it never is."""
        columns = [c.id for c in references(expr) if c.id in self.others]
        if not columns or (expr.type == "bool" and isinstance(expr, Call | InList)):
            return None
        if isinstance(expr, Ref):
            return self.stray(expr.column.id)
        if isinstance(expr, Case):
            return self._of_case(expr)
        parts = [(e, found) for e in children(expr) if (found := self.carried(e)) is not None]
        lenient = isinstance(expr, Call) and operation(expr.op).nulls.lenient
        return _any([_not_null(e, found) if lenient else found for e, found in parts]) if parts else None

    def _of_case(self, expr: Case) -> Expr | None:
        default = self._of_arm(expr.default)
        whens = tuple((test, self._of_arm(result)) for test, result in expr.whens)
        return Case("bool", whens, default) if any(found != FALSE for found in (default, *(f for _, f in whens))) else None

    def _of_arm(self, result: Expr | None) -> Expr:
        found = self.carried(result) if result is not None else None
        return _not_null(result, found) if result is not None and found is not None else FALSE


def _not_null(value: Expr, carried: Expr) -> Expr:
    """Whether it carries a value, where CASE, COALESCE and their like may make a group of NULL."""
    return Call("bool", "and", (carried, Call("bool", "is_not_null", (value,))))


def _any(parts: Sequence[Expr]) -> Expr:
    return parts[0] if len(parts) == 1 else Call("bool", "or", tuple(parts))


def clear(expr: Expr, column: Column) -> bool:
    """Tell whether it looks at a column only by comparing it with constants."""
    if isinstance(expr, Ref) or _constants(expr, column) is not None:
        return not isinstance(expr, Ref) or expr.column.id != column.id
    return all(clear(e, column) for e in children(expr))


def _constants(test: Expr, column: Column) -> list[Lit] | None:
    """The constants a test compares a column with; None when it does something else with it."""
    match test:
        case Call(op=op, args=(Ref(column=found),)) if operation(op).test is Test.NULL and found.id == column.id:
            return []
        case Call(op=op, args=(Ref(column=found), Lit() as constant) | (Lit() as constant, Ref(column=found))):
            asked = operation(op).test
            compared = asked is Test.EQUAL or (asked is Test.ORDER and _ordered(column.type))
            return [constant] if found.id == column.id and compared and _comparable(column.type, constant) else None
        case InList(arg=Ref(column=found), items=items) if found.id == column.id:
            known = [i for i in items if isinstance(i, Lit) and _comparable(column.type, i)]
            return known if len(known) == len(items) else None
        case _:
            return None


def _ordered(type_: str) -> bool:
    """Types whose values between constants can be named."""
    return type_ in INTEGERS or type_ == "date"


def _comparable(type_: str, constant: Lit) -> bool:
    if constant.text is None:
        return True
    if type_ in TEXTS:
        return constant.type in TEXTS
    return (
        _ordered(type_)
        and (constant.type == "date") == (type_ == "date")
        and literal_number(constant.type, constant.text) is not None
    )


# --- the values that are tried


def _strays(
    column: Column, domain: Domain, rewriting: _Rewriting, everything: Iterable[Expr], conditions: Sequence[Expr]
) -> Strays:
    asked = rewriting.tests.get(column.id, {})
    tests = tuple(asked.values())
    null, other = values_beyond(column, domain)
    rows: list[tuple[Text, ...]] = [(None, *([None] * len(tests)))] if null else []
    if other:
        known = [c for e in everything for c in _constants(e, column) or ()]
        values, possible = _between(column, domain, known), [outcomes(test, conditions) for test in asked]
        rows += [(value, *results) for value in values for results in _results(possible)]
    return Strays(column, rewriting.stray(column.id).column, tests, tuple(rows))


def _results(possible: Sequence[frozenset[bool | None]]) -> Iterator[tuple[Text, ...]]:
    """Results of tests, of which some are never NULL, say: all combinations; of very many tests all alike, and each with another
    result than the rest."""
    each = [tuple(text for text, outcome in _RESULTS.items() if outcome in one) for one in possible]
    if len(each) <= MAX_TOGETHER:
        yield from product(*each)
        return
    for result in _RESULTS:
        yield tuple(result if result in one else one[0] for one in each)
    for i in range(len(each)):
        yield tuple(one[0] if i == j else next((text for text in one[1:] if text), one[0]) for j, one in enumerate(each))


def _between(column: Column, domain: Domain, constants: Sequence[Lit]) -> list[Text]:
    """Values that are not declared, so that every other one compares with all constants as one of these does."""
    declared = domain.values if isinstance(domain, ValuesDomain) else ()
    if column.type in TEXTS:
        known = {*declared, *(c.text for c in constants)}
        other = "another value"
        while other in known:
            other += " "
        return [other, *dict.fromkeys(c.text for c in constants if c.text is not None and c.text not in declared)]
    if not _ordered(column.type):  # it stands for all: what is said of it is not believed (`_Rewriting.key`)
        return [_day(_first_day(domain)) if isinstance(domain, SeriesDomain) else next(v for v in declared if v is not None)]
    numbers = [n for c in constants if c.text is not None and (n := literal_number(c.type, c.text)) is not None]
    numbers += map(Fraction, cells.days(domain)) if isinstance(domain, SeriesDomain) else []
    numbers += [n for v in declared if v is not None and (n := literal_number(column.type, v)) is not None]
    near = sorted({n.__floor__() + step for n in numbers for step in (-1, 0, 1, 2)})
    lo, hi = SPANS[column.type].ends if column.type in SPANS else (Fraction(-700_000), Fraction(2_900_000))
    inside = [n for n in near if lo <= n <= hi and not _declared(n, column, domain)]
    return [str(n) if column.type in INTEGERS else _day(n) for n in inside]


def _first_day(domain: SeriesDomain) -> int:
    return cells.days(domain)[0]


def _declared(number: int, column: Column, domain: Domain) -> bool:
    if isinstance(domain, SeriesDomain):
        lo, hi = cells.days(domain)
        return lo <= number <= hi
    assert isinstance(domain, ValuesDomain)
    return any(v is not None and literal_number(column.type, v) == number for v in domain.values)


def _day(number: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
