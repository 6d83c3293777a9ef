"""A plan told to an analyst: what is measured, bounded, charged, and how far off the answer may be.

Knows: the plan, what its columns are for. Must not know: data; every word is known before any is touched. `plan_account` says it
once, as plain values; `as_text` (a tree, like PostgreSQL's) and `as_json` only spell it.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from dpproxy.amounts import ATTO, MICRO, digits
from dpproxy.errors import FEATURE_NOT_SUPPORTED, SYNTAX_ERROR, Refusal
from dpproxy.plan.context import Context
from dpproxy.plan.intervals.ends import column_ends, output_ends
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.fingerprint import MOVING
from dpproxy.plan.measure.output_weights import Output
from dpproxy.plan.model import LeftOut
from dpproxy.plan.report import rank_errors
from dpproxy.plan.report.omissions import hidden_text, rows_text
from dpproxy.plan.report.readings import reports_lines
from dpproxy.policy.joined_keys import day_promise
from dpproxy.policy.names import plural
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Basis, FirstRound, Measurement, Selection
from dpproxy.privacy.noise_error import each, half_width, sum_half_width

PlanAccount = dict[str, Any]
"""What JSON can hold: texts, numbers, lists, and more of the same by name."""

MECHANISMS = {"laplace": "discrete Laplace", "gaussian": "discrete Gaussian"}


@dataclass(frozen=True)
class _Told:
    """The values from which one measurement is described."""

    measurement: Measurement
    outputs: tuple[Output, ...]
    groups: int | None  # how many are declared
    confidence: Fraction
    unit: str
    moving: bool = False
    left_out: tuple[LeftOut, ...] = ()
    hidden: str = ""
    cut: tuple[bool, ...] = ()  # of each column, whether bounds may have cut it
    endless: Mapping[str, str] = field(default_factory=dict)  # by label, why an interval has no end
    shape: str = ""


def plan_account(
    measurements: Sequence[Measurement],
    compiled: Sequence[Compiled],
    loss: Loss,
    context: Context,
    outer: str,
    rewritten: Sequence[str] = (),
    unitless: Sequence[str] = (),
    unprotected: Sequence[str] = (),
    reports: Sequence[PlanAccount] = (),
) -> PlanAccount:
    """Return everything there is to say of a plan. `compiled[i]` is what measurements[i] was made of, `rewritten` names the rules
    that wrote the statement another way, `unitless` the rows that belong to no unit, `unprotected` what names units that rows do
    not count for, `reports` the readings of reports (`readings.reports_account`)."""
    confidence = Fraction(context.settings.confidence)
    cell, unit = each(confidence), context.policy.unit_name
    told = [
        _Told(
            m,
            c.outputs,
            c.bounding.dense.size if c.bounding.dense else None,
            cell,
            unit,
            c.moving,
            c.left_out,
            hidden_text(m, c.bounding, unit, c.values_of),
            tuple(column_ends(c, spec).any_open for spec in c.specs),
            {o.label: why for o in c.outputs if (why := output_ends(c, o).why_none)},
            c.shape,
        )
        for m, c in zip(measurements, compiled, strict=True)
    ]
    return {
        "Charge": _charge(loss) | {"Maximum Epsilon": _micro(context.role.query.max_epsilon)},
        "Privacy Unit": unit,
        **({"Protected": days} if (days := day_promise(context.policy)) is not None else {}),
        "Role": context.role.name,
        "Confidence": float(confidence),
        **({"Rewritten": [name.replace("_", " ") for name in rewritten]} if rewritten else {}),
        **_vector(measurements),
        **({"Never Counted": list(unitless)} if unitless else {}),
        **({"Not Protected": list(unprotected)} if unprotected else {}),
        "Measurements": [_measurement(t) for t in told],
        **({"Reports": list(reports)} if reports else {}),
        "Post-Processing": outer,
    }


def _vector(measurements: Sequence[Measurement]) -> PlanAccount:
    """Of several measurements: the charge that their Gaussian columns share."""
    shared = [m.vector for m in measurements if m.vector is not None]
    if len(shared) < 2:
        return {}
    return {"Shared Gaussian Charge": {"Epsilon": _micro(shared[0].epsilon), "Delta": float(Fraction(shared[0].delta, ATTO))}}


def epsilon_text(micro: int) -> str:
    return f"{Decimal(micro) / MICRO:f}".rstrip("0").rstrip(".") if micro % MICRO else str(micro // MICRO)


def _micro(amount: int) -> float:
    return amount / MICRO


def _charge(loss: Loss) -> PlanAccount:
    found: PlanAccount = {"Epsilon": _micro(loss.epsilon)}
    return found | ({"Delta": float(Fraction(loss.delta, ATTO))} if loss.delta else {})


def _measurement(told: _Told) -> PlanAccount:
    m = told.measurement
    found: PlanAccount = {"Keys": [k.label for k in m.keys], "Charge": _charge(m.loss), "Bounds": list(m.notes)}
    if m.keys:
        found["Groups"] = _groups(told)
    found |= {"Read From": told.shape} if told.shape else {}
    found |= {"Asked Again": MOVING} if told.moving else {}
    if told.hidden:
        found["Hidden"] = told.hidden
    if told.left_out:
        found["Left Out"] = [rows_text(out) for out in told.left_out]
    found["Outputs"] = [_output(o, told) for o in told.outputs]
    found["Noise"] = [_basis(b, told) for b in m.bases]
    found["Selections"] = [_selection(s, told) for s in m.selections]
    return found


def _groups(told: _Told) -> PlanAccount:
    m = told.measurement
    if m.top is not None:
        return {
            "Top": m.top.k,
            "By": m.bases[m.top.score].label,
            "Epsilon": _micro(m.top.epsilon * m.top.k),
        } | (
            {"Declared": told.groups}
            if m.top.absent is None
            else {"Threshold": m.top.absent, "Delta": float(Fraction(m.top.delta, ATTO))}
        )
    if m.threshold is None:
        return {"Declared": told.groups} if told.groups is not None else {"Declared": "by a public table"}
    return {
        "Threshold": -(-m.threshold.tau // m.bases[m.threshold.basis].fine),
        "Weighed": bool(m.bases[m.threshold.basis].norm),
        "Delta": float(Fraction(m.threshold.delta, ATTO)),
        "Minimum Units": m.threshold.min_units,
    } | ({"Rounds": _rounds(m, m.threshold.first)} if m.threshold.first is not None else {})


def _rounds(m: Measurement, first: FirstRound) -> PlanAccount:
    """What the round before has of its own; its delta is part of the threshold's."""
    own = {"Threshold": -(-first.tau // m.bases[first.basis].fine), "Delta": float(Fraction(first.delta, ATTO))}
    return {"Number": 2, "First": own}


def _output(output: Output, told: _Told) -> PlanAccount:
    """An aggregate: its interval as far as it is known beforehand, and where its noise comes from."""
    found: PlanAccount = {"Aggregate": output.label}
    bases = [told.measurement.bases[i] for i in output.bases]
    found |= {"Bounds May Cut": True} if any(told.cut[i] for i in output.bases) else {}
    found |= {"No Interval": told.endless[output.label]} if output.label in told.endless else {}
    found |= {"Devices": output.devices} if output.devices else {}
    if output.kind == "linear":
        found |= _within(bases[0], told.confidence)
        found |= {"Steps": bases[0].steps} if bases[0].steps > 1 else {}
    elif output.kind == "mean":
        found["Within Times Rows"] = _mean_half(bases, told)
    elif output.selection is not None:
        selection = told.measurement.selections[output.selection]
        if selection.offset:
            found["Ranks Beside"] = selection.offset
        else:
            found["Within Ranks"] = rank_errors.ranks(selection, told.confidence)
        found["Selection"] = output.selection + 1
        return found
    return found | {"Noise": [i + 1 for i in output.bases]}


def _within(basis: Basis, confidence: Fraction) -> PlanAccount:
    """Of a group; of a sum of groups, where sums are asked for."""
    if basis.running is None:
        return {"Within": _half(basis, confidence)}
    return {"Within": float(sum_half_width(basis, confidence) * basis.grid), "Groups Added": basis.running.width}


def _half(basis: Basis, confidence: Fraction) -> float:
    return float(half_width(basis, confidence) * basis.grid)


def _mean_half(bases: Sequence[Basis], told: _Told) -> float:
    """How far a mean of n rows may be off, times n, to first order: the sum's share and the count's, which are independent."""
    count, total = bases
    half = Fraction(total.linf * count.fine, max(count.linf, 1) * total.fine)  # the most a mean can be off its centre
    own, others = half_width(total, told.confidence), half * half_width(count, told.confidence)
    return math.hypot(own, float(others)) * float(total.grid)


def _basis(basis: Basis, told: _Told) -> PlanAccount:
    return (
        {
            "Column": basis.label,
            "Mechanism": MECHANISMS[basis.mechanism],
            "Scale": float(basis.scale * basis.grid / basis.fine),
            "Within": _half(basis, told.confidence),
            "Epsilon": _micro(basis.loss.epsilon),
            "Sensitivity": float(basis.linf * basis.grid / basis.fine),
            "Groups Per Unit": "all together" if basis.norm else told.measurement.reach,
        }
        | ({"Steps": basis.steps} if basis.steps > 1 else {})
        | ({"Sums": True} if basis.running is not None else {})
    )


def _selection(selection: Selection, told: _Told) -> PlanAccount:
    return {
        "Column": selection.label,
        "Mechanism": "exponential on rank" if selection.kind == "quantile" else "exponential on counts",
        "Values": selection.size,
        "Epsilon": _micro(selection.loss.epsilon),
        "Sensitivity": selection.sensitivity,
        "Groups Per Unit": told.measurement.l0,
    }


# --- spelling

_IGNORED = {
    "PRIVACY",
    "VERBOSE",
    "COSTS",
    "SETTINGS",
    "GENERIC_PLAN",
    "BUFFERS",
    "SERIALIZE",
    "WAL",
    "TIMING",
    "SUMMARY",
    "MEMORY",
}
"""PostgreSQL's options, and ours: what they ask for is always or never told."""

_OFF = {"FALSE", "OFF", "0", "NO"}


def explain_format(options: Sequence[str]) -> Literal["text", "json"]:
    """Return the format that EXPLAIN's words (upper case, commas between options) ask for. Raises Refusal."""
    chosen: dict[str, str] = {}
    for option in " ".join(options).replace("ANALYSE", "ANALYZE").split(","):
        name, _, value = option.strip().partition(" ")
        chosen[name] = value.strip()
    chosen.pop("", None)
    if chosen.pop("ANALYZE", "OFF") not in _OFF:
        raise Refusal(FEATURE_NOT_SUPPORTED, "EXPLAIN over private tables does not run the query", hint="Leave out ANALYZE.")
    name = chosen.pop("FORMAT", "TEXT")
    if name not in ("TEXT", "JSON"):
        raise Refusal(FEATURE_NOT_SUPPORTED, "EXPLAIN over private tables has the formats TEXT and JSON")
    unknown = sorted(chosen.keys() - _IGNORED)
    if unknown:
        raise Refusal(SYNTAX_ERROR, f'unrecognized EXPLAIN option "{unknown[0].lower()}"')
    return "json" if name == "JSON" else "text"


def explain_rows(told: PlanAccount, options: Sequence[str]) -> tuple[str, ...]:
    """Write the rows of EXPLAIN in the format asked for. Raises Refusal."""
    return as_json(told) if explain_format(options) == "json" else as_text(told)


def as_json(told: PlanAccount) -> tuple[str, ...]:
    """One row, as PostgreSQL's EXPLAIN (FORMAT JSON) has it."""
    return (json.dumps([{"Privacy Plan": told}], indent=2, ensure_ascii=False),)


def as_text(told: PlanAccount) -> tuple[str, ...]:
    """Write the rows of EXPLAIN as text."""
    most = _number(told["Charge"]["Maximum Epsilon"])
    lines = [f"Differentially Private Answer  (charge {_price(told['Charge'])}; a query may cost up to {most})"]
    percent = _number(told["Confidence"] * 100)
    lines.append(f"  Privacy unit: {told['Privacy Unit']}; role: {told['Role']}; intervals hold with {percent} % (noise alone)")
    lines += [f"  Protected: {told['Protected']}"] if "Protected" in told else []
    if "Preview" in told:
        lines.append(f"  {told['Preview'].capitalize()}")
    if "Rewritten" in told:
        lines.append(f"  Rewritten before planning: {', '.join(told['Rewritten'])}")
    if "Shared Gaussian Charge" in told:
        lines.append(
            f"  Gaussian noise of all measurements shares {_price(told['Shared Gaussian Charge'])}; "
            "the price at each measurement is that of it alone"
        )
    if "Not Protected" in told:
        lines.append(f"  Not protected: {'; '.join(told['Not Protected'])}")
    if "Never Counted" in told:
        lines.append(f"  Never counted: {', '.join(told['Never Counted'])}")
    if not told["Measurements"] and "Reports" not in told:
        lines.append("  No measurement: nothing private is read")
    for number, measurement in enumerate(told["Measurements"], 1):
        lines += [f"  {line}" for line in _measurement_lines(number, measurement, told["Privacy Unit"])]
    for reading in told.get("Reports", ()):
        lines += [f"  {line}" for line in reports_lines(reading)]
    return (*lines, *_post_processing(told["Post-Processing"]))


MOST_LINES, WIDTH = 24, 130
"""Of the outer query in EXPLAIN's text."""


def _post_processing(outer: str) -> Iterator[str]:
    """The outer query in lines, the first ones of a long one."""
    text = f"Post-processing (free): {_readable(outer)}"
    wrapped = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False, replace_whitespace=False)
    yield from (f"{'    ' if n else '  '}{line}" for n, line in enumerate(wrapped[:MOST_LINES]))
    if len(wrapped) > MOST_LINES:
        rest = sum(map(len, wrapped[MOST_LINES:]))
        yield f"    ... {rest} characters more: EXPLAIN (FORMAT JSON) has all of it"


_RELEASED = re.compile(r"UNNEST\((?:CAST\(\$\d+ AS [^\[\]]*\[\]\)(?:, )?)+\) AS (\w+)\(([^()]*)\)")


def _readable(outer: str) -> str:
    """The outer query with the released columns named where they are unnested: `m1(k0, b0)`, not how they travel."""
    return _RELEASED.sub(r"\1(\2)", outer).replace("dpproxy_m", "m")


def _measurement_lines(number: int, told: PlanAccount, unit: str) -> Iterator[str]:
    keys = f" by {', '.join(told['Keys'])}" if told["Keys"] else ""
    yield f"-> Measurement {number}{keys}  ({_price(told['Charge'])})"
    yield from (f"     Bound: {note}" for note in told["Bounds"])
    if "Groups" in told:
        yield f"     Groups: {_groups_text(told['Groups'], unit)}"
    if "Read From" in told:
        yield f"     Read from: {told['Read From']}"
    if "Asked Again" in told:
        yield f"     Asked again: {told['Asked Again']}"
    if "Hidden" in told:
        yield f"     Hidden: {told['Hidden']}"
    if "Left Out" in told:
        yield f"     In no group: {', '.join(told['Left Out'])}"
    for output in told["Outputs"]:
        yield f"     -> {output['Aggregate']}  {_error_text(output)}"
        if "Devices" in output:
            yield f"        Devices: {output['Devices']}; intervals hold both noises"
    for i, basis in enumerate(told["Noise"], 1):
        yield f"     Noise {i}: {_noise_text(basis)}"
    for i, selection in enumerate(told["Selections"], 1):
        yield f"     Selection {i}: {_selection_text(selection)}"


def _price(charge: PlanAccount) -> str:
    delta = f", delta={_delta(charge['Delta'])}" if "Delta" in charge else ""
    return f"epsilon={_number(charge['Epsilon'])}{delta}"


def _delta(value: float) -> str:
    """To its last digit, as notices, tables and the command line spell it (`ledger.ledger.decimal`)."""
    return f"{Decimal(repr(value)):f}"


def _number(value: float) -> str:
    """Micro-epsilon and percentages to their last digit, others to six digits."""
    text = f"{value:.6f}".rstrip("0").rstrip(".")
    return text if abs(value) < 10**6 and text not in ("0", "-0") else digits(value)


def _groups_text(groups: PlanAccount, unit: str) -> str:
    if "Top" in groups and "Declared" in groups:
        return (
            f"the {groups['Top']} groups with nearly the highest {groups['By']}, of the {groups['Declared']} declared ones; "
            f"chosen by the exponential mechanism (epsilon={_number(groups['Epsilon'])})"
        )
    if "Declared" in groups:
        known = f" {groups['Declared']}" if isinstance(groups["Declared"], int) else ""
        return f"all{known} declared ones, empty ones too"
    if "Top" in groups:
        return (
            f"the {groups['Top']} groups with nearly the highest {groups['By']}, "
            f"of groups with {groups['By']} of about {groups['Threshold']} or more; "
            f"chosen by the exponential mechanism (epsilon={_number(groups['Epsilon'])}, delta={_delta(groups['Delta'])})"
        )
    fewest = groups["Minimum Units"]
    never = f"; groups of fewer than {fewest} {plural(unit)} are never shown" if fewest > 1 else ""
    of = "weight" if groups["Weighed"] else "number"
    return f"groups with a noisy {of} of {plural(unit)} of {groups['Threshold']} or more (delta={_delta(groups['Delta'])}){never}"


def _error_text(output: PlanAccount) -> str:
    if "Within" in output:
        more = "; about twice as wide for each larger class that is scaled back up" if "Steps" in output else ""
        more += f" for a sum of {output['Groups Added']} groups" if "Groups Added" in output else ""
        told = f"within +-{digits(output['Within'])}{more}"
    elif "Within Times Rows" in output:
        told = f"within about +-{digits(output['Within Times Rows'])} / n, of n rows"
    elif "Within Ranks" in output:
        return f"within {output['Within Ranks']} ranks{_no_interval(output)}  (selection {output['Selection']})"
    elif "Ranks Beside" in output:
        beside = output["Ranks Beside"]
        side = "below" if beside < 0 else "above"
        taken = f"is taken about {abs(beside)} ranks {side} the percentile, to be on the safe side"
        return f"{taken}  (selection {output['Selection']})"
    else:
        told = "error by dpproxy.low() and dpproxy.high()"
    cut = "; what bounds cut comes on top" if "Bounds May Cut" in output else ""
    return f"{told}{cut}{_no_interval(output)}  (noise {', '.join(map(str, output['Noise']))})"


def _no_interval(output: PlanAccount) -> str:
    return f"; no interval: {output['No Interval']}" if "No Interval" in output else ""


def _noise_text(basis: PlanAccount) -> str:
    steps = f" for each of {basis['Steps']} classes" if "Steps" in basis else " for each group" if "Sums" in basis else ""
    return (
        f"{basis['Column']}: {basis['Mechanism']}, scale {digits(basis['Scale'])}, within +-{digits(basis['Within'])}{steps} "
        f"(epsilon={_number(basis['Epsilon'])}, sensitivity {digits(basis['Sensitivity'])} {_reached(basis['Groups Per Unit'])})"
    )


def _reached(groups: int | str) -> str:
    return f"x {groups} groups" if isinstance(groups, int) else f"over {groups}"


def _selection_text(selection: PlanAccount) -> str:
    return (
        f"{selection['Column']}: {selection['Mechanism']}, of {selection['Values']} values "
        f"(epsilon={_number(selection['Epsilon'])}, {selection['Sensitivity']} rows x {selection['Groups Per Unit']} groups)"
    )
