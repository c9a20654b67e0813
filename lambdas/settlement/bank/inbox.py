"""The prefix for a bank's files, and the journal's bucket, in which the files are kept."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple

from botocore.config import Config
from botocore.exceptions import ClientError

from settlement.aws import clients

INCOMING, KEPT = "incoming/", "statements/"

_BYTES_MAX = 2**30
"""Largest file: a quarter of the function's disk. The comparison needs as much again."""

_NAME_MAX = 200
_CHUNK = 2**20

_client = clients.LazyClient(
    "s3", Config(connect_timeout=2, read_timeout=30, retries={"total_max_attempts": 3, "mode": "standard"})
)


class Taken(Exception):
    """Another run has removed the file, or is keeping it."""


class Waiting(NamedTuple):
    """A file to read: one version of an object, because another may get the same name meanwhile."""

    key: str
    version: str
    size: int
    put_at: str

    @property
    def name(self) -> str:
        return "".join(one for one in self.key.removeprefix(INCOMING) if one.isprintable())[:_NAME_MAX]

    @property
    def is_too_large(self) -> bool:
        return self.size > _BYTES_MAX


def waiting() -> list[Waiting]:
    """Files to read, oldest first."""
    found = list[Waiting]()
    pages = _client.get_paginator("list_object_versions")
    for page in pages.paginate(Bucket=os.environ["STATEMENTS_BUCKET"], Prefix=INCOMING):
        for one in page.get("Versions", ()):
            if not one["Key"].endswith("/"):  # a folder of the console
                at = one["LastModified"].isoformat()
                found.append(Waiting(one["Key"], one["VersionId"], one["Size"], at))
    return sorted(found, key=lambda one: (one.put_at, one.key, one.version))


@contextmanager
def opened(one: Waiting) -> Iterator[tuple[BinaryIO, str]]:
    """Copy a file to the function's disk; yield it and its SHA-256. Raises Taken."""
    try:
        answer = _client.get_object(
            Bucket=os.environ["STATEMENTS_BUCKET"], Key=one.key, VersionId=one.version
        )
    except ClientError as error:
        if _code(error) in _GONE:
            raise Taken from error
        raise
    digest = hashlib.sha256()
    with TemporaryFile() as file:
        for chunk in iter(lambda: answer["Body"].read(_CHUNK), b""):
            digest.update(chunk)
            file.write(chunk)
        file.seek(0)
        yield file, digest.hexdigest()


def keep(file: BinaryIO, digest: str) -> None:
    """Put a file into the journal's bucket, under its digest, once. Raises Taken."""
    file.seek(0)
    try:
        _client.put_object(
            Bucket=os.environ["JOURNAL_BUCKET"],
            Key=f"{KEPT}{digest}",
            Body=file,
            IfNoneMatch="*",
            ChecksumAlgorithm="SHA256",
        )
    except ClientError as error:
        if _code(error) in _CONFLICT:
            raise Taken from error
        if _code(error) != _THERE:
            raise


def remove(one: Waiting) -> None:
    _client.delete_object(Bucket=os.environ["STATEMENTS_BUCKET"], Key=one.key, VersionId=one.version)


def _code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])


_THERE = "PreconditionFailed"
"""S3's answer for a taken name, whose object has the same bytes."""

_CONFLICT = ("ConditionalRequestConflict",)
"""S3's answer while another run puts the name."""

_GONE = ("NoSuchKey", "NoSuchVersion")
"""S3's answers for a version that another run has removed."""
