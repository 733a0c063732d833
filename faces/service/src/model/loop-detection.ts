/**
 * Loop detection: counts how many Redrive services a request has passed through, to detect services
 * that send tasks to each other in a loop. The count is stored in a task header with a reserved name.
 */
import { serviceError } from "./errors.ts";
import type { Headers, NewTask } from "./task.ts";

export const HOP_HEADER = "redrive-hop";

/** More than any intended chain needs. */
const MAX_HOPS = 3;

/** The number of hops in the headers; 0 if the request comes from no Redrive service. */
export function hopsOf(headers: Readonly<Record<string, unknown>>): number {
  const text = headers[HOP_HEADER];
  return typeof text === "string" && /^\d{1,9}$/.test(text) ? Number(text) : 0;
}

/** Like `hopsOf`, but throws `LOOP_DETECTED` above the maximum. */
export function assertNoLoop(headers: Readonly<Record<string, unknown>>): number {
  const hops = hopsOf(headers);
  if (hops <= MAX_HOPS) return hops;
  const text = `the request has passed through ${hops} Redrive services, the limit is ${MAX_HOPS}`;
  throw serviceError("LOOP_DETECTED", `${text}: does the target send its task back in a loop?`);
}

/** Adds the number of hops to a task; 0 adds nothing. */
export function withHops(task: NewTask, hops: number): NewTask {
  return hops === 0 ? task : { ...task, headers: { ...task.headers, [HOP_HEADER]: String(hops) } };
}

/** The headers as the caller sent them. */
export function withoutHops(headers: Headers): Headers {
  if (!(HOP_HEADER in headers)) return headers;
  const { [HOP_HEADER]: _, ...given } = headers;
  return given;
}
