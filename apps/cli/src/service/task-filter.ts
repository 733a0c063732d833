/** Task filter: the flags that select tasks, shared by lists, redrives, purges and exports. */
import { systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import { type Command, InvalidArgumentError } from "commander";
import { choiceFlag, durationFlag, integerFlag } from "../input/flags.ts";

export const STATUSES = ["PENDING", "IN_FLIGHT", "SUCCEEDED", "EXHAUSTED", "CANCELLED"] as const;

export type TaskFilter = Parameters<Client["discardDeadLetters"]>[0];

export interface FilterFlags {
  readonly policy?: string;
  readonly destination?: string;
  readonly label?: string;
  readonly key?: string;
  readonly reason?: string;
  readonly lastStatus?: number;
  readonly since?: number;
}

export function addFilterFlags(command: Command): Command {
  return command
    .option("--policy <id>", "only tasks with this policy")
    .option("--destination <name>", "only tasks to this destination")
    .option("--label <name=value>", "only tasks with this label", labelFlag)
    .option("--key <key>", "only tasks with this idempotency key")
    .option("--reason <reason>", "only tasks that ended for this reason")
    .option(
      "--last-status <status>",
      "only tasks whose last response had this status; 0 to 16 for gRPC and brokers",
      integerFlag(0, 999),
    )
    .option("--since <duration>", "only tasks created within this time, such as 2h", durationFlag);
}

export function addStatusFlag(command: Command): Command {
  const parse = (text: string) => choiceFlag(...STATUSES)(text.toUpperCase());
  return command.option(
    "--status <status>",
    `only tasks with this status: ${STATUSES.join(", ")}`,
    parse,
  );
}

export function taskFilter(flags: FilterFlags): TaskFilter {
  const { policy, destination, label, key, reason, lastStatus, since } = flags;
  return {
    ...(policy !== undefined && { policyId: policy }),
    ...(destination !== undefined && { destination }),
    ...(label !== undefined && { label }),
    ...(key !== undefined && { idempotencyKey: key }),
    ...(reason !== undefined && { reason }),
    ...(lastStatus !== undefined && { lastStatus }),
    ...(since !== undefined && { createdFrom: systemClock.now() - since }),
  };
}

function labelFlag(text: string): string {
  if (/^[\w.:/-]{1,64}=/u.test(text)) return text;
  throw new InvalidArgumentError("Must be name=value.");
}
