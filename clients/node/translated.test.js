// Each SDK in front of providers of the other dialect: what it gets is its own dialect's, whole and well formed.

import assert from "node:assert/strict";

import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { generateText, isStepCount, streamText, tool } from "ai";
import OpenAI from "openai";
import * as z from "zod/v4";

import { PROVIDERS } from "./ai-providers.js";
import { CLAUDE, failure, MODEL, onLine } from "./line.js";
import { KEY } from "./processes.js";
import * as scripts from "./scripts.js";

const MESSAGES = [{ role: "user", content: "What is the weather in Paris?" }];
const TEXT = "one two three four five six seven eight";
const INPUT = { city: "Paris — Île-de-France" };
const CITY = z.object({ city: z.string() });
const OVERLOADED = scripts.anthropicStatus(529, "overloaded_error", "Overloaded");

const BOTH_WAYS = [["whole", false], ["stream", true]];

/** A chat completion by an Anthropic provider; a stream is gathered by the SDK's own helper. */
function complete(line, stream, more = {}) {
  const { completions } = new OpenAI({ baseURL: line.baseURL, apiKey: KEY }).chat;
  const ask = { model: CLAUDE, messages: MESSAGES, ...more };
  if (!stream) return completions.create(ask);
  return completions.stream({ ...ask, stream_options: { include_usage: true } }).finalChatCompletion();
}

function anthropic(line) {
  return new Anthropic({ baseURL: line.root, apiKey: KEY });
}

/** A message by an OpenAI provider; a stream is gathered by the SDK's own helper. */
function create(line, stream, more = {}) {
  const ask = { model: MODEL, max_tokens: 1024, messages: MESSAGES, ...more };
  const { messages } = anthropic(line);
  return stream ? messages.stream(ask).finalMessage() : messages.create(ask);
}

function textOf(message) {
  return message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
}

/** The paths and bodies of the requests for an answer that the provider got. */
async function asked(sim) {
  return (await sim.received()).filter((one) => one.method === "POST");
}

for (const [way, stream] of BOTH_WAYS) {
  onLine(`the OpenAI SDK is answered by an Anthropic provider, ${way}`, async (line) => {
    await line.primary.set(scripts.answer(TEXT));
    const completion = await complete(line, stream);
    const [choice] = completion.choices;
    assert.deepEqual([choice.message.role, choice.message.content, choice.finish_reason], ["assistant", TEXT, "stop"]);
    assert.ok(completion.usage.prompt_tokens > 0);
    assert.equal(completion.usage.completion_tokens, 8);
    const [{ path }] = await asked(line.primary);
    assert.ok(path.endsWith("/messages"), path);
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });

  onLine(`the OpenAI SDK's tool runner goes on with a result at an Anthropic provider, ${way}`, async (line) => {
    await line.primary.enqueue(scripts.toolCall("get_weather", INPUT), scripts.answer("It is warm."));
    const called = [];
    const weather = {
      name: "get_weather",
      description: "The weather at a place.",
      parameters: z.toJSONSchema(CITY),
      parse: JSON.parse,
      function: (input) => (called.push(input), "22 degrees"),
    };
    const runner = new OpenAI({ baseURL: line.baseURL, apiKey: KEY }).chat.completions.runTools({
      model: CLAUDE, messages: MESSAGES, stream, tools: [{ type: "function", function: weather }],
    });
    assert.equal(await runner.finalContent(), "It is warm.");
    assert.deepEqual(called, [INPUT]);
    const [, { body }] = await asked(line.primary);
    const [user, assistant, result] = body.messages;
    assert.deepEqual([user.role, assistant.role, result.role], ["user", "assistant", "user"]);
    const call = assistant.content.find((block) => block.type === "tool_use");
    assert.deepEqual(call.input, INPUT);
    assert.equal(result.content[0].tool_use_id, call.id);
  });

  onLine(`the Anthropic SDK is answered by an OpenAI provider, ${way}`, async (line) => {
    await line.primary.set(scripts.answer(TEXT));
    const message = await create(line, stream, { system: "Be brief." });
    assert.deepEqual([message.role, textOf(message), message.stop_reason], ["assistant", TEXT, "end_turn"]);
    const [{ path, body }] = await asked(line.primary);
    assert.ok(path.endsWith("/chat/completions"), path);
    assert.deepEqual(body.messages.map((one) => one.role), ["system", "user"]);
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });

  onLine(`the Anthropic SDK's tool runner goes on with a result at an OpenAI provider, ${way}`, async (line) => {
    await line.primary.enqueue(scripts.toolCall("get_weather", INPUT), scripts.answer("It is warm."));
    const called = [];
    const weather = betaZodTool({
      name: "get_weather",
      description: "The weather at a place.",
      inputSchema: CITY,
      run: (input) => (called.push(input), "22 degrees"),
    });
    const ask = { model: MODEL, max_tokens: 1024, messages: MESSAGES, stream, tools: [weather] };
    // It begins with a thread, which Anthropic alone can hold, is told so, and then tells the whole conversation.
    const message = await anthropic(line).beta.messages.toolRunner(ask);
    assert.equal(textOf(message), "It is warm.");
    assert.deepEqual(await line.counts(), [3, 2, 0]);
    assert.deepEqual(called, [INPUT]);
    const [, { body }] = await asked(line.primary);
    const [user, assistant, result] = body.messages;
    assert.deepEqual([user.role, assistant.role, result.role], ["user", "assistant", "tool"]);
    assert.equal(result.tool_call_id, assistant.tool_calls[0].id);
  });
}

