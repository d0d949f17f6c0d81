"""Every client dialect in front of a provider of every dialect: the official SDK's conversation arrives whole, whatever the
provider speaks, and what the provider answers is what the SDK reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

import scripts
from conftest import BEDROCK, CLAUDE, GEMINI, GPT, MODEL, Line
from dialects import DIALECTS, NOTHING, PIXEL, SCHEMA, Result, Turn

PROVIDERS = {"chat": MODEL, "responses": GPT, "messages": CLAUDE, "gemini": GEMINI, "bedrock": BEDROCK}
TEXT = "one two three four five six seven eight"
TOOLS = {"get_weather": SCHEMA, "now": NOTHING}
STATION = "the station is silent — Île-de-France"

each_client = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
each_provider = pytest.mark.parametrize("provider", PROVIDERS)
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])

# Which field of its stream a provider of this kind has its thoughts in.
THOUGHTS = {"chat": "reasoning_content", "responses": "summary", "messages": "thinking", "gemini": "thought", "bedrock": "reasoningContent"}


def thoughtful(provider: str, script: dict[str, Any]) -> dict[str, Any]:
    script["answer"]["reasoning"] = {"text": "first this", "field": THOUGHTS[provider]}
    return script


def sent(line: Line) -> dict[str, Any]:
    """What the provider was asked last."""
    body = line.primary.received()[-1]["body"]
    return json.loads(body) if isinstance(body, str) else body


def find(value: Any, name: str) -> list[Any]:
    """All that stands under this name, at whatever depth."""
    if isinstance(value, list):
        return [found for one in value for found in find(one, name)]
    if not isinstance(value, dict):
        return []
    own = [value[name]] if name in value else []
    return own + [found for one in value.values() for found in find(one, name)]


def texts(value: Any) -> str:
    """Every text of a body, so that one can be looked for wherever the dialect has its place."""
    if isinstance(value, dict):
        return "\n".join(texts(one) for one in value.values())
    if isinstance(value, list):
        return "\n".join(texts(one) for one in value)
    return value if isinstance(value, str) else ""


def pictures(body: dict[str, Any]) -> int:
    """How often the picture stands in a body. Google's SDK writes the alphabet for addresses, and Gemini reads both."""
    written = texts(body)
    if "contents" in body:
        written = written.replace("-", "+").replace("_", "/")
    return written.count(PIXEL)


@each_client
@each_provider
@both_ways
def test_a_conversation_with_tools_pictures_and_thoughts(line: Line, dialect, provider: str, stream: bool) -> None:
    """One conversation: text, a picture, two calls at once (one without arguments), a failed result, a picture as a result."""
    client, model = dialect(line), PROVIDERS[provider]

    line.primary.set(scripts.answer(TEXT))
    conversation = client.user("What is on this picture?", picture=True)
    first = client.ask(model, stream, conversation)
    assert (first.text, first.end, first.calls) == (TEXT, "stop", [])
    assert pictures(sent(line)) == 1

    conversation += first.history + client.user("And the weather?")
    line.primary.set(
        thoughtful(provider, scripts.tool_calls(("get_weather", {"city": "Paris"}), ("now", {}), ("get_weather", {"city": "Oslo"})))
    )
    second = client.ask(model, stream, conversation, tools=TOOLS, think=provider != "chat")
    assert [(call.name, call.arguments) for call in second.calls] == [
        ("get_weather", {"city": "Paris"}),
        ("now", {}),
        ("get_weather", {"city": "Oslo"}),
    ]
    # Gemini's own calls need no ids, and pass as they are.
    ids = {call.id for call in second.calls}
    assert ids == {None} if dialect.name == provider == "gemini" else len(ids) == 3
    assert second.end == "calls"
    assert second.thoughts == "first this"

    silent, clock, sunny = second.calls
    results = [
        Result(silent, STATION, failed=True),
        Result(clock, "noon"),
        Result(sunny, "see the picture", picture=client.has_pictures_in_results),
    ]
    line.primary.set(scripts.answer(TEXT))
    third = client.ask(
        model, stream, conversation + second.history + client.results(results), tools=TOOLS, think=provider != "chat"
    )
    assert (third.text, third.end) == (TEXT, "stop")
    asked = sent(line)
    assert STATION in texts(asked) and "noon" in texts(asked)
    assert pictures(asked) == (2 if client.has_pictures_in_results else 1)
    if client.seals and provider != "chat":
        # What its model had thought goes back to its provider in the provider's own words.
        seal = {"responses": "encrypted_content", "messages": "signature", "gemini": "thoughtSignature", "bedrock": "signature"}[provider]
        seals = [one for one in find(asked, seal) if isinstance(one, str)]
        assert seals and not any(one.startswith(("pm1.", "cG0xL")) for one in seals), seals
    assert (line.primary.calls, line.standby.calls) == (3, 0)


