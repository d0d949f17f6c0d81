"""Failures as the SDK's own exception classes, and never one request more than the gateway wants.

The SDK repeats 408, 409, 429 and every 5xx by itself. Behind a gateway that has already tried what there is to try this
would multiply: such answers carry `x-should-retry: false`.
"""

from __future__ import annotations

import json

import openai
import pytest

import scripts
from conftest import MODEL, Line
from processes import KEY

MESSAGES = [{"role": "user", "content": "Hello"}]


def create(line: Line, stream: bool = False, **more):
    """Creates a completion; a stream is read to its end, so that an error inside it shows too."""
    answer = line.client().chat.completions.create(model=MODEL, messages=MESSAGES, stream=stream, **more)
    return list(answer) if stream else answer


def assert_is_ours(line: Line, error: openai.APIStatusError) -> None:
    """An error of the gateway: JSON in the SDK's shape, with the request id in header and body, and no secret."""
    assert error.response.headers["content-type"].startswith("application/json")
    whole = error.response.json()
    assert set(whole["error"]) >= {"message", "type", "param", "code"}
    assert error.request_id
    assert whole["pointsman"]["request_id"] == error.request_id
    assert KEY not in json.dumps(whole)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_bad_request_keeps_every_field_of_the_provider(line: Line, stream: bool) -> None:
    fault = scripts.error("Invalid 'temperature': must be <= 2.", "invalid_request_error", "decimal_above_max_value", "temperature")
    line.primary.set(scripts.status(400, fault))
    with pytest.raises(openai.BadRequestError) as caught:
        create(line, stream, temperature=2)
    error = caught.value
    assert (error.status_code, error.type, error.code, error.param) == (400, fault["type"], fault["code"], fault["param"])
    assert fault["message"] in error.message
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 0)
    line.primary.set(scripts.HEALTHY)
    assert create(line) and line.primary.calls == 2, "the provider is not to blame and stays in service"


def test_too_long_a_prompt_is_the_requests_own_fault(line: Line) -> None:
    text = "This model's maximum context length is 128000 tokens. However, your messages resulted in 140339 tokens."
    fault = scripts.error(text, "invalid_request_error", "context_length_exceeded", "messages")
    line.primary.set(scripts.status(400, fault))
    line.standby.set(scripts.status(400, fault))
    with pytest.raises(openai.BadRequestError) as caught:
        create(line)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")
    assert "maximum context length" in caught.value.message
    assert line.completions == 1


def test_a_request_that_cannot_be_processed_is_its_own_fault(line: Line) -> None:
    line.primary.set(scripts.status(422, scripts.error("seed must be an integer", "invalid_request_error", None, "seed")))
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        create(line)
    assert caught.value.param == "seed"
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 0)


def test_a_wrong_gateway_key_is_an_authentication_error(line: Line) -> None:
    with pytest.raises(openai.AuthenticationError) as caught:
        line.client(key="pk-wrong").chat.completions.create(model=MODEL, messages=MESSAGES)
    assert (caught.value.status_code, caught.value.code) == (401, "invalid_api_key")
    assert_is_ours(line, caught.value)
    assert (line.completions, line.primary.calls) == (1, 0)


def test_an_unknown_model_is_not_found_and_a_close_name_is_named(line: Line) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        line.client().chat.completions.create(model="gpt-4oo", messages=MESSAGES)
    assert (caught.value.status_code, caught.value.code) == (404, "model_not_found")
    assert "gpt-4o" in caught.value.message.replace("gpt-4oo", "")
    assert_is_ours(line, caught.value)
    assert (line.completions, line.primary.calls) == (1, 0)


def test_a_model_that_the_key_may_not_use_is_a_permission_error(line: Line) -> None:
    with pytest.raises(openai.PermissionDeniedError) as caught:
        line.client().chat.completions.create(model="gpt-4o-private", messages=MESSAGES)
    assert (caught.value.status_code, caught.value.code) == (403, "model_not_allowed")
    assert (line.completions, line.standby.calls) == (1, 0)


