/** Plot: the measures of the System chart that the drawing, the cursor and the track below share. */
import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { ghostReport, report } from "../state/runs.ts";
import { phases } from "../state/system-store.ts";
import { type Columns, columnsOf, endOf, troubleOf } from "./columns.ts";

/** Room beside the plot, in pixels: left for the numbers of the axis. */
export const LEFT = 62;
export const RIGHT = 22;

/** Held while something on the track is dragged, so that the ground does not move under it. */
const heldEndMs = signal<number | undefined>(undefined);

const naturalEndMs = computed(() => {
  const ends = [report.value, ghostReport.value].map((one) => (one === undefined ? 0 : endOf(one)));
  return Math.max(1000, ...ends, troubleOf(phases.value)?.toMs ?? 0);
});

/** The end of the time axis. */
export const endMs: ReadonlySignal<number> = computed(() => heldEndMs.value ?? naturalEndMs.value);

export function holdEnd(): void {
  heldEndMs.value = naturalEndMs.peek();
}

export function releaseEnd(): void {
  heldEndMs.value = undefined;
}

/** The column of the chart that is read out; undefined: the whole run is. */
export const cursor = signal<number | undefined>(undefined);

/** Enough for a wide screen, and no more than a phone can draw. */
const MAX_COLUMNS = 250;

/** What the chart draws and the read-out tells: the same columns. */
export const columns: ReadonlySignal<Columns | undefined> = computed(
  () => report.value && columnsOf(report.value, MAX_COLUMNS),
);

export const ghostColumns: ReadonlySignal<Columns | undefined> = computed(
  () => ghostReport.value && columnsOf(ghostReport.value, MAX_COLUMNS),
);
