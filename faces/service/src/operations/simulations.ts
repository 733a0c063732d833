/**
 * Simulations: runs scenarios with the simulator that the app passes in, within limits of time and number.
 * The service itself does not import the simulator.
 */
import {
  type Clock,
  type DestinationDocument,
  DocumentError,
  type FieldProblem,
  type PolicyDocument,
  type PresetName,
} from "@redrive/core";
import type { ServiceDocument } from "../model/delivery/delivery-settings.ts";
import { serviceError } from "../model/errors.ts";
import type { Activity, DestinationMeasure } from "./activity.ts";
import type { DestinationHealth } from "./destination-health.ts";

/** The simulator, as the app provides it. */
export interface Simulator {
  /**
   * Simulates outside the main thread. Throws `INVALID_ARGUMENT` for an invalid scenario and
   * `SIMULATION_TOO_LARGE` for one that needs too much memory. Rejects with the signal's reason when it
   * is aborted.
   */
  run(scenario: unknown, seed: number | string, signal: AbortSignal): Promise<SimulatedRun>;
}

export interface SimulatedRun {
  /** The report of the simulator, as JSON text: it is large, and was made outside the main thread. */
  readonly reportJson: string;
  /** Opens the same run on the page of the simulator: the part of its address after `#`. */
  readonly link: string;
}

/** Simulations at once: of one tenant, and in all. */
const MAX_OF_TENANT = 1;
const MAX_IN_ALL = 2;

/** A longer simulation is ended. */
const MAX_SIMULATION_MS = 10_000;

export class Simulations {
  readonly #clock: Clock;
  readonly #simulator: Simulator;

  // Mutable state: the running simulations, by tenant.
  readonly #running = new Map<string, number>();
  #total = 0;

  constructor(clock: Clock, simulator: Simulator) {
    this.#clock = clock;
    this.#simulator = simulator;
  }

