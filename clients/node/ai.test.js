// The AI SDK in everyday use, with each of its providers that speaks a dialect of the gateway.

import assert from "node:assert/strict";

import { generateObject, generateText, isStepCount, Output, streamText, tool } from "ai";
import * as z from "zod/v4";

import { PROVIDERS } from "./ai-providers.js";
import { onLine } from "./line.js";
import * as scripts from "./scripts.js";

const TEXT = "one two three four five six seven eight";
const INPUT = { city: "Paris — Île-de-France" };
const PROMPT = "What is the weather in Paris?";

/** A tool that is run here, and what it was run with. */
function weather() {
  const called = [];
  const get_weather = tool({
    description: "The weather at a place.",
    inputSchema: z.object({ city: z.string() }),
    execute: async (input) => (called.push(input), { degrees: 22 }),
  });
  return [called, { get_weather }];
}

async function partsOf(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

/** The bodies of the requests for an answer that the provider got. */
async function bodies(sim) {
  return (await sim.received()).filter((one) => one.method === "POST").map((one) => one.body);
}

for (const [name, provider] of Object.entries(PROVIDERS)) {
  onLine(`${name}: generateText gives what the provider sent`, async (line) => {
    await line.primary.set(scripts.answer(TEXT));
    const result = await generateText({ model: provider.model(line), prompt: PROMPT });
    assert.equal(result.text, TEXT);
    assert.equal(result.finishReason, "stop");
    assert.equal(result.usage.outputTokens, 8);
    assert.ok(result.usage.inputTokens > 0);
    assert.equal(result.response.modelId, provider.name);
    assert.equal(result.response.headers["x-pointsman-target"], provider.target);
    assert.equal(result.response.headers["x-pointsman-attempts"], "1");
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });

  onLine(`${name}: streamText yields every word in order and finishes once`, async (line) => {
    const text = Array.from({ length: 200 }, (_, number) => `word${number}`).join(" ");
    await line.primary.set(scripts.answer(text));
    const result = streamText({ model: provider.model(line), prompt: PROMPT });
    const parts = await partsOf(result.stream);
    assert.equal(parts.filter((part) => part.type === "text-delta").map((part) => part.text).join(""), text);
    assert.deepEqual(parts.filter((part) => part.type === "finish").map((part) => part.finishReason), ["stop"]);
    assert.deepEqual(parts.filter((part) => part.type === "error"), []);
    assert.equal(await result.text, text);
    assert.equal((await result.usage).outputTokens, 200);
    assert.equal((await result.response).headers["x-pointsman-target"], provider.target);
    assert.equal(line.relay.answers.split(provider.end).length, 2);
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });

  onLine(`${name}: a tool is run and generateText goes on with its result`, async (line) => {
    await line.primary.enqueue(scripts.toolCall("get_weather", INPUT), scripts.answer("It is warm."));
    const [called, tools] = weather();
    const result = await generateText({ model: provider.model(line), prompt: PROMPT, tools, stopWhen: isStepCount(3) });
    assert.equal(result.text, "It is warm.");
    assert.deepEqual(result.steps.map((step) => step.finishReason), ["tool-calls", "stop"]);
    assert.deepEqual(called, [INPUT]);
    assert.deepEqual(await line.counts(), [2, 2, 0]);
    const [, second] = await bodies(line.primary);
    assert.ok(JSON.stringify(second.messages).includes('degrees\\":22'), "the result of the tool goes to the provider");
  });

  onLine(`${name}: a streamed tool call arrives in pieces, is run once, and streamText goes on`, async (line) => {
    await line.primary.enqueue(scripts.toolCall("get_weather", INPUT), scripts.answer("It is warm."));
    const [called, tools] = weather();
    const result = streamText({ model: provider.model(line), prompt: PROMPT, tools, stopWhen: isStepCount(3) });
    const parts = await partsOf(result.stream);
    const pieces = parts.filter((part) => part.type === "tool-input-delta").map((part) => part.delta);
    assert.ok(pieces.length > 1);
    assert.deepEqual(JSON.parse(pieces.join("")), INPUT);
    assert.deepEqual(parts.filter((part) => part.type === "tool-call").map((part) => part.input), [INPUT]);
    assert.deepEqual(called, [INPUT]);
    assert.equal(await result.text, "It is warm.");
    assert.equal((await result.steps).length, 2);
    assert.deepEqual(await line.counts(), [2, 2, 0]);
  });

  onLine(`${name}: an object of a schema is generated, whole and streamed`, async (line) => {
    const schema = z.object({ city: z.string(), degrees: z.number() });
    const expected = { city: "Paris", degrees: 22 };
    await line.primary.set(scripts.answer(JSON.stringify(expected)));
    const model = provider.model(line);
    const { object } = await generateObject({ model, schema, prompt: PROMPT });
    assert.deepEqual(object, expected);
    const streamed = streamText({ model, output: Output.object({ schema }), prompt: PROMPT });
    await streamed.consumeStream();
    assert.deepEqual(await streamed.output, expected);
    const [first] = await bodies(line.primary);
    assert.ok(JSON.stringify(first).includes('"degrees":{"type":"number"}'), "the schema reaches the provider");
    assert.deepEqual(await line.counts(), [2, 2, 0]);
  });

  onLine(`${name}: connections are used again after answers and streams`, async (line) => {
    const model = provider.model(line);
    for (let round = 0; round < 5; round += 1) {
      await generateText({ model, prompt: PROMPT });
      await streamText({ model, prompt: PROMPT }).consumeStream();
    }
    assert.deepEqual(await line.counts(), [10, 10, 0]);
    assert.ok(line.relay.connections <= 2, "undici may open a second one while it tidies up the first");
  });

  onLine(`${name}: an aborted stream ends the call to the provider`, async (line) => {
    await line.primary.set(scripts.endless());
    const leaving = new AbortController();
    const aborted = [];
    const result = streamText({
      model: provider.model(line),
      prompt: PROMPT,
      abortSignal: leaving.signal,
      onAbort: () => aborted.push(true),
    });
    const types = [];
    for await (const part of result.stream) {
      types.push(part.type);
      if (part.type === "text-delta") leaving.abort();
    }
    assert.equal(types.at(-1), "abort");
    assert.deepEqual(aborted, [true]);
    await line.primaryIsLeft();
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });

  onLine(`${name}: a call that is aborted before its answer is not taken to another target`, async (line) => {
    await line.primary.set(scripts.SILENCE);
    const leaving = new AbortController();
    const asked = generateText({ model: provider.model(line), prompt: PROMPT, abortSignal: leaving.signal });
    const refused = assert.rejects(asked, { name: "AbortError" });
    await line.primaryIsAsked();
    leaving.abort();
    await refused;
    await line.primaryIsLeft();
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });
}
