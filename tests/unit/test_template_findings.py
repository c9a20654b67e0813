import tomllib

from tools.check_templates import EXPLAINED, Finding, unexplained

PUBLIC = Finding("CKV_AWS_258", "KycDecidedFunctionUrl", "Ensure that AuthType is not None")
KEPT = {"CKV_AWS_258": {"on": ["KycDecided*"], "reason": "the provider has no AWS identity"}}


def test_findings_and_explanations_must_correspond() -> None:
    another = PUBLIC._replace(resource="TakeOrderFunctionUrl")

    assert list(unexplained({PUBLIC}, KEPT)) == []
    assert list(unexplained({PUBLIC, another}, KEPT)) == [
        "CKV_AWS_258 TakeOrderFunctionUrl: Ensure that AuthType is not None"
    ]
    assert list(unexplained({PUBLIC}, {})) == [
        "CKV_AWS_258 KycDecidedFunctionUrl: Ensure that AuthType is not None"
    ]
    assert list(unexplained(set(), KEPT)) == [
        "CKV_AWS_258 KycDecided*: is explained, and found no more; remove it"
    ]


def test_each_explanation_has_a_reason() -> None:
    explained = tomllib.loads(EXPLAINED.read_text())

    assert {name for name, one in explained.items() if len(one["reason"]) < 40 or not one["on"]} == set()
