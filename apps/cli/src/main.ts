/** Redrive's command line: the words after `redrive`, and what answers them. */
import { program } from "./program.ts";

await program().parseAsync();
