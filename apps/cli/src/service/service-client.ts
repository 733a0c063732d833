/**
 * Service client: what all commands that call a running service share: the address, the API key,
 * the output, and a clear error if the service does not respond.
 */
import { RedriveError } from "@redrive/core";
import { type Client, createClient } from "@redrive/service/client";
import { type Command, InvalidArgumentError, Option } from "commander";
import { FAILED, type Presentation, presentResult, reportError } from "../terminal/presentation.ts";
import type { Terminal } from "../terminal/terminal.ts";

export interface ClientFlags {
  readonly url: string;
  readonly apiKey?: string;
  readonly json?: boolean;
}

export const DEFAULT_URL = "http://127.0.0.1:7337";

/** Adds the flags for the address and the API key. */
export function addConnectionFlags(command: Command): Command {
  return command
    .addOption(
      new Option("--url <url>", "URL of the service")
        .env("REDRIVE_URL")
        .default(DEFAULT_URL)
        .argParser(serviceUrl),
    )
    .addOption(new Option("--api-key <key>", "API key: rdv_...").env("REDRIVE_API_KEY"));
}

const NO_URL: Partial<URL> = {};

/** Parses the URL of a service. `localhost:7337` is short for `http://localhost:7337`. */
export function serviceUrl(text: string): string {
  const url = /^[a-z][a-z\d+.-]*:\/\//iu.test(text) ? text : `http://${text}`;
  const { protocol = "", username, password } = URL.canParse(url) ? new URL(url) : NO_URL;
  if (username || password) throw new InvalidArgumentError("Must have no user: pass --api-key.");
  if (/^https?:$/u.test(protocol)) return url;
  throw new InvalidArgumentError(`Must be a URL such as ${DEFAULT_URL} or localhost:7337.`);
}

export function addServiceFlags(command: Command): Command {
  return addConnectionFlags(command).option("--json", "print the result as JSON");
}

export function createServiceClient({ url, apiKey }: ClientFlags): Client {
  // A person sees at once that the service does not respond, and repeats the command.
  return createClient({ url, retry: false, ...(apiKey && { apiKey }) });
}

/** Calls the service and writes the result. */
export function callService(
  terminal: Terminal,
  flags: ClientFlags,
  make: (client: Client) => Promise<Presentation>,
): Promise<void> {
  return withErrorReport(terminal, flags, () =>
    presentResult(terminal, { json: flags.json ?? false }, () => make(createServiceClient(flags))),
  );
}

/** Runs `work` and reports its error. If the service does not respond, the exit code is 1. */
export async function withErrorReport(
  terminal: Terminal,
  { url }: ClientFlags,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    const reason = connectionError(error);
    if (reason === undefined) return reportError(terminal, error);
    terminal.printError(
      `error: no Redrive service responds at ${url} (${reason}): start it with \`redrive dev\` or \`redrive serve\`, or set its URL with --url\n`,
    );
    terminal.setExitCode(FAILED);
  }
}

/** What a service responds while it stops, starts, or has too much to do. */
const TEMPORARY: ReadonlySet<string> = new Set([
  "SERVICE_STOPPED",
  "STORE_UNAVAILABLE",
  "TOO_MANY_REQUESTS",
]);

/** True if the same call may succeed in a moment. */
export function isTemporary(error: unknown): boolean {
  if (error instanceof RedriveError) return TEMPORARY.has(error.code);
  return connectionError(error) !== undefined;
}

/** Returns why `fetch` could not connect, or undefined for any other error. */
function connectionError(error: unknown): string | undefined {
  if (!(error instanceof TypeError) || error.message !== "fetch failed") return undefined;
  const { code, message } = (error.cause ?? {}) as NodeJS.ErrnoException;
  if (code === "ECONNREFUSED") return "connection refused";
  return code ?? message ?? "no connection";
}
