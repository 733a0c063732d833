/** `redrive destinations`: lists, shows and changes the destinations of a running service. */
import { formatDuration, formatInteger, systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import type { Command } from "commander";
import { addExamples } from "../../input/flags.ts";
import type { Presentation } from "../../print/presentation.ts";
import { type Cell, table } from "../../print/table.ts";
import type { Terminal } from "../../print/terminal.ts";
import { addServiceFlags, type ClientFlags, callService } from "../service-client.ts";
import { addPagingFlags, type PagingFlags } from "../tasks.ts";
import { addDestinationDocument } from "./destination-document.ts";
import { type Destination, stateOf } from "./destination-state.ts";

export function addDestinations(parent: Command, terminal: Terminal): void {
  const destinations = parent
    .command("destinations")
    .description("List, show, configure, pause and resume destinations.");
  addList(destinations, terminal);
  addDestinationDocument(destinations, terminal);
  addChange(destinations, terminal, {
    verb: "pause",
    description: "Stop attempts to a destination until it is resumed.",
    message: (name) => `${name} is paused. Its tasks wait.`,
    call: (client, name) => client.pauseDestination(name),
  });
  addChange(destinations, terminal, {
    verb: "resume",
    description: "Allow attempts to a paused destination again.",
    message: (name) => `${name} is resumed. It starts slowly and speeds up as calls succeed.`,
    call: (client, name) => client.resumeDestination(name),
  });
  addEnable(destinations, terminal);
}

function addEnable(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("enable <name> <target-url>")
    .description("Send to a target URL again that responded 410 Gone (disableOnGone).");
  addServiceFlags(command);
  addExamples(command, "redrive destinations enable hooks https://example.com/hooks/42");
  command.action((name: string, targetUrl: string, flags: ClientFlags) =>
    callService(terminal, flags, async (client) => {
      const destination = await client.enableTarget(name, targetUrl);
      return { json: destination, text: () => [`${targetUrl} is enabled.`] };
    }),
  );
}

function addList(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("ls")
    .description("List destinations with their state, backlog and latency.");
  addServiceFlags(command);
  addPagingFlags(command, "destinations");
  addExamples(command, "redrive destinations ls", "redrive destinations ls --limit 250");
  command.action((flags: ClientFlags & PagingFlags) =>
    callService(terminal, flags, async (client) => {
      const { limit, cursor } = flags;
      const query = { limit, ...(cursor !== undefined && { cursor }) };
      return presentAll(await client.listDestinations(query));
    }),
  );
}

const COLUMNS = [
  { head: "destination", cuts: true },
  { head: "state" },
  { head: "backlog", align: "right" },
  { head: "dead", align: "right" },
  { head: "p50", align: "right" },
  { head: "p99", align: "right" },
  { head: "running", align: "right" },
] as const;

function presentAll(list: Awaited<ReturnType<Client["listDestinations"]>>): Presentation {
  const now = systemClock.now();
  const rows = list.destinations.map((one) => rowOf(one, now));
  const { cursor } = list;
  const isEmpty = rows.length === 0 && cursor === null;
  return {
    json: list,
    text: (style) => (isEmpty ? ["There are no destinations yet."] : table(COLUMNS, rows, style)),
    ...(cursor !== null && { notes: [`there may be more; continue with --cursor ${cursor}`] }),
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

interface DestinationChange {
  readonly verb: "pause" | "resume";
  readonly description: string;
  readonly message: (name: string) => string;
  readonly call: (client: Client, name: string) => Promise<Destination>;
}

function addChange(parent: Command, terminal: Terminal, change: DestinationChange): void {
  const command = parent.command(`${change.verb} <name>`).description(change.description);
  addServiceFlags(command);
  addExamples(command, `redrive destinations ${change.verb} https://example.com`);
  command.action((name: string, flags: ClientFlags) =>
    callService(terminal, flags, async (client) => {
      const destination = await change.call(client, name);
      return { json: destination, text: () => [change.message(name)] };
    }),
  );
}
