"""A small AWS at one address: a stack, a table with one settlement, no executions."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from boto3.dynamodb.types import TypeSerializer

STACK = """<DescribeStacksResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/">
<DescribeStacksResult><Stacks><member><StackName>settlement-prod</StackName>
<StackId>arn:aws:cloudformation:eu-west-1:123456789012:stack/settlement-prod/1</StackId>
<CreationTime>2026-11-20T12:00:00Z</CreationTime><StackStatus>CREATE_COMPLETE</StackStatus>
<Outputs>{outputs}</Outputs></member></Stacks></DescribeStacksResult>
<ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></DescribeStacksResponse>"""
OUTPUT = "<member><OutputKey>{name}</OutputKey><OutputValue>{value}</OutputValue></member>"


@contextmanager
def fake_aws(outputs: Mapping[str, str], row: Mapping[str, Any]) -> Iterator[str]:
    serialize = TypeSerializer().serialize
    members = "".join(
        OUTPUT.format(name=name, value=value.replace('"', "&quot;")) for name, value in outputs.items()
    )
    answers = {
        "GetItem": {
            "Item": {name: serialize(value) for name, value in row.items()},
            "ConsumedCapacity": {"CapacityUnits": 1},
        },
        "Query": {"Items": [], "Count": 0, "ConsumedCapacity": {"CapacityUnits": 1}},
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
            if not operation:
                self._answer(200, STACK.format(outputs=members), "text/xml")
            elif operation == "GetItem" and row["pk"] not in sent:
                self._answer(200, '{"ConsumedCapacity": {"CapacityUnits": 1}}', "application/x-amz-json-1.0")
            elif operation in answers:
                self._answer(200, json.dumps(answers[operation]), "application/x-amz-json-1.0")
            else:
                error = {"__type": "ExecutionDoesNotExist", "message": operation}
                self._answer(400, json.dumps(error), "application/x-amz-json-1.0")

        def _answer(self, status: int, text: str, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
