/**
 * Lab chart: one line per result: the tolerance as a band, the published value as a stroke, ours as a
 * dot. Results with the same measure share an axis.
 */

import { formatSignificant } from "@redrive/core";
import { boundsOf, rowVerdict } from "@redrive/simulator/text";
import type { Ref } from "preact";
import { BottomAxis, round } from "../../chart/axis.tsx";
import { Chart } from "../../chart/chart.tsx";
import { linearScale, logScale, type Scale } from "../../chart/scale.ts";
import type { LabRun } from "./lab-store.ts";
import { type Measure, measuresOf, needsLog } from "./measures.ts";

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
