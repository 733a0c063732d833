/** `redrive dev`: the whole product on this machine, with something to send to and to break. */
import type { Command } from "commander";
import { addExamples, portFlag } from "../input/flags.ts";
import { FAILED } from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import { startErrorMessage } from "./serve.ts";

export function addDev(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("dev")
    .description("run Redrive on this machine, to try it out")
    .option("--port <port>", "where to listen; the next free port if it is taken", portFlag, 7337);
  addExamples(command, "redrive dev", "redrive dev --port 8080");
  command.action(async (flags: { readonly port: number }) => {
    // The web server is loaded only by who serves.
    const { runDevServer: runDev } = await import("./dev-server.ts");
    await runDev(terminal, flags).catch((error: unknown) => {
      terminal.printError(`error: ${startErrorMessage(error)}\n`);
      terminal.setExitCode(FAILED);
    });
  });
}
