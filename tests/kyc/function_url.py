"""The webhook behind a small server, which passes requests on as a function URL does."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Handler = Callable[[dict[str, Any], object], dict[str, Any]]


@contextmanager
def function_url(handler: Handler, context: object) -> Iterator[str]:
    """Serve a handler one request at a time, as an environment does; yield the address."""
    busy = threading.Lock()

    class Request(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __getattr__(self, name: str) -> Any:
            """Pass every method to the function."""
            if name.startswith("do_"):
                return self._invoke
            raise AttributeError(name)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Log nothing."""

        def _invoke(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with busy:
                answer = handler(event(self.command, dict(self.headers), body), context)
            content = answer["body"].encode()
            self.send_response(answer["statusCode"])
            for name, value in answer["headers"].items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def event(method: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
    """Return a request in the payload format 2.0: headers in lower case, a binary body in base64.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html
    """
    made: dict[str, Any] = {
        "version": "2.0",
        "rawPath": "/",
        "rawQueryString": "",
        "headers": {name.lower(): value for name, value in headers.items()},
        "requestContext": {"http": {"method": method, "path": "/"}},
        "isBase64Encoded": False,
    }
    try:
        text = body.decode()
    except UnicodeDecodeError:
        made |= {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
    else:
        made |= {"body": text} if body else {}
    return json.loads(json.dumps(made))
