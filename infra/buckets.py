from aws_cdk import aws_s3 as s3
from constructs import Construct

from .settings import CoreSettings


def new_bucket(scope: Construct, construct_id: str, settings: CoreSettings) -> s3.Bucket:
    """A bucket of files from outside: private, encrypted, and with each version kept."""
    return s3.Bucket(
        scope,
        construct_id,
        encryption=s3.BucketEncryption.S3_MANAGED,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        enforce_ssl=not settings.is_embedded,  # the embedded AWS speaks plain HTTP
        versioned=True,
        removal_policy=settings.removal_policy,
    )
