"""OpenAI's SDK in Responses, in front of a provider of Responses, of Messages and of Chat Completions: the same to the client."""

from __future__ import annotations

import asyncio
import json

import openai
import pydantic
import pytest

import scripts
from conftest import CLAUDE, GPT, MODEL, Line

INPUT = [{"role": "user", "content": "What is the weather in Paris?"}]
TEXT = "one two three four five six seven eight"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
TOOL = {"type": "function", "name": "get_weather", "description": "The weather.", "parameters": SCHEMA, "strict": True}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Patches a file."}
ARGUMENTS = {"city": "Paris — Île-de-France"}
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PATHS = {GPT: "/responses", CLAUDE: "/messages", MODEL: "/chat/completions"}
REASONING = {GPT: "summary", CLAUDE: "thinking", MODEL: "reasoning_content"}

every_provider = pytest.mark.parametrize("model", [GPT, CLAUDE, MODEL], ids=["responses", "messages", "chat"])
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


class City(pydantic.BaseModel):
    city: str


def respond(line: Line, model: str, stream: bool, **more):
    """A response; a stream is gathered by the SDK's own helper."""
    ask = {"model": model, "input": INPUT} | more
    responses = line.client().responses
    if not stream:
        return responses.create(**ask)
    with responses.stream(**ask) as events:
        return events.get_final_response()


def events_of(line: Line, model: str, **more) -> list:
    """A stream as the SDK hands it on, event by event."""
    return list(line.client().responses.create(**{"model": model, "input": INPUT, "stream": True} | more))


def sent(line: Line) -> dict:
    body = line.primary.received()[-1]["body"]
    return json.loads(body) if isinstance(body, str) else body


def replayed(response) -> list:
    """What a client without a memory at the provider sends back of an answer, less what the SDK's helper adds for its user."""
    return [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output]


def of_kind(response, kind: str) -> list:
    return [item for item in response.output if item.type == kind]


@every_provider
@both_ways
def test_a_response_is_created(line: Line, model: str, stream: bool) -> None:
    line.primary.set(scripts.answer(TEXT))
    response = respond(line, model, stream, instructions="Be brief.", max_output_tokens=500)
    assert (response.output_text, response.status, response.error) == (TEXT, "completed", None)
    assert response.instructions == "Be brief."
    # A compatible server of any kind is not asked for the usage of a stream: it might refuse the unknown field.
    if not (stream and model == MODEL):
        assert response.usage.output_tokens == 8
        assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert line.primary.received()[-1]["path"].endswith(PATHS[model])
    assert (line.responses, line.primary.calls, line.standby.calls) == (1, 1, 0)


@every_provider
def test_a_stream_is_the_text_word_by_word(line: Line, model: str) -> None:
    line.primary.set(scripts.answer(TEXT))
    events = events_of(line, model)
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TEXT
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert [event.sequence_number for event in events] == list(range(len(events)))


@every_provider
def test_the_asynchronous_client_streams(line: Line, model: str) -> None:
    line.primary.set(scripts.answer(TEXT))

    async def gather() -> str:
        async with line.async_client() as client, client.responses.stream(model=model, input=INPUT) as events:
            return (await events.get_final_response()).output_text

    assert asyncio.run(gather()) == TEXT


@every_provider
@both_ways
def test_two_turns_with_a_tool_and_what_was_thought(line: Line, model: str, stream: bool) -> None:
    called = scripts.tool_call("get_weather", ARGUMENTS)
    called["answer"]["reasoning"] = {"text": "first this", "field": REASONING[model]}
    line.primary.enqueue(called, scripts.answer(TEXT))
    more = {"tools": [TOOL], "reasoning": {"effort": "low", "summary": "auto"}, "store": False}
    first = respond(line, model, stream, include=["reasoning.encrypted_content"], **more)
    [thought], [call] = of_kind(first, "reasoning"), of_kind(first, "function_call")
    assert [part.text for part in thought.summary] + [part.text for part in thought.content or []] == ["first this"]
    assert (call.name, json.loads(call.arguments)) == ("get_weather", ARGUMENTS)
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    second = respond(line, model, stream, input=[*INPUT, *replayed(first), result], **more)
    assert second.output_text == TEXT
    assert "first this" in json.dumps(sent(line)) or model == MODEL, "what it thought goes back to where it was thought"
    assert "pm1." not in json.dumps(sent(line)), "a seal of the gateway's own never leaves it"
    assert (line.responses, line.primary.calls) == (2, 2)


