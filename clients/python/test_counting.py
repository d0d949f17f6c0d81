"""Counting tokens with each official SDK: asked of the provider in its own dialect, an estimate in front of the others."""

from __future__ import annotations

import pytest

import scripts
from conftest import CLAUDE, GEMINI, GPT, MODEL, Line

QUESTION = "What is the capital of France?"
COUNTED = "x-pointsman-estimated"


@pytest.mark.parametrize("model", [CLAUDE, GPT, GEMINI, MODEL])
def test_anthropics_sdk_counts_a_message(line: Line, model: str) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    tools = [{"name": "look_up", "description": "Looks it up.", "input_schema": {"type": "object", "properties": {}}}]
    ask = {"model": model, "messages": messages, "system": "Be brief.", "tools": tools}
    raw = line.anthropic().messages.with_raw_response.count_tokens(**ask)
    assert raw.parse().input_tokens > 7
    assert (raw.headers.get(COUNTED) == "true") == (model != CLAUDE)


@pytest.mark.parametrize("model", [GPT, CLAUDE, GEMINI, MODEL])
def test_openais_sdk_counts_the_input_of_a_response(line: Line, model: str) -> None:
    raw = line.client().responses.input_tokens.with_raw_response.count(model=model, input=QUESTION)
    assert raw.parse().input_tokens > 7
    assert (raw.headers.get(COUNTED) == "true") == (model != GPT)


@pytest.mark.parametrize("model", [GEMINI, CLAUDE, GPT, MODEL])
def test_googles_sdk_counts_contents(line: Line, model: str) -> None:
    counted = line.gemini().models.count_tokens(model=model, contents=QUESTION)
    assert counted.total_tokens > 7
    headers = counted.sdk_http_response.headers
    assert (headers.get(COUNTED) == "true") == (model != GEMINI)


def test_a_count_fails_over_and_no_outage_stops_it(line: Line) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    count = line.anthropic().messages.with_raw_response.count_tokens
    line.primary.set(scripts.anthropic_status(529, "overloaded_error", "Overloaded"))
    raw = count(model=CLAUDE, messages=messages)
    assert (raw.headers["x-pointsman-target"], raw.headers.get(COUNTED)) == ("claude-standby", None)
    line.standby.set(scripts.anthropic_status(500, "api_error", "Internal server error"))
    raw = count(model=CLAUDE, messages=messages)
    assert raw.headers[COUNTED] == "true" and raw.parse().input_tokens > 7
