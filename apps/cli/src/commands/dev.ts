/** `redrive dev`: the whole product on this machine, with something to send to and to break. */
import type { Command } from "commander";
import { addExamples, portFlag } from "../flags.ts";
import { FAILED } from "../presentation.ts";
import type { Screen } from "../screen.ts";
import { wordsOf } from "./serve.ts";

export function addDev(parent: Command, screen: Screen): void {
  const command = parent
    .command("dev")
    .description("run Redrive on this machine, to try it out")
    .option("--port <port>", "where to listen; the next free port if it is taken", portFlag, 7337);
  addExamples(command, "redrive dev", "redrive dev --port 8080");
  command.action(async (flags: { readonly port: number }) => {
    // The web server is loaded only by who serves.
    const { runDev } = await import("../dev.ts");
    await runDev(screen, flags).catch((error: unknown) => {
      screen.note(`error: ${wordsOf(error)}\n`);
      screen.end(FAILED);
    });
  });
}
