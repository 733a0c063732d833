/** A handler with idempotency keys in virtual time, which ends when the test says so. */
import { type VirtualClock, virtualClock } from "@redrive/core";
import { forFetch } from "../serve/for-fetch.ts";
import { idempotency } from "./idempotency.ts";
import type { IdempotencyEvent, IdempotencyOptions } from "./idempotency-options.ts";
import type { IdempotencyStore, TransactionalStore } from "./idempotency-store.ts";
import { memoryStore } from "./memory-store.ts";
import type { RunningRequest } from "./running-request.ts";

export const LEASE_MS = 30_000;

/** A handler that has started. */
export interface StartedRun {
  readonly request: Request;
  respond(response?: Response): void;
  fail(error: unknown): void;
}

type AnyStore = TransactionalStore<unknown, Promise<boolean>>;

/**
 * `change` replaces functions of the store. `elsewhere` is another process on the same store, and `change`
 * does not apply to it.
 */
export function setUp(
  more: Partial<IdempotencyOptions<Request>> = {},
  change: (store: IdempotencyStore, clock: VirtualClock) => Partial<AnyStore> = () => ({}),
) {
  const clock = virtualClock();
  let ids = 0;
  const memory = bound(memoryStore({ clock }));
  const store = { ...memory, ...change(memory, clock) };
  const newId = () => `owner-${ids++}`;
  const here = serverOn(store, { clock, ids: newId, ...more });
  const elsewhere = serverOn(memory, { clock, ids: newId, ...more });
  return { clock, store, ...here, elsewhere };
}

/** One process. */
function serverOn(store: IdempotencyStore, more: Partial<IdempotencyOptions<Request>>) {
  const events: IdempotencyEvent[] = [];
  const runs: StartedRun[] = [];
  const keys = idempotency<Request>({
    store,
    scope: () => "caller",
    onEvent: (event) => events.push(event),
    ...more,
  });
  const handler = forFetch(
    keys,
    (request) =>
      new Promise<Response>((resolve, reject) => {
        const respond = (response = new Response("done", { status: 201 })) => resolve(response);
        runs.push({ request, respond, fail: reject });
      }),
  );
  const post = (body = "{}", headers: Record<string, string> = {}) =>
    handler(
      new Request("https://api.example/charges", {
        method: "POST",
        headers: { "idempotency-key": "k", ...headers },
        body,
      }),
    );
  /** Resolves when so many handlers have started. */
  const started = async (count: number): Promise<StartedRun> => {
    while (runs.length < count) await new Promise((resolve) => setImmediate(resolve));
    return runs[count - 1] as StartedRun;
  };
  const types = () => events.map(({ type }) => type);
  /** The claim of a handler, for every kind of store. */
  const claimOf = ({ request }: StartedRun) => keys.claimOf(request) as unknown as RunningRequest;
  return { keys, events, types, runs, post, started, claimOf };
}

/** The methods of a store as own functions, so that a test can replace some. */
function bound(store: IdempotencyStore): IdempotencyStore {
  return {
    claim: (key, claim) => store.claim(key, claim),
    renew: (key, owner, leaseMs) => store.renew(key, owner, leaseMs),
    settle: (key, owner, settlement) => store.settle(key, owner, settlement),
    release: (key, owner) => store.release(key, owner),
    sweep: (limit) => store.sweep(limit),
  };
}

export const codeOf = async (response: Response) => (await response.json()).code;
