/**
 * Hop: how many Redrives a request has come through, so that services which hand tasks to each other
 * in a circle notice. It travels with a task among its headers, under a name that no caller may use.
 */
import { serviceError } from "./errors.ts";
import type { Headers, NewTask } from "./task.ts";

export const HOP_HEADER = "redrive-hop";

/** More than anybody needs on purpose. */
const MAX_HOPS = 3;

/** The hops of a request by its header; 0 for one that comes from no Redrive. */
export function hopsOf(headers: Readonly<Record<string, unknown>>): number {
  const text = headers[HOP_HEADER];
  return typeof text === "string" && /^\d{1,9}$/.test(text) ? Number(text) : 0;
}

/** As `hopsOf`; throws `LOOP_DETECTED` if there were too many to be on purpose. */
export function assertNoLoop(headers: Readonly<Record<string, unknown>>): number {
  const hops = hopsOf(headers);
  if (hops <= MAX_HOPS) return hops;
  const text = `the request has come through ${hops} services like this one, at most ${MAX_HOPS} may`;
  throw serviceError("LOOP_DETECTED", `${text}: does the target hand its task on in a circle?`);
}

/** A task that came through so many; one that came from no Redrive says nothing. */
export function withHops(task: NewTask, hops: number): NewTask {
  return hops === 0 ? task : { ...task, headers: { ...task.headers, [HOP_HEADER]: String(hops) } };
}

/** The headers as the caller gave them. */
export function withoutHops(headers: Headers): Headers {
  if (!(HOP_HEADER in headers)) return headers;
  const { [HOP_HEADER]: _, ...given } = headers;
  return given;
}
