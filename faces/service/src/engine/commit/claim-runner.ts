/**
 * Claim runner: the interface through which the commit loop passes committed claims on. The runner
 * in `run/` implements it, so the commit loop does not depend on `run/`.
 */
import type { Permit } from "@redrive/core";
import type { StartedTask } from "../../model/batch.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import type { Hold } from "../destination/lane-hold.ts";

export interface ClaimRunner {
  /** The number of attempts whose request was sent. */
  running(): number;
  /** This node holds the claim of a suspect, so it may not claim another one. */
  hasSuspect(): boolean;
  /**
   * Starts a committed claim. `origin`: whose slot was taken; undefined: it has none, and the claim is
   * returned. `hold`: what held the task after it was due, if anything.
   */
  start(
    task: StartedTask,
    destination: DestinationRuntime,
    permit: Permit,
    origin: string | undefined,
    hold: Hold | undefined,
  ): void;
}
