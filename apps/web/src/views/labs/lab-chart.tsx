/**
 * Lab chart: one line per result of a lab: the tolerance as a band, the published value as a
 * stroke, ours as a dot. Results with the same measure share an axis. The overview shows the
 * deviations of all results on one scale.
 */
import { formatSignificant } from "@redrive/core";
import type { LabRow } from "@redrive/simulator";
import {
  boundsOf,
  deviationOf,
  isNumberRow,
  type NumberRow,
  rowVerdict,
} from "@redrive/simulator/text";
import type { Ref } from "preact";
import {
  BottomAxis,
  Chart,
  linearScale,
  logScale,
  round,
  type Scale,
} from "../../components/chart.tsx";
import type { LabEntry } from "../../worker/lab-requests.ts";
import { type LabRun, runningId, runOf } from "./lab-store.ts";

const HEAD = 22;
const FOOT = 30;
const GAP = 8;

/** Space at both ends, so that dots and the last tick label are not cut off. */
const EDGE = 6;
const RIGHT_EDGE = 22;
const CHARACTER = 6.3;

/** Labels are in their own column, or above their marks if they are long. */
interface Layout {
  readonly left: number;
  readonly row: number;
  readonly isAbove: boolean;
}

function layoutOf(measures: readonly Measure[], width: number): Layout {
  const labels = measures.flatMap(({ rows }) => rows.map(({ label }) => label.length));
  const column = Math.max(...labels) * CHARACTER + 2 * EDGE;
  const isAbove = column > 0.4 * width;
  return isAbove ? { left: EDGE, row: 34, isAbove } : { left: column, row: 22, isAbove };
}

interface LabChartProps {
  readonly run: LabRun;
  readonly svgRef?: Ref<SVGSVGElement>;
}

export function LabChart({ run, svgRef }: LabChartProps) {
  const { report } = run;
  const measures = measuresOf(report.rows);
  const heightAt = (width: number) =>
    measures.reduce((sum, one) => sum + heightOf(one, layoutOf(measures, width)), 0);
  return (
    <Chart
      title={report.title}
      description={describe(measures)}
      height={heightAt}
      {...(svgRef && { svgRef })}
    >
      {(width) => {
        const layout = layoutOf(measures, width);
        let top = 0;
        return measures.map((measure) => {
          const from = top;
          top += heightOf(measure, layout);
          return (
            <g key={measure.name} transform={`translate(0 ${from})`}>
              <MeasurePlot measure={measure} width={width} layout={layout} />
            </g>
          );
        });
      }}
    </Chart>
  );
}

function heightOf({ rows }: Measure, { row }: Layout): number {
  return HEAD + rows.length * row + FOOT + GAP;
}

interface MeasurePlotProps {
  readonly measure: Measure;
  readonly width: number;
  readonly layout: Layout;
}

function MeasurePlot({ measure, width, layout }: MeasurePlotProps) {
  const scale = scaleOf(measure, [layout.left, width - RIGHT_EDGE]);
  const bottom = HEAD + measure.rows.length * layout.row;
  return (
    <>
      <text x={EDGE} y={14} class="caption strong">
        {measure.name === "" ? "share" : measure.name}
      </text>
      <BottomAxis
        scale={scale}
        ticks={scale.ticks(Math.max(2, Math.floor((width - layout.left) / 70)))}
        format={formatSignificant}
        bottom={bottom}
        top={HEAD}
      />
      {measure.rows.map((row, index) => (
        <g key={row.what} transform={`translate(0 ${HEAD + index * layout.row})`}>
          <ResultMarks row={row} scale={scale} layout={layout} />
        </g>
      ))}
    </>
  );
}

/** Logarithmic scales start at a power of ten; linear ones at 0, so that lengths are comparable. */
function scaleOf(measure: Measure, range: readonly [number, number]): Scale {
  const values = measure.rows.flatMap((row) => [...boundsOf(row), row.ours]);
  const high = Math.max(...values);
  if (!needsLog(measure)) {
    const low = Math.min(0, ...values);
    return linearScale([low, high * 1.05 || 1], range);
  }
  const from = 10 ** Math.floor(Math.log10(Math.min(...values)));
  return logScale([from, Math.max(high * 1.2, from * 10)], range, from);
}

/** Keeps a band without width visible. */
const MIN_BAND = 3;

interface ResultMarksProps {
  readonly row: Measure["rows"][number];
  readonly scale: Scale;
  readonly layout: Layout;
}

function ResultMarks({ row, scale, layout }: ResultMarksProps) {
  const [from, to] = boundsOf(row).map(scale) as [number, number];
  const band = Math.max(MIN_BAND, to - from);
  const middle = layout.isAbove ? 23 : layout.row / 2;
  const published = round(scale(row.published));
  return (
    <>
      <text x={EDGE} y={layout.isAbove ? 12 : middle + 4} class="caption">
        {row.label}
      </text>
      <rect
        x={round((from + to) / 2 - band / 2)}
        y={middle - 6}
        width={round(band)}
        height={12}
        rx={2}
        class="mark-range"
      />
      <line x1={published} x2={published} y1={middle - 7} y2={middle + 7} class="published" />
      <circle
        cx={round(scale(row.ours))}
        cy={middle}
        r={4}
        class={rowVerdict(row) === "missed" ? "ours missed" : "ours"}
      />
    </>
  );
}

function describe(measures: readonly Measure[]): string {
  return measures
    .flatMap(({ rows }) =>
      rows.map(
        ({ what, published, ours, ...row }) =>
          `${what}: published ${formatSignificant(published)}, ours ${formatSignificant(ours)}, ${rowVerdict(row)}`,
      ),
    )
    .join("; ");
}

