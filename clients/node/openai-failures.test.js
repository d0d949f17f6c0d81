// OpenAI's SDK when something fails: failover that it does not see, one honest error after the first word, its error
// classes, and one HTTP request when the gateway has spent its attempts, although the SDK would retry by itself.

import assert from "node:assert/strict";

import OpenAI from "openai";

import { failure, MODEL, onLine } from "./line.js";
import { KEY, PRIMARY_KEY, STANDBY_KEY } from "./processes.js";
import * as scripts from "./scripts.js";

const ASK = { model: MODEL, messages: [{ role: "user", content: "Hello" }] };
const TEXT = "the standby answers in seven plain words";
const LONG = "one two three four five six seven eight";
const TOOL = {
  type: "function",
  function: { name: "pay", parameters: { type: "object", properties: { amount: { type: "number" } } } },
};

const BOTH_WAYS = [["whole", false], ["stream", true]];

function client(line, options = {}) {
  return new OpenAI({ baseURL: line.baseURL, apiKey: KEY, ...options });
}

/** The headers and the text of an answer; a stream is read to its end, so that an error inside it shows too. */
async function ask(line, stream, more = {}, options = {}) {
  const { data, response } = await client(line, options).chat.completions.create({ ...ASK, ...more, stream }).withResponse();
  if (!stream) return [response.headers, data.choices[0].message.content];
  let text = "";
  for await (const chunk of data) text += chunk.choices[0]?.delta.content ?? "";
  return [response.headers, text];
}

/** An error of the gateway: the request id in header and body, and no secret. */
function assertIsOurs(error) {
  assert.ok(error.headers.get("content-type").startsWith("application/json"));
  assert.ok(error.requestID);
  assert.equal(typeof error.error.message, "string");
  for (const secret of [KEY, PRIMARY_KEY, STANDBY_KEY]) assert.ok(!JSON.stringify(error.error).includes(secret));
}

// Failover

const FAILURES = {
  "a reset": scripts.RESET_BEFORE_HEADERS,
  "a close": scripts.CLOSE_AFTER_READ,
  "a 500": scripts.serverError(500),
  "a 503": scripts.overloaded(503),
  "a 429": scripts.rateLimit(30),
  "silence": scripts.SILENCE,
  "a role and no word": scripts.ROLE_ONLY,
  "a cut before the first word": scripts.breaks("cut", 0, "never seen"),
  "an end before the first word": scripts.breaks("end", 0, "never seen"),
  "an error before the first word": scripts.errorEvent(0, scripts.error("boom", "server_error")),
  "HTML": scripts.HTML,
  "no choices": scripts.NO_CHOICES,
  "an empty 200": scripts.EMPTY,
};

for (const [what, script] of Object.entries(FAILURES)) {
  for (const [way, stream] of BOTH_WAYS) {
    onLine(`failover is invisible: ${what}, ${way}`, async (line) => {
      await line.primary.set(script);
      await line.standby.set(scripts.answer(TEXT));
      const [headers, text] = await ask(line, stream, {}, { maxRetries: 0 });
      assert.equal(text, TEXT);
      assert.equal(headers.get("x-pointsman-target"), "standby");
      assert.equal(headers.get("x-pointsman-action"), "failover");
      assert.equal(headers.get("x-pointsman-attempts"), "2");
      assert.equal(headers.has("x-pointsman-substituted"), false);
      assert.deepEqual(await line.counts(), [1, 1, 1]);
      assert.ok(!line.relay.answers.includes('"error"'));
    });
  }
}

for (const [way, stream] of BOTH_WAYS) {
  onLine(`failover from a dead provider is invisible, ${way}`, async (line) => {
    await line.primary.kill();
    await line.standby.set(scripts.answer(TEXT));
    assert.equal((await ask(line, stream))[1], TEXT);
    assert.deepEqual(await line.counts(), [1, 0, 1]);
  });

  onLine(`a tool call survives failover exactly once, ${way}`, async (line) => {
    await line.primary.set({ ...scripts.toolCall("pay", { amount: 5 }), fault: { cut: { after: 0 } } });
    await line.standby.set(scripts.toolCall("pay", { amount: 5 }));
    const asked = { ...ASK, tools: [TOOL] };
    const completions = client(line).chat.completions;
    const completion = stream
      ? await completions.stream(asked).finalChatCompletion()
      : await completions.create(asked);
    const calls = completion.choices[0].message.tool_calls.map((call) => [call.function.name, call.function.arguments]);
    assert.deepEqual(calls, [["pay", '{"amount":5}']]);
    assert.deepEqual(await line.counts(), [1, 1, 1]);
  });
}

