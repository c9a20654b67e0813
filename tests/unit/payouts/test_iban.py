"""Our IBAN check, compared with schwifty's, which also knows each country's form."""

import random

import pytest
from schwifty import IBAN

from settlement.payouts.iban import is_iban

COUNTRIES = ("AT", "BE", "CH", "DE", "ES", "FR", "GB", "IT", "MT", "NL", "NO", "PL", "PT", "SE")


@pytest.mark.parametrize("country", COUNTRIES)
def test_each_iban_that_schwifty_generates_is_accepted(country: str) -> None:
    chance = random.Random(country)
    for _ in range(20):
        iban = IBAN.random(country, random=chance).compact
        assert is_iban(iban)
        assert not is_iban(iban.lower())


@pytest.mark.parametrize("country", COUNTRIES)
def test_a_mistyped_digit_is_found(country: str) -> None:
    chance = random.Random(country)
    for _ in range(50):
        iban = IBAN.random(country, random=chance).compact
        place = chance.choice([at for at, one in enumerate(iban) if one.isdecimal()])
        typed = f"{iban[:place]}{chance.choice('0123456789')}{iban[place + 1 :]}"
        assert is_iban(typed) == (typed == iban)