// Overview chart: the deviation of every result from the published value, in units of its
// tolerance, on one scale. A dot inside the band is ok.

const OVERVIEW_ROW = 24;
const OVERVIEW_TOP = 6;
const OVERVIEW_FOOT = 26;
const OVERVIEW_LABELS = 96;

/** Larger deviations are drawn here. */
const MAX_DEVIATION = 1.4;

interface OverviewProps {
  readonly labs: readonly LabEntry[];
  readonly svgRef: Ref<SVGSVGElement>;
}

export function OverviewChart({ labs, svgRef }: OverviewProps) {
  const bottom = OVERVIEW_TOP + labs.length * OVERVIEW_ROW;
  return (
    <Chart
      title="Deviation from the published values, in tolerances"
      description={describeDeviations(labs)}
      height={bottom + OVERVIEW_FOOT}
      svgRef={svgRef}
    >
      {(width) => {
        const scale = linearScale(
          [-MAX_DEVIATION, MAX_DEVIATION],
          [OVERVIEW_LABELS + 8, width - 8],
        );
        return (
          <>
            <Band scale={scale} bottom={bottom} isNarrow={width < NARROW_PX} />
            {labs.map(({ id }, index) => (
              <g key={id} transform={`translate(0 ${OVERVIEW_TOP + (index + 0.5) * OVERVIEW_ROW})`}>
                <LabLine id={id} scale={scale} />
              </g>
            ))}
          </>
        );
      }}
    </Chart>
  );
}

const OVERVIEW_TICKS = [
  [-1, "lowest"],
  [0, "published"],
  [1, "highest"],
] as const;

/** Below this width in pixels, long labels would overlap. */
const NARROW_PX = 480;

interface BandProps {
  readonly scale: Scale;
  readonly bottom: number;
  readonly isNarrow: boolean;
}

function Band({ scale, bottom, isNarrow }: BandProps) {
  return (
    <g>
      <rect
        x={round(scale(-1))}
        y={OVERVIEW_TOP}
        width={round(scale(1) - scale(-1))}
        height={bottom - OVERVIEW_TOP}
        class="mark-soft"
      />
      {OVERVIEW_TICKS.map(([value, text]) => (
        <g key={text} transform={`translate(${round(scale(value))} 0)`}>
          <line y1={OVERVIEW_TOP} y2={bottom + 4} class={value === 0 ? "rule base" : "rule"} />
          <text y={bottom + 18} class="tick middle">
            {value === 0 || isNarrow ? text : `${text} allowed`}
          </text>
        </g>
      ))}
    </g>
  );
}

function LabLine({ id, scale }: { readonly id: string; readonly scale: Scale }) {
  const run = runOf(id);
  return (
    <>
      <text x={OVERVIEW_LABELS} dy="0.32em" class="tick end">
        {id}
      </text>
      {run === undefined ? (
        <text x={scale(0) + 8} dy="0.32em" class="tick">
          {runningId.value === id ? "running…" : ""}
        </text>
      ) : (
        run.report.rows
          .filter(isNumberRow)
          .map((row) => <Dot key={row.what} row={row} scale={scale} />)
      )}
    </>
  );
}

function Dot({ row, scale }: { readonly row: NumberRow; readonly scale: Scale }) {
  const off = Math.min(MAX_DEVIATION, Math.max(-MAX_DEVIATION, deviationOf(row)));
  return (
    <circle
      cx={round(scale(off))}
      r={3.5}
      class={rowVerdict(row) === "missed" ? "ours missed" : "ours faded"}
    >
      <title>{`${row.what}: published ${formatSignificant(row.published)}, ours ${formatSignificant(row.ours)}`}</title>
    </circle>
  );
}

function describeDeviations(labs: readonly LabEntry[]): string {
  return labs.map(({ id }) => `${id}: ${verdictOf(runOf(id))}`).join("; ");
}

/** For example "12 of 12 within tolerance". */
export function verdictOf(run: LabRun | undefined): string {
  if (run === undefined) return "not run yet";
  const { rows } = run.report;
  return `${rows.filter(({ ok }) => ok).length} of ${rows.length} within tolerance`;
}

interface Measure {
  /** The measure with its unit, for example "ms until all are done". */
  readonly name: string;
  readonly rows: readonly (NumberRow & { readonly label: string })[];
}

/** Rows with the same measure share an axis. */
export function measuresOf(rows: readonly LabRow[]): readonly Measure[] {
  const byName = new Map<string, Measure["rows"][number][]>();
  for (const row of rows.filter(isNumberRow)) {
    const { label, measure } = partsOf(row.what);
    byName.set(measure, [...(byName.get(measure) ?? []), { ...row, label }]);
  }
  return Array.from(byName, ([name, those]) => ({ name, rows: those }));
}

/** Splits at the last colon: "full, window b: higher than the comb: peak" has the measure "peak". */
export function partsOf(what: string): { readonly label: string; readonly measure: string } {
  const plain = what.replace(/ \(published: .*\)$/u, "");
  const cut = plain.lastIndexOf(": ");
  if (cut < 0) return { label: plain, measure: "" };
  return { label: plain.slice(0, cut), measure: plain.slice(cut + 2) };
}

/** The ratio of the largest to the smallest value from which on the scale is logarithmic. */
const MIN_LOG_RATIO = 40;

/** True if the values are too far apart for a linear scale. */
export function needsLog({ rows }: Measure): boolean {
  const values = rows.flatMap(({ published, ours }) => [published, ours]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low > 0 && high / low >= MIN_LOG_RATIO;
}
