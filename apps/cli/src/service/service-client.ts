/**
 * Remote: what all commands share that ask a running service: where it is, the key, the output, and
 * plain words when nobody answers there.
 */
import { type Client, createClient } from "@redrive/service/client";
import { type Command, Option } from "commander";
import { FAILED, type Presentation, presentResult, reportError } from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";

export interface ClientFlags {
  readonly url: string;
  readonly apiKey?: string;
  readonly json?: boolean;
}

export const DEFAULT_URL = "http://127.0.0.1:7337";

/** Where the service is and who asks; the form of the output is the command's own. */
export function addConnectionFlags(command: Command): Command {
  return command
    .addOption(
      new Option("--url <url>", "where the service is").env("REDRIVE_URL").default(DEFAULT_URL),
    )
    .addOption(new Option("--api-key <key>", "who asks: rdv_...").env("REDRIVE_API_KEY"));
}

export function addServiceFlags(command: Command): Command {
  return addConnectionFlags(command).option("--json", "the result as JSON");
}

export function createServiceClient({ url, apiKey }: ClientFlags): Client {
  return createClient({ url, ...(apiKey && { apiKey }) });
}

/** Asks the service and writes what came of it. */
export function callService(
  terminal: Terminal,
  flags: ClientFlags,
  make: (client: Client) => Promise<Presentation>,
): Promise<void> {
  return withErrorReport(terminal, flags, () =>
    presentResult(terminal, { json: flags.json ?? false }, () => make(createServiceClient(flags))),
  );
}

/** Runs `work`; a refusal is told, and that nobody answers, which exits with 1. */
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
      `error: no Redrive answers at ${url} (${reason}): start it with \`redrive dev\` or \`redrive serve\`, or say where it is with --url\n`,
    );
    terminal.setExitCode(FAILED);
  }
}

/** Why `fetch` got no answer; undefined if the error is of another kind. */
export function connectionError(error: unknown): string | undefined {
  if (!(error instanceof TypeError) || error.message !== "fetch failed") return undefined;
  const { code, message } = (error.cause ?? {}) as NodeJS.ErrnoException;
  if (code === "ECONNREFUSED") return "connection refused";
  return code ?? message ?? "no connection";
}