onLine("a whole answer that breaks off is taken from the standby", async (line) => {
  await line.primary.set(scripts.breaks("cut", 3, LONG));
  await line.standby.set(scripts.answer(TEXT));
  assert.equal((await ask(line, false))[1], TEXT);
  assert.deepEqual(await line.counts(), [1, 1, 1]);
});

// After the first word

for (const [what, script] of Object.entries({
  "a cut": scripts.breaks("cut", 3, LONG),
  "a reset": scripts.breaks("reset", 3, LONG),
  "an end without a finish": scripts.breaks("end", 3, LONG),
  "a stall": scripts.breaks("stall", 3, LONG),
  "an error event": scripts.errorEvent(3, scripts.error("boom", "server_error"), LONG),
})) {
  onLine(`after the first word ${what} is one error and no answer`, async (line) => {
    await line.primary.set({ ...script, pace: { between_tokens_ms: 20 } });
    await line.standby.set(scripts.answer("another answer"));
    const stream = await client(line).chat.completions.create({ ...ASK, stream: true });
    let seen = "";
    const error = await failure((async () => {
      for await (const chunk of stream) seen += chunk.choices[0]?.delta.content ?? "";
    })(), OpenAI.APIError);
    assert.ok(!(error instanceof OpenAI.APIConnectionError), "the gateway ends the stream; it is not cut off");
    assert.ok(error.message);
    assert.ok(seen && LONG.startsWith(seen), `the beginning of the one answer: ${seen}`);
    assert.ok(!line.relay.answers.includes("[DONE]"));
    assert.equal(line.relay.answers.split('data: {"error"').length, 2);
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });
}

onLine("after the first word the stream helper fails, and every promise of it", async (line) => {
  await line.primary.set(scripts.breaks("cut", 3, LONG));
  const stream = client(line).chat.completions.stream(ASK);
  const errors = [];
  stream.on("error", (error) => errors.push(error));
  await failure(stream.finalChatCompletion(), OpenAI.OpenAIError);
  await failure(stream.finalContent(), OpenAI.OpenAIError);
  await failure(stream.done(), OpenAI.OpenAIError);
  assert.equal(errors.length, 1);
  assert.deepEqual(await line.counts(), [1, 1, 0]);
});

onLine("a half sent tool call is never completed by another, nor run", async (line) => {
  const script = scripts.toolCall("pay", { amount: 5, to: "somebody with a long name", note: "for the points" });
  await line.primary.set({ ...script, fault: { cut: { after: 2 } } });
  await line.standby.set(scripts.toolCall("pay", { amount: 5 }));
  const paid = [];
  const pay = { ...TOOL.function, description: "Pays.", parse: JSON.parse, function: (input) => paid.push(input) };
  const runner = client(line).chat.completions.runTools({
    ...ASK, stream: true, tools: [{ type: "function", function: pay }],
  });
  await failure(runner.done(), OpenAI.OpenAIError);
  assert.deepEqual(paid, []);
  assert.deepEqual(await line.counts(), [1, 1, 0]);
});

// Heartbeats (C028)

onLine("heartbeats before a slow first word are skipped, and failover is still possible", { keepalive: "1s", first_token: "1500ms" }, async (line) => {
  await line.primary.set(scripts.ROLE_ONLY);
  await line.standby.set(scripts.answer(TEXT));
  const [headers, text] = await ask(line, true);
  assert.equal(text, TEXT);
  assert.equal(headers.get("x-pointsman-early"), "true");
  assert.match(line.relay.answers, /^:/m);
  assert.deepEqual(await line.counts(), [1, 1, 1]);
});

onLine("an error after a heartbeat is thrown from the stream", { keepalive: "1s", first_token: "1500ms" }, async (line) => {
  await line.primary.set(scripts.ROLE_ONLY);
  await line.standby.set(scripts.serverError(500));
  await failure(ask(line, true), OpenAI.APIError);
  assert.ok(!line.relay.answers.includes("[DONE]"));
  assert.deepEqual(await line.counts(), [1, 1, 1]);
});

// Errors