  /** `signal`: the caller is gone. Throws `TOO_MANY_REQUESTS`, `SIMULATION_TOO_LARGE` or `INVALID_ARGUMENT`. */
  async run(
    tenantId: string,
    scenario: unknown,
    seed: number | string,
    signal: AbortSignal,
  ): Promise<SimulatedRun> {
    const running = this.#running.get(tenantId) ?? 0;
    if (running >= MAX_OF_TENANT || this.#total >= MAX_IN_ALL) throw busy(running > 0);
    this.#count(tenantId, running + 1, 1);
    const abort = new AbortController();
    const cancel = this.#clock.alarm(MAX_SIMULATION_MS, () => abort.abort(tooLong()), true);
    const stop = () => abort.abort(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    try {
      return await this.#simulator.run(scenario, seed, abort.signal);
    } catch (error) {
      throw error instanceof DocumentError ? inScenario(error) : error;
    } finally {
      cancel();
      signal.removeEventListener("abort", stop);
      this.#count(tenantId, (this.#running.get(tenantId) ?? 1) - 1, -1);
    }
  }

  #count(tenantId: string, running: number, change: number): void {
    this.#total += change;
    if (running === 0) this.#running.delete(tenantId);
    else this.#running.set(tenantId, running);
  }
}

function busy(isOwn: boolean): Error {
  const text = isOwn
    ? "a simulation of this tenant is running: wait for its end"
    : "other simulations are running: try again soon";
  return serviceError("TOO_MANY_REQUESTS", text);
}

function tooLong(): Error {
  const text = `the simulation took longer than ${MAX_SIMULATION_MS / 1000} s: use a shorter horizon, fewer calls, or \`redrive sim run\``;
  return serviceError("SIMULATION_TOO_LARGE", text);
}

/** The fields of a scenario are in the field `scenario` of the request. */
function inScenario({ problems }: DocumentError): Error {
  const prefixed = problems.map(
    ({ field, message, value }): FieldProblem => ({
      field: `scenario.${field}`,
      message: message.startsWith(field) ? `scenario.${message}` : message,
      value,
    }),
  );
  return new DocumentError("INVALID_ARGUMENT", prefixed);
}

// Measured scenario: an outage of one destination as a scenario of the simulator, filled in from
// what the service has measured there. The service does not know the simulator; the scenario is
// plain data.

/** What a caller asks for. */
interface OutageQuestion {
  /** The length of the outage. 1 to 86 400 000. */
  readonly outageMs: number;
  /** Instead of the measured rate of new calls. */
  readonly ratePerSecond?: number | undefined;
  /** Instead of the measured latency. */
  readonly latencyMs?: number | undefined;
}

/** What the service knows about the destination. */
interface Measured {
  readonly health: DestinationHealth;
  readonly activity: Activity<DestinationMeasure>;
  readonly policy: PolicyDocument | PresetName;
  readonly now: number;
}

/** What was filled in, for the reader of the report. */
interface MeasuredInputs {
  readonly destination: string;
  readonly outageMs: number;
  /** New calls per second, without retries. */
  readonly ratePerSecond: number;
  /** How many minutes were measured; 0: the caller gave the rate. */
  readonly measuredMinutes: number;
  /** The share of attempts that failed in this time. It is reported, and not simulated. */
  readonly failureShare: number;
  readonly latency: { readonly p50Ms: number; readonly p99Ms: number };
  /** Tasks that wait. They start within the first seconds of the simulation. */
  readonly waiting: number;
  readonly inFlight: number;
  readonly concurrency: DestinationHealth["concurrency"];
  readonly breakerState: DestinationHealth["breakerState"];
  readonly retryBudget: DestinationHealth["retryBudget"];
  /** What the scenario leaves out. */
  readonly notes: readonly string[];
}

interface MeasuredScenario {
  readonly scenario: object;
  readonly inputs: MeasuredInputs;
}

/** The outage begins after this time, so that there is a normal state before it. */
const WARM_UP_MS = 10_000;
/** At least this long after the outage, to see the recovery. */
const AFTER_MS = 60_000;
const MAX_AFTER_MS = 600_000;
const MAX_HORIZON_MS = 86_400_000;

/** The rate is that of the latest minutes. */
const RATE_MINUTES = 10;

/** The largest factor of a spike in a scenario. */
const MAX_FACTOR = 1000;

/** Of the normal distribution: 99 % of the values are below the mean and this many deviations. */
const Z99 = 2.326;
const MAX_SIGMA = 5;

export function measuredScenario(measured: Measured, question: OutageQuestion): MeasuredScenario {
  const { health, policy } = measured;
  const rate = rateOf(measured, question);
  const latency = latencyOf(health, question);
  const waiting = health.tasks.PENDING ?? 0;
  const { outageMs } = question;
  const afterMs = Math.min(Math.max(AFTER_MS, outageMs), MAX_AFTER_MS);
  const spike = spikeOf(waiting, rate.perSecond);
  return {
    scenario: {
      name: "measured-outage",
      description: `An outage of ${health.name}, with the rate and latency that the service has measured.`,
      horizonMs: Math.min(MAX_HORIZON_MS, WARM_UP_MS + outageMs + afterMs),
      clients: { kind: "OPEN", ratePerSecond: rate.perSecond },
      guards: "SHARED",
      patience: "wait",
      tiers: [
        {
          name: "service",
          destination: guardsOf(health.document, policy),
          server: { latency: durationOf(latency) },
        },
      ],
      timeline: [...spike.phases, { kind: "OUTAGE", atMs: WARM_UP_MS, forMs: outageMs }],
    },
    inputs: {
      destination: health.name,
      outageMs,
      ratePerSecond: rate.perSecond,
      measuredMinutes: rate.minutes,
      failureShare: rate.failureShare,
      latency,
      waiting,
      inFlight: health.tasks.IN_FLIGHT ?? 0,
      concurrency: health.concurrency,
      breakerState: health.breakerState,
      retryBudget: health.retryBudget,
      notes: [...NOTES, ...spike.notes],
    },
  };
}

const NOTES = [
  "The server has no limit of capacity: the service does not know how much load the destination can take.",
  "Guards start in their normal state, whatever their state is now.",
  "The retry budget of the whole service and the limits of tenants are not part of the scenario.",
];

interface Rate {
  readonly perSecond: number;
  readonly minutes: number;
  readonly failureShare: number;
}

/** New calls per second since the first of the latest minutes in which there was one. */
function rateOf({ health, activity, now }: Measured, { ratePerSecond }: OutageQuestion): Rate {
  const { firstMinuteAt, minuteMs, counts } = activity;
  const from = counts.attempts.length - RATE_MINUTES;
  const latest = (one: DestinationMeasure) => counts[one].slice(from);
  const first = latest("attempts").findIndex((count) => count > 0);
  const sum = (one: DestinationMeasure) => latest(one).reduce((all, count) => all + count, 0);
  const attempts = sum("attempts");
  const failureShare = attempts === 0 ? 0 : Math.min(1, sum("failed") / attempts);
  if (ratePerSecond !== undefined) return { perSecond: ratePerSecond, minutes: 0, failureShare };
  const calls = attempts - sum("retries");
  if (calls <= 0) throw notMeasured(health.name, "calls", "ratePerSecond");
  const seconds = Math.max(1, (now - (firstMinuteAt + (from + first) * minuteMs)) / 1000);
  const minutes = RATE_MINUTES - first;
  return { perSecond: Math.max(0.001, rounded(calls / seconds)), minutes, failureShare };
}

function latencyOf(
  { name, latency }: DestinationHealth,
  { latencyMs }: OutageQuestion,
): MeasuredInputs["latency"] {
  if (latencyMs !== undefined) return { p50Ms: latencyMs, p99Ms: latencyMs };
  if (latency === null) throw notMeasured(name, "latency", "latencyMs");
  return latency;
}

function notMeasured(name: string, what: string, field: string): Error {
  const text = `the service has measured no ${what} of ${JSON.stringify(name)} lately: pass ${field}`;
  return serviceError("NOT_MEASURED", text);
}

/** The lognormal distribution with the same median and the same 99th percentile. */
function durationOf({ p50Ms, p99Ms }: MeasuredInputs["latency"]): object {
  const sigma = p50Ms <= 0 ? 0 : rounded(Math.log(Math.max(1, p99Ms / p50Ms)) / Z99);
  if (sigma === 0) return { kind: "FIXED", ms: p50Ms };
  return { kind: "LOGNORMAL", medianMs: p50Ms, sigma: Math.min(MAX_SIGMA, sigma) };
}

/** More digits would suggest that the measurement is exact. */
function rounded(value: number): number {
  return Number(value.toPrecision(3));
}

/** The guards that are on by default in the service are off in a scenario unless it names them. */
function guardsOf(
  document: ServiceDocument | null,
  policy: PolicyDocument | PresetName,
): DestinationDocument {
  const { retryBudget, breaker, concurrency, retryAfterGate, rate, idempotent } = document ?? {};
  return {
    policy,
    retryBudget: retryBudget ?? {},
    breaker: breaker ?? {},
    concurrency: concurrency ?? {},
    retryAfterGate: retryAfterGate ?? {},
    ...(rate !== undefined && { rate }),
    ...(idempotent !== undefined && { idempotent }),
  };
}

/** The waiting tasks as additional calls before the outage. */
function spikeOf(waiting: number, perSecond: number) {
  const usual = (perSecond * WARM_UP_MS) / 1000;
  const factor = 1 + waiting / usual;
  if (waiting === 0) return { phases: [], notes: [] };
  const isCut = factor > MAX_FACTOR;
  const spike = {
    kind: "SPIKE",
    atMs: 0,
    forMs: WARM_UP_MS,
    factor: isCut ? MAX_FACTOR : rounded(factor),
  };
  const cut = `Only ${Math.round(usual * (MAX_FACTOR - 1))} of ${waiting} waiting tasks are part of the scenario.`;
  return { phases: [spike], notes: isCut ? [cut] : [] };
}
