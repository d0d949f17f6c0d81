// Anthropic's SDK when something fails: failover that it does not see, one honest error after the first word, its error
// classes, and one HTTP request when the gateway has spent its attempts, although the SDK would retry by itself.

import assert from "node:assert/strict";

import Anthropic from "@anthropic-ai/sdk";

import { CLAUDE, failure, onLine } from "./line.js";
import { KEY } from "./processes.js";
import * as scripts from "./scripts.js";

const ASK = { model: CLAUDE, max_tokens: 1024, messages: [{ role: "user", content: "Hello" }] };
const TEXT = "the standby answers in seven plain words";
const LONG = "one two three four five six seven eight";
const TOOL = { name: "pay", input_schema: { type: "object", properties: { amount: { type: "number" } } } };

const OVERLOADED = scripts.anthropicStatus(529, "overloaded_error", "Overloaded");
const API_ERROR = scripts.anthropicStatus(500, "api_error", "Internal server error");
const SPENT = scripts.anthropicStatus(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.");

const BOTH_WAYS = [["whole", false], ["stream", true]];

function client(line, options = {}) {
  return new Anthropic({ baseURL: line.root, apiKey: KEY, ...options });
}

function create(line, stream, more = {}, options = {}) {
  const { messages } = client(line, options);
  return stream ? messages.stream({ ...ASK, ...more }).finalMessage() : messages.create({ ...ASK, ...more });
}

function textOf(message) {
  return message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
}

function times(text, part) {
  return text.split(part).length - 1;
}

/** An error of the gateway: the SDK's shape, the request id in header and body, and no secret. */
function assertIsOurs(error) {
  assert.ok(error.requestID, "the SDK reads the header request-id");
  assert.equal(error.error.type, "error");
  assert.equal(error.error.request_id, error.requestID);
  assert.equal(error.error.pointsman.request_id, error.requestID);
  assert.equal(typeof error.apiMessage, "string");
  assert.ok(!JSON.stringify(error.error).includes(KEY));
}

// Failover

for (const [what, script] of Object.entries({
  "a reset": scripts.RESET_BEFORE_HEADERS,
  "a 529": OVERLOADED,
  "a 500": API_ERROR,
  "a 429": scripts.anthropicRateLimit(30),
  "a spent balance": SPENT,
  "silence": scripts.SILENCE,
  "a cut before the first word": scripts.breaks("cut", 0, "never seen"),
  "an error before the first word": scripts.anthropicErrorEvent(0, "overloaded_error", "Overloaded"),
  "HTML": scripts.HTML,
})) {
  for (const [way, stream] of BOTH_WAYS) {
    onLine(`failover is invisible: ${what}, ${way}`, async (line) => {
      await line.primary.set(script);
      await line.standby.set(scripts.answer(TEXT));
      const message = await create(line, stream, {}, { maxRetries: 0 });
      assert.equal(textOf(message), TEXT);
      assert.equal(message.stop_reason, "end_turn");
      assert.deepEqual(await line.counts(), [1, 1, 1]);
      assert.equal(times(line.relay.answers, "event: error"), 0);
      assert.equal(times(line.relay.answers, "event: message_start"), stream ? 1 : 0);
      assert.equal(times(line.relay.answers, "event: message_stop"), stream ? 1 : 0);
    });
  }
}

onLine("a whole answer that breaks off is taken from the standby", async (line) => {
  await line.primary.set(scripts.breaks("cut", 3, LONG));
  await line.standby.set(scripts.answer(TEXT));
  assert.equal(textOf(await create(line, false)), TEXT);
  assert.deepEqual(await line.counts(), [1, 1, 1]);
});

onLine("a tool call survives failover exactly once", async (line) => {
  await line.primary.set({ ...scripts.toolCall("pay", { amount: 5 }), fault: { cut: { after: 0 } } });
  await line.standby.set(scripts.toolCall("pay", { amount: 5 }));
  const message = await create(line, true, { tools: [TOOL] });
  assert.deepEqual(message.content.map((block) => [block.type, block.name, block.input]), [["tool_use", "pay", { amount: 5 }]]);
  assert.deepEqual(await line.counts(), [1, 1, 1]);
});

// After the first word

for (const [what, script] of Object.entries({
  "a cut": scripts.breaks("cut", 3, LONG),
  "a reset": scripts.breaks("reset", 3, LONG),
  "an end without message_stop": scripts.breaks("end", 3, LONG),
  "a stall": scripts.breaks("stall", 3, LONG),
  "an error event": scripts.anthropicErrorEvent(3, "overloaded_error", "Overloaded", LONG),
})) {
  onLine(`after the first word ${what} is one error and no message`, async (line) => {
    await line.primary.set({ ...script, pace: { between_tokens_ms: 20 } });
    await line.standby.set(scripts.answer("another answer"));
    let seen = "";
    const errors = [];
    const stream = client(line).messages.stream(ASK).on("text", (text) => (seen += text)).on("error", (one) => errors.push(one));
    const error = await failure(stream.finalMessage(), Anthropic.APIError);
    assert.equal(error.type, "api_error");
    assert.ok(!(error instanceof Anthropic.APIConnectionError), "the gateway ends the stream; it is not cut off");
    assert.deepEqual(errors, [error]);
    await failure(stream.done(), Anthropic.APIError);
    assert.ok(seen && LONG.startsWith(seen), `the beginning of the one answer: ${seen}`);
    assert.equal(times(line.relay.answers, "event: error"), 1);
    assert.equal(times(line.relay.answers, "message_stop"), 0);
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });
}

onLine("after the first word a plain loop over the events throws too", async (line) => {
  await line.primary.set(scripts.breaks("cut", 3, LONG));
  const stream = await client(line).messages.create({ ...ASK, stream: true });
  const kinds = [];
  await failure((async () => {
    for await (const event of stream) kinds.push(event.type);
  })(), Anthropic.APIError);
  assert.ok(kinds.includes("content_block_delta") && !kinds.includes("message_stop"));
});

// Heartbeats (C028)

onLine("heartbeats before a slow first word are skipped, and failover is still possible", { keepalive: "300ms", first_token: "800ms" }, async (line) => {
  await line.primary.set(scripts.ROLE_ONLY);
  await line.standby.set(scripts.answer(TEXT));
  const message = await create(line, true);
  assert.equal(textOf(message), TEXT);
  assert.equal(message.pointsman.target, "claude-standby");
  assert.match(line.relay.answers.split("event: message_start")[0], /^:/m);
  assert.deepEqual(await line.counts(), [1, 1, 1]);
});

onLine("an error after a heartbeat is thrown from the stream", { keepalive: "300ms", first_token: "800ms" }, async (line) => {
  await line.primary.set(scripts.ROLE_ONLY);
  await line.standby.set(OVERLOADED);
  await failure(create(line, true), Anthropic.APIError);
  assert.equal(times(line.relay.answers, "message_start"), 0);
  assert.deepEqual(await line.counts(), [1, 1, 1]);
});

// Errors

for (const [way, stream] of BOTH_WAYS) {
  onLine(`a bad request keeps the provider's words, ${way}`, async (line) => {
    const said = "messages.0.content: Field required";
    await line.primary.set(scripts.anthropicStatus(400, "invalid_request_error", said));
    const error = await failure(create(line, stream), Anthropic.BadRequestError);
    assert.deepEqual([error.status, error.type], [400, "invalid_request_error"]);
    assert.ok(error.apiMessage.includes(said));
    assertIsOurs(error);
    assert.deepEqual(await line.counts(), [1, 1, 0]);
  });

  onLine(`a wrong gateway key is an authentication error, ${way}`, async (line) => {
    const error = await failure(create(line, stream, {}, { apiKey: "pk-wrong" }), Anthropic.AuthenticationError);
    assert.deepEqual([error.status, error.type], [401, "authentication_error"]);
    assertIsOurs(error);
    assert.deepEqual(await line.counts(), [1, 0, 0]);
  });

  onLine(`an unknown model is not found and a close name is named, ${way}`, async (line) => {
    const error = await failure(create(line, stream, { model: "claude-opus-5" }), Anthropic.NotFoundError);
    assert.deepEqual([error.status, error.type], [404, "not_found_error"]);
    assert.ok(error.apiMessage.includes(CLAUDE));
    assertIsOurs(error);
    assert.deepEqual(await line.counts(), [1, 0, 0]);
  });
}

onLine("a model that the key may not use is a permission error", async (line) => {
  const error = await failure(create(line, false, { model: "gpt-4o-private" }), Anthropic.PermissionDeniedError);
  assert.equal(error.type, "permission_error");
  assert.deepEqual(await line.counts(), [1, 0, 0]);
});

for (const [way, options] of Object.entries({ "by default": {}, "with no retries": { maxRetries: 0 } })) {
  for (const [what, first, second, kind, expected] of [
    ["a rate limit", scripts.anthropicRateLimit(30), scripts.anthropicRateLimit(20), Anthropic.RateLimitError, [429, "rate_limit_error"]],
    ["an overload", OVERLOADED, OVERLOADED, Anthropic.OverloadedError, [529, "overloaded_error"]],
    ["a 500 and an overload", API_ERROR, OVERLOADED, Anthropic.OverloadedError, [529, "overloaded_error"]],
    ["a spent balance", SPENT, SPENT, Anthropic.PaymentRequiredError, [402, "billing_error"]],
    ["answers that are none", scripts.HTML, scripts.NO_CHOICES, Anthropic.InternalServerError, [500, "api_error"]],
  ]) {
    onLine(`when every target fails by ${what} the SDK asks once, ${way}`, async (line) => {
      await line.primary.set(first);
      await line.standby.set(second);
      const error = await failure(create(line, true, {}, options), kind);
      assert.deepEqual([error.status, error.type], expected);
      assert.equal(error.headers.get("x-should-retry"), "false");
      assertIsOurs(error);
      assert.deepEqual(await line.counts(), [1, 1, 1]);
    });
  }
}

onLine("silence of every target is a timeout and asked once", { first_token: "500ms", response: "500ms" }, async (line) => {
  await line.primary.set(scripts.SILENCE);
  await line.standby.set(scripts.SILENCE);
  const error = await failure(create(line, false), Anthropic.GatewayTimeoutError);
  assert.deepEqual([error.status, error.type], [504, "timeout_error"]);
  assertIsOurs(error);
  assert.deepEqual(await line.counts(), [1, 1, 1]);
});
