"""Every function of PostgreSQL that may run below a measurement, by name.

Knows: the builders of the rooms beside it. Must not know: engines. What is not here is refused by name.
"""

from __future__ import annotations

from dpproxy.plan.functions import instants, numbers, patterns, scalars, text_parts, texts, time_formats, times
from dpproxy.plan.functions.scalars import Builder

FUNCTIONS: dict[str, Builder] = {
    **scalars.FUNCTIONS,
    **text_parts.FUNCTIONS,
    **texts.FUNCTIONS,
    **numbers.FUNCTIONS,
    **times.FUNCTIONS,
    **time_formats.FUNCTIONS,
    **instants.FUNCTIONS,
    **patterns.FUNCTIONS,
}
