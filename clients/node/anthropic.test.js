// Anthropic's SDK in everyday use: create, stream, thinking, tools, models, and leaving early. Its base URL has no
// version in it.

import assert from "node:assert/strict";

import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import * as z from "zod/v4";

import { CLAUDE, GEMINI, GPT, MODEL, onLine } from "./line.js";
import { KEY, PRIMARY_KEY } from "./processes.js";
import * as scripts from "./scripts.js";

const MESSAGES = [{ role: "user", content: "What is the weather in Paris?" }];
const ASK = { model: CLAUDE, max_tokens: 1024, messages: MESSAGES };
const TEXT = "one two three four five six seven eight";
const TOOL = {
  name: "get_weather",
  description: "The weather at a place.",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const INPUT = { city: "Paris — Île-de-France" };

const OVERLOADED = scripts.anthropicStatus(529, "overloaded_error", "Overloaded");
const THREAD_NOT_FOUND = scripts.anthropicStatus(404, "not_found_error", "There is no such thread.", {}, {
  error_code: "thread_not_found",
});

const BOTH_WAYS = [["whole", false], ["stream", true]];

/** The official SDK; only base URL and key are ours. */
function client(line, options = {}) {
  return new Anthropic({ baseURL: line.root, apiKey: KEY, ...options });
}

/** A message; a stream is gathered by the SDK's own helper. */
function create(line, stream, more = {}) {
  const { messages } = client(line);
  return stream ? messages.stream({ ...ASK, ...more }).finalMessage() : messages.create({ ...ASK, ...more });
}

function textOf(message) {
  return message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
}

async function messagesReceived(sim) {
  return (await sim.received()).filter((one) => one.path.includes("/messages"));
}

/** A tool that is run here, and what it was run with. */
function weatherTool() {
  const called = [];
  const tool = betaZodTool({
    name: "get_weather",
    description: "The weather at a place.",
    inputSchema: z.object({ city: z.string() }),
    run: (input) => (called.push(input), "22 degrees"),
  });
  return [called, tool];
}

for (const [way, stream] of BOTH_WAYS) {
  onLine(`a message is created, ${way}`, async (line) => {
    await line.primary.set(scripts.answer(TEXT));
    const message = await create(line, stream);
    assert.equal(textOf(message), TEXT);
    assert.deepEqual([message.role, message.stop_reason, message.model], ["assistant", "end_turn", CLAUDE]);
    assert.ok(message.usage.input_tokens > 0);
    assert.equal(message.usage.output_tokens, 8);
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });

  onLine(`a tool call arrives whole, ${way}`, async (line) => {
    await line.primary.set(scripts.toolCall("get_weather", INPUT));
    const message = await create(line, stream, { tools: [TOOL] });
    assert.equal(message.stop_reason, "tool_use");
    const calls = message.content.filter((block) => block.type === "tool_use");
    assert.deepEqual(calls.map((call) => [call.name, call.input]), [["get_weather", INPUT]]);
    assert.ok(calls[0].id);
  });

  onLine(`signed thinking arrives with its signature, ${way}`, async (line) => {
    await line.primary.set(scripts.answer(TEXT, { reasoning: { text: "first this", field: "thinking" } }));
    const message = await create(line, stream);
    assert.deepEqual(message.content.map((block) => block.type), ["thinking", "text"]);
    assert.deepEqual([message.content[0].thinking, textOf(message)], ["first this", TEXT]);
    assert.ok(message.content[0].signature);
  });

  onLine(`the tool runner calls a function and goes on with its result, ${way}`, async (line) => {
    await line.primary.enqueue(scripts.toolCall("get_weather", INPUT), scripts.answer("It is warm."));
    const [called, weather] = weatherTool();
    const runner = client(line).beta.messages.toolRunner({ ...ASK, stream, tools: [weather], thread: false });
    assert.equal(textOf(await runner), "It is warm.");
    assert.deepEqual(called, [INPUT]);
    assert.deepEqual(await line.counts(), [2, 2, 0]);
    const [, second] = await messagesReceived(line.primary);
    const [user, assistant, result] = second.body.messages;
    assert.deepEqual(user, MESSAGES[0]);
    const call = assistant.content.find((block) => block.type === "tool_use");
    assert.deepEqual(call.input, INPUT);
    assert.deepEqual([result.content[0].tool_use_id, result.content[0].content], [call.id, "22 degrees"]);
  });

  onLine(`a thread goes on at the provider that holds it, ${way}`, async (line) => {
    await line.primary.enqueue(scripts.toolCall("get_weather", INPUT), scripts.answer("It is warm."));
    const [called, weather] = weatherTool();
    assert.equal(textOf(await client(line).beta.messages.toolRunner({ ...ASK, stream, tools: [weather] })), "It is warm.");
    assert.deepEqual(called, [INPUT]);
    assert.deepEqual(await line.counts(), [2, 2, 0]);
    const [first, second] = await messagesReceived(line.primary);
    assert.deepEqual(first.body.thread, { type: "create" });
    assert.equal(second.body.thread.type, "continue");
    assert.deepEqual(second.body.messages.map((message) => message.content[0].type), ["tool_result"]);
    for (const { headers } of [first, second]) {
      assert.ok(headers.some(([name, value]) => name === "anthropic-beta" && value.includes("thread")));
    }
  });

  onLine(`a thread that the standby does not know is told to it anew, ${way}`, async (line) => {
    await line.primary.set(OVERLOADED);
    await line.primary.enqueue(scripts.toolCall("get_weather", INPUT));
    await line.standby.set(scripts.answer("It is warm."));
    await line.standby.enqueue(THREAD_NOT_FOUND);
    const [called, weather] = weatherTool();
    assert.equal(textOf(await client(line).beta.messages.toolRunner({ ...ASK, stream, tools: [weather] })), "It is warm.");
    assert.deepEqual(called, [INPUT], "the tool is not run again");
    const [, whole] = await messagesReceived(line.standby);
    assert.deepEqual(whole.body.thread, { type: "create" });
    assert.deepEqual(whole.body.messages.map((message) => message.role), ["user", "assistant", "user"]);
    assert.deepEqual(await line.counts(), [3, 3, 2]);
  });
}

onLine("a stream yields every word in order and ends once", async (line) => {
  const text = Array.from({ length: 200 }, (_, number) => `word${number}`).join(" ");
  await line.primary.set(scripts.answer(text));
  const events = [];
  for await (const event of await client(line).messages.create({ ...ASK, stream: true })) events.push(event);
  const deltas = events.filter((event) => event.type === "content_block_delta");
  assert.equal(deltas.map((event) => event.delta.text).join(""), text);
  const kinds = events.map((event) => event.type);
  assert.deepEqual([kinds[0], kinds.at(-1)], ["message_start", "message_stop"]);
  for (const kind of ["message_start", "message_stop"]) {
    assert.equal(kinds.filter((one) => one === kind).length, 1);
  }
  assert.deepEqual(await line.counts(), [1, 1, 0]);
});

onLine("a streamed tool call's input arrives in pieces", async (line) => {
  await line.primary.set(scripts.toolCall("get_weather", INPUT));
  const pieces = [];
  const stream = client(line).messages.stream({ ...ASK, tools: [TOOL] }).on("inputJson", (piece) => pieces.push(piece));
  await stream.done();
  assert.ok(pieces.length > 1);
  assert.deepEqual(JSON.parse(pieces.join("")), INPUT);
});

onLine("headers of the gateway are seen through withResponse", async (line) => {
  for (const stream of [false, true]) {
    const asked = stream ? client(line).messages.stream(ASK) : client(line).messages.create(ASK);
    const { data, response, request_id: id } = await asked.withResponse();
    if (stream) await data.done();
    else assert.equal(data._request_id, id);
    assert.ok(id);
    assert.equal(response.headers.get("request-id"), id);
    assert.equal(response.headers.get("x-request-id"), id);
    assert.equal(response.headers.get("x-pointsman-target"), "claude");
    assert.equal(response.headers.get("x-pointsman-action"), "primary");
    assert.equal(response.headers.get("x-pointsman-attempts"), "1");
  }
});

onLine("the provider gets the client's version and beta, and never its key", async (line) => {
  await client(line).messages.create(ASK, { headers: { "anthropic-beta": "not-known-yet-2031-01-01" } });
  const [received] = await messagesReceived(line.primary);
  const headers = new Map(received.headers.map(([name, value]) => [name.toLowerCase(), value]));
  assert.match(headers.get("anthropic-version"), /^\d{4}-\d\d-\d\d$/);
  assert.equal(headers.get("anthropic-beta"), "not-known-yet-2031-01-01");
  assert.ok(headers.get("x-api-key").endsWith(PRIMARY_KEY.slice(-4)));
  assert.equal(headers.has("authorization"), false);
  assert.ok(!JSON.stringify(received).includes(KEY.slice(-4)));
});

onLine("models are listed in the SDK's shape", async (line) => {
  const models = [];
  for await (const model of client(line).models.list()) models.push([model.type, model.id]);
  assert.deepEqual(models.sort(), [["model", CLAUDE], ["model", GEMINI], ["model", MODEL], ["model", GPT]].sort());
  assert.ok((await client(line).models.retrieve(CLAUDE)).display_name);
});

onLine("connections are used again after answers, streams and errors", async (line) => {
  const anthropic = client(line);
  for (let round = 0; round < 4; round += 1) {
    await anthropic.messages.create(ASK);
    await anthropic.messages.stream(ASK).done();
    await assert.rejects(anthropic.messages.create({ ...ASK, model: "nobody" }), Anthropic.NotFoundError);
  }
  assert.deepEqual(await line.counts(), [12, 8, 0]);
  assert.ok(line.relay.connections <= 2, "undici may open a second one while it tidies up the first");
});

onLine("a stream that is aborted ends the call to the provider", async (line) => {
  await line.primary.set(scripts.endless());
  const stream = client(line).messages.stream(ASK);
  stream.once("text", () => stream.abort());
  await assert.rejects(stream.done(), Anthropic.APIUserAbortError);
  await line.primaryIsLeft();
  assert.deepEqual(await line.counts(), [1, 1, 0]);
});

onLine("a signal aborts a stream too", async (line) => {
  await line.primary.set(scripts.endless());
  const leaving = new AbortController();
  const stream = await client(line).messages.create({ ...ASK, stream: true }, { signal: leaving.signal });
  for await (const event of stream) {
    if (event.type === "content_block_delta") leaving.abort();
  }
  await line.primaryIsLeft();
  assert.deepEqual(await line.counts(), [1, 1, 0]);
});

onLine("a request that is aborted before its answer is not taken to another target", async (line) => {
  await line.primary.set(scripts.SILENCE);
  const leaving = new AbortController();
  const asked = client(line).messages.create(ASK, { signal: leaving.signal });
  const refused = assert.rejects(asked, Anthropic.APIUserAbortError);
  await line.primaryIsAsked();
  leaving.abort();
  await refused;
  await line.primaryIsLeft();
  assert.deepEqual(await line.counts(), [1, 1, 0]);
});
