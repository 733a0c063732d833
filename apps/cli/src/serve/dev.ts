/** `redrive dev`: runs the service on this machine, with a flaky destination to experiment with. */
import type { Command } from "commander";
import { addExamples, portFlag } from "../input/flags.ts";
import { FAILED } from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import { startErrorMessage } from "./serve.ts";

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
