"""Templates of the catalogue, filled in with operands as an engine writes them.

Knows: templates (`plan.operations.operation`). Must not know: operations, engines' types. An operand is written once in each form
that a template asks for, however often it stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Operand:
    """An operand that is written when a template asks for it. `written`: its text in a form."""

    def __init__(self, written: Callable[[str], str]) -> None:
        self._written, self._texts = written, dict[str, str]()

    def __format__(self, form: str) -> str:
        if form not in self._texts:
            self._texts[form] = self._written(form)
        return self._texts[form]


class All:
    """All operands, in a form and with what is between two of them: `{all:w|, }`."""

    def __init__(self, operands: Sequence[object]) -> None:
        self._operands = operands

    def __format__(self, spec: str) -> str:
        form, _, between = spec.partition("|")
        return between.join(format(operand, form) for operand in self._operands)


class Later:
    """A text that is made when a template asks for it."""

    def __init__(self, made: Callable[[], str]) -> None:
        self._made = made

    def __format__(self, _: str) -> str:
        return self._made()


class Fixed(str):
    """A text that stands for an operand, in whatever form."""

    __slots__ = ()

    def __format__(self, _: str) -> str:
        return str(self)


def filled(template: str, operands: Sequence[object], whole: Callable[[], str]) -> str:
    """Return a template's text. `whole`: the engine's type of the result."""
    return template.format(*operands, all=All(operands), whole=Later(whole))
