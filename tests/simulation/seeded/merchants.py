"""Checks that sweeps make each release to a merchant available exactly once."""

from tests.simulation.seeded.facts import Sums, demand, is_merchant, key_of, number, text
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Changes

Second = tuple[str, str]
"""A merchant's entry partition, and a second of `posted_at`."""


class Merchants:
    def __init__(self) -> None:
        self.unswept: Sums[str] = Sums()
        """Money that is received but not yet spendable, in minor units."""

        self._sums: dict[Second, frozenset[int]] = {}
        """By second, each sum of releases that a sweep can read, because its pages are not isolated."""

        self._received: Sums[Second] = Sums()
        self._folded: dict[Second, int] = {}
        self._own: dict[str, tuple[Second, int]] = {}
        """Per settlement, its release's second, and that second's total up to this release."""

    def copy(self) -> "Merchants":
        other = Merchants()
        other.unswept, other._received = Sums(self.unswept), Sums(self._received)
        other._sums, other._folded, other._own = self._sums.copy(), self._folded.copy(), self._own.copy()
        return other

    def received(self, entry: Item) -> None:
        amount, second = number(entry, "amount"), (entry["pk"]["S"], entry["posted_at"]["S"][:19])
        self.unswept[entry["credit"]["S"]] += amount
        self._received[second] += amount
        before = self._sums.get(second, frozenset({0}))
        self._sums[second] = before | {amount + each for each in before}
        self._own[key_of(entry)] = (second, self._received[second])

    def swept(self, changes: Changes) -> Sums[str]:
        added: Sums[str] = Sums()
        kinds = {(new or old or {})["pk"]["S"].partition("#")[0] for old, new in changes}
        if "SWEPT" not in kinds:
            return added
        demand(kinds == {"SWEPT", "ACCOUNT"}, "a sweep writes what is folded and the balance alone", kinds)
        for old, new in changes:
            demand(new, "what is folded is never forgotten")
            assert new
            kind, _, partition = new["pk"]["S"].partition("#")
            if kind == "SWEPT":
                merchant = partition.partition("#")[2].rpartition("#")[0]
                demand(is_merchant(merchant), "a merchant alone is swept", merchant)
                following = number(old, "version") + 1 == number(new, "version")
                demand(following, "each sweep follows the one before", partition, text(new, "sk"))
                added[merchant] += self._fold(partition, new)
        for merchant, amount in added.items():
            self.unswept[merchant] -= amount
        return added

    def is_swept(self, key: str) -> bool:
        """Return whether a settlement's release to a merchant is in the balance."""
        second, total = self._own.get(key, (("", ""), 0))
        return self._folded.get(second, 0) >= total

    def _fold(self, partition: str, row: Item) -> int:
        grown, minute = 0, row["sk"]["S"]
        folded = {f"{minute}:{second}": int(total["N"]) for second, total in row["folded"]["M"].items()}
        known = {
            at: total for (of, at), total in self._folded.items() if of == partition and at[:16] == minute
        }
        for at in folded.keys() | known.keys():
            total, before = folded.get(at, 0), known.get(at, 0)
            demand(total >= before, "what is folded never shrinks", partition, at)
            received = self._received[partition, at]
            demand(total <= received, "no more is folded than was received", partition, at, total, received)
            is_sum = total in self._sums.get((partition, at), {0})
            demand(is_sum, "what is folded is the sum of releases", partition, at, total)
            self._folded[partition, at] = total
            grown += total - before
        demand(grown > 0, "a sweep folds something", partition, minute)
        return grown
