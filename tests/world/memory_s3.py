import io
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

_WHEN = datetime(2026, 11, 22, tzinfo=UTC)


class MemoryS3:
    """S3 in memory. Each object has versions, oldest first; None is a delete marker."""

    def __init__(self, page: int = 1_000) -> None:
        self.versions: dict[str, list[bytes | None]] = {}
        self._removed: set[tuple[str, str]] = set()
        """Permanently deleted versions."""

        self._page = page

    @property
    def objects(self) -> dict[str, bytes]:
        newest = {
            name: content
            for name, versions in sorted(self.versions.items())
            for number, content in enumerate(versions)
            if (name, str(number)) not in self._removed
        }
        return {name: content for name, content in newest.items() if content is not None}

    # The client's operations.

    def put_object(
        self,
        *,
        Bucket: str,  # noqa: N803
        Key: str,  # noqa: N803
        Body: Any,  # noqa: N803
        IfNoneMatch: str = "",  # noqa: N803
        ChecksumAlgorithm: str = "",  # noqa: N803
    ) -> Any:
        if IfNoneMatch and Key in self.objects:
            raise _error("PutObject", "PreconditionFailed")
        self.versions.setdefault(Key, []).append(Body if isinstance(Body, bytes) else Body.read())
        return {}

    def get_object(self, *, Bucket: str, Key: str, VersionId: str = "") -> Any:  # noqa: N803
        versions = self.versions.get(Key, [])
        number = int(VersionId) if VersionId.isdecimal() else len(versions) - 1
        if (Key, str(number)) in self._removed:
            raise _error("GetObject", "NoSuchVersion")
        if not 0 <= number < len(versions) or (content := versions[number]) is None:
            raise _error("GetObject", "NoSuchKey")
        return {"Body": io.BytesIO(content), "ContentLength": len(content)}

    def delete_object(self, *, Bucket: str, Key: str, VersionId: str = "") -> Any:  # noqa: N803
        if VersionId:
            self._removed.add((Key, VersionId))
        else:
            self.versions[Key].append(None)

    def list_objects_v2(
        self,
        *,
        Bucket: str,  # noqa: N803
        Prefix: str,  # noqa: N803
        StartAfter: str = "",  # noqa: N803
        ContinuationToken: str = "",  # noqa: N803
    ) -> Any:
        after = ContinuationToken or StartAfter
        names = [name for name in self.objects if name.startswith(Prefix) and name > after]
        page = [{"Key": name} for name in names[: self._page]]
        if len(names) <= self._page:
            return {"Contents": page, "IsTruncated": False} if page else {"IsTruncated": False}
        return {"Contents": page, "IsTruncated": True, "NextContinuationToken": page[-1]["Key"]}

    def get_paginator(self, operation: str) -> Any:
        assert operation == "list_object_versions"
        return SimpleNamespace(paginate=self._versions)

    def list_object_versions(self, **parameters: Any) -> Any:
        return {"IsTruncated": False, **next(self._versions(**parameters), {})}

    def _versions(self, *, Bucket: str, Prefix: str, KeyMarker: str = "") -> Iterator[Any]:  # noqa: N803
        found = [
            (name, str(number), content)
            for name, versions in sorted(self.versions.items())
            if name.startswith(Prefix) and name > KeyMarker
            for number, content in reversed(list(enumerate(versions)))
            if (name, str(number)) not in self._removed
        ]
        for start in range(0, len(found), self._page):
            page: dict[str, list[Any]] = {"Versions": [], "DeleteMarkers": []}
            for name, number, content in found[start : start + self._page]:
                kind = "DeleteMarkers" if content is None else "Versions"
                size = {} if content is None else {"Size": len(content)}
                page[kind].append({"Key": name, "VersionId": number, "LastModified": _WHEN, **size})
            yield {kind: members for kind, members in page.items() if members}


def _error(operation: str, code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, operation)
