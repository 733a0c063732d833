/** Herd store: the clients, the shared delays, the compared strategies, and the worker's counts. */
import { signal } from "@preact/signals";
import { assertRange, type PolicyDocument, resolvePolicy } from "@redrive/core";
import {
  assertStrategyCount,
  type Herd,
  MAX_STRATEGIES,
  strategyDocument,
  strategyNames,
} from "@redrive/simulator";
import type { SharedPolicy, SharedStrategy } from "@redrive/simulator/share";
import { loadPolicy, loadSharedPolicy } from "../../components/policy-picker.tsx";
import { createQuery, sendRequest } from "../../worker/query.ts";
import { type ApplyState, FIRST_SEED, type RunOf, type Seed } from "../view.ts";

export const MIN_CLIENTS = 100;
export const MAX_CLIENTS = 1_000_000;

/** The default of `redrive sim herd`: five retries, and a cap of thirty times the base. */
const INITIAL_CURVE: PolicyDocument = {
  maxAttempts: 6,
  initialDelayMs: 100,
  maxDelayMs: 3000,
};
const INITIAL_NAMES = ["none", "equal", "full", "decorrelated"];
const INITIAL_CLIENTS = 10_000;
const INITIAL_WINDOW_MS = 10;

interface Strategy {
  readonly name: string;
  readonly document: PolicyDocument;
  /** The content of a link: a name if the policy was chosen by name. */
  readonly shared: SharedPolicy;
}

export interface StrategyResult extends Strategy {
  readonly herd: Herd;
}

export const curve = signal<PolicyDocument>(INITIAL_CURVE);
/** The compared strategies: variants of the shared delays, or independent policies. */
export const strategies = signal<readonly Strategy[]>(initialStrategies());
export const clients = signal(INITIAL_CLIENTS);
export const windowMs = signal(INITIAL_WINDOW_MS);
export const seed = signal<Seed>(FIRST_SEED);
/** True if all strategies have the same scale, so that heights are comparable. */
export const isScaleShared = signal(true);

/** The input for all strategies: same clients, same window, same seed. */
interface HerdInput {
  readonly strategies: readonly Strategy[];
  readonly clients: number;
  readonly windowMs: number;
  readonly seed: Seed;
}

export const herdQuery = createQuery<HerdInput, readonly StrategyResult[]>(
  () => ({
    strategies: strategies.value,
    clients: clients.value,
    windowMs: windowMs.value,
    seed: seed.value,
  }),
  countArrivals,
);

function initialStrategies(): readonly Strategy[] {
  return INITIAL_NAMES.map((name) => variantOf(name, INITIAL_CURVE));
}

function variantOf(name: string, document: PolicyDocument): Strategy {
  const variant = strategyDocument(name, document) ?? document;
  return { name, document: variant, shared: variant };
}

/** Counts one strategy at a time, so that a newer input waits for at most one of them. */
async function countArrivals(
  { strategies: wanted, ...options }: HerdInput,
  isCurrent: () => boolean,
): Promise<readonly StrategyResult[] | undefined> {
  const results: StrategyResult[] = [];
  for (const strategy of wanted) {
    const herd = await sendRequest("herd", "herd", { policy: strategy.document, options });
    if (herd === undefined || !isCurrent()) return undefined;
    results.push({ ...strategy, herd });
  }
  return results;
}

/** Changes the shared delays and every strategy that uses them. Returns an error message or "". */
export function changeCurve(next: PolicyDocument): string {
  try {
    resolvePolicy(next);
  } catch (error) {
    return (error as Error).message;
  }
  curve.value = next;
  strategies.value = strategies.value.map((strategy) =>
    strategyNames.includes(strategy.name) ? variantOf(strategy.name, next) : strategy,
  );
  return "";
}

export async function addStrategy(name: string): Promise<void> {
  if (strategies.value.length >= MAX_STRATEGIES) return;
  const strategy = strategyNames.includes(name)
    ? variantOf(name, curve.value)
    : { name, document: await loadPolicy(name), shared: name };
  strategies.value = [...strategies.value, strategy];
}

export function removeStrategy(index: number): void {
  strategies.value = strategies.value.filter((_, other) => other !== index);
}

export function herdRun(): RunOf<"herd"> {
  return {
    view: "herd",
    seed: seed.value,
    strategies: strategies.value.map(({ name, shared }) => ({ name, policy: shared })),
    clients: clients.value,
    windowMs: windowMs.value,
    ...(!isScaleShared.value && { ownScales: true }),
  };
}

export async function openHerd(run: RunOf<"herd">): Promise<ApplyState> {
  assertRange("clients", run.clients, 1, 2_000_000);
  assertRange("windowMs", run.windowMs, 1, 86_400_000);
  assertStrategyCount("a link", run.strategies.length);
  const opened = await Promise.all(run.strategies.map(strategyFrom));
  const first = opened.find(({ name }) => strategyNames.includes(name) && name !== "immediate");
  return () => {
    if (first !== undefined) curve.value = first.document;
    strategies.value = opened;
    clients.value = run.clients;
    windowMs.value = run.windowMs;
    seed.value = run.seed;
    isScaleShared.value = !run.ownScales;
  };
}

async function strategyFrom({ name, policy }: SharedStrategy): Promise<Strategy> {
  const document = await loadSharedPolicy(policy);
  resolvePolicy(document);
  return { name: String(name), document, shared: policy };
}

export function resetHerd(): void {
  curve.value = INITIAL_CURVE;
  strategies.value = initialStrategies();
  clients.value = INITIAL_CLIENTS;
  windowMs.value = INITIAL_WINDOW_MS;
  seed.value = FIRST_SEED;
  isScaleShared.value = true;
}

const LABELS: Readonly<Record<string, string>> = {
  none: "No jitter",
  full: "Full jitter",
  equal: "Equal jitter",
  decorrelated: "Decorrelated",
  linear: "Linear",
  fixed: "Fixed",
  immediate: "No wait",
};

/** Readable names of strategies. Presets and catalog entries keep their names. */
export function strategyLabel(name: string): string {
  return Object.hasOwn(LABELS, name) ? (LABELS[name] as string) : name;
}
