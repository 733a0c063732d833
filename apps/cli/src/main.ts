/** Main: the entry point of the `redrive` command. */
import { program } from "./program.ts";

await program().parseAsync();
