/** Trace context: sends the span of an attempt with its request, so that the server's spans become its children. */
import { type Context, context, propagation } from "@opentelemetry/api";
import type { AttemptContext } from "../call/options.ts";

/** The spans of running attempts. */
const attemptSpans = new WeakMap<AttemptContext, Context>();

export function rememberAttempt(attempt: AttemptContext, span: Context): void {
  attemptSpans.set(attempt, span);
}

/**
 * The headers that carry the trace context of an attempt (`traceparent` and so on, by the registered
 * propagator), for clients other than fetch. Empty if the destination is not traced.
 */
export function traceHeaders(attempt: AttemptContext): Record<string, string> {
  const headers: Record<string, string> = {};
  const span = attemptSpans.get(attempt);
  if (span !== undefined) propagation.inject(span, headers);
  return headers;
}

/**
 * A fetch that sends the active trace context, for `createFetch(traced(destination), { fetch: tracedFetch()
 * })`. Each attempt sends its own span. Needs the context manager that every setup of the SDK registers.
 */
export function tracedFetch(send?: typeof fetch): typeof fetch {
  return (input, init) => {
    const carried: Record<string, string> = {};
    propagation.inject(context.active(), carried);
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : {}));
    for (const [name, value] of Object.entries(carried)) headers.set(name, value);
    return (send ?? fetch)(input, { ...init, headers });
  };
}
