/**
 * Track: the trouble on the time axis, to be added, moved, resized and taken away with a mouse, a
 * finger or the keys. Each phase is three sliders side by side: the whole, its beginning, its end.
 */
import type { PhaseDocument, PhaseKind } from "@redrive/simulator";
import { formatDuration } from "@redrive/simulator/words";
import { useRef } from "preact/hooks";
import {
  begunAt,
  endedAt,
  MAX_PHASES,
  movedTo,
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
  const ground = useRef<HTMLDivElement>(null);
  const height = ROW * Math.max(1, ...rows.map((row) => row + 1));
  return (
    <fieldset class="track-frame">
      <legend class="visually-hidden">Trouble over time</legend>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: a shortcut for the mouse; buttons below add as well. */}
      <div
        ref={ground}
        class="track"
        style={{ height: `${height}px`, marginInline: `${LEFT}px ${RIGHT}px` }}
        onDblClick={(event) => addAt("OUTAGE", timeAt(ground.current, event.clientX))}
      >
        {list.length === 0 && <p class="track-empty">no trouble: add some below</p>}
        {list.map((phase, place) => (
          <Segment
            key={place}
            phase={phase}
            place={place}
            row={rows[place] ?? 0}
            ground={() => ground.current}
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

function timeAt(ground: HTMLElement | null, clientX: number): number {
  const box = ground?.getBoundingClientRect();
  if (box === undefined || box.width === 0) return 0;
  return ((clientX - box.left) / box.width) * endMs.peek();
}

type Grip = "whole" | "begin" | "end";

/** What a grip does to a phase when it is at `ms`. */
const MOVES: Readonly<
  Record<Grip, (phase: PhaseDocument, ms: number, endMs: number) => PhaseDocument>
> = { whole: movedTo, begin: begunAt, end: endedAt };

function change(place: number, next: (phase: PhaseDocument) => PhaseDocument): void {
  editPhases((list) => list.map((phase, index) => (index === place ? next(phase) : phase)));
}

export function removePhase(place: number): void {
  editPhases((list) => list.filter((_, index) => index !== place));
  chosenPhase.value = undefined;
}

interface SegmentProps {
  readonly phase: PhaseDocument;
  readonly place: number;
  readonly row: number;
  readonly ground: () => HTMLElement | null;
}

function Segment({ phase, place, row, ground }: SegmentProps) {
  const share = (ms: number) => `${(Math.min(ms, endMs.value) / endMs.value) * 100}%`;
  const left = share(phase.atMs);
  const right = share(phase.atMs + phase.forMs);
  const top = `${row * ROW + 3}px`;
  const isChosen = chosenPhase.value === place;
  const grip = { phase, place, ground };
  return (
    <div class={isChosen ? "segment chosen" : "segment"}>
      <GripHandle
        {...grip}
        grip="whole"
        class="segment-body"
        style={{ top, insetInlineStart: left, width: `calc(${right} - ${left})` }}
      >
        <span>{phaseName(phase)}</span>
      </GripHandle>
      <GripHandle {...grip} grip="begin" class="segment-edge" style={{ top, left }} />
      <GripHandle {...grip} grip="end" class="segment-edge" style={{ top, left: right }} />
    </div>
  );
}

interface GripProps {
  readonly phase: PhaseDocument;
  readonly place: number;
  readonly grip: Grip;
  readonly class: string;
  readonly style: Readonly<Record<string, string>>;
  readonly ground: () => HTMLElement | null;
  readonly children?: preact.ComponentChildren;
}

const GRIP_WORDS: Readonly<Record<Grip, string>> = { whole: "move", begin: "begin", end: "end" };

function GripHandle({ phase, place, grip, class: name, style, ground, children }: GripProps) {
  /** How far the finger is from the place it moves, kept through the drag. */
  const offset = useRef<number | undefined>(undefined);
  const at = placeOf(phase, grip);
  const begin = (event: PointerEvent) => {
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
    offset.current = timeAt(ground(), event.clientX) - at;
    chosenPhase.value = place;
    holdEnd();
  };
  const drag = (event: PointerEvent) => {
    if (offset.current === undefined) return;
    const ms = timeAt(ground(), event.clientX) - offset.current;
    change(place, (one) => MOVES[grip](one, ms, endMs.peek()));
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
      aria-label={`${phaseName(phase)}: ${GRIP_WORDS[grip]}`}
      aria-valuemin={0}
      aria-valuemax={Math.round(endMs.value)}
      aria-valuenow={Math.round(at)}
      aria-valuetext={grip === "whole" ? phaseSentence(phase) : formatDuration(at)}
      title={phaseSentence(phase)}
      onPointerDown={begin}
      onPointerMove={drag}
      onPointerUp={stop}
      onPointerCancel={stop}
      onFocus={() => {
        chosenPhase.value = place;
      }}
      onKeyDown={(event) => onKey(event, place, grip)}
    >
      {children}
    </div>
  );
}

function placeOf({ atMs, forMs }: PhaseDocument, grip: Grip): number {
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

function onKey(event: KeyboardEvent, place: number, grip: Grip): void {
  const steps = STEPS[event.key];
  if (steps !== undefined) {
    event.preventDefault();
    const byMs = steps * stepFor(endMs.peek());
    change(place, (one) => MOVES[grip](one, placeOf(one, grip) + byMs, endMs.peek()));
    return;
  }
  if (event.key === "Delete" || event.key === "Backspace") {
    event.preventDefault();
    removePhase(place);
  }
}
