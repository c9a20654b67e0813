"""The session in which tools look at an account: in the region to which the CDK deploys."""

import os

import boto3


def session() -> boto3.Session:
    """Return a session in the region of AWS_REGION, which the CDK reads first and boto3 does not read.

    Without it, the region is boto3's own: AWS_DEFAULT_REGION, or the profile's.
    """
    return boto3.Session(region_name=os.environ.get("AWS_REGION") or None)
