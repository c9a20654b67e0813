import os

import boto3


def session() -> boto3.Session:
    """Return a session in AWS_REGION. The CDK reads this variable first; boto3 ignores it."""
    return boto3.Session(region_name=os.environ.get("AWS_REGION") or None)