def test_a_malformed_request_is_refused_before_any_provider_sees_it(line: Line) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        line.client().chat.completions.create(model=MODEL, messages=MESSAGES, extra_body={"stream": "yes"})
    assert "stream" in caught.value.message
    assert_is_ours(line, caught.value)
    assert (line.completions, line.primary.calls) == (1, 0)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_when_every_target_limits_the_rate_the_sdk_asks_once(line: Line, stream: bool) -> None:
    line.primary.set(scripts.rate_limit(30))
    line.standby.set(scripts.rate_limit(20))
    with pytest.raises(openai.RateLimitError) as caught:
        create(line, stream)
    error = caught.value
    assert (error.status_code, error.code) == (429, "rate_limit_exceeded")
    assert error.response.headers["x-should-retry"] == "false"
    assert 15 <= int(error.response.headers["retry-after"]) <= 20, "the soonest of the two"
    assert_is_ours(line, error)
    attempts = error.response.json()["pointsman"]["attempts"]
    assert [(one["target"], one["failure"]) for one in attempts] == [("primary", "rate_limit"), ("standby", "rate_limit")]
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 1)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(scripts.server_error(500), scripts.server_error(502), id="500-502"),
        pytest.param(scripts.overloaded(503), scripts.overloaded(529), id="503-529"),
        pytest.param(scripts.RESET_BEFORE_HEADERS, scripts.CLOSE_AFTER_READ, id="reset-close"),
        pytest.param(scripts.HTML, scripts.NO_CHOICES, id="html-no-choices"),
        pytest.param(scripts.rate_limit(30), scripts.server_error(500), id="429-500"),
    ],
)
def test_when_every_target_fails_the_sdk_asks_once(line: Line, first, second, stream: bool) -> None:
    line.primary.set(first)
    line.standby.set(second)
    with pytest.raises(openai.InternalServerError) as caught:
        create(line, stream)
    error = caught.value
    assert (error.status_code, error.type) == (503, "service_unavailable_error")
    assert error.response.headers["x-should-retry"] == "false"
    assert_is_ours(line, error)
    whole = error.response.json()["pointsman"]
    assert whole["terminal"] == "exhausted"
    assert [(one["target"], one["action"]) for one in whole["attempts"]] == [("primary", "primary"), ("standby", "failover")]
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 1)


def test_attempts_on_the_same_target_are_the_gateways_and_not_the_sdks(open_line) -> None:
    """Chain [primary, standby], two attempts a target, failover first: primary, standby, standby again."""
    line = open_line(same_target_attempts=2)
    line.primary.set(scripts.overloaded(503))
    line.standby.set(scripts.overloaded(503))
    with pytest.raises(openai.InternalServerError) as caught:
        create(line)
    attempts = caught.value.response.json()["pointsman"]["attempts"]
    assert [(one["target"], one["action"]) for one in attempts] == [
        ("primary", "primary"),
        ("standby", "failover"),
        ("standby", "retry"),
    ]
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 2)


def test_when_no_target_answers_in_time_the_sdk_asks_once(open_line) -> None:
    line = open_line(first_token="500ms", response="500ms")
    line.primary.set(scripts.SILENCE)
    line.standby.set(scripts.SILENCE)
    with pytest.raises(openai.InternalServerError) as caught:
        create(line)
    assert (caught.value.status_code, caught.value.code) == (504, "timeout")
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert_is_ours(line, caught.value)
    assert line.completions == 1


def test_a_fault_of_our_credentials_is_never_the_callers(line: Line) -> None:
    refused = scripts.status(401, scripts.error("Incorrect API key provided: sk-…abcd.", "invalid_request_error", "invalid_api_key"))
    line.primary.set(refused)
    line.standby.set(refused)
    with pytest.raises(openai.InternalServerError) as caught:
        create(line)
    assert caught.value.status_code == 503
    assert (line.completions, line.primary.calls, line.standby.calls) == (1, 1, 1)


def test_when_no_target_can_be_reached_the_sdk_asks_once(line: Line) -> None:
    line.primary.kill()
    line.standby.kill()
    with pytest.raises(openai.InternalServerError) as caught:
        create(line)
    assert caught.value.status_code == 503
    assert_is_ours(line, caught.value)
    assert line.completions == 1
