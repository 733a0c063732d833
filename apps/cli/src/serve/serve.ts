/**
 * `redrive serve`: the service as it runs in earnest. It logs JSON lines, refuses bad configuration
 * before it opens anything, and never moves to another port.
 */
import process from "node:process";
import { checkDestination, RedriveError } from "@redrive/core";
import { type Command, InvalidArgumentError, Option } from "commander";
import { addExamples, portFlag } from "../input/flags.ts";
import { FAILED, USAGE_ERROR } from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import { isPortTaken } from "./ports.ts";
import type { ServiceFlags } from "./service-config.ts";

export function addServe(parent: Command, terminal: Terminal): void {
  const command = parent.command("serve").description("run the service");
  addStoreFlag(addListenFlags(command));
  command.addOption(
    new Option(
      "--allow-targets <list>",
      "more targets: cidr[:port] or name[:port], commas between",
    ).env("REDRIVE_ALLOW_TARGETS"),
  );
  command.addOption(
    new Option(
      "--retry-budget <share>",
      "what all destinations together may retry, per first attempt; or off (default: 0.2)",
    )
      .env("REDRIVE_RETRY_BUDGET")
      .argParser(retryBudgetFlag),
  );
  command.option("--insecure-no-auth", "let anybody who reaches the address call, without a key");
  command.option("--config <file>", "a JSON file with any of these; flags and environment win");
  addExamples(
    command,
    "redrive serve",
    "redrive serve --port 8080 --store sqlite:/var/lib/redrive/redrive.db",
    "REDRIVE_API_KEY=rdv_... redrive serve --host 0.0.0.0",
  );
  command.addHelpText(
    "after",
    "\nREDRIVE_API_KEY is accepted besides the keys of `redrive keys`.\nREDRIVE_ENCRYPTION_KEY (32 bytes in Base64) encrypts the headers of tasks where they rest.",
  );
  command.action((flags: ServiceFlags) => runServe(terminal, flags));
}

/** As `ratio` in a destination's document, by the rule that the file's meets. */
function retryBudgetFlag(text: string): number | "off" {
  if (text === "off") return text;
  const ratio = /^\d+(?:\.\d+)?$/u.test(text) ? Number(text) : text;
  const [problem] = checkDestination({ retryBudget: { ratio } });
  if (problem === undefined) return ratio as number;
  throw new InvalidArgumentError(`Must be off, or a share: ${problem.message}.`);
}

export function addListenFlags(command: Command): Command {
  return command
    .addOption(
      new Option("--host <address>", "where to listen (default: 127.0.0.1)").env("REDRIVE_HOST"),
    )
    .addOption(
      new Option("--port <port>", "0 takes any free one (default: 7337)")
        .env("REDRIVE_PORT")
        .argParser(portFlag),
    );
}

export function addStoreFlag(command: Command): Command {
  const text = "sqlite:PATH, or memory: for trials (default: sqlite:redrive.db)";
  return command.addOption(new Option("--store <store>", text).env("REDRIVE_STORE"));
}

export async function runServe(terminal: Terminal, flags: ServiceFlags): Promise<void> {
  try {
    await serve(terminal, flags);
  } catch (error) {
    const isUse = error instanceof RedriveError && error.code === "INVALID_ARGUMENT";
    terminal.printError(`error: ${startErrorMessage(error)}\n`);
    terminal.setExitCode(isUse ? USAGE_ERROR : FAILED);
  }
}

/** The web server is loaded only by who serves. */
async function serve(terminal: Terminal, flags: ServiceFlags): Promise<void> {
  const { serviceConfig } = await import("./service-config.ts");
  const { onStopSignal, startService: openServing } = await import("./running-service.ts");
  const config = serviceConfig(flags);
  const serving = await openServing(config, {
    apiKey: process.env["REDRIVE_API_KEY"],
    encryptionKey: process.env["REDRIVE_ENCRYPTION_KEY"],
    logger: { level: "info" },
    onFatal: exitOnStoreFailure,
  });
  const { app, url } = serving;
  if (serving.isUnauthenticated) app.log.warn({ host: config.host }, NO_AUTH_WARNING);
  app.log.info({ url, store: config.store, pid: process.pid }, `Redrive is ready at ${url}/`);
  serving.redrive.onEvent(({ type, reason }) => {
    if (type === "store.failed") app.log.error({ reason }, "the store failed");
  });
  onStopSignal(async (signal) => {
    app.log.info({ signal }, "stopping: what runs may end");
    await serving.stop();
    app.log.info("stopped");
    terminal.setExitCode(0);
  });
}

const NO_AUTH_WARNING =
  "insecure-no-auth: ANYBODY who reaches this address may hand over, see and cancel tasks";

/** What was accepted is on disk; a restart takes it up. */
function exitOnStoreFailure(error: unknown): void {
  process.stderr.write(
    `error: the store failed, so the service ends: ${startErrorMessage(error)}\n`,
  );
  process.exit(FAILED);
}

export function startErrorMessage(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  if (isPortTaken(error)) return `${message}: stop what listens there, or choose another --port`;
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (code === "EADDRNOTAVAIL") return `${message}: --host must be an address of this machine`;
  if (code === "EACCES" && syscall === "listen") return `${message}: choose a --port above 1023`;
  return message;
}
