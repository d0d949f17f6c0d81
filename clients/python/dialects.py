"""The four client dialects, each by its official SDK, behind one small interface: what a conversation needs, and what came of it.

A `Turn` is what an SDK gave back, read into plain values, and `history` what this SDK's users send back of it.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
from google.genai import errors as google
from google.genai import types

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one point, PNG in base64."""

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
"""A form that every provider keeps to as it is."""

NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass
class Call:
    id: str
    name: str
    arguments: dict[str, Any]


@dataclass
class Turn:
    text: str
    thoughts: str
    calls: list[Call]
    end: str
    """Why it ended: `stop`, `calls`, `length` or `refusal`, whatever the dialect calls it."""
    refused: str
    """What the model said when it refused, where the dialect has a place of its own for that."""
    history: list[Any] = field(default_factory=list)


@dataclass
class Result:
    """The result of a call: a text, a failure, or a text and a picture."""

    call: Call
    text: str
    failed: bool = False
    picture: bool = False


class Chat:
    """Chat Completions, by OpenAI's SDK."""

    name = "chat"
    errors = openai.APIError
    bad_request = openai.BadRequestError
    has_stop = True
    has_pictures_in_results = False
    seals = False

    def __init__(self, line) -> None:
        self.completions = line.client().chat.completions

    def user(self, text: str, picture: bool = False) -> list[Any]:
        parts = [{"type": "text", "text": text}]
        if picture:
            parts.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}})
        return [{"role": "user", "content": parts}]

    def results(self, results: list[Result]) -> list[Any]:
        return [{"role": "tool", "tool_call_id": one.call.id, "content": one.text} for one in results]

    def ask(self, model: str, stream: bool, conversation: list[Any], **wish: Any) -> Turn:
        more: dict[str, Any] = {}
        if wish.get("tools"):
            more["tools"] = [
                {"type": "function", "function": {"name": name, "parameters": parameters}}
                for name, parameters in wish["tools"].items()
            ]
        if wish.get("schema"):
            form = {"name": "answer", "strict": True, "schema": wish["schema"]}
            more["response_format"] = {"type": "json_schema", "json_schema": form}
        if wish.get("stop"):
            more["stop"] = wish["stop"]
        if wish.get("think"):
            more["reasoning_effort"] = "low"
        ask = {"model": model, "messages": conversation, "max_completion_tokens": 2048} | more
        if stream:
            completion = self._streamed(ask)
        else:
            completion = self.completions.create(**ask)
        [choice] = completion.choices
        message = choice.message
        calls = [
            Call(call.id, call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []
        ]
        end = {"stop": "stop", "tool_calls": "calls", "length": "length", "content_filter": "refusal"}[choice.finish_reason]
        if message.refusal:
            end = "refusal"
        back = message.model_dump(exclude_none=True, exclude={"parsed"})
        return Turn(
            message.content or "",
            (message.model_extra or {}).get("reasoning_content") or "",
            calls,
            end,
            message.refusal or "",
            [back],
        )

    def _streamed(self, ask: dict[str, Any]):
        """By the SDK's own accumulator, not by its helper, which throws what was cut away."""
        from openai.lib.streaming.chat import ChatCompletionStreamState

        state = ChatCompletionStreamState()
        thoughts = ""
        for chunk in self.completions.create(stream=True, **ask):
            state.handle_chunk(chunk)
            for choice in chunk.choices:
                thoughts += (choice.delta.model_extra or {}).get("reasoning_content") or ""
        completion = state.current_completion_snapshot
        if thoughts:
            assert completion.choices[0].message.model_extra["reasoning_content"] == thoughts
        return completion


class Responses:
    """Responses, by OpenAI's SDK."""

    name = "responses"
    errors = openai.APIError
    bad_request = openai.BadRequestError
    has_stop = False
    has_pictures_in_results = True
    seals = True

    def __init__(self, line) -> None:
        self.responses = line.client().responses

    def user(self, text: str, picture: bool = False) -> list[Any]:
        parts = [{"type": "input_text", "text": text}]
        if picture:
            parts.append({"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PIXEL}"})
        return [{"role": "user", "content": parts}]

    def results(self, results: list[Result]) -> list[Any]:
        return [
            {"type": "function_call_output", "call_id": one.call.id, "output": self._output(one)} for one in results
        ]

    def _output(self, one: Result) -> Any:
        if not one.picture:
            return one.text
        picture = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PIXEL}"}
        return [{"type": "input_text", "text": one.text}, picture]

    def ask(self, model: str, stream: bool, conversation: list[Any], **wish: Any) -> Turn:
        more: dict[str, Any] = {}
        if wish.get("tools"):
            more["tools"] = [
                {"type": "function", "name": name, "parameters": parameters, "strict": False}
                for name, parameters in wish["tools"].items()
            ]
        if wish.get("schema"):
            more["text"] = {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": wish["schema"]}}
        if wish.get("think"):
            more["reasoning"] = {"effort": "low", "summary": "auto"}
            more["include"] = ["reasoning.encrypted_content"]
        ask = {"model": model, "input": conversation, "store": False, "max_output_tokens": 2048} | more
        if stream:
            response = self._streamed(ask)
        else:
            response = self.responses.create(**ask)
        calls = [
            Call(item.call_id, item.name, json.loads(item.arguments))
            for item in response.output
            if item.type == "function_call"
        ]
        parts = [part for item in response.output if item.type == "message" for part in item.content]
        thoughts = [item for item in response.output if item.type == "reasoning"]
        refused = "".join(part.refusal for part in parts if part.type == "refusal")
        end = "calls" if calls else "stop"
        if response.status == "incomplete":
            end = {"max_output_tokens": "length", "content_filter": "refusal"}[response.incomplete_details.reason]
        elif refused:
            end = "refusal"
        return Turn(
            "".join(part.text for part in parts if part.type == "output_text"),
            "".join(part.text for item in thoughts for part in [*item.summary, *(item.content or [])]),
            calls,
            end,
            refused,
            [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output],
        )

    def _streamed(self, ask: dict[str, Any]):
        """The SDK's accumulator says nothing of a response that is not completed: what its last event holds."""
        last = None
        with self.responses.stream(**ask) as events:
            for event in events:
                last = event
        if last.type == "response.failed":
            raise openai.APIError(last.response.error.message, request=None, body=last.response.error.model_dump())
        assert last.type in ("response.completed", "response.incomplete"), last.type
        return last.response


class Messages:
    """Messages, by Anthropic's SDK."""

    name = "messages"
    errors = anthropic.APIError
    bad_request = anthropic.BadRequestError
    has_stop = True
    has_pictures_in_results = True
    seals = True

    def __init__(self, line) -> None:
        self.messages = line.anthropic().messages

    def user(self, text: str, picture: bool = False) -> list[Any]:
        return [{"role": "user", "content": [{"type": "text", "text": text}, *([_picture()] if picture else [])]}]

    def results(self, results: list[Result]) -> list[Any]:
        blocks = []
        for one in results:
            content = [{"type": "text", "text": one.text}, *([_picture()] if one.picture else [])]
            blocks.append({"type": "tool_result", "tool_use_id": one.call.id, "content": content})
            if one.failed:
                blocks[-1]["is_error"] = True
        return [{"role": "user", "content": blocks}]

    def ask(self, model: str, stream: bool, conversation: list[Any], **wish: Any) -> Turn:
        more: dict[str, Any] = {}
        if wish.get("tools"):
            more["tools"] = [{"name": name, "input_schema": parameters} for name, parameters in wish["tools"].items()]
        if wish.get("schema"):
            more["output_config"] = {"format": {"type": "json_schema", "schema": wish["schema"]}}
        if wish.get("stop"):
            more["stop_sequences"] = wish["stop"]
        if wish.get("think"):
            more["thinking"] = {"type": "adaptive", "display": "summarized"}
        ask = {"model": model, "messages": conversation, "max_tokens": 2048} | more
        if stream:
            with self.messages.stream(**ask) as events:
                message = events.get_final_message()
        else:
            message = self.messages.create(**ask)
        blocks = message.content
        end = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "calls", "max_tokens": "length", "refusal": "refusal"}
        return Turn(
            "".join(block.text for block in blocks if block.type == "text"),
            "".join(block.thinking for block in blocks if block.type == "thinking"),
            [Call(block.id, block.name, block.input) for block in blocks if block.type == "tool_use"],
            end[message.stop_reason],
            "",
            [{"role": "assistant", "content": [_as_sent(block) for block in blocks]}],
        )


