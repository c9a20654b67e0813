import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from aws_cdk import RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from .core import Added, Core, Room
from .grants import ENTRIES, EVIDENCE, ORDER, SETTLEMENT, Handler
from .settings import CoreSettings
from .table import DESTINATION, PAYOUT_CASE, PAYRUN_DECISION

SIGNED = frozenset({SETTLEMENT, ENTRIES, EVIDENCE, ORDER, DESTINATION, PAYOUT_CASE, PAYRUN_DECISION})
"""Kinds of signed rows, as in `signing/signature.py`."""

_KEYS_MAX = 20
"""Maximum keys. ReconcileBooks has all of them in its environment, which takes 4 KB."""

PROVING = "ReconcileBooks"
"""The function with every key, because it also proves rows signed by earlier keys."""


@dataclass(frozen=True, kw_only=True)
class SigningSettings(CoreSettings):
    """Numbers of the keys that sign rows. Keys 1 to `row_keys` exist; `signing_key` signs.

    See docs/decisions/2026-11-22-signed-rows.md.
    """

    row_keys: int = 1
    signing_key: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.row_keys <= _KEYS_MAX:
            raise ValueError(f"row_keys: must be from 1 to {_KEYS_MAX}")
        if not 1 <= self.signing_key <= self.row_keys:
            raise ValueError("signing_key: must be from 1 to row_keys")


class RowKeys(Construct):
    """Keys that sign rows, and the key that encrypts them.

    CloudFormation writes the keys into the environment: reading a secret would slow each cold start. Only
    users of the encryption key can read the environment or the secrets.
    """

    def __init__(self, core: Core, settings: SigningSettings) -> None:
        super().__init__(core.scope, "RowKeys")
        removal_policy = settings.removal_policy
        self.encryption = kms.Key(self, "Key", enable_key_rotation=True, removal_policy=removal_policy)
        secrets = [self._secret(number, removal_policy) for number in range(1, settings.row_keys + 1)]
        self.arns = [secret.attr_id for secret in secrets]
        self._signing = settings.signing_key
        self._texts = [
            f"{number}:{{{{resolve:secretsmanager:{arn}}}}}" for number, arn in enumerate(self.arns, start=1)
        ]

    def environment(self, function: str) -> dict[str, str]:
        """Return the variable with a function's keys: all keys for the proof, else the signing key."""
        if function == PROVING:
            return {"ROW_KEYS": " ".join(self._texts)}
        return {"ROW_KEYS": self._texts[self._signing - 1]}

    def give_all(self, function: lambda_.Function) -> None:
        """Give a function all signing keys, to prove rows. It signs with the last one."""
        signing = self._texts[self._signing - 1]
        keys = [*(one for one in self._texts if one != signing), signing]
        self.give(function, {"ROW_KEYS": " ".join(keys)})

    def give(self, function: lambda_.Function, environment: Mapping[str, str]) -> None:
        for variable, keys in environment.items():
            function.add_environment(variable, keys)
        cast("lambda_.CfnFunction", function.node.default_child).kms_key_arn = self.encryption.key_arn

    def _secret(self, number: int, removal_policy: RemovalPolicy) -> secretsmanager.CfnSecret:
        secret = secretsmanager.CfnSecret(
            self,
            f"Secret{number}",
            kms_key_id=self.encryption.key_arn,
            generate_secret_string=secretsmanager.CfnSecret.GenerateSecretStringProperty(
                exclude_characters=string.punctuation, password_length=44
            ),
        )
        secret.apply_removal_policy(removal_policy)
        return secret


def signing(handlers: Mapping[str, Handler]) -> list[str]:
    return [name for name, handler in handlers.items() if handler.puts & SIGNED]


def build(core: Core, settings: SigningSettings) -> Added:
    part = RowKeys(core, settings)
    for name in {*signing(core.handlers), PROVING} & core.functions.keys():
        part.give(core.functions[name], part.environment(name))
    return Added(part=part, outputs={"RowKeyArns": " ".join(part.arns)})


ROOM = Room(build=build)
