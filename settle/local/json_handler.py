import json
from http.server import BaseHTTPRequestHandler
from typing import Any

BODY_BYTES_MAX = 65_536


class JsonHandler(BaseHTTPRequestHandler):
    """Requests and answers of a simulated provider, in JSON."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are sent apart

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing: requests carry personal data."""

    def _body(self) -> bytes | None:
        """Return the body; None after an answer to a body of unknown or excessive length."""
        length = self.headers.get("Content-Length", "0")
        chunked = "Transfer-Encoding" in self.headers
        if chunked or not (length.isascii() and length.isdecimal() and int(length) <= BODY_BYTES_MAX):
            self.close_connection = True
            self._error(
                400, "InvalidRequest", f"body: must be at most {BODY_BYTES_MAX} bytes, with its length"
            )
            return None
        return self.rfile.read(int(length))

    def _error(self, status: int, error: str, message: str, **headers: str) -> None:
        self._answer(status, {"error": error, "message": message}, **headers)

    def _answer(self, status: int, content: dict[str, Any], **headers: str) -> None:
        self._send(status, json.dumps(content).encode(), "application/json", **headers)

    def _send(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
