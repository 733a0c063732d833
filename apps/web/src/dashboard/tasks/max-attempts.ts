/**
 * Max attempts: how often each policy version tries, for "2 of 5". A version never changes, so each is
 * asked for once.
 */
import { signal } from "@preact/signals";
import { isObject, resolvePolicy } from "@redrive/core";
import { client, type PolicyView, type TaskView } from "../service/client.ts";

const known = signal<ReadonlyMap<string, number>>(new Map());
const asked = new Set<string>();

/** Requests for policies of one list. Tasks with further policies show no maximum. */
const MAX_REQUESTS = 20;

type PolicyOf = Pick<TaskView, "policyId" | "policyVersion">;

function keyOf({ policyId, policyVersion }: PolicyOf): string {
  return `${policyVersion} ${policyId}`;
}

/** Undefined until it is known. */
export function maxAttemptsOf(task: PolicyOf): number | undefined {
  return known.value.get(keyOf(task));
}

export function loadMaxAttempts(tasks: readonly PolicyOf[]): void {
  const missing = new Map(tasks.map((task) => [keyOf(task), task]));
  for (const key of missing.keys()) if (asked.has(key)) missing.delete(key);
  for (const task of [...missing.values()].slice(0, MAX_REQUESTS)) void load(task);
}

async function load(task: PolicyOf): Promise<void> {
  const key = keyOf(task);
  asked.add(key);
  try {
    const policy = await client.getPolicy(task.policyId, { version: task.policyVersion });
    const count = attemptsOf(policy);
    if (count !== undefined) known.value = new Map(known.value).set(key, count);
  } catch {
    // The number of attempts is shown without a maximum then; the next list asks again.
    asked.delete(key);
  }
}

/** Undefined if this page cannot read the document, for example because a newer version wrote it. */
export function attemptsOf({ document }: PolicyView): number | undefined {
  if (!isObject(document)) return undefined;
  try {
    return resolvePolicy(document).maxAttempts;
  } catch {
    return undefined;
  }
}
