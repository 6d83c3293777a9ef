"""The tables of schema `dpproxy`, whose rows the session supplies: names, types and meanings of their columns.

Knows: names, and what analysts are told of them. Must not know: ledgers. The facade creates empty tables of the same shape, with
the meanings as comments (`facade.ddl`), so that catalog queries, Describe and psql's `\\d+` see them.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpproxy.budget_windows import KINDS, WINDOWS

_ADJECTIVES = [rule.adjective for rule in WINDOWS.values()]


@dataclass(frozen=True)
class VirtualColumn:
    """`name` is spelled as in SQL, with quotes where it needs them."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class VirtualTable:
    """`meaning` says what one of its rows is."""

    meaning: str
    columns: tuple[VirtualColumn, ...]


def _table(meaning: str, *columns: tuple[str, str, str]) -> VirtualTable:
    return VirtualTable(meaning, tuple(VirtualColumn(*column) for column in columns))


VIRTUAL_TABLES: dict[str, VirtualTable] = {
    "help": _table(
        "A row for each question that comes up when answers have noise and a price",
        ("question", "text", "the question"),
        ("answer", "text", "what is true of your role"),
        ("example", "text", "a statement that shows it, at no charge"),
    ),
    "budget": _table(
        "A row for each budget that your statements are charged to: your role's, and your own where the policy gives you one",
        ("role", "text", "your role"),
        ("scope", "text", "whose budget it is: role (shared by all its users) or user (yours alone)"),
        ("epsilon_spent", "numeric", "what this window's charges come to together, by the best proof: never more than their sum"),
        ("epsilon_limit", "numeric", "epsilon that may be spent in a window"),
        ("epsilon_left", "numeric", "epsilon of the largest further statement that would be answered"),
        ("delta_spent", "numeric", "delta that this window's charges come to together"),
        ("delta_limit", "numeric", "delta that may be spent in a window"),
        ("delta_left", "numeric", "delta that statements may still be charged: what charges are composed at is kept apart"),
        ('"window"', "text", f"how long a window is: {', '.join(KINDS[:-1])}, or never (one window for ever)"),
        ("resets", "timestamptz", "when the next window begins; NULL: never"),
        ("epsilon_lifetime", "numeric", "epsilon of all windows so far, added up"),
        ("delta_lifetime", "numeric", "delta of all windows so far, added up"),
    ),
    "answers": _table(
        "A row for each of the last answers to your role, the newest first",
        ("asked", "timestamptz", "when the answer was charged, or shown again"),
        ("epsilon", "numeric", "epsilon that was charged for it; 0 where nothing new was measured"),
        ("delta", "numeric", "delta that was charged for it"),
        ("measurements", "int4", "measurements it was made of; NULL: answered before the proxy was started last"),
        ("reused", "bool", "whether it was made of stored answers alone, at no charge"),
        ("statement_hash", "text", "the first 16 digits of the SHA-256 of the statement's text"),
        (
            "outcome", "text",
            "running; told: its client has it; kept, lost: its client left, and it was measured to its end or could not be; "
            "preview: no row of the data was read; NULL: answered before the proxy was started last",
        ),
        ("errors", "text",
         "what its notice said of errors, or why none can be told; NULL: nothing, or answered before the proxy last started"),
    ),
    "policy": _table(
        "A row for each column that you see: what may be asked of it",
        ("table_name", "text", "the table, with its schema unless that is public"),
        ("column_name", "text", "the column"),
        ("kind", "text", "plain; unit: whose row it is; key: joined on, never shown; public: as it is; randomised: on devices"),
        ("type", "text", "its type"),
        ("low", "text", "the least value that counts; smaller ones count as this one; NULL: no range is declared"),
        ("high", "text", "the largest value that counts; larger ones count as this one; NULL: no range is declared"),
        ('"values"', "text", "the declared values: groups that are always in an answer; NULL: none are declared"),
        ("note", "text", "its resolution (values are multiples of it), the length of texts that counts, how it was randomised"),
    ),
    "tables": _table(
        "A row for each table that you see",
        ("table_name", "text", "the table, with its schema unless that is public"),
        ("kind", "text", "private: only aggregates over many rows; public: shown as it is; reports: estimates alone"),
        ("rows", "int4", "rows of one person that count in all groups together; NULL: not bounded so, or not private"),
        ("rows_per_group", "int4", "rows of one person that count in a group; NULL: not bounded so, or not private"),
        ("groups", "int4", "groups that one person's rows count in; NULL: all, or not private"),
        ("note", "text", "whether a person has one row, which rows are never counted or in no declared group; what reports tell"),
    ),
    "estimate_remaining_dp_aggregates": _table(
        "One row: how much your budget still allows, as Snowflake's function of this name tells it",
        (
            "number_of_remaining_dp_aggregates", "int8",
            "statements at your role's own price that there is epsilon left for, whatever number of aggregates each has; it "
            "may turn out to be more",
        ),
        ("budget_limit", "numeric", "epsilon that may be spent in a window"),
        ("budget_window", "text", f"how long a window is: {', '.join(_ADJECTIVES[:-1])} or {_ADJECTIVES[-1]}"),
        ("budget_spent", "numeric", "what this window's charges come to together, as in dpproxy.budget"),
    ),
}  # fmt: skip
