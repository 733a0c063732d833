/**
 * Task policies: the policy version of each task, for "2 of 5" and for its future. A version never
 * changes, so each is asked for once.
 */
import { signal } from "@preact/signals";
import { isObject, type Policy, type PolicyDocument, resolvePolicy } from "@redrive/core";
import { client, type PolicyView, type TaskView } from "../service/client.ts";

export interface KnownPolicy {
  readonly document: PolicyDocument;
  readonly policy: Policy;
}

const known = signal<ReadonlyMap<string, KnownPolicy>>(new Map());
const asked = new Set<string>();

/** Requests for policies of one list. Tasks with further policies show no maximum. */
const MAX_REQUESTS = 20;

type PolicyOf = Pick<TaskView, "policyId" | "policyVersion">;

function keyOf({ policyId, policyVersion }: PolicyOf): string {
  return `${policyVersion} ${policyId}`;
}

/** Undefined until it is known. */
export function policyOf(task: PolicyOf): KnownPolicy | undefined {
  return known.value.get(keyOf(task));
}

export function loadPolicies(tasks: readonly PolicyOf[]): void {
  const missing = new Map(tasks.map((task) => [keyOf(task), task]));
  for (const key of missing.keys()) if (asked.has(key)) missing.delete(key);
  for (const task of [...missing.values()].slice(0, MAX_REQUESTS)) void load(task);
}

async function load(task: PolicyOf): Promise<void> {
  const key = keyOf(task);
  asked.add(key);
  try {
    const { policyId, policyVersion } = task;
    // Version 0 is a preset that the service uses itself.
    const options = policyVersion > 0 ? { version: policyVersion } : {};
    const found = await client.getPolicy(policyId, options);
    const readable = readPolicy(found);
    if (readable !== undefined) known.value = new Map(known.value).set(key, readable);
  } catch {
    // The number of attempts is shown without a maximum then; the next list asks again.
    asked.delete(key);
  }
}

/** Undefined if this page cannot read the document, for example because a newer version wrote it. */
export function readPolicy({ document }: PolicyView): KnownPolicy | undefined {
  if (!isObject(document)) return undefined;
  try {
    return { document, policy: resolvePolicy(document) };
  } catch {
    return undefined;
  }
}
