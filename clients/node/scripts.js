// What a simulated provider is told to do, as the JSON that its control endpoint takes. `{}` is a healthy answer.

export const HEALTHY = {};

/** A provider's error in OpenAI's envelope: status, `{"error": …}` and headers. */
export function status(code, error, headers = {}) {
  return reply(code, { error }, headers);
}

/** An error object with the four fields that OpenAI documents. */
export function error(message, type, code = null, param = null) {
  return { message, type, param, code };
}

export function serverError(code) {
  return status(code, error("The server had an error while processing your request.", "server_error"));
}

export function overloaded(code, headers = {}) {
  const text = "The engine is currently overloaded.";
  return status(code, error(text, "service_unavailable_error", "server_is_overloaded"), headers);
}

export function rateLimit(retryAfter = 30) {
  const text = "Rate limit reached for gpt-4o on requests per min (RPM): Limit 3, Used 3, Requested 1.";
  return status(429, error(text, "requests", "rate_limit_exceeded"), { "retry-after": String(retryAfter) });
}

/** An error in Anthropic's envelope. */
export function anthropicStatus(code, type, message, headers = {}, details = undefined) {
  return reply(code, { type: "error", error: { type, message, details }, request_id: "req_sim" }, headers);
}

export function anthropicRateLimit(retryAfter = 30) {
  const text = "This request would exceed your organization's rate limit.";
  return anthropicStatus(429, "rate_limit_error", text, { "retry-after": String(retryAfter) });
}

function reply(code, body, headers) {
  return {
    reply: { status: code, content_type: "application/json", body: JSON.stringify(body) },
    headers: Object.entries(headers),
  };
}

export function answer(text, more = {}) {
  return { answer: { text, ...more } };
}

export function toolCall(name, input) {
  return { answer: { tool_calls: [{ name, arguments: JSON.stringify(input) }] } };
}

/** Headers and the role at once, the first word later. */
export function slowFirstToken(milliseconds, text) {
  return { pace: { first_token_ms: milliseconds }, answer: { text } };
}

/** An answer that goes on for far longer than a test does, with ten milliseconds between its words. */
export function endless() {
  return { pace: { between_tokens_ms: 10 }, answer: { text: "word", tokens: 20_000 } };
}

/** An answer that ends after so many words: `cut`, `reset`, `end` or `stall`. */
export function breaks(kind, after, text) {
  return { fault: { [kind]: { after } }, answer: { text } };
}

/** An error event after so many words, in OpenAI's form. */
export function errorEvent(after, value, text = "one two three four five six") {
  return { fault: { error: { after, event: { error: value } } }, answer: { text } };
}

/** The same in Anthropic's form. */
export function anthropicErrorEvent(after, type, message, text = "one two three four five six") {
  return { fault: { error: { after, event: { type: "error", error: { type, message } } } }, answer: { text } };
}

export const RESET_BEFORE_HEADERS = { connection: "reset_before_headers" };
export const CLOSE_AFTER_READ = { connection: "close_after_read" };
export const SILENCE = { connection: "silence" };
export const ROLE_ONLY = { fault: "role_only" };
export const NO_CHOICES = { answer: { no_choices: true } };
export const HTML = {
  reply: { status: 200, content_type: "text/html", body: "<html><body>Welcome</body></html>" },
};
export const EMPTY = { reply: { status: 200, content_type: "application/json", body: "" } };
