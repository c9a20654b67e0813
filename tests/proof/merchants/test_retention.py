from tests.proof.aged import aged, reconciled
from tests.proof.test_retention import without


def test_what_is_folded_stays_beside_the_entries_that_are_gone() -> None:
    swept = [key for key in aged("swept") if key[0].startswith("SWEPT#")]
    forged = without(aged("swept"), swept[0])

    assert len(swept) == 2
    assert reconciled(aged("swept")).unswept == {}
    assert not reconciled(forged).conserved
