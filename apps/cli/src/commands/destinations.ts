/** `redrive destinations`: how those do that tasks go to, and whether anything goes there now. */
import { formatDuration, formatInteger, systemClock } from "@redrive/core";
import type { Client } from "@redrive/service/client";
import type { Command } from "commander";
import { addExamples } from "../flags.ts";
import type { Presentation } from "../presentation.ts";
import { addRemote, askService, type RemoteFlags } from "../remote.ts";
import type { Screen } from "../screen.ts";
import { untilWords } from "../task-text.ts";
import { type Cell, table } from "../terminal/table.ts";

type Destination = Awaited<ReturnType<Client["getDestination"]>>;

export function addDestinations(parent: Command, screen: Screen): void {
  const destinations = parent
    .command("destinations")
    .description("look at, pause, resume what tasks go to");
  addList(destinations, screen);
  addSwitch(destinations, screen, {
    verb: "pause",
    description: "attempt nothing there until it is resumed",
    words: (name) => `${name} is paused: tasks wait.`,
    call: (client, name) => client.pauseDestination(name),
  });
  addSwitch(destinations, screen, {
    verb: "resume",
    description: "let tasks go there again",
    words: (name) => `${name} is resumed.`,
    call: (client, name) => client.resumeDestination(name),
  });
}

function addList(parent: Command, screen: Screen): void {
  const command = parent.command("ls").description("destinations and how they do");
  addRemote(command);
  addExamples(command, "redrive destinations ls");
  command.action((flags: RemoteFlags) =>
    askService(screen, flags, async (client) => presentAll(await client.listDestinations())),
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
    text: (look) =>
      rows.length === 0 ? ["Nothing has been sent anywhere yet."] : table(COLUMNS, rows, look),
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
    return { text: `waits ${untilWords(gateUntil, now)} (Retry-After)`, tone: "warn" };
  }
  if (rateUntil > now) return { text: "at its rate", tone: "warn" };
  if (retryBudget === "empty") return { text: "no retries left", tone: "warn" };
  // Not "open": of a breaker that would be the opposite.
  return { text: "ok", tone: "good" };
}

interface Switch {
  readonly verb: "pause" | "resume";
  readonly description: string;
  readonly words: (name: string) => string;
  readonly call: (client: Client, name: string) => Promise<Destination>;
}

function addSwitch(parent: Command, screen: Screen, wanted: Switch): void {
  const command = parent.command(`${wanted.verb} <name>`).description(wanted.description);
  addRemote(command);
  addExamples(command, `redrive destinations ${wanted.verb} https://example.com`);
  command.action((name: string, flags: RemoteFlags) =>
    askService(screen, flags, async (client) => {
      const destination = await wanted.call(client, name);
      return { json: destination, text: () => [wanted.words(name)] };
    }),
  );
}
