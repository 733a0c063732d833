/**
 * `redrive serve` and `redrive dev`: run the service, in production or for development. `serve`
 * logs JSON lines, checks the configuration before it opens anything, and never switches to another
 * port. The web server is loaded only when one of them runs.
 */

import { readFileSync } from "node:fs";
import process from "node:process";
import { checkDestination, messageOf, RedriveError, systemClock } from "@redrive/core";
import type { Redrive } from "@redrive/service";
import type { RepeatedLines } from "@redrive/service/http";
import { type Command, InvalidArgumentError, Option } from "commander";
import { attemptText, eventText } from "../terminal/event-text.ts";
import { addExamples, durationFlagFrom, integerFlag, portFlag } from "../terminal/flags.ts";
import { FAILED, USAGE_ERROR } from "../terminal/presentation.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { isPortTaken } from "./ports.ts";
import type { App } from "./running-service.ts";
import type { ServiceConfig, ServiceFlags } from "./service-config.ts";
import type { RunningTelemetry } from "./telemetry.ts";

export function addServe(parent: Command, terminal: Terminal): void {
  const command = parent.command("serve").description("Run the service.");
  addBlobsFlag(addStoreFlag(addListenFlags(command)));
  command.addOption(
    new Option(
      "--max-body <bytes>",
      "longest body of a task, at most 5368709120 (default: 1073741824, which is 1 GiB)",
    )
      .env("REDRIVE_MAX_BODY")
      .argParser(integerFlag(1, 5 * 1024 ** 3)),
  );
  command.addOption(
    new Option(
      "--allow-targets <list>",
      "allow more targets: cidr[:port] or name[:port], comma-separated",
    ).env("REDRIVE_ALLOW_TARGETS"),
  );
  command.addOption(
    new Option(
      "--resolver <kind>",
      "how names are looked up: dns, or system for names that only the operating system knows (default: dns)",
    )
      .env("REDRIVE_RESOLVER")
      .choices(["dns", "system"]),
  );
  addLimitFlags(command);
  command.option(
    "--insecure-no-auth",
    "accept calls without a key from anyone who can reach the address",
  );
  command.option("--no-task-log", "write no log line per attempt and per end of a task");
  command.option("--config <file>", "JSON configuration file; flags and environment override it");
  addExamples(
    command,
    "redrive serve",
    "redrive serve --port 8080 --store sqlite:/var/lib/redrive/redrive.db",
    "REDRIVE_API_KEY=rdv_... redrive serve --host 0.0.0.0",
    "redrive serve --store postgres://db/redrive --blobs s3://my-bucket/redrive",
  );
  command.addHelpText(
    "after",
    "Environment:\n  REDRIVE_API_KEY         an API key that is accepted in addition to those of `redrive keys`\n  REDRIVE_ENCRYPTION_KEY  32 bytes in Base64; encrypts the headers of stored tasks\n  OTEL_*                  exports traces and metrics to OpenTelemetry",
  );
  command.action((flags: ServiceFlags) => runServe(terminal, flags));
}

/** The flags of limits that the whole service shares, and of its lease. */
function addLimitFlags(command: Command): void {
  command.addOption(
    new Option(
      "--retry-budget <share>",
      "maximum retries per first attempt, for all destinations together, or off (default: 0.2)",
    )
      .env("REDRIVE_RETRY_BUDGET")
      .argParser(retryBudgetFlag),
  );
  command.addOption(
    new Option(
      "--attempts-at-once <number>",
      "attempts that run at once (default: 1024, or half of the open file limit)",
    )
      .env("REDRIVE_ATTEMPTS_AT_ONCE")
      .argParser(integerFlag(1, 1_000_000)),
  );
  command.addOption(
    new Option(
      "--attempts-per-origin <number>",
      "attempts that run at once to one scheme, host and port (default: 256)",
    )
      .env("REDRIVE_ATTEMPTS_PER_ORIGIN")
      .argParser(integerFlag(1, 1_000_000)),
  );
  command.addOption(
    new Option("--lease <duration>", "length of the node's lease, 1s to 10m (default: 10s)")
      .env("REDRIVE_LEASE")
      .argParser(durationFlagFrom("1s", "10m")),
  );
  command.addOption(
    new Option("--alert-url <url>", "post alerts to this webhook (default: none)").env(
      "REDRIVE_ALERT_URL",
    ),
  );
}

