from tests.proof.aged import aged, reconciled
from tests.proof.test_retention import without


def test_a_swept_sum_stays_after_its_entries_have_expired() -> None:
    swept = [key for key in aged("swept") if key[0].startswith("SWEPT#")]
    forged = without(aged("swept"), swept[0])

    assert len(swept) == 2
    assert reconciled(aged("swept")).unswept == {}
    assert not reconciled(forged).conserved
