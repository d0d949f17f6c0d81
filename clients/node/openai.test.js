// OpenAI's SDK in everyday use: create, stream, usage, tools, models, base URLs, connections, and leaving early.

import assert from "node:assert/strict";

import OpenAI from "openai";

import { CLAUDE, GEMINI, GPT, MODEL, onLine } from "./line.js";
import { KEY, PRIMARY_KEY } from "./processes.js";
import * as scripts from "./scripts.js";

const MESSAGES = [{ role: "user", content: "What is the weather in Paris?" }];
const ASK = { model: MODEL, messages: MESSAGES };
const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string" }, unit: { type: "string", enum: ["c", "f"] } },
  required: ["city", "unit"],
  additionalProperties: false,
};
const TOOL = {
  type: "function",
  function: { name: "get_weather", description: "The weather at a place.", strict: true, parameters: PARAMETERS },
};
const ARGUMENTS = { city: "Paris — Île-de-France", unit: "c" };
const TEXT = "one two three four five six seven eight";

/** The official SDK; only base URL and key are ours. */
function client(line, options = {}) {
  return new OpenAI({ baseURL: line.baseURL, apiKey: KEY, ...options });
}

function words(chunk) {
  return chunk.choices[0]?.delta.content ?? "";
}

async function chunksOf(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

onLine("a completion is created as the provider sent it", async (line) => {
  await line.primary.set(scripts.answer("The points are set.", { model: "gpt-4o-2024-11-20" }));
  const completion = await client(line).chat.completions.create(ASK);
  assert.equal(completion.object, "chat.completion");
  assert.equal(completion.model, "gpt-4o-2024-11-20");
  const [choice] = completion.choices;
  assert.deepEqual([choice.message.role, choice.message.content], ["assistant", "The points are set."]);
  assert.equal(choice.finish_reason, "stop");
  assert.equal(completion.usage.completion_tokens, 4);
  assert.equal(completion.usage.total_tokens, completion.usage.prompt_tokens + 4);
  assert.deepEqual(await line.counts(), [1, 1, 0]);
});

onLine("a stream yields every word in order and ends once", async (line) => {
  const text = Array.from({ length: 200 }, (_, number) => `word${number}`).join(" ");
  await line.primary.set(scripts.answer(text));
  const chunks = await chunksOf(await client(line).chat.completions.create({ ...ASK, stream: true }));
  assert.equal(chunks.map(words).join(""), text);
  assert.deepEqual(chunks.flatMap((chunk) => chunk.choices[0]?.finish_reason ?? []), ["stop"]);
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  assert.ok(chunks.every((chunk) => chunk.usage == null), "usage was not asked for");
  assert.equal(line.relay.answers.split("data: [DONE]").length, 2);
  assert.deepEqual(await line.counts(), [1, 1, 0]);
});

onLine("a stream reports usage once, at its end, when asked", async (line) => {
  await line.primary.set(scripts.answer("one two three"));
  const ask = { ...ASK, stream: true, stream_options: { include_usage: true } };
  const chunks = await chunksOf(await client(line).chat.completions.create(ask));
  assert.equal(chunks.map(words).join(""), "one two three");
  assert.equal(chunks.filter((chunk) => chunk.usage).length, 1);
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.equal(chunks.at(-1).usage.completion_tokens, 3);
});

onLine("the stream helper gathers the whole answer", async (line) => {
  await line.primary.set(scripts.answer(TEXT));
  const deltas = [];
  const stream = client(line).chat.completions.stream(ASK).on("content", (delta) => deltas.push(delta));
  const completion = await stream.finalChatCompletion();
  assert.equal(deltas.join(""), TEXT);
  assert.equal(completion.choices[0].message.content, TEXT);
  assert.equal(completion.choices[0].finish_reason, "stop");
});

onLine("headers of the gateway are seen through withResponse", async (line) => {
  for (const stream of [false, true]) {
    const asked = client(line).chat.completions.create({ ...ASK, stream });
    const { data, response, request_id: id } = await asked.withResponse();
    if (stream) await chunksOf(data);
    else assert.equal(data._request_id, id);
    assert.ok(id);
    assert.equal(response.headers.get("x-request-id"), id);
    assert.equal(response.headers.get("x-pointsman-target"), "primary");
    assert.equal(response.headers.get("x-pointsman-model"), MODEL);
    assert.equal(response.headers.get("x-pointsman-action"), "primary");
    assert.equal(response.headers.get("x-pointsman-attempts"), "1");
    assert.equal(response.headers.has("x-pointsman-substituted"), false);
  }
});

onLine("a tool call arrives whole", async (line) => {
  await line.primary.set(scripts.toolCall("get_weather", ARGUMENTS));
  const completion = await client(line).chat.completions.create({ ...ASK, tools: [TOOL] });
  assert.equal(completion.choices[0].finish_reason, "tool_calls");
  const [call, ...more] = completion.choices[0].message.tool_calls;
  assert.deepEqual(more, []);
  assert.ok(call.id);
  assert.deepEqual([call.type, call.function.name], ["function", "get_weather"]);
  assert.deepEqual(JSON.parse(call.function.arguments), ARGUMENTS);
});

onLine("a streamed tool call arrives in fragments that make one call", async (line) => {
  await line.primary.set(scripts.toolCall("get_weather", ARGUMENTS));
  const chunks = await chunksOf(await client(line).chat.completions.create({ ...ASK, tools: [TOOL], stream: true }));
  const fragments = chunks.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? []);
  assert.ok(fragments.length > 2, "the arguments come in pieces");
  assert.deepEqual(fragments.flatMap((one) => one.function.name ?? []), ["get_weather"]);
  assert.equal(fragments.filter((one) => one.id).length, 1);
  assert.deepEqual(new Set(fragments.map((one) => one.index)), new Set([0]));
  assert.deepEqual(JSON.parse(fragments.map((one) => one.function.arguments ?? "").join("")), ARGUMENTS);
});

