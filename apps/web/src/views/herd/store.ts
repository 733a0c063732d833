/** The herd's store: clients, one curve, the strategies beside each other, and what the worker counts. */
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
import { FIRST_SEED, type Seed } from "../../app/seed.ts";
import type { Fill, RunOf } from "../../app/view.ts";
import { namedPolicy, sharedDocument } from "../../panels/named-policy.ts";
import { answerBy } from "../../worker/answer.ts";
import { ask } from "../../worker/client.ts";

export const MIN_CLIENTS = 100;
export const MAX_CLIENTS = 1_000_000;

/** The curve of `redrive sim herd`: five retries, a cap of thirty times the base. */
const OPENING_CURVE: PolicyDocument = {
  maxAttempts: 6,
  initialDelayMs: 100,
  maxDelayMs: 3000,
};
const OPENING_NAMES = ["none", "equal", "full", "decorrelated"];
const OPENING_CLIENTS = 10_000;
const OPENING_WINDOW_MS = 10;

export interface Strategy {
  readonly name: string;
  readonly document: PolicyDocument;
  /** What a link holds: a name only where it was chosen by that name. */
  readonly shared: SharedPolicy;
}

export interface Side extends Strategy {
  readonly herd: Herd;
}

export const curve = signal<PolicyDocument>(OPENING_CURVE);
/** What is compared: words that vary the curve, or documents of their own. */
export const strategies = signal<readonly Strategy[]>(openingStrategies());
export const clients = signal(OPENING_CLIENTS);
export const windowMs = signal(OPENING_WINDOW_MS);
export const seed = signal<Seed>(FIRST_SEED);
/** One scale for all strategies, so that what looks taller is more. */
export const isShared = signal(true);

/** All of one world: one seed, one window, the same clients. */
interface HerdQuestion {
  readonly strategies: readonly Strategy[];
  readonly clients: number;
  readonly windowMs: number;
  readonly seed: Seed;
}

export const counted = answerBy<HerdQuestion, readonly Side[]>(
  () => ({
    strategies: strategies.value,
    clients: clients.value,
    windowMs: windowMs.value,
    seed: seed.value,
  }),
  countSides,
);

function openingStrategies(): readonly Strategy[] {
  return OPENING_NAMES.map((name) => named(name, OPENING_CURVE));
}

function named(name: string, document: PolicyDocument): Strategy {
  const walked = strategyDocument(name, document) ?? document;
  return { name, document: walked, shared: walked };
}

/** One strategy after the other, so that a newer question has to wait for one of them at most. */
async function countSides(
  { strategies: wanted, ...options }: HerdQuestion,
  isPresent: () => boolean,
): Promise<readonly Side[] | undefined> {
  const sides: Side[] = [];
  for (const strategy of wanted) {
    const herd = await ask("herd", "herd", { policy: strategy.document, options });
    if (herd === undefined || !isPresent()) return undefined;
    sides.push({ ...strategy, herd });
  }
  return sides;
}

/** Changes the curve, and with it every strategy that is a way of walking it. */
export function changeCurve(next: PolicyDocument): string {
  try {
    resolvePolicy(next);
  } catch (error) {
    return (error as Error).message;
  }
  curve.value = next;
  strategies.value = strategies.value.map((strategy) =>
    strategyNames.includes(strategy.name) ? named(strategy.name, next) : strategy,
  );
  return "";
}

export async function addStrategy(name: string): Promise<void> {
  if (strategies.value.length >= MAX_STRATEGIES) return;
  const strategy = strategyNames.includes(name)
    ? named(name, curve.value)
    : { name, document: await namedPolicy(name), shared: name };
  strategies.value = [...strategies.value, strategy];
}

export function dropStrategy(index: number): void {
  strategies.value = strategies.value.filter((_, place) => place !== index);
}

export function runOf(): RunOf<"herd"> {
  return {
    view: "herd",
    seed: seed.value,
    strategies: strategies.value.map(({ name, shared }) => ({ name, policy: shared })),
    clients: clients.value,
    windowMs: windowMs.value,
    ...(!isShared.value && { ownScales: true }),
  };
}

export async function openHerd(run: RunOf<"herd">): Promise<Fill> {
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
    isShared.value = !run.ownScales;
  };
}

async function strategyFrom({ name, policy }: SharedStrategy): Promise<Strategy> {
  const document = await sharedDocument(policy);
  resolvePolicy(document);
  return { name: String(name), document, shared: policy };
}

export function resetHerd(): void {
  curve.value = OPENING_CURVE;
  strategies.value = openingStrategies();
  clients.value = OPENING_CLIENTS;
  windowMs.value = OPENING_WINDOW_MS;
  seed.value = FIRST_SEED;
  isShared.value = true;
}
