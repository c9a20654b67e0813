"""Secrets that the stage shares with a provider."""

import json
import string
from collections.abc import Mapping

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from .settings import CoreSettings


def new_secret(
    scope: Construct, construct_id: str, known: Mapping[str, None], generated: str, settings: CoreSettings
) -> secretsmanager.ISecret:
    """Create a secret with a random value under `generated`, until an operator stores the real one."""
    secret = secretsmanager.CfnSecret(
        scope,
        construct_id,
        generate_secret_string=secretsmanager.CfnSecret.GenerateSecretStringProperty(
            secret_string_template=json.dumps(known),
            generate_string_key=generated,
            exclude_characters=string.punctuation,  # a signing key must be base64
            password_length=44,
        ),
    )
    secret.apply_removal_policy(settings.removal_policy)
    # Not its Ref, which is the ARN on AWS, but the name on the embedded AWS.
    return secretsmanager.Secret.from_secret_complete_arn(scope, f"{construct_id}Arn", secret.attr_id)


def let_read(function: lambda_.Function, secret: secretsmanager.ISecret) -> None:
    """Let a function read a secret. CDK's own grant would also allow DescribeSecret."""
    function.add_to_role_policy(
        iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[secret.secret_arn])
    )