for (const stream of [false, true]) {
  onLine(`the tool runner calls a function and goes on with its result, ${stream ? "streamed" : "whole"}`, async (line) => {
    await line.primary.enqueue(scripts.toolCall("get_weather", ARGUMENTS), scripts.answer("It is warm."));
    const called = [];
    const weather = { ...TOOL.function, parse: JSON.parse, function: (input) => (called.push(input), "22 degrees") };
    const runner = client(line).chat.completions.runTools({
      ...ASK, stream, tools: [{ type: "function", function: weather }],
    });
    assert.equal(await runner.finalContent(), "It is warm.");
    assert.deepEqual(called, [ARGUMENTS]);
    assert.deepEqual(await line.counts(), [2, 2, 0]);
    const [, second] = (await line.primary.received()).filter((one) => one.path.endsWith("/chat/completions"));
    const [user, assistant, tool] = second.body.messages;
    assert.deepEqual(user, MESSAGES[0]);
    assert.deepEqual([tool.role, tool.content], ["tool", "22 degrees"]);
    assert.equal(tool.tool_call_id, assistant.tool_calls[0].id);
  });
}

onLine("a conversation reaches the provider as the SDK wrote it, with the provider's key", async (line) => {
  const body = {
    model: MODEL,
    messages: [{ role: "system", content: "Be brief. ü✓" }, ...MESSAGES],
    temperature: 0.1,
    a_field_nobody_knows: { b: [1, 2.5, null] },
  };
  await client(line).chat.completions.create(body);
  const [received] = (await line.primary.received()).filter((one) => one.path.endsWith("/chat/completions"));
  assert.equal(received.method, "POST");
  assert.deepEqual(received.body, body);
  const headers = new Map(received.headers.map(([name, value]) => [name.toLowerCase(), value]));
  assert.ok(headers.get("authorization").endsWith(PRIMARY_KEY.slice(-4)));
  assert.deepEqual([...headers.keys()].filter((name) => name.startsWith("x-stainless-")), []);
  assert.ok(!JSON.stringify(received).includes(KEY.slice(-4)), "the gateway's key must not reach a provider");
});

onLine("the models that the key may use are listed", async (line) => {
  const models = [];
  for await (const model of client(line).models.list()) models.push(model);
  assert.deepEqual(new Set(models.map((model) => model.id)), new Set([MODEL, CLAUDE, GEMINI, GPT]));
  assert.ok(models.every((model) => model.object === "model"));
  assert.equal((await client(line).models.retrieve(MODEL)).id, MODEL);
});

for (const prefix of ["", "/v1", "/v1/", "/openai/v1"]) {
  onLine(`the base URL may end in ${prefix || "nothing"}`, async (line) => {
    const openai = client(line, { baseURL: `${line.root}${prefix}` });
    assert.ok((await openai.chat.completions.create(ASK)).choices[0].message.content);
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });
}

// This SDK leaves a stream at `[DONE]`: what is still to come of it then costs the connection.
onLine("connections are used again after answers, streams and errors", async (line) => {
  const openai = client(line);
  for (let round = 0; round < 6; round += 1) {
    await openai.chat.completions.create(ASK);
    await chunksOf(await openai.chat.completions.create({ ...ASK, stream: true }));
    await assert.rejects(openai.chat.completions.create({ ...ASK, model: "nobody" }), OpenAI.NotFoundError);
  }
  assert.deepEqual(await line.counts(), [18, 12, 0]);
  assert.ok(line.relay.connections <= 2, "undici may open a second one while it tidies up the first");
});

onLine("streams at the same time do not mix", async (line) => {
  const texts = [..."abcdefgh"].map((letter) => Array(50).fill(letter).join(" "));
  await line.primary.enqueue(...texts.map((text) => ({ ...scripts.answer(text), pace: { between_tokens_ms: 2 } })));
  const openai = client(line);
  const got = await Promise.all(texts.map(async () => {
    const chunks = await chunksOf(await openai.chat.completions.create({ ...ASK, stream: true }));
    return chunks.map(words).join("");
  }));
  assert.deepEqual(got.sort(), texts);
});

onLine("a stream that is aborted ends the call to the provider", async (line) => {
  await line.primary.set(scripts.endless());
  const leaving = new AbortController();
  const stream = await client(line).chat.completions.create({ ...ASK, stream: true }, { signal: leaving.signal });
  for await (const chunk of stream) {
    if (words(chunk)) leaving.abort();
  }
  await line.primaryIsLeft();
  assert.deepEqual(await line.counts(), [1, 1, 0]);
});

onLine("leaving the loop over a stream ends the call to the provider", async (line) => {
  await line.primary.set(scripts.endless());
  for await (const chunk of await client(line).chat.completions.create({ ...ASK, stream: true })) {
    if (words(chunk)) break;
  }
  await line.primaryIsLeft();
  assert.deepEqual(await line.counts(), [1, 1, 0]);
});

for (const stream of [false, true]) {
  onLine(`a request that is aborted before its answer is not taken to another target, ${stream ? "stream" : "whole"}`, async (line) => {
    await line.primary.set(scripts.SILENCE);
    const leaving = new AbortController();
    const asked = client(line).chat.completions.create({ ...ASK, stream }, { signal: leaving.signal });
    const refused = assert.rejects(asked, OpenAI.APIUserAbortError);
    await line.primaryIsAsked();
    leaving.abort();
    await refused;
    await line.primaryIsLeft();
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });
}
