"""An element of camt.053 or camt.054 with its texts."""

import re
from collections import Counter
from dataclasses import dataclass, field

from settlement.bank import fields
from settlement.bank.fields import refuse, shown
from settlement.bank.statement import Side

_SIDES = {"CRDT": Side.IN, "DBIT": Side.OUT}
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_ONCE = {"Document", "GrpHdr"}


@dataclass(slots=True)
class Value:
    """An element's text, its attribute Ccy, and its line in the file."""

    text: str
    currency: str
    line: int


@dataclass(slots=True)
class Element:
    name: str
    line: int
    parent: "Element | None" = None
    values: dict[str, list[Value]] = field(default_factory=dict)
    children: Counter[str] = field(default_factory=Counter)
    number: int = 0

    def __post_init__(self) -> None:
        if self.parent is not None:
            self.parent.children[self.name] += 1
            self.number = self.parent.children[self.name]

    @property
    def where(self) -> str:
        """The element's numbered path below the message, such as Stmt[1]/Ntry[17]."""
        if self.parent is None or self.parent.parent is None:
            return self.name
        own = self.name if self.name in _ONCE else f"{self.name}[{self.number}]"
        return own if self.parent.parent.parent is None else f"{self.parent.where}/{own}"

    def find(self, *paths: str) -> Value | None:
        return next(
            (values[0] for path in paths if (values := self.values.get(path)) and values[0].text), None
        )

    def text(self, *paths: str) -> str:
        value = self.find(*paths)
        return value.text if value else ""

    def texts(self, path: str) -> list[str]:
        return [value.text for value in self.values.get(path, ())]

    def need(self, *paths: str, hint: str = "") -> Value:
        value = self.find(*paths)
        if value is None:
            refuse(self.line, f"{self.where}/{paths[0]}", f"is missing{hint}")
        return value

    def side(self, value: Value) -> Side:
        if value.text not in _SIDES:
            refuse(value.line, f"{self.where}/CdtDbtInd", f"is {shown(value.text)}; must be CRDT or DBIT")
        return _SIDES[value.text]

    def flag(self, path: str) -> bool:
        value = self.find(path)
        if value is None:
            return False
        if value.text not in _FLAGS:
            refuse(value.line, f"{self.where}/{path}", f"is {shown(value.text)}; must be true or false")
        return _FLAGS[value.text]

    def day(self, *paths: str) -> str | None:
        value = self.find(*paths)
        try:
            return None if value is None else fields.day(value.text)
        except ValueError as error:
            refuse(value.line if value else self.line, f"{self.where}/{paths[0]}", str(error))

    def digits(self, *paths: str) -> int | None:
        value = self.find(*paths)
        if value is None:
            return None
        if _NUMBER.fullmatch(value.text) is None:
            refuse(value.line, f"{self.where}/{paths[0]}", f"is {shown(value.text)}; must be a whole number")
        return int(value.text)
