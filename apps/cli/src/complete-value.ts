/**
 * Complete value: the values that a flag or an argument can have, for shell completion. Names of
 * policies, destinations and tasks come from the running service; without one there are none.
 */
import { systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import { policyNames } from "./input/policy-choice.ts";
import { CODE_NAMES } from "./policies/policies-export.ts";
import { createServiceClient, DEFAULT_URL, serviceUrl } from "./service/service-client.ts";
import { STATUSES } from "./service/task-filter.ts";
import { shortIds } from "./service/task-id.ts";

/** A shell waits for the answer. */
const MAX_WAIT_MS = 1000;

const FIXED: Readonly<Record<string, () => readonly string[]>> = {
  "--status": () => STATUSES,
  "--preset": policyNames,
  "--code": () => CODE_NAMES,
  "--backoff": () => ["exponential", "linear", "fixed"],
};

type Lookup = (client: Client) => Promise<readonly string[]>;

const destinations: Lookup = async (client) =>
  (await client.listDestinations({ limit: 250 })).destinations.map(({ name }) => name);

const policies: Lookup = async (client) =>
  (await client.listPolicies()).policies.map(({ policyId }) => policyId);

const tasks: Lookup = async (client) =>
  shortIds((await client.listTasks({ limit: 50 })).tasks.map(({ taskId }) => taskId));

const deadLetters: Lookup = async (client) => {
  const found = await client.listDeadLetters({ limit: 50, redriven: false });
  return shortIds(found.tasks.map(({ taskId }) => taskId));
};

/** By flag, or by group and argument. */
const LOOKUPS: Readonly<Record<string, Lookup>> = {
  "--destination": destinations,
  "--policy": policies,
  "destinations name": destinations,
  "policies policyId": policies,
  "tasks taskId": tasks,
  "redrive taskId": tasks,
  "dlq taskId": deadLetters,
};

/** `what`: a flag such as `--status`, or a group and an argument such as `tasks taskId`. */
export async function completeValue(
  what: string,
  words: readonly string[],
): Promise<readonly string[]> {
  const fixed = FIXED[what];
  if (fixed !== undefined) return fixed();
  const lookup = LOOKUPS[what];
  if (lookup === undefined) return [];
  const found = lookup(createServiceClient(connectionIn(words))).catch(() => []);
  return Promise.race([found, systemClock.sleep(MAX_WAIT_MS).then(() => [])]);
}

/** The words so far may contain --url and --api-key; the environment is the default. */
function connectionIn(words: readonly string[]) {
  const after = (flag: string) => {
    const index = words.indexOf(flag);
    return index === -1 ? undefined : words[index + 1];
  };
  const url = after("--url") ?? (process.env["REDRIVE_URL"] || DEFAULT_URL);
  const apiKey = after("--api-key") ?? process.env["REDRIVE_API_KEY"];
  return { url: serviceUrl(url), ...(apiKey && { apiKey }) };
}
