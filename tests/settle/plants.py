"""Faults that tests plant in a `Book`, and answers of the proof's second looks."""

from collections.abc import Callable
from typing import Any

from settlement.proof import Difference, Look
from tests.settle.book import Book, Row

Plant = Callable[[Book], object]
Find = Callable[[Book], Row]


def always(look: Look) -> Callable[[Difference], Look]:
    return lambda difference: look


def nothing_to_look_at(difference: Difference) -> Look:
    raise AssertionError(f"{difference.key['pk']} agrees with its entries and needs no second look")


def row(pk: str) -> Find:
    return lambda book: book.row(pk)


def settlement(key: str) -> Find:
    return row(f"SETTLEMENT#{key}")


def entry(key: str, step: str) -> Find:
    return lambda book: book.entry(key, step)


def evidence(key: str, step: str) -> Find:
    return lambda book: book.evidence(key, step)


def change(find: Find, **attributes: Any) -> Plant:
    return lambda book: find(book).update(attributes)


def add(find: Find, name: str, amount: int) -> Plant:
    return lambda book: find(book).update({name: find(book)[name] + amount})


def lose(find: Find, *names: str) -> Plant:
    return lambda book: [find(book).pop(name) for name in names]


def drop(find: Find) -> Plant:
    return lambda book: book.remove(find(book))


def all_of(*plants: Plant) -> Plant:
    """Combine changes that together preserve the sums."""
    return lambda book: [plant(book) for plant in plants]