@each_client
@each_provider
@both_ways
def test_how_an_answer_ends_and_is_formed(line: Line, dialect, provider: str, stream: bool) -> None:
    """A form of the answer, stop texts, a limit that was met, a refusal."""
    client, model = dialect(line), PROVIDERS[provider]
    question = client.user("Which city?")

    line.primary.set(scripts.answer('{"city": "Paris"}'))
    formed = client.ask(model, stream, question, schema=SCHEMA)
    assert (json.loads(formed.text), formed.end) == ({"city": "Paris"}, "stop")
    asked = sent(line)
    place = {
        "chat": lambda: asked["response_format"]["json_schema"]["schema"],
        "responses": lambda: asked["text"]["format"]["schema"],
        "messages": lambda: asked["output_config"]["format"]["schema"],
        "gemini": lambda: asked["generationConfig"]["responseJsonSchema"],
        "bedrock": lambda: json.loads(asked["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"]),
    }
    assert place[provider]() == SCHEMA

    line.primary.set(scripts.answer(TEXT))
    if client.has_stop and provider != "responses":
        assert client.ask(model, stream, question, stop=["END", "STOP"]).text == TEXT
        asked = sent(line)
        place = {
            "chat": lambda: asked["stop"],
            "messages": lambda: asked["stop_sequences"],
            "gemini": lambda: asked["generationConfig"]["stopSequences"],
            "bedrock": lambda: asked["inferenceConfig"]["stopSequences"],
        }
        assert place[provider]() == ["END", "STOP"]
    elif client.has_stop:
        # Responses has none: the answer would be another one.
        with pytest.raises(client.bad_request, match="stop"):
            client.ask(model, stream, question, stop=["END"])

    line.primary.set({"answer": {"text": TEXT, "finish": "length"}})
    cut = client.ask(model, stream, question)
    assert (cut.text, cut.end) == (TEXT, "length")

    line.primary.set({"answer": {"refusal": "I cannot help with that."}})
    refused = client.ask(model, stream, question)
    assert refused.end == "refusal"
    assert refused.refused in ("", "I cannot help with that.")


@each_client
@each_provider
@both_ways
def test_errors_of_a_provider(line: Line, dialect, provider: str, stream: bool) -> None:
    """A failure before the first output is not seen, a break after it is one error, a refusal keeps the provider's words."""
    client, model = dialect(line), PROVIDERS[provider]
    question = client.user("Which city?")

    line.standby.set(scripts.answer(TEXT))
    line.primary.set("overloaded")
    assert client.ask(model, stream, question).text == TEXT
    assert (line.primary.calls, line.standby.calls) == (1, 1)

    line.primary.set("error-first")
    assert client.ask(model, stream, question).text == TEXT
    assert (line.primary.calls, line.standby.calls) == (2, 2)

    if stream:
        line.primary.set("answer:one two three four five six+error-after:3")
        with pytest.raises(client.errors):
            client.ask(model, stream, question)
        assert (line.primary.calls, line.standby.calls) == (3, 2)

    line.primary.set("status:400")
    with pytest.raises(client.bad_request):
        client.ask(model, stream, question)
    assert line.standby.calls == 2


@each_client
@pytest.mark.parametrize("first,then", [(MODEL, CLAUDE), (CLAUDE, MODEL), (GPT, GEMINI), (GEMINI, GPT), (BEDROCK, MODEL), (CLAUDE, BEDROCK)])
def test_a_conversation_goes_on_at_a_provider_of_another_dialect(line: Line, dialect, first: str, then: str) -> None:
    """Tools and thoughts of one model are history to the next, and back again."""
    client = dialect(line)
    provider = {model: name for name, model in PROVIDERS.items()}
    conversation = client.user("The weather?")
    turns: list[Turn] = []
    for model in (first, then, first):
        line.primary.set(thoughtful(provider[model], scripts.tool_calls(("get_weather", {"city": "Paris"}), ("now", {}))))
        turn = client.ask(model, True, conversation, tools=TOOLS, think=model != MODEL)
        results = [Result(turn.calls[0], STATION, failed=True), Result(turn.calls[1], "noon")]
        conversation += turn.history + client.results(results)
        turns.append(turn)
    assert [len(turn.calls) for turn in turns] == [2, 2, 2]
    line.primary.set(scripts.answer(TEXT))
    assert client.ask(first, True, conversation, tools=TOOLS, think=first != MODEL).text == TEXT
    assert texts(sent(line)).count(STATION) == 3
    assert line.primary.calls == 4
