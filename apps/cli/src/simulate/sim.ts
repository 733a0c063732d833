/** `redrive sim`: the simulator's commands, in the order in which one would try them. */
import type { Command } from "commander";
import type { Terminal } from "../print/terminal.ts";
import { addFailover } from "./failover.ts";
import { addHerd } from "./herd.ts";
import { addLab } from "./lab.ts";
import { addLadder } from "./ladder.ts";
import { addReplay } from "./replay.ts";
import { addRun } from "./run.ts";

export function addSim(parent: Command, terminal: Terminal): void {
  const sim = parent.command("sim").description("simulate what a policy does to a dependency");
  addHerd(sim, terminal);
  addFailover(sim, terminal);
  addLadder(sim, terminal);
  addRun(sim, terminal);
  addLab(sim, terminal);
  addReplay(sim, terminal);
}
