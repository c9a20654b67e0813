from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settlement.core.model.errors import JournalUnavailable
from settlement.journal.objects import OBJECT_BYTES_MAX, Found

_GONE = ("NoSuchKey", "NoSuchVersion", "MethodNotAllowed")
"""S3's answers for a missing object or a deletion marker."""


@dataclass
class _Versions:
    ids: list[str] = field(default_factory=list)
    is_deleted: bool = False

    @property
    def fault(self) -> str | None:
        """The object's fault: it was deleted, or put again."""
        if self.is_deleted:
            return "was deleted" + (", and its first version is still there" if self.ids else "")
        if len(self.ids) > 1:
            return f"was put {len(self.ids)} times; its first version is read"
        return None


class Bucket:
    def __init__(self, client: Any, bucket: str, prefix: str = "") -> None:
        self._client, self._bucket = client, bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    def objects(self, folder: str, after: str = "") -> Iterator[Found]:
        """Yield objects, even if deleted or put again."""
        waiting: dict[str, _Versions] = {}
        behind = {"KeyMarker": self._prefix + after} if after else {}
        pages_of = self._client.get_paginator("list_object_versions")
        for page in pages_of.paginate(Bucket=self._bucket, Prefix=self._prefix + folder, **behind):
            for one in page.get("Versions", ()):
                waiting.setdefault(one["Key"], _Versions()).ids.append(one["VersionId"])
            for one in page.get("DeleteMarkers", ()):
                waiting.setdefault(one["Key"], _Versions()).is_deleted = True
            for name in sorted(waiting)[:-1]:  # the next page may have more versions of the last name
                yield self._found(name, waiting.pop(name))
        for name in sorted(waiting):
            yield self._found(name, waiting[name])

    def read(self, found: Found) -> bytes:
        """Read an object as it was first put.

        Raises OSError if the object is missing or too large. Raises JournalUnavailable if S3 does not answer.
        """
        key = self._prefix + found.name
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key, VersionId=found.version)
            if answer["ContentLength"] > OBJECT_BYTES_MAX:  # a forged one would take all memory
                raise OSError("is too large")
            content: bytes = answer["Body"].read()
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code not in _GONE:
                raise
            raise OSError(code) from error
        except BotoCoreError as error:
            raise JournalUnavailable(f"get_object: {type(error).__name__}") from error
        return content

    def _found(self, key: str, versions: _Versions) -> Found:
        oldest = versions.ids[-1] if versions.ids else "null"
        return Found(key.removeprefix(self._prefix), oldest, versions.fault)


class Directory:
    def __init__(self, path: Path) -> None:
        self._path = path

    def objects(self, folder: str, after: str = "") -> Iterator[Found]:
        files = (one for one in self._path.joinpath(folder).rglob("*") if one.is_file())
        for name in sorted(one.relative_to(self._path).as_posix() for one in files):
            if name > after:
                yield Found(name)

    def read(self, found: Found) -> bytes:
        return self._path.joinpath(found.name).read_bytes()
