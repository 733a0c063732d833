/**
 * A naive breaker for model-based tests: it keeps every outcome in a list, recounts the list at each
 * call and states its rules one by one. It is slow and simple, so it is easy to trust.
 */
import type { BreakerOptions, BreakerOutcome, BreakerState } from "./breaker.ts";

export interface ModelBreaker {
  readonly options: BreakerOptions;
  state: BreakerState;
  now: number;
  openUntil: number;
  openCount: number;
  generation: number;
  probeStarts: number[];
  lastProbeAt: number;
  successes: number;
  outcomes: { readonly at: number; readonly failed: boolean; readonly slow: boolean }[];
}

export function modelBreaker(options: BreakerOptions, now: number): ModelBreaker {
  return {
    options,
    state: "CLOSED",
    now,
    openUntil: 0,
    openCount: 0,
    generation: 1,
    probeStarts: [],
    lastProbeAt: 0,
    successes: 0,
    outcomes: [],
  };
}

export function modelState({ state, now, openUntil }: ModelBreaker): BreakerState {
  return state === "OPEN" && now >= openUntil ? "HALF_OPEN" : state;
}

export function modelEnter(model: ModelBreaker): number {
  if (modelState(model) === "OPEN") return 0;
  if (modelState(model) === "CLOSED") return model.generation;
  if (model.state === "OPEN") become(model, "HALF_OPEN");
  if (model.now - model.lastProbeAt >= nominalMs(model)) model.probeStarts = [];
  if (model.probeStarts.length >= model.options.halfOpenProbes) return 0;
  model.probeStarts.push(model.now);
  model.lastProbeAt = model.now;
  return model.generation;
}

export function modelLeave(
  model: ModelBreaker,
  pass: number,
  outcome: BreakerOutcome,
  durationMs: number,
  draw: number,
): void {
  if (pass !== model.generation) return;
  const { slowCallMs, halfOpenProbes } = model.options;
  const slow = slowCallMs !== undefined && durationMs > slowCallMs;
  const failed = outcome === "failure";
  if (model.state === "HALF_OPEN") {
    model.probeStarts.shift();
    if (outcome === "ignored") return;
    if (failed || slow) trip(model, draw);
    else if (++model.successes === halfOpenProbes) {
      become(model, "CLOSED");
      model.openCount = 0;
    }
  } else if (outcome !== "ignored") {
    model.outcomes.push({ at: model.now, failed, slow });
    if (shouldTrip(model)) trip(model, draw);
  }
}

function shouldTrip({ options, outcomes, now }: ModelBreaker): boolean {
  const tenth = (at: number) => Math.floor((at * 10) / options.windowMs);
  const recent = outcomes.filter(({ at }) => tenth(now) - tenth(at) < 10);
  const share = (list: readonly unknown[]) => list.length / recent.length;
  if (recent.length < options.minCalls) return false;
  if (share(recent.filter(({ failed }) => failed)) >= options.failureRate) return true;
  return share(recent.filter(({ slow }) => slow)) >= options.slowRate;
}

function trip(model: ModelBreaker, draw: number): void {
  become(model, "OPEN");
  model.openCount++;
  const spreadMs = Math.floor(0.2 * nominalMs(model));
  const lowMs = nominalMs(model) - spreadMs;
  const highMs = Math.min(nominalMs(model) + spreadMs, model.options.maxOpenMs);
  model.openUntil = model.now + lowMs + Math.floor(draw * (highMs - lowMs + 1));
}

function nominalMs({ options, openCount }: ModelBreaker): number {
  const { openMs, maxOpenMs } = options;
  const maxDelayMs = Math.max(openMs, maxOpenMs / 1.2);
  return Math.floor(Math.min(openMs * 2 ** (openCount - 1), maxDelayMs));
}

function become(model: ModelBreaker, state: BreakerState): void {
  model.state = state;
  model.generation++;
  model.probeStarts = [];
  model.successes = 0;
  model.outcomes = [];
}