for (const [way, stream] of BOTH_WAYS) {
  onLine(`a bad request keeps every field of the provider, ${way}`, async (line) => {
    const fault = scripts.error("Invalid 'temperature': must be <= 2.", "invalid_request_error", "decimal_above_max_value", "temperature");
    await line.primary.set(scripts.status(400, fault));
    const error = await failure(ask(line, stream, { temperature: 2 }), OpenAI.BadRequestError);
    assert.deepEqual([error.status, error.type, error.code, error.param], [400, fault.type, fault.code, fault.param]);
    assert.ok(error.message.includes(fault.message));
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });

  onLine(`a wrong gateway key is an authentication error, ${way}`, async (line) => {
    const error = await failure(ask(line, stream, {}, { apiKey: "pk-wrong" }), OpenAI.AuthenticationError);
    assert.deepEqual([error.status, error.code], [401, "invalid_api_key"]);
    assertIsOurs(error);
    assert.deepEqual(await line.counts(), [1, 0, 0]);
  });

  onLine(`an unknown model is not found and a close name is named, ${way}`, async (line) => {
    const error = await failure(ask(line, stream, { model: "gpt-4oo" }), OpenAI.NotFoundError);
    assert.deepEqual([error.status, error.code], [404, "model_not_found"]);
    assert.match(error.message, /gpt-4o\b/);
    assertIsOurs(error);
    assert.deepEqual(await line.counts(), [1, 0, 0]);
  });
}

onLine("a model that the key may not use is a permission error", async (line) => {
  const error = await failure(ask(line, false, { model: "gpt-4o-private" }), OpenAI.PermissionDeniedError);
  assert.deepEqual([error.status, error.code], [403, "model_not_allowed"]);
  assert.deepEqual(await line.counts(), [1, 0, 0]);
});

onLine("a request that cannot be processed is its own fault", async (line) => {
  await line.primary.set(scripts.status(422, scripts.error("seed must be an integer", "invalid_request_error", null, "seed")));
  const error = await failure(ask(line, false), OpenAI.UnprocessableEntityError);
  assert.equal(error.param, "seed");
  assert.deepEqual(await line.counts(), [1, 1, 0]);
});

for (const [way, options] of Object.entries({ "by default": {}, "with no retries": { maxRetries: 0 } })) {
  for (const [what, first, second, kind, expected] of [
    ["a rate limit", scripts.rateLimit(30), scripts.rateLimit(20), OpenAI.RateLimitError, [429, "rate_limit_exceeded"]],
    ["an overload", scripts.overloaded(503), scripts.overloaded(529), OpenAI.InternalServerError, [503, "server_is_overloaded"]],
    ["a reset and a close", scripts.RESET_BEFORE_HEADERS, scripts.CLOSE_AFTER_READ, OpenAI.InternalServerError, [503, "server_is_overloaded"]],
    ["answers that are none", scripts.HTML, scripts.NO_CHOICES, OpenAI.InternalServerError, [503, "upstream_failed"]],
  ]) {
    onLine(`when every target fails by ${what} the SDK asks once, ${way}`, async (line) => {
      await line.primary.set(first);
      await line.standby.set(second);
      const error = await failure(ask(line, true, {}, options), kind);
      assert.deepEqual([error.status, error.code], expected);
      assert.equal(error.headers.get("x-should-retry"), "false");
      assertIsOurs(error);
      assert.deepEqual(await line.counts(), [1, 1, 1]);
    });
  }
}

onLine("when no target answers in time the SDK asks once", { first_token: "500ms", response: "500ms" }, async (line) => {
  await line.primary.set(scripts.SILENCE);
  await line.standby.set(scripts.SILENCE);
  const error = await failure(ask(line, false), OpenAI.InternalServerError);
  assert.deepEqual([error.status, error.code], [504, "timeout"]);
  assertIsOurs(error);
  assert.deepEqual(await line.counts(), [1, 1, 1]);
});

onLine("a fault of the gateway's own credentials is never the caller's", async (line) => {
  const refused = scripts.status(401, scripts.error("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"));
  await line.primary.set(refused);
  await line.standby.set(refused);
  const error = await failure(ask(line, false), OpenAI.InternalServerError);
  assert.equal(error.status, 503);
  assert.deepEqual(await line.counts(), [1, 1, 1]);
});

onLine("when no target can be reached the SDK asks once", async (line) => {
  await line.primary.kill();
  await line.standby.kill();
  const error = await failure(ask(line, false), OpenAI.InternalServerError);
  assert.equal(error.status, 503);
  assertIsOurs(error);
  assert.deepEqual(await line.counts(), [1, 0, 0]);
});
