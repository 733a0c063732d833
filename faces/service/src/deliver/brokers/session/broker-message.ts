/**
 * Broker message: what one attempt publishes, made of the headers that any attempt sends and the body of
 * its task. It is the same for every broker.
 */

export interface BrokerMessage {
  /** The idempotency key: the same on every attempt of a task. */
  readonly id: string;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  /** All other headers, with names in lower case. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

/** Headers that are properties of the message, or that are about a request over HTTP. */
const OMITTED = new Set([
  "accept",
  "accept-encoding",
  "authorization",
  "content-encoding",
  "content-type",
  "idempotency-key",
  "user-agent",
]);

/** `flat`: alternating names and values. */
export function brokerMessage(flat: readonly string[], body: Uint8Array | null): BrokerMessage {
  const all = new Map<string, string>();
  for (let index = 0; index + 1 < flat.length; index += 2) {
    all.set((flat[index] ?? "").toLowerCase(), flat[index + 1] ?? "");
  }
  return {
    id: all.get("idempotency-key") ?? "",
    contentType: all.get("content-type"),
    contentEncoding: all.get("content-encoding"),
    headers: [...all].filter(([name]) => !OMITTED.has(name)),
    body: body ?? NO_BYTES,
  };
}

const NO_BYTES = new Uint8Array(0);
