"""The claims of a policy (`policy.data_claims`) held against its data, on whichever engine has them.

Knows: the list of claims, the backend. Must not know: what a claim means for a plan, sessions. Whoever opens data calls
`broken_claims`: the start, a reload, an extract or a prepared copy, `dpproxy policy check`. Data that change while they are open,
a server's, are looked at again as long as they are asked (`live_claims`). What a key of the catalog keeps is not asked for: of a
server's catalog it is looked at whether the key is there. How many rows break a claim is for the operator; analysts are told that
one is broken, and by which key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpproxy.answers.claim_standing import ClaimStanding, Closure, Closures
from dpproxy.backends.base import Backend
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.data_claims import Claim, ClaimKind, broken_claim, claim_query, remedy, unkept
from dpproxy.policy.load import Loaded
from dpproxy.policy.model import Policy
from dpproxy.policy.problems import START, Problem
from dpproxy.reuse.data_epoch import Epoch, shape_of

PARTS = {ClaimKind.ONE_ROW: "tables", ClaimKind.PATH_KEY: "units", ClaimKind.LISTED_KEY: "keys"}
"""What of a table in a policy makes a claim."""


async def broken_claims(policy: Policy, catalog: Catalog, backend: Backend) -> Mapping[Claim, int]:
    """Return the claims that do not hold, each with how many rows share one value. The policy must fit the catalog. Raises
    BackendError."""
    asked = {claim: claim_query(claim, policy, catalog, backend.dialect) for claim in unkept(policy, catalog)}
    queries = tuple(dict.fromkeys(asked.values()))  # two claims may be of one column
    counts = dict(zip(queries, await backend.violations(queries, aside=True), strict=True)) if queries else {}
    return {claim: counts[query] for claim, query in asked.items() if counts[query]}


def claim_problems(loaded: Loaded, broken: Mapping[Claim, int]) -> Iterator[Problem]:
    """Say of each broken claim where the policy makes it, and what to write instead."""
    for claim, rows in broken.items():
        what = broken_claim(claim, rows, loaded.policy.unit_name)
        part = PARTS[claim.kind]
        at = loaded.positions.get((part, str(claim.user)), START)
        yield at.problem(loaded.file, what, remedy(claim, loaded.policy), "not-unique")


def unkept_claims(loaded: Loaded, catalog: Catalog, backend: Backend) -> Iterator[Problem]:
    """Say which claims only looks confirm, of data that change while they are open."""
    policy = loaded.policy
    if backend.state or policy.accelerate.mode == "extract":
        return
    for claim in unkept(policy, catalog):
        at = loaded.positions.get(("tables", str(claim.table)), START)
        what = f"`{claim.key}` is unique, and no key of the database keeps it so"
        if claim.kind is ClaimKind.ONE_ROW:
            what = f"`{claim.table}` has one row a {policy.unit_name}, and no key of the database keeps it so"
        fix = "add a UNIQUE constraint, or know that what breaks it is found minutes later"
        yield at.problem(loaded.file, what, fix, "unkept-key")


def live_claims(policy: Policy, catalog: Catalog, backend: Backend, epoch: Epoch) -> ClaimStanding:
    """Return what keeps looking at data that are open. `catalog`: as plans have it."""
    if backend.state:
        return ClaimStanding()
    shape = shape_of(policy, catalog)

    async def look() -> Closures | None:
        known = await backend.introspect()
        if not policy.tables.keys() <= known.tables.keys() or shape_of(policy, known) != shape:
            return None
        broken = await broken_claims(policy, known, backend)
        return {claim.table: _closure(claim, rows, policy) for claim, rows in broken.items()}

    watched = {claim.table for claim in unkept(policy, catalog)}
    return ClaimStanding(look, watched, epoch, policy.dataset)


def _closure(claim: Claim, rows: int, policy: Policy) -> Closure:
    """What analysts are told has no number, and what the log says has."""
    why = f"`{claim.key}` is not unique in the data, and the path from `{claim.user}` leads over it"
    to_do = f"`{claim.columns[0]}` is to be unique in `{claim.table}`"
    if claim.kind is ClaimKind.LISTED_KEY:
        why = f"rows share the values of `{claim.key}` in the data, and the policy lists it in `keys`"
        to_do = f"no two rows of `{claim.table}` are to share them"
    if claim.kind is ClaimKind.ONE_ROW:
        why = f"a {policy.unit_name} has more than one row in the data, and the policy says one"
        to_do = f"each {policy.unit_name} is to have one row in `{claim.table}`"
    return Closure(why, to_do, f"{broken_claim(claim, rows, policy.unit_name)}; {remedy(claim, policy)}")