onLine("a thread is never begun at a provider that cannot hold it", async (line) => {
  const ask = { model: MODEL, max_tokens: 1024, messages: MESSAGES, thread: { type: "create" } };
  const error = await failure(anthropic(line).beta.messages.create(ask), Anthropic.BadRequestError);
  assert.match(error.apiMessage, /thread/);
  assert.equal(error.errorCode, "thread_unsupported_request");
  assert.deepEqual(await line.counts(), [1, 0, 0]);
});

onLine("a failure before the first word is seen by neither SDK", async (line) => {
  await line.standby.set(scripts.answer(TEXT));
  await line.primary.set(OVERLOADED);
  assert.equal((await complete(line, true)).choices[0].message.content, TEXT);
  await line.primary.set(scripts.overloaded(503));
  assert.equal(textOf(await create(line, true)), TEXT);
  assert.deepEqual(await line.counts(), [2, 2, 2]);
});

onLine("a break after the first word is one error of each SDK", async (line) => {
  await line.primary.set(scripts.breaks("cut", 3, TEXT));
  await line.standby.set(scripts.answer("another answer"));
  await failure(complete(line, true), OpenAI.OpenAIError);
  const error = await failure(create(line, true), Anthropic.APIError);
  assert.equal(error.type, "api_error");
  assert.deepEqual(await line.counts(), [2, 2, 0]);
});

onLine("when every target fails each SDK gets its own error class, and asks once", async (line) => {
  for (const sim of [line.primary, line.standby]) await sim.set(scripts.anthropicRateLimit(30));
  const ours = await failure(complete(line, true), OpenAI.RateLimitError);
  assert.deepEqual([ours.status, ours.code], [429, "rate_limit_exceeded"]);
  for (const sim of [line.primary, line.standby]) await sim.set(scripts.overloaded(503));
  const theirs = await failure(create(line, true), Anthropic.OverloadedError);
  assert.equal(theirs.type, "overloaded_error");
  assert.equal((await line.counts())[0], 2);
});

onLine("what was lost on the way is told in a header", async (line) => {
  const { completions } = new OpenAI({ baseURL: line.baseURL, apiKey: KEY }).chat;
  const { response } = await completions.create({ model: CLAUDE, messages: MESSAGES, seed: 7 }).withResponse();
  assert.match(response.headers.get("x-pointsman-loss"), /\bseed\b/);
});

for (const [name, other] of [["openai", CLAUDE], ["openai-compatible", CLAUDE], ["anthropic", MODEL]]) {
  onLine(`the AI SDK's ${name} provider does steps with a tool at a provider of the other dialect`, async (line) => {
    const called = [];
    const get_weather = tool({
      description: "The weather at a place.",
      inputSchema: CITY,
      execute: async (input) => (called.push(input), { degrees: 22 }),
    });
    const options = {
      model: PROVIDERS[name].model(line, other), prompt: MESSAGES[0].content, tools: { get_weather }, stopWhen: isStepCount(3),
    };
    await line.primary.enqueue(scripts.toolCall("get_weather", INPUT), scripts.answer("It is warm."));
    assert.equal((await generateText(options)).text, "It is warm.");
    await line.primary.enqueue(scripts.toolCall("get_weather", INPUT), scripts.answer("It is warm."));
    const streamed = streamText(options);
    assert.equal(await streamed.text, "It is warm.");
    assert.equal(await streamed.finishReason, "stop");
    assert.deepEqual(called, [INPUT, INPUT]);
    assert.deepEqual(await line.counts(), [4, 4, 0]);
  });
}
