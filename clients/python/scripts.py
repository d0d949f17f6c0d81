"""What a simulated provider is told to do, as the JSON that its control endpoint takes. `{}` is a healthy answer."""

from __future__ import annotations

import json
from typing import Any

Script = dict[str, Any]

HEALTHY: Script = {}


def status(code: int, error: dict[str, Any], headers: dict[str, str] | None = None) -> Script:
    """A provider's error: status, `{"error": …}` and headers."""
    body = json.dumps({"error": error})
    script: Script = {"reply": {"status": code, "content_type": "application/json", "body": body}}
    if headers:
        script["headers"] = [list(pair) for pair in headers.items()]
    return script


def error(message: str, kind: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    """An error object with the four fields that OpenAI documents."""
    return {"message": message, "type": kind, "param": param, "code": code}


def server_error(code: int) -> Script:
    return status(code, error("The server had an error while processing your request.", "server_error"))


def overloaded(code: int) -> Script:
    return status(code, error("The engine is currently overloaded.", "service_unavailable_error", "server_is_overloaded"))


def rate_limit(retry_after: int | None = 30) -> Script:
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    text = "Rate limit reached for gpt-4o on requests per min (RPM): Limit 3, Used 3, Requested 1."
    return status(429, error(text, "requests", "rate_limit_exceeded"), headers)


def anthropic_status(code: int, kind: str, message: str, headers: dict[str, str] | None = None, **details: str) -> Script:
    """An error in Anthropic's envelope."""
    error = {"type": kind, "message": message} | ({"details": details} if details else {})
    body = json.dumps({"type": "error", "error": error, "request_id": "req_sim"})
    script: Script = {"reply": {"status": code, "content_type": "application/json", "body": body}}
    if headers:
        script["headers"] = [list(pair) for pair in headers.items()]
    return script


def anthropic_error_event(after: int, kind: str, message: str, text: str = "one two three four five six") -> Script:
    event = {"type": "error", "error": {"type": kind, "message": message}}
    return {"fault": {"error": {"after": after, "event": event}}, "answer": {"text": text}}


def answer(text: str, **more: Any) -> Script:
    return {"answer": {"text": text, **more}}


def tool_call(name: str, arguments: dict[str, Any]) -> Script:
    return {"answer": {"tool_calls": [{"name": name, "arguments": json.dumps(arguments)}]}}


def tool_calls(*calls: tuple[str, dict[str, Any]]) -> Script:
    """Several calls in one turn."""
    return {"answer": {"tool_calls": [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls]}}


def slow_first_token(milliseconds: int, text: str) -> Script:
    """Headers and the role at once, the first word later."""
    return {"pace": {"first_token_ms": milliseconds}, "answer": {"text": text}}


def breaks(kind: str, after: int, text: str) -> Script:
    """An answer that ends after so many words: `cut`, `reset`, `end` or `stall`."""
    return {"fault": {kind: {"after": after}}, "answer": {"text": text}}


def error_event(after: int, value: dict[str, Any], text: str = "one two three four five six") -> Script:
    return {"fault": {"error": {"after": after, "event": {"error": value}}}, "answer": {"text": text}}


RESET_BEFORE_HEADERS: Script = {"connection": "reset_before_headers"}
CLOSE_AFTER_READ: Script = {"connection": "close_after_read"}
SILENCE: Script = {"connection": "silence"}
ROLE_ONLY: Script = {"fault": "role_only"}
HEARTBEATS_ONLY: Script = {"fault": {"heartbeats_only": {"every_ms": 200}}}
NO_CHOICES: Script = {"answer": {"no_choices": True}}
HTML: Script = {"reply": {"status": 200, "content_type": "text/html", "body": "<html><body>Welcome</body></html>"}}
EMPTY: Script = {"reply": {"status": 200, "content_type": "application/json", "body": ""}}
