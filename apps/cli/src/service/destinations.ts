/** `redrive destinations`: how those do that tasks go to, and whether anything goes there now. */
import { systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import { formatDuration, formatInteger } from "@redrive/simulator/words";
import type { Command } from "commander";
import { addExamples } from "../input/flags.ts";
import type { Presentation } from "../print/presentation.ts";
import { type Cell, table } from "../print/table.ts";
import type { Terminal } from "../print/terminal.ts";
import { addServiceFlags, type ClientFlags, callService } from "./service-client.ts";
import { formatUntil } from "./task-text.ts";

type Destination = Awaited<ReturnType<Client["getDestination"]>>;

export function addDestinations(parent: Command, terminal: Terminal): void {
  const destinations = parent
    .command("destinations")
    .description("look at, pause, resume what tasks go to");
  addList(destinations, terminal);
  addChange(destinations, terminal, {
    verb: "pause",
    description: "attempt nothing there until it is resumed",
    message: (name) => `${name} is paused: tasks wait.`,
    call: (client, name) => client.pauseDestination(name),
  });
  addChange(destinations, terminal, {
    verb: "resume",
    description: "let tasks go there again",
    message: (name) => `${name} is resumed.`,
    call: (client, name) => client.resumeDestination(name),
  });
}

function addList(parent: Command, terminal: Terminal): void {
  const command = parent.command("ls").description("destinations and how they do");
  addServiceFlags(command);
  addExamples(command, "redrive destinations ls");
  command.action((flags: ClientFlags) =>
    callService(terminal, flags, async (client) => presentAll(await client.listDestinations())),
  );
}

const COLUMNS = [
  { head: "destination" },
  { head: "state" },
  { head: "backlog", align: "right" },
  { head: "dead", align: "right" },
  { head: "p50", align: "right" },
  { head: "p99", align: "right" },
  { head: "in flight", align: "right" },
] as const;

function presentAll(list: Awaited<ReturnType<Client["listDestinations"]>>): Presentation {
  const now = systemClock.now();
  const rows = list.destinations.map((one) => rowOf(one, now));
  return {
    json: list,
    text: (style) =>
      rows.length === 0 ? ["Nothing has been sent anywhere yet."] : table(COLUMNS, rows, style),
  };
}

function rowOf(one: Destination, now: number): readonly Cell[] {
  const { name, backlog, tasks, latency, concurrency } = one;
  return [
    name,
    stateOf(one, now),
    formatInteger(backlog),
    formatInteger(tasks["EXHAUSTED"] ?? 0),
    latency === null ? "" : formatDuration(latency.p50Ms),
    latency === null ? "" : formatDuration(latency.p99Ms),
    concurrency === null ? "" : `${concurrency.inFlight} of ${concurrency.limit}`,
  ];
}

/** What keeps tasks from going there, the strongest first, as `explain` tells it of one task. */
function stateOf(one: Destination, now: number): Cell {
  const { pausedAt, breakerState, gateUntil, rateUntil, retryBudget } = one;
  if (pausedAt !== null) return { text: "paused", tone: "warn" };
  if (breakerState !== "CLOSED") {
    return { text: `breaker ${breakerState.toLowerCase()}`, tone: "bad" };
  }
  if (gateUntil > now) {
    return { text: `waits ${formatUntil(gateUntil, now)} (Retry-After)`, tone: "warn" };
  }
  if (rateUntil > now) return { text: "at its rate", tone: "warn" };
  if (retryBudget === "empty") return { text: "no retries left", tone: "warn" };
  // Not "open": of a breaker that would be the opposite.
  return { text: "ok", tone: "good" };
}

interface DestinationChange {
  readonly verb: "pause" | "resume";
  readonly description: string;
  readonly message: (name: string) => string;
  readonly call: (client: Client, name: string) => Promise<Destination>;
}

function addChange(parent: Command, terminal: Terminal, wanted: DestinationChange): void {
  const command = parent.command(`${wanted.verb} <name>`).description(wanted.description);
  addServiceFlags(command);
  addExamples(command, `redrive destinations ${wanted.verb} https://example.com`);
  command.action((name: string, flags: ClientFlags) =>
    callService(terminal, flags, async (client) => {
      const destination = await wanted.call(client, name);
      return { json: destination, text: () => [wanted.message(name)] };
    }),
  );
}