/** Checks the value with the rule for `ratio` in a destination document. */
function retryBudgetFlag(text: string): number | "off" {
  if (text === "off") return text;
  const ratio = /^\d+(?:\.\d+)?$/u.test(text) ? Number(text) : text;
  const [problem] = checkDestination({ retryBudget: { ratio } });
  if (problem === undefined) return ratio as number;
  throw new InvalidArgumentError(`Must be off or a share: ${problem.message}.`);
}

export function addListenFlags(command: Command): Command {
  return command
    .addOption(
      new Option("--host <address>", "address to listen on (default: 127.0.0.1)").env(
        "REDRIVE_HOST",
      ),
    )
    .addOption(
      new Option("--port <port>", "port to listen on; 0 for any free port (default: 7337)")
        .env("REDRIVE_PORT")
        .argParser(portFlag),
    );
}

export function addStoreFlag(
  command: Command,
  stores = "sqlite:PATH, postgres://... or redis://... for several nodes, or memory: for tests",
): Command {
  const text = `${stores} (default: sqlite:redrive.db)`;
  return command.addOption(new Option("--store <store>", text).env("REDRIVE_STORE"));
}

export function addBlobsFlag(command: Command): Command {
  const text =
    "where large bodies are stored: file:DIR or s3://BUCKET/PREFIX; all nodes must share it (default: next to a SQLite file)";
  return command.addOption(new Option("--blobs <place>", text).env("REDRIVE_BLOBS"));
}

async function runServe(terminal: Terminal, flags: ServiceFlags): Promise<void> {
  try {
    await serve(terminal, flags);
  } catch (error) {
    const isUsageError = error instanceof RedriveError && error.code === "INVALID_ARGUMENT";
    terminal.printError(`error: ${startErrorMessage(error)}\n`);
    terminal.setExitCode(isUsageError ? USAGE_ERROR : FAILED);
  }
}

/** Loads the web server only here, because other commands do not need it. */
async function serve(terminal: Terminal, flags: ServiceFlags): Promise<void> {
  const { serviceConfig } = await import("./service-config.ts");
  const { storeName } = await import("@redrive/service");
  const { onStopSignal, startService } = await import("./running-service.ts");
  const config = serviceConfig(flags);
  const telemetry = await openTelemetry(config);
  const service = await startService(config, {
    apiKey: process.env["REDRIVE_API_KEY"],
    encryptionKey: process.env["REDRIVE_ENCRYPTION_KEY"],
    logger: { level: "info" },
    telemetry,
    onFatal: exitOnStoreFailure,
  });
  const { app, url } = service;
  if (service.isUnauthenticated) app.log.warn({ host: config.host }, NO_AUTH_WARNING);
  telemetry?.onProblem((problem) => app.log.warn({ problem }, "OpenTelemetry: an export failed"));
  const store = storeName(config.store);
  app.log.info({ url, store }, `Redrive is ready at ${url}/`);
  const { RepeatedLines } = await import("@redrive/service/http");
  const lines = new RepeatedLines(systemClock);
  service.redrive.onEvent((event) => {
    logEvent(app, event, lines);
    if (flags.taskLog !== false) logTaskEvent(app, event);
  });
  onStopSignal(async (signal) => {
    app.log.info({ signal }, "stopping: waiting for running attempts");
    await service.stop();
    app.log.info("stopped");
    terminal.setExitCode(0);
  });
}

/** Undefined: OpenTelemetry is not configured, and none of its packages is loaded. */
async function openTelemetry(config: ServiceConfig): Promise<RunningTelemetry | undefined> {
  const { startTelemetry, telemetryConfig } = await import("./telemetry.ts");
  const wanted = telemetryConfig(process.env, config.telemetry);
  if (wanted === undefined) return undefined;
  return startTelemetry(wanted, { environment: process.env, version: ownVersion() });
}

const NO_AUTH_WARNING =
  "insecure-no-auth: ANYONE who can reach this address may create, read and cancel tasks";

/** Accepted tasks are on disk; the next start continues them. */
function exitOnStoreFailure(error: unknown): void {
  process.stderr.write(
    `error: the store failed, so the service exits: ${startErrorMessage(error)}\n`,
  );
  process.exit(FAILED);
}

