/** Doctor clock: compares the machine's clock with the store, and repairs a store that is ahead. */
import { existsSync, statSync } from "node:fs";
import { type Clock, formatDuration, RedriveError } from "@redrive/core";
import {
  type ClockStatus,
  MAX_CLOCK_AHEAD_MS,
  readSqliteClock,
  repairSqliteClock,
} from "@redrive/service";
import { type ServiceConfig, storePath } from "../serve/service-config.ts";
import type { Check } from "./doctor-check.ts";

/** 2026-01-01: Redrive did not exist before, so an earlier clock is wrong. */
const MIN_CLOCK_AT = 1_767_225_600_000;

/** Smaller differences have no effect. */
const MAX_SKEW_MS = 5000;

const name = "clock";
const SET_CLOCK = "set the clock (NTP): delays and deadlines depend on it";

/** `running`: the clock as the running service reports it; undefined: no service runs. */
export function checkClock(
  clock: Clock,
  { store, maxClockAheadMs = MAX_CLOCK_AHEAD_MS }: Pick<ServiceConfig, "store" | "maxClockAheadMs">,
  running?: ClockStatus,
): Check {
  const now = clock.now();
  if (now < MIN_CLOCK_AT) {
    return { name, state: "fail", found: "the clock is before 2026", fix: SET_CLOCK };
  }
  if (running !== undefined) return checkRunning(running);
  const aheadMs = storedAt(store, now) - now;
  if (aheadMs <= MAX_SKEW_MS) {
    return { name, state: "ok", found: "the time is plausible", fix: "" };
  }
  const found = `the store was written ${formatDuration(aheadMs)} from now`;
  const fix = `${SET_CLOCK}; if it is right, run \`redrive doctor --repair-clock\``;
  return { name, state: aheadMs > maxClockAheadMs ? "fail" : "warn", found, fix };
}

const STATES = {
  synced: ["ok", "the running service agrees with the clock"],
  following: ["warn", "the running service follows the clock"],
  ahead: ["warn", "the running service runs slower until the clock catches up"],
  refused: ["fail", "the running service refuses the clock"],
} as const;

function checkRunning({ state, skewMs }: ClockStatus): Check {
  const [level, text] = STATES[state];
  if (level === "ok") return { name, state: level, found: text, fix: "" };
  const side = skewMs > 0 ? "ahead" : "behind";
  const found = `${text}, which is ${formatDuration(Math.abs(skewMs))} ${side}`;
  const fix = level === "fail" ? `${SET_CLOCK}, or restart the service if it is right` : "";
  return { name, state: level, found, fix };
}

/** The latest instant in the store; if it cannot be opened, when the file was written. */
function storedAt(store: string, now: number): number {
  const path = storePath(store);
  if (path === undefined || !existsSync(path)) return now;
  try {
    return readSqliteClock(path);
  } catch {
    // The check of the store reports why it cannot be opened.
    return statSync(path).mtimeMs;
  }
}

/** Resets the store of a stopped service to the machine's clock; returns what was done. */
export function repairClock(clock: Clock, store: string): Check {
  const path = storePath(store);
  if (path === undefined || !existsSync(path)) {
    const text = `--repair-clock needs an existing store sqlite:PATH, got ${store}`;
    throw new RedriveError("INVALID_ARGUMENT", text);
  }
  const { aheadMs, waitingTasks } = repairSqliteClock(path, clock.now());
  const found =
    aheadMs === 0
      ? "the store is not ahead of the clock; nothing was changed"
      : `the store was ${formatDuration(aheadMs)} ahead and was reset to the clock; ${waitingTasks} waiting tasks were moved`;
  return { name: "repair", state: "ok", found, fix: "" };
}
