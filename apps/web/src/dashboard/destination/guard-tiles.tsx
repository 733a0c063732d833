/** Guard tiles: the state of each guard of a destination, with the time it lasts. */
import { formatCount, formatInteger } from "@redrive/core";
import { latencyText, slotsText } from "../destinations/destination-table.tsx";
import { roundDuration } from "../parts/round-duration.ts";
import { Tile } from "../parts/tile.tsx";
import { tick } from "../parts/times.tsx";
import type { DestinationView } from "../service/client.ts";

const BREAKERS: Readonly<Record<string, string>> = {
  CLOSED: "closed",
  OPEN: "open",
  HALF_OPEN: "half open",
};

const BUDGETS: Readonly<Record<string, readonly [string, string]>> = {
  open: ["available", "retries may start"],
  empty: ["empty", "retries wait"],
  off: ["off", "retries are not limited"],
};

export function GuardTiles({ destination }: { readonly destination: DestinationView }) {
  const { breakerState, openUntil, retryBudget, rateUntil, gateUntil, tasks, latency } =
    destination;
  const now = tick.value;
  const left = (untilAt: number) => roundDuration(Math.max(1000, untilAt - now));
  const [budget, budgetNote] = BUDGETS[retryBudget] ?? [retryBudget, ""];
  const isOpen = breakerState !== "CLOSED";
  return (
    <dl class="tiles small">
      <Tile
        label="Breaker"
        value={BREAKERS[breakerState] ?? breakerState}
        isBad={isOpen}
        note={breakerNote(isOpen, openUntil > now ? left(openUntil) : "")}
      />
      <Tile label="Retry budget" value={budget} note={budgetNote} isBad={retryBudget === "empty"} />
      <Tile label="Running" value={slotsText(destination)} note="attempts at once" />
      <Tile
        label="Rate"
        value={rateUntil > now ? "used up" : "available"}
        note={rateUntil > now ? "attempts wait" : "attempts may start"}
      />
      <Tile
        label="Retry-After"
        value={gateUntil > now ? left(gateUntil) : "none"}
        isBad={gateUntil > now}
        note={gateUntil > now ? "until attempts may start" : "it asked for no pause"}
      />
      <Tile
        label="Waiting"
        value={formatInteger(tasks["PENDING"] ?? 0)}
        note={formatCount(tasks["EXHAUSTED"] ?? 0, "dead letter")}
      />
      <Tile
        label="Latency p50"
        value={latencyText(latency?.p50Ms)}
        note={`p99 ${latencyText(latency?.p99Ms)}`}
      />
    </dl>
  );
}

function breakerNote(isOpen: boolean, leftText: string): string {
  if (!isOpen) return "attempts may start";
  return leftText === "" ? "the next task probes it" : `next probe in ${leftText}`;
}
