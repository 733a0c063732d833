/** Plot: the dimensions and columns that the chart, the cursor and the phase track share. */
import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { ghostReport, report } from "../state/runs.ts";
import { phases } from "../state/system-store.ts";
import { type Columns, columnsOf, endOf, faultPeriodOf } from "./columns.ts";

/** Margins of the plot in pixels; the axis labels are on the left. */
export const LEFT = 62;
export const RIGHT = 22;

/** Fixed during a drag on the track, so that the axis does not change. */
const heldEndMs = signal<number | undefined>(undefined);

const naturalEndMs = computed(() => {
  const ends = [report.value, ghostReport.value].map((one) => (one === undefined ? 0 : endOf(one)));
  return Math.max(1000, ...ends, faultPeriodOf(phases.value)?.toMs ?? 0);
});

/** The end of the time axis. */
export const endMs: ReadonlySignal<number> = computed(() => heldEndMs.value ?? naturalEndMs.value);

export function holdEnd(): void {
  heldEndMs.value = naturalEndMs.peek();
}

export function releaseEnd(): void {
  heldEndMs.value = undefined;
}

/** The column under the cursor; undefined means the whole run. */
export const cursor = signal<number | undefined>(undefined);

/** Enough for a wide screen, few enough for a phone. */
const MAX_COLUMNS = 250;

/** The columns of the chart and the readout. */
export const columns: ReadonlySignal<Columns | undefined> = computed(
  () => report.value && columnsOf(report.value, MAX_COLUMNS),
);

export const ghostColumns: ReadonlySignal<Columns | undefined> = computed(
  () => ghostReport.value && columnsOf(ghostReport.value, MAX_COLUMNS),
);