@every_provider
@both_ways
def test_parallel_calls_are_kept_apart_and_in_order(line: Line, model: str, stream: bool) -> None:
    line.primary.set(scripts.tool_calls(("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})))
    first = respond(line, model, stream, tools=[TOOL])
    calls = of_kind(first, "function_call")
    assert [json.loads(call.arguments)["city"] for call in calls] == ["Oslo", "Rome"]
    assert len({call.call_id for call in calls}) == 2
    results = [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"} for call in calls]
    line.primary.set(scripts.answer(TEXT))
    assert respond(line, model, stream, input=[*INPUT, *replayed(first), *results], tools=[TOOL]).output_text == TEXT


@every_provider
@both_ways
def test_a_custom_tool_is_called_with_its_text(line: Line, model: str, stream: bool) -> None:
    text = '*** Begin Patch\n+ "é"\n*** End Patch'
    custom = model == GPT
    arguments = text if custom else json.dumps({"input": text})
    line.primary.set({"answer": {"tool_calls": [{"name": "apply_patch", "arguments": arguments, "custom": custom}]}})
    first = respond(line, model, stream, tools=[PATCH])
    [call] = of_kind(first, "custom_tool_call")
    assert (call.name, call.input) == ("apply_patch", text)
    result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "done"}
    line.primary.set(scripts.answer(TEXT))
    assert respond(line, model, stream, input=[*INPUT, *replayed(first), result], tools=[PATCH]).output_text == TEXT


@every_provider
@both_ways
def test_an_answer_is_parsed_as_what_was_asked_for(line: Line, model: str, stream: bool) -> None:
    line.primary.set(scripts.answer('{"city": "Oslo"}'))
    if stream:
        response = respond(line, model, stream, text_format=City)
    else:
        response = line.client().responses.parse(model=model, input=INPUT, text_format=City)
    assert response.output_parsed == City(city="Oslo")
    assert '"city"' in json.dumps(sent(line)), "the provider is told the schema"


@every_provider
def test_an_image_reaches_the_provider(line: Line, model: str) -> None:
    parts = [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": PIXEL, "detail": "auto"}]
    assert respond(line, model, False, input=[{"role": "user", "content": parts}]).status == "completed"
    assert PIXEL.split(",")[1] in json.dumps(sent(line))


@every_provider
@both_ways
def test_an_answer_that_is_cut_by_its_limit_is_incomplete(line: Line, model: str, stream: bool) -> None:
    line.primary.set(scripts.answer(TEXT, finish="length"))
    response = events_of(line, model)[-1].response if stream else respond(line, model, False)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert response.output_text == TEXT


@every_provider
@both_ways
def test_a_refusal_is_no_text(line: Line, model: str, stream: bool) -> None:
    line.primary.set({"answer": {"refusal": "I cannot help with that."}})
    response = events_of(line, model)[-1].response if stream else respond(line, model, False)
    if model == CLAUDE:
        # Messages says by its reason that it was a refusal: the words are a text.
        assert (response.status, response.incomplete_details.reason) == ("incomplete", "content_filter")
        return
    [message] = of_kind(response, "message")
    [part] = message.content
    assert (response.status, part.type, part.refusal) == ("completed", "refusal", "I cannot help with that.")
    assert response.output_text == ""


@every_provider
@both_ways
def test_a_failure_before_the_first_output_is_not_seen(line: Line, model: str, stream: bool) -> None:
    line.primary.set(scripts.server_error(503))
    line.standby.set(scripts.answer(TEXT))
    assert respond(line, model, stream).output_text == TEXT
    assert (line.responses, line.primary.calls, line.standby.calls) == (1, 1, 1)


@every_provider
def test_a_break_after_it_is_a_failed_response(line: Line, model: str) -> None:
    line.primary.set(scripts.breaks("cut", 3, TEXT))
    last = events_of(line, model)[-1]
    assert last.type == "response.failed"
    assert (last.response.status, last.response.error.code) == ("failed", "upstream_failed")
    with pytest.raises(RuntimeError, match="response.completed"):
        respond(line, model, True)
    assert (line.responses, line.standby.calls) == (2, 0)


@every_provider
@both_ways
@pytest.mark.parametrize(
    ("script", "kind"),
    [(scripts.rate_limit(30), openai.RateLimitError), (scripts.server_error(503), openai.InternalServerError)],
    ids=["limited", "down"],
)
def test_spent_retries_are_one_request_of_the_sdk(line: Line, model: str, stream: bool, script, kind) -> None:
    for sim in (line.primary, line.standby):
        sim.set(script)
    with pytest.raises(kind) as spent:
        respond(line, model, stream)
    assert spent.value.response.headers["x-should-retry"] == "false"
    assert line.responses == 1


@every_provider
def test_errors_have_the_classes_of_the_sdk(line: Line, model: str) -> None:
    with pytest.raises(openai.AuthenticationError):
        line.client(key="pk-wrong").responses.create(model=model, input=INPUT)
    with pytest.raises(openai.NotFoundError):
        respond(line, "no-such-model", False)
    with pytest.raises(openai.BadRequestError) as refused:
        respond(line, model, False, input=[{"role": "robot", "content": "x"}])
    assert refused.value.param
    assert (line.responses, line.standby.calls) == (3, 0)


@pytest.mark.parametrize("model", [CLAUDE, MODEL], ids=["messages", "chat"])
def test_what_only_its_provider_keeps_is_a_bad_request_elsewhere(line: Line, model: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        respond(line, model, False, previous_response_id="resp_1")
    assert refused.value.param == "previous_response_id"
    assert line.primary.calls == 0


@pytest.mark.parametrize("model", [CLAUDE, MODEL], ids=["messages", "chat"])
def test_a_search_among_other_tools_is_left_out_and_told(line: Line, model: str) -> None:
    raw = line.client().responses.with_raw_response.create(model=model, input=INPUT, tools=[TOOL, {"type": "web_search"}])
    assert "tools.1 dropped" in raw.headers["x-pointsman-loss"]
    assert len(sent(line)["tools"]) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_other_clients_are_answered_by_a_provider_of_responses(line: Line, stream: bool) -> None:
    line.primary.set(scripts.answer(TEXT))
    chat = {"model": GPT, "messages": INPUT}
    message = chat | {"max_tokens": 1024}
    if stream:
        with line.client().chat.completions.stream(**chat) as events:
            completion = events.get_final_completion()
        with line.anthropic().messages.stream(**message) as events:
            said = events.get_final_message()
    else:
        completion, said = line.client().chat.completions.create(**chat), line.anthropic().messages.create(**message)
    assert (completion.choices[0].message.content, completion.choices[0].finish_reason) == (TEXT, "stop")
    assert (said.content[-1].text, said.stop_reason) == (TEXT, "end_turn")
    assert {one["path"] for one in line.primary.received()} == {"/v1/responses"}