def _picture() -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


def _as_sent(block) -> dict[str, Any]:
    return block.model_dump(exclude_none=True, exclude={"parsed_output"})


class Gemini:
    """Gemini's API, by Google's SDK."""

    name = "gemini"
    errors = google.APIError
    bad_request = google.ClientError
    has_stop = True
    has_pictures_in_results = True
    seals = True

    def __init__(self, line) -> None:
        self.models = line.gemini().models

    def user(self, text: str, picture: bool = False) -> list[Any]:
        parts = [types.Part(text=text)]
        if picture:
            parts.append(types.Part.from_bytes(data=base64.b64decode(PIXEL), mime_type="image/png"))
        return [types.Content(role="user", parts=parts)]

    def results(self, results: list[Result]) -> list[Any]:
        parts = []
        for one in results:
            response = types.FunctionResponse(
                id=one.call.id, name=one.call.name, response={"error" if one.failed else "output": one.text}
            )
            if one.picture:
                picture = types.FunctionResponseBlob(mime_type="image/png", data=base64.b64decode(PIXEL))
                response.parts = [types.FunctionResponsePart(inline_data=picture)]
            parts.append(types.Part(function_response=response))
        return [types.Content(role="user", parts=parts)]

    def ask(self, model: str, stream: bool, conversation: list[Any], **wish: Any) -> Turn:
        more: dict[str, Any] = {}
        if wish.get("tools"):
            declared = [
                types.FunctionDeclaration(name=name, parameters_json_schema=parameters)
                for name, parameters in wish["tools"].items()
            ]
            more["tools"] = [types.Tool(function_declarations=declared)]
        if wish.get("schema"):
            more |= {"response_mime_type": "application/json", "response_json_schema": wish["schema"]}
        if wish.get("stop"):
            more["stop_sequences"] = wish["stop"]
        if wish.get("think"):
            more["thinking_config"] = types.ThinkingConfig(include_thoughts=True, thinking_level="LOW")
        config = types.GenerateContentConfig(max_output_tokens=2048, **more)
        ask = {"model": model, "contents": conversation, "config": config}
        answers = list(self.models.generate_content_stream(**ask)) if stream else [self.models.generate_content(**ask)]
        candidates = [candidate for answer in answers for candidate in answer.candidates or []]
        parts = [part for candidate in candidates if candidate.content for part in candidate.content.parts or []]
        calls = [Call(p.function_call.id, p.function_call.name, p.function_call.args or {}) for p in parts if p.function_call]
        [reason] = [candidate.finish_reason for candidate in candidates if candidate.finish_reason]
        end = {"STOP": "calls" if calls else "stop", "MAX_TOKENS": "length", "SAFETY": "refusal"}[reason.name]
        said = [part for part in parts if part.text]
        return Turn(
            "".join(part.text for part in said if not part.thought),
            "".join(part.text for part in said if part.thought),
            calls,
            end,
            "",
            [types.Content(role="model", parts=parts)],
        )


DIALECTS = [Chat, Responses, Messages, Gemini]
