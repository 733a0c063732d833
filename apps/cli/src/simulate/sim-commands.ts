/** `redrive sim`: the commands of the simulator, simplest first. */
import type { Command } from "commander";
import type { Terminal } from "../print/terminal.ts";
import { addDestination } from "./destination.ts";
import { addFailover } from "./failover.ts";
import { addHerd } from "./herd.ts";
import { addLab } from "./lab.ts";
import { addLadder } from "./ladder.ts";
import { addReplay } from "./replay.ts";
import { addRun } from "./run.ts";

export function addSim(parent: Command, terminal: Terminal): void {
  const sim = parent
    .command("sim")
    .description("Simulate the effect of retry policies on a dependency.");
  addHerd(sim, terminal);
  addFailover(sim, terminal);
  addLadder(sim, terminal);
  addRun(sim, terminal);
  addDestination(sim, terminal);
  addLab(sim, terminal);
  addReplay(sim, terminal);
}
