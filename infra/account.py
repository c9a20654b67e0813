import os

import boto3


def session() -> boto3.Session:
    """Return a session in AWS_REGION, which the CDK reads first and boto3 ignores."""
    return boto3.Session(region_name=os.environ.get("AWS_REGION") or None)
