"""Beyond conversations: embeddings, moderations, completions, images, speech and transcripts with the SDK as it is."""

from __future__ import annotations

import base64

import openai
import pytest

import scripts
from conftest import MODEL, Line

WORDS = "the standby answers in seven plain words"
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\r\n--not a boundary\r\n\x00\xff"


@pytest.fixture
def broken(line: Line) -> Line:
    """A line whose primary fails before it says anything."""
    line.primary.set(scripts.overloaded(503))
    line.standby.set(scripts.answer(WORDS))
    return line


def assert_standby_answered(line: Line, headers) -> None:
    assert (headers["x-pointsman-target"], headers["x-pointsman-action"]) == ("standby", "failover")
    assert len(line.relay.requests) == 1, "the SDK had nothing to retry"
    assert (line.primary.calls, line.standby.calls) == (1, 1)


def test_embeddings_are_vectors_of_the_model_that_was_asked(broken: Line) -> None:
    raw = broken.client().embeddings.with_raw_response.create(model=MODEL, input=["one", "two", "one"], dimensions=8)
    answer = raw.parse()
    # The SDK asks for base64 by itself and decodes it.
    assert [len(item.embedding) for item in answer.data] == [8, 8, 8]
    assert answer.data[0].embedding == answer.data[2].embedding != answer.data[1].embedding
    assert answer.usage.total_tokens > 0
    assert_standby_answered(broken, raw.headers)


def test_moderations(broken: Line) -> None:
    raw = broken.client().moderations.with_raw_response.create(model=MODEL, input=["hug", "kill"])
    assert [result.flagged for result in raw.parse().results] == [False, True]
    assert_standby_answered(broken, raw.headers)


def test_a_completion(broken: Line) -> None:
    raw = broken.client().completions.with_raw_response.create(model=MODEL, prompt="Once", max_tokens=20)
    answer = raw.parse()
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == (WORDS, "stop")
    assert_standby_answered(broken, raw.headers)


def test_a_completion_that_streams(broken: Line) -> None:
    options = {"include_usage": True}
    raw = broken.client().completions.with_raw_response.create(
        model=MODEL, prompt="Once", stream=True, stream_options=options
    )
    chunks = list(raw.parse())
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == WORDS
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 7
    assert_standby_answered(broken, raw.headers)


def test_a_completion_that_breaks_is_an_error(line: Line) -> None:
    line.primary.set(scripts.breaks("cut", 2, WORDS))
    said = []
    with pytest.raises(openai.APIError):
        for chunk in line.client().completions.create(model=MODEL, prompt="Once", stream=True):
            said.append(chunk.choices[0].text)
    assert WORDS.startswith("".join(said)) and said
    assert line.standby.calls == 0


def test_images(broken: Line) -> None:
    raw = broken.client().images.with_raw_response.generate(model=MODEL, prompt="a lamp", n=2)
    images = raw.parse().data
    assert len(images) == 2
    assert base64.b64decode(images[0].b64_json).startswith(b"\x89PNG")
    assert_standby_answered(broken, raw.headers)


def test_images_that_become_clearer(broken: Line) -> None:
    events = list(broken.client().images.generate(model=MODEL, prompt="a lamp", stream=True, partial_images=1))
    assert [event.type for event in events] == ["image_generation.partial_image", "image_generation.completed"]
    assert events[-1].usage.output_tokens == 272


def test_an_edit_of_an_image(broken: Line) -> None:
    image = ("lamp.png", b"\x89PNG\r\n\x1a\n\x00", "image/png")
    raw = broken.client().images.with_raw_response.edit(model=MODEL, image=image, prompt="brighter")
    assert raw.parse().data[0].b64_json
    assert_standby_answered(broken, raw.headers)


def test_speech(broken: Line) -> None:
    with broken.client().audio.speech.with_streaming_response.create(model=MODEL, input="Hello", voice="alloy") as answer:
        assert answer.headers["content-type"] == "audio/mpeg"
        headers = answer.headers
        assert answer.read() == WORDS.encode()
    assert_standby_answered(broken, headers)


def test_speech_that_breaks_is_an_error(line: Line) -> None:
    line.primary.set(scripts.breaks("cut", 2, WORDS))
    with pytest.raises(Exception) as caught:
        line.client().audio.speech.create(model=MODEL, input="Hello", voice="alloy")
    assert "incomplete" in str(caught.value) or isinstance(caught.value, openai.APIError)
    assert line.standby.calls == 0


def test_a_transcript(broken: Line) -> None:
    file = ("a.wav", WAV, "audio/wav")
    raw = broken.client().audio.transcriptions.with_raw_response.create(model=MODEL, file=file)
    assert raw.parse().text == WORDS
    assert_standby_answered(broken, raw.headers)


def test_a_transcript_as_text(broken: Line) -> None:
    file = ("a.wav", WAV, "audio/wav")
    text = broken.client().audio.transcriptions.create(model=MODEL, file=file, response_format="text")
    assert text.strip() == WORDS


def test_a_transcript_that_streams(broken: Line) -> None:
    file = ("a.wav", WAV, "audio/wav")
    events = list(broken.client().audio.transcriptions.create(model=MODEL, file=file, stream=True))
    assert "".join(event.delta for event in events if event.type == "transcript.text.delta") == WORDS
    assert events[-1].type == "transcript.text.done" and events[-1].text == WORDS


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_translation(broken: Line) -> None:
    file = ("a.wav", WAV, "audio/wav")
    assert broken.client().audio.translations.create(model=MODEL, file=file).text == WORDS


def test_the_requests_own_fault_is_told_in_the_providers_words(line: Line) -> None:
    error = scripts.error("'$.input' is invalid.", "invalid_request_error", None, "input")
    line.primary.set(scripts.status(400, error))
    with pytest.raises(openai.BadRequestError) as caught:
        line.client().embeddings.create(model=MODEL, input="one")
    assert caught.value.param == "input"
    assert (line.primary.calls, line.standby.calls) == (1, 0)