function startErrorMessage(error: unknown): string {
  const message = messageOf(error);
  if (isPortTaken(error))
    return `${message}: stop the process that listens there, or choose another --port`;
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (code === "EADDRNOTAVAIL") return `${message}: --host must be an address of this machine`;
  if (code === "EACCES" && syscall === "listen") return `${message}: choose a --port above 1023`;
  return message;
}

export function addDev(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("dev")
    .description("Run the service for development, with a flaky destination to send tasks to.")
    .option(
      "--port <port>",
      "port to listen on; if it is taken, the next free port is used",
      portFlag,
      7337,
    );
  addExamples(command, "redrive dev", "redrive dev --port 8080");
  command.action(async (flags: { readonly port: number }) => {
    // Loads the web server only for the commands that serve.
    const { runDevServer } = await import("./dev-server.ts");
    await runDevServer(terminal, flags).catch((error: unknown) => {
      terminal.printError(`error: ${startErrorMessage(error)}\n`);
      terminal.setExitCode(FAILED);
    });
  });
}

// Event log: what `redrive serve` writes to its log: a line per attempt, a line per end of a task,
// and the events that people act on. No line contains a URL, a header, a body or a label.

type EngineEvent = Parameters<Parameters<Redrive["onEvent"]>[0]>[0];

const MESSAGES: Readonly<
  Partial<Record<EngineEvent["type"], readonly [level: "info" | "warn" | "error", text: string]>>
> = {
  "store.failed": ["error", "the store failed"],
  "store.recovered": ["info", "the store responds again"],
  "store.refused": ["error", "the store refused an item"],
  "store.messages-unreadable": ["warn", "somebody else writes to the store's channel"],
  "destination.changed": ["info", "a destination was changed"],
  "node.lease-lost": ["error", "the lease is lost: running attempts are aborted"],
  "attempt.fenced": [
    "warn",
    "fenced: another node had taken over the task, so the result of this attempt is not stored",
  ],
  "node.shortage": [
    "warn",
    "the process lacks files, memory or ports and runs fewer attempts: raise `ulimit -n`, or lower --attempts-at-once",
  ],
  "clock.following": ["warn", "the clock was set forward or the machine slept: following it"],
  "clock.ahead": ["warn", "the clock was set back: running slower until it catches up"],
  "clock.refused": ["error", "clock refused"],
  "clock.synced": ["info", "the time of the service agrees with the clock again"],
  "secret.unavailable": [
    "error",
    "this node lacks an encryption key: tasks with that secret wait (docs/operations.md, Encryption keys)",
  ],
  "document.unreadable": ["error", "a stored document cannot be read: its tasks are held"],
  "document.fields-ignored": ["warn", "a stored document has unknown fields, which are ignored"],
};

/** Writes a line for the attempt that the event ends, if any, and one for the end of the task. */
export function logTaskEvent({ log }: Pick<App, "log">, event: EngineEvent): void {
  const { type, tenantId, taskId, destination, policyId, attemptNumber, attempt, waits } = event;
  if (type === "attempt.started" || type === "task.created" || taskId === undefined) return;
  const task = { tenantId, taskId, destination, policyId };
  if (attempt !== undefined) {
    const { nextAttemptAt } = event;
    const fields = { event: "attempt", ...task, attemptNumber, ...attempt, nextAttemptAt, waits };
    log.info(fields, attemptText(event));
  }
  if (!type.startsWith("task.")) return;
  const { reason, by } = event;
  log.info({ event: type, ...task, attemptNumber, reason, by }, eventText(event)?.text ?? type);
}

/** They repeat for each call or task while one outage lasts, and have one line per minute. */
const REPEATED: ReadonlySet<string> = new Set(["store.failed", "secret.unavailable"]);

export function logEvent(
  { log }: Pick<App, "log">,
  event: EngineEvent,
  lines: RepeatedLines,
): void {
  const [level, text] = MESSAGES[event.type] ?? [];
  if (level === undefined || text === undefined) return;
  const times = REPEATED.has(event.type) ? lines.due(event.type) : 1;
  if (times === undefined) return;
  const { type, reason, tenantId, taskId, destination, policyId } = event;
  const fields = { event: type, reason, tenantId, taskId, destination, policyId };
  log[level]({ ...fields, ...(times > 1 && { times }) }, text);
}

export function ownVersion(): string {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}
