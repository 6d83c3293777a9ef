"""The claims of a policy (`policy.data_claims`) held against its data, on whichever engine has them.

Knows: the list of claims, the backend. Must not know: what a claim means for a plan, sessions. Whoever opens data calls
`broken_claims`: the start, a reload, an extract or a prepared copy, `dpproxy policy check`. What a key of the catalog keeps is
not asked for. How many rows break a claim is for the operator; analysts are told that one is broken, and by which key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpproxy.backends.base import Backend
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.data_claims import Claim, ClaimKind, broken_claim, claim_query, remedy, unkept
from dpproxy.policy.load import Loaded
from dpproxy.policy.model import Policy
from dpproxy.policy.problems import START, Problem


async def broken_claims(policy: Policy, catalog: Catalog, backend: Backend) -> Mapping[Claim, int]:
    """Return the claims that do not hold, each with how many rows share one value. The policy must fit the catalog. Raises
    BackendError."""
    asked = {claim: claim_query(claim, policy, catalog, backend.dialect) for claim in unkept(policy, catalog)}
    queries = tuple(dict.fromkeys(asked.values()))  # two claims may be of one column
    counts = dict(zip(queries, await backend.violations(queries), strict=True))
    return {claim: counts[query] for claim, query in asked.items() if counts[query]}


def claim_problems(loaded: Loaded, broken: Mapping[Claim, int]) -> Iterator[Problem]:
    """Say of each broken claim where the policy makes it, and what to write instead."""
    for claim, rows in broken.items():
        what = broken_claim(claim, rows, loaded.policy.unit_name)
        part = "units" if claim.kind is ClaimKind.PATH_KEY else "tables"
        at = loaded.positions.get((part, str(claim.user)), START)
        yield at.problem(loaded.file, what, remedy(claim, loaded.policy), "not-unique")
