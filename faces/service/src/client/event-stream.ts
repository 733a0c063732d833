/**
 * Event stream: reads `GET /events` as typed events. It ends with the connection; to continue, call it
 * again with the last id.
 */
import type { EventQuery, EventView } from "../schemas/event-schemas.ts";
import type { Query, Transport } from "./transport.ts";

export type ServiceEvent =
  | { readonly kind: "event"; readonly id: string; readonly event: EventView }
  /** The service has lost the events since `lastEventId`, so the reader must read the state again. */
  | { readonly kind: "reset"; readonly id: string }
  /** Nothing happened that the reader asked for. The id is a new place to continue from. */
  | { readonly kind: "position"; readonly id: string };

export interface EventOptions extends EventQuery {
  /** Ends the stream without an error. */
  readonly signal?: AbortSignal;
}

/** A block is a few kilobytes. A longer one does not come from Redrive. */
const MAX_BLOCK = 1024 * 1024;

export async function* readEvents(
  { open }: Pick<Transport, "open">,
  { signal, ...query }: EventOptions,
): AsyncGenerator<ServiceEvent, void, undefined> {
  const headers = { accept: "text/event-stream" };
  const call = { method: "GET", path: ["events"], query: query as Query, headers } as const;
  try {
    const { body } = await open(call, signal);
    for await (const block of blocksOf((body ?? []) as AsyncIterable<Uint8Array>)) {
      const event = eventOf(block);
      if (event !== undefined) yield event;
    }
  } catch (error) {
    if (!signal?.aborted) throw error;
  }
}

/** The blocks of the stream: what is between two empty lines. */
async function* blocksOf(
  bytes: AsyncIterable<Uint8Array>,
): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of bytes) {
    rest += decoder.decode(chunk, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    if (rest.length > MAX_BLOCK) throw new Error("an event of the service is too long");
    yield* blocks;
  }
}

function eventOf(block: string): ServiceEvent | undefined {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) fields.set(line.slice(0, at), line.slice(at + 2));
  }
  const id = fields.get("id");
  const data = fields.get("data");
  if (id === undefined) return undefined;
  if (fields.get("event") === "reset") return { kind: "reset", id };
  if (data === undefined) return { kind: "position", id };
  return { kind: "event", id, event: JSON.parse(data) as EventView };
}
