/**
 * Phase track: adds, moves, resizes and removes faults on the time axis by mouse, touch or keyboard.
 * Each phase has three sliders: the bar, its start and its end.
 */
import { formatDuration } from "@redrive/core";
import type { PhaseDocument, PhaseKind } from "@redrive/simulator";
import { useRef } from "preact/hooks";
import {
  MAX_PHASES,
  moveEnd,
  movePhase,
  moveStart,
  newPhase,
  phaseKinds,
  phaseName,
  phaseSentence,
  rowsOf,
  stepFor,
} from "../document/phases.ts";
import { chosenPhase, editPhases, phases } from "../state/system-store.ts";
import { endMs, holdEnd, LEFT, RIGHT, releaseEnd } from "./plot.ts";

const ROW = 34;

export function PhaseTrack() {
  const list = phases.value;
  const rows = rowsOf(list);
  const track = useRef<HTMLDivElement>(null);
  const height = ROW * Math.max(1, ...rows.map((row) => row + 1));
  return (
    <fieldset class="track-frame">
      <legend class="visually-hidden">Faults over time</legend>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: a mouse shortcut; the buttons below do the same. */}
      <div
        ref={track}
        class="track"
        style={{ height: `${height}px`, marginInline: `${LEFT}px ${RIGHT}px` }}
        onDblClick={(event) => addAt("OUTAGE", timeAt(track.current, event.clientX))}
      >
        {list.length === 0 && <p class="track-empty">no faults; add one below</p>}
        {list.map((phase, index) => (
          <Segment
            key={index}
            phase={phase}
            index={index}
            row={rows[index] ?? 0}
            track={() => track.current}
          />
        ))}
      </div>
      <div class="track-add">
        <span class="faint">Add</span>
        {phaseKinds.map(({ kind, label, hint }) => (
          <button
            key={kind}
            type="button"
            class="button small"
            title={hint}
            disabled={list.length >= MAX_PHASES}
            onClick={() => addAt(kind)}
          >
            {label}
          </button>
        ))}
      </div>
    </fieldset>
  );
}

function addAt(kind: PhaseKind, atMs?: number): void {
  if (phases.value.length >= MAX_PHASES) return;
  editPhases((list) => [...list, newPhase(kind, list, endMs.peek(), atMs)]);
  chosenPhase.value = phases.value.length - 1;
}

function timeAt(track: HTMLElement | null, clientX: number): number {
  const box = track?.getBoundingClientRect();
  if (box === undefined || box.width === 0) return 0;
  return ((clientX - box.left) / box.width) * endMs.peek();
}

type Grip = "bar" | "start" | "end";

/** How a grip changes a phase when it moves to `ms`. */
const MOVES: Readonly<
  Record<Grip, (phase: PhaseDocument, ms: number, endMs: number) => PhaseDocument>
> = { bar: movePhase, start: moveStart, end: moveEnd };

function change(index: number, next: (phase: PhaseDocument) => PhaseDocument): void {
  editPhases((list) => list.map((phase, other) => (other === index ? next(phase) : phase)));
}

export function removePhase(index: number): void {
  editPhases((list) => list.filter((_, other) => other !== index));
  chosenPhase.value = undefined;
}

interface SegmentProps {
  readonly phase: PhaseDocument;
  readonly index: number;
  readonly row: number;
  readonly track: () => HTMLElement | null;
}

function Segment({ phase, index, row, track }: SegmentProps) {
  const share = (ms: number) => `${(Math.min(ms, endMs.value) / endMs.value) * 100}%`;
  const left = share(phase.atMs);
  const right = share(phase.atMs + phase.forMs);
  const top = `${row * ROW + 3}px`;
  const isChosen = chosenPhase.value === index;
  const grip = { phase, index, track };
  return (
    <div class={isChosen ? "segment chosen" : "segment"}>
      <GripHandle
        {...grip}
        grip="bar"
        class="segment-body"
        style={{ top, insetInlineStart: left, width: `calc(${right} - ${left})` }}
      >
        <span>{phaseName(phase)}</span>
      </GripHandle>
      <GripHandle {...grip} grip="start" class="segment-edge" style={{ top, left }} />
      <GripHandle {...grip} grip="end" class="segment-edge" style={{ top, left: right }} />
    </div>
  );
}

interface GripProps {
  readonly phase: PhaseDocument;
  readonly index: number;
  readonly grip: Grip;
  readonly class: string;
  readonly style: Readonly<Record<string, string>>;
  readonly track: () => HTMLElement | null;
  readonly children?: preact.ComponentChildren;
}

const GRIP_LABELS: Readonly<Record<Grip, string>> = { bar: "move", start: "start", end: "end" };

function GripHandle({ phase, index, grip, class: name, style, track, children }: GripProps) {
  /** The distance of the pointer from the grip's position, constant during a drag. */
  const offset = useRef<number | undefined>(undefined);
  const at = positionOf(phase, grip);
  const begin = (event: PointerEvent) => {
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
    offset.current = timeAt(track(), event.clientX) - at;
    chosenPhase.value = index;
    holdEnd();
  };
  const drag = (event: PointerEvent) => {
    if (offset.current === undefined) return;
    const ms = timeAt(track(), event.clientX) - offset.current;
    change(index, (one) => MOVES[grip](one, ms, endMs.peek()));
  };
  const stop = () => {
    offset.current = undefined;
    releaseEnd();
  };
  return (
    <div
      role="slider"
      tabIndex={0}
      class={name}
      style={style}
      aria-label={`${phaseName(phase)}: ${GRIP_LABELS[grip]}`}
      aria-valuemin={0}
      aria-valuemax={Math.round(endMs.value)}
      aria-valuenow={Math.round(at)}
      aria-valuetext={grip === "bar" ? phaseSentence(phase) : formatDuration(at)}
      title={phaseSentence(phase)}
      onPointerDown={begin}
      onPointerMove={drag}
      onPointerUp={stop}
      onPointerCancel={stop}
      onFocus={() => {
        chosenPhase.value = index;
      }}
      onKeyDown={(event) => onKey(event, index, grip)}
    >
      {children}
    </div>
  );
}

function positionOf({ atMs, forMs }: PhaseDocument, grip: Grip): number {
  return grip === "end" ? atMs + forMs : atMs;
}

const STEPS: Readonly<Record<string, number>> = {
  ArrowLeft: -1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowUp: 1,
  PageDown: -10,
  PageUp: 10,
};

function onKey(event: KeyboardEvent, index: number, grip: Grip): void {
  const steps = STEPS[event.key];
  if (steps !== undefined) {
    event.preventDefault();
    const byMs = steps * stepFor(endMs.peek());
    change(index, (one) => MOVES[grip](one, positionOf(one, grip) + byMs, endMs.peek()));
    return;
  }
  if (event.key === "Delete" || event.key === "Backspace") {
    event.preventDefault();
    removePhase(index);
  }
}
