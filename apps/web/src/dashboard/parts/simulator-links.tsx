/** Simulator links: open the simulator with a policy, a task or a destination of the service. */
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
import { serviceGuards } from "@redrive/service/client";
import type { ScenarioDocument } from "@redrive/simulator";
import { encodeRun, type SharedRun } from "@redrive/simulator/share";
import type { DestinationHistory, DestinationView } from "./client.ts";
import type { Document } from "./document-kinds.ts";

const SEED = 1;
/** The first attempt of a task that has just failed says nothing about an outage. */
const MIN_OUTAGE_MS = 1000;
const MAX_OUTAGE_MS = 365 * 86_400_000;

function addressOf(run: SharedRun): string {
  return `./simulator#${encodeRun(run)}`;
}

/** `outageMs`: how long calls have failed so far, if known. */
export function curveAddress(policy: PolicyDocument, outageMs?: number): string {
  const { policyId: _, ...document } = policy;
  const isKnown = outageMs !== undefined && outageMs >= MIN_OUTAGE_MS;
  const outage = isKnown ? { outageMs: Math.min(MAX_OUTAGE_MS, Math.round(outageMs)) } : {};
  return addressOf({ view: "curve", seed: SEED, policy: document, ...outage });
}

export function systemAddress(
  destination: DestinationView,
  history: Pick<DestinationHistory, "counts">,
): string {
  return addressOf({
    view: "system",
    seed: SEED,
    scenarios: [measuredScenario(destination, history)],
  });
}

export function SimulatorLink({ address }: { readonly address: string }) {
  return (
    <a class="button" href={address}>
      Open in the simulator
    </a>
  );
}

// Measured scenario: a scenario of the simulator with what the service has measured at a
// destination: its rate of calls, its latency, its failures and its guards.

/** Rates outside of this range make a run that shows nothing, or that takes too long. */
const MIN_RATE = 1;
const MAX_RATE = 5000;
/** The standard normal quantile of 0.99. */
const Z99 = 2.326;
const MAX_SIGMA = 3;
/** Where nothing was measured. */
const DEFAULT_RATE = 10;
const DEFAULT_LATENCY_MS = 50;

const OUTAGE = { kind: "OUTAGE", atMs: 10_000, forMs: 20_000 } as const;
const HORIZON_MS = 120_000;
/** Of a name in the simulator. */
const MAX_NAME = 40;

type Measured = Pick<DestinationHistory, "counts">;

export function measuredScenario(
  destination: DestinationView,
  history: Measured,
): ScenarioDocument {
  const { name, latency, concurrency } = destination;
  const rate = rateOf(history);
  const medianMs = Math.max(1, Math.round(latency?.p50Ms ?? DEFAULT_LATENCY_MS));
  const slots = concurrency?.limit ?? rate;
  const capacity = Math.max(2 * rate, Math.round((slots * 1000) / medianMs));
  return {
    name: nameOf(name),
    description: descriptionOf(destination, rate),
    horizonMs: HORIZON_MS,
    clients: { kind: "OPEN", count: 1, ratePerSecond: rate },
    guards: "SHARED",
    patience: "wait",
    tiers: [
      {
        name: "target",
        destination: guardsOf(destination),
        server: {
          capacityPerSecond: Math.min(1_000_000, capacity),
          latency: { kind: "LOGNORMAL", medianMs, sigma: sigmaOf(latency) },
          failureRate: failureRateOf(history),
        },
      },
    ],
    timeline: [OUTAGE],
  };
}

/** First attempts per second, over the minutes that had some. */
function rateOf({ counts: { attempts, retries } }: Measured): number {
  const firsts = attempts.map((count, minute) => count - (retries[minute] ?? 0));
  const busy = firsts.filter((count) => count > 0);
  if (busy.length === 0) return DEFAULT_RATE;
  const perSecond = sumOf(busy) / (60 * busy.length);
  return Math.min(MAX_RATE, Math.max(MIN_RATE, Math.round(perSecond * 10) / 10));
}

function sigmaOf(latency: DestinationView["latency"]): number {
  if (latency === null || latency.p50Ms <= 0) return 0.5;
  const sigma = Math.log(Math.max(1, latency.p99Ms / latency.p50Ms)) / Z99;
  return Math.min(MAX_SIGMA, Math.round(sigma * 100) / 100);
}

/** At most a half: the timeline adds the outage. */
function failureRateOf({ counts: { attempts, failed } }: Measured): number {
  const all = sumOf(attempts);
  return all === 0 ? 0 : Math.min(0.5, Math.round((sumOf(failed) / all) * 1000) / 1000);
}

/** As the service uses them. The simulator has no guards unless they are given. */
function guardsOf({ document }: DestinationView): DestinationDocument {
  return serviceGuards((document ?? {}) as Document);
}

function nameOf(name: string): string {
  const plain = name
    .toLowerCase()
    .replace(/[^a-z\d]+/gu, "-")
    .replace(/^-+|-+$/gu, "");
  return plain.slice(0, MAX_NAME).replace(/-+$/u, "") || "destination";
}

function descriptionOf({ name, latency }: DestinationView, rate: number): string {
  const measured =
    latency === null
      ? "no latency was measured yet"
      : `p50 ${Math.round(latency.p50Ms)} ms, p99 ${Math.round(latency.p99Ms)} ms`;
  return `Measured at ${name.slice(0, 200)}: ${rate} calls per second, ${measured}. The outage is an assumption.`;
}

function sumOf(values: readonly number[]): number {
  return values.reduce((total, each) => total + each, 0);
}
