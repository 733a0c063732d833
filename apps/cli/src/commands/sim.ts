/** `redrive sim`: the simulator's commands, in the order in which one would try them. */
import type { Command } from "commander";
import type { Screen } from "../screen.ts";
import { addFailover } from "./failover.ts";
import { addHerd } from "./herd.ts";
import { addLab } from "./lab.ts";
import { addLadder } from "./ladder.ts";
import { addReplay } from "./replay.ts";
import { addRun } from "./run.ts";

export function addSim(parent: Command, screen: Screen): void {
  const sim = parent.command("sim").description("simulate what a policy does to a dependency");
  addHerd(sim, screen);
  addFailover(sim, screen);
  addLadder(sim, screen);
  addRun(sim, screen);
  addLab(sim, screen);
  addReplay(sim, screen);
}
