/** Phases: the kinds of faults on the track, their labels, and how they move and resize. */

import { formatDuration, formatNumber, formatPercent } from "@redrive/core";
import type { PhaseDocument, PhaseKind } from "@redrive/simulator";
import { niceStep } from "../../../chart/scale.ts";

/** The field that sets the severity of a fault, and its range. */
export interface Strength {
  readonly field: "share" | "factor";
  readonly label: string;
  readonly unit: string;
  readonly min: number;
  readonly max: number;
  readonly step: number;
  readonly defaultValue: number;
}

export interface PhaseKindInfo {
  readonly kind: PhaseKind;
  readonly label: string;
  readonly hint: string;
  readonly strength?: Strength;
}

const FACTOR = { field: "factor", unit: "x", step: 0.05 } as const;

export const phaseKinds: readonly PhaseKindInfo[] = [
  { kind: "OUTAGE", label: "Full outage", hint: "every call fails" },
  {
    kind: "PARTIAL",
    label: "Partial outage",
    hint: "some calls fail",
    strength: {
      field: "share",
      label: "Share of calls that fail",
      unit: "of 1",
      min: 0,
      max: 1,
      step: 0.01,
      defaultValue: 0.5,
    },
  },
  {
    kind: "SLOW",
    label: "Slow responses",
    hint: "every response takes longer",
    strength: { ...FACTOR, label: "Times as long", min: 1, max: 50, defaultValue: 2 },
  },
  {
    kind: "CAPACITY",
    label: "Capacity dip",
    hint: "the server serves fewer calls",
    strength: { ...FACTOR, label: "Times the capacity", min: 0, max: 2, defaultValue: 0.2 },
  },
  {
    kind: "SPIKE",
    label: "Load spike",
    hint: "more calls arrive; needs open clients",
    strength: { ...FACTOR, label: "Times the load", min: 0, max: 20, defaultValue: 2 },
  },
  { kind: "FAILOVER", label: "Failover", hint: "an outage that loses the queue, then warms up" },
];

export function kindInfo(kind: PhaseKind): PhaseKindInfo {
  return phaseKinds.find((one) => one.kind === kind) ?? (phaseKinds[0] as PhaseKindInfo);
}

export function strengthOf(phase: PhaseDocument): number | undefined {
  const { strength } = kindInfo(phase.kind);
  return strength && (phase[strength.field] ?? strength.defaultValue);
}

/** For example "Capacity dip 0.2 x, 10 s to 20 s". */
export function phaseSentence(phase: PhaseDocument): string {
  const from = phase.atMs === 0 ? "0" : formatDuration(phase.atMs);
  return `${phaseName(phase)}, ${from} to ${formatDuration(phase.atMs + phase.forMs)}`;
}

/** The kind and its strength. */
export function phaseName(phase: PhaseDocument): string {
  const { label, strength } = kindInfo(phase.kind);
  const value = strengthOf(phase);
  if (strength === undefined || value === undefined) return label;
  return `${label} ${strength.field === "share" ? formatPercent(value) : `${formatNumber(value)} x`}`;
}

/** The limit of a scenario document. */
export const MAX_PHASES = 64;

const MAX_MS = 86_400_000;

/** The step of a drag or an arrow key: a round value, about 1/300 of the track. */
export function stepFor(endMs: number): number {
  return Math.max(1, niceStep(endMs / 300));
}

function snapped(ms: number, stepMs: number): number {
  return Math.round(ms / stepMs) * stepMs;
}

/** Moves the phase within the track. */
export function movePhase(phase: PhaseDocument, atMs: number, endMs: number): PhaseDocument {
  const last = Math.min(MAX_MS, Math.max(phase.atMs, endMs - phase.forMs));
  return { ...phase, atMs: within(snapped(atMs, stepFor(endMs)), 0, last) };
}

/** Moves the start; the end stays. */
export function moveStart(phase: PhaseDocument, atMs: number, endMs: number): PhaseDocument {
  const stopMs = phase.atMs + phase.forMs;
  const stepMs = stepFor(endMs);
  const begin = within(snapped(atMs, stepMs), 0, Math.max(0, stopMs - stepMs));
  return { ...phase, atMs: begin, forMs: stopMs - begin };
}

/** Moves the end; the start stays. */
export function moveEnd(phase: PhaseDocument, stopMs: number, endMs: number): PhaseDocument {
  const stepMs = stepFor(endMs);
  const last = Math.max(endMs, phase.atMs + phase.forMs);
  const stop = within(snapped(stopMs, stepMs), Math.min(last, phase.atMs + stepMs), last);
  return { ...phase, forMs: within(stop - phase.atMs, 1, MAX_MS) };
}

function within(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

/** A new phase, in the first gap of the track that is long enough. */
export function newPhase(
  kind: PhaseKind,
  phases: readonly PhaseDocument[],
  endMs: number,
  atMs = gapFor(phases, endMs),
): PhaseDocument {
  return { kind, atMs: snapped(atMs, stepFor(endMs)), forMs: lengthFor(endMs) };
}

function lengthFor(endMs: number): number {
  return Math.max(1, niceStep(endMs / 10));
}

function gapFor(phases: readonly PhaseDocument[], endMs: number): number {
  const lengthMs = lengthFor(endMs);
  const isFree = (atMs: number) =>
    phases.every((one) => atMs >= one.atMs + one.forMs || atMs + lengthMs <= one.atMs);
  for (let atMs = lengthMs; atMs + lengthMs < endMs; atMs += lengthMs / 2) {
    if (isFree(atMs)) return atMs;
  }
  return lengthMs;
}

/** Changes the kind of a fault. Keeps time and layer, drops other fields. */
export function withKind({ atMs, forMs, tier }: PhaseDocument, kind: PhaseKind): PhaseDocument {
  return { kind, atMs, forMs, ...(tier !== undefined && { tier }) };
}

/** The row of each phase: phases that overlap get different rows. */
export function rowsOf(phases: readonly PhaseDocument[]): readonly number[] {
  const ends: number[] = [];
  const order = phases.map((_, index) => index).sort((a, b) => startOf(a) - startOf(b));
  const rows = new Map<number, number>();
  for (const index of order) {
    const free = ends.findIndex((end) => end <= startOf(index));
    const row = free < 0 ? ends.length : free;
    ends[row] = startOf(index) + (phases[index]?.forMs ?? 0);
    rows.set(index, row);
  }
  return phases.map((_, index) => rows.get(index) ?? 0);

  function startOf(index: number): number {
    return phases[index]?.atMs ?? 0;
  }
}
