/** Outage text: what the service simulated with, in a sentence. */
import { formatDuration, formatInteger, formatNumber } from "@redrive/core";
import type { SimulationView } from "../service/client.ts";

type Inputs = NonNullable<SimulationView["inputs"]>;

/** For example "8.3 calls per second in 7 minutes, p50 40 ms, p99 400 ms, 120 tasks wait." */
export function inputsText({ ratePerSecond, measuredMinutes, latency, waiting }: Inputs): string {
  const over = measuredMinutes === 1 ? "1 minute" : `${formatInteger(measuredMinutes)} minutes`;
  const parts = [
    `${formatNumber(ratePerSecond)} calls per second in ${over}`,
    `p50 ${formatDuration(Math.round(latency.p50Ms))}`,
    `p99 ${formatDuration(Math.round(latency.p99Ms))}`,
    `${formatInteger(waiting)} ${waiting === 1 ? "task waits" : "tasks wait"}`,
  ];
  return `${parts.join(", ")}.`;
}

/** The part of the address after `#`, which opens the run in the simulator beside this page. */
export function runAddress({ pageUrl }: Pick<SimulationView, "pageUrl">): string {
  return `./simulator${pageUrl.slice(pageUrl.indexOf("#"))}`;
}
