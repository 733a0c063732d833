/**
 * Overview chart: the deviation of every result from the published value, in units of its tolerance,
 * on one scale. A dot inside the band is ok.
 */

import { formatSignificant } from "@redrive/core";
import { deviationOf, isNumberRow, type NumberRow, rowVerdict } from "@redrive/simulator/text";
import type { Ref } from "preact";
import { round } from "../../chart/axis.tsx";
import { Chart } from "../../chart/chart.tsx";
import { linearScale, type Scale } from "../../chart/scale.ts";
import type { LabEntry } from "../../worker/lab-requests.ts";
import { type LabRun, runningId, runOf } from "./lab-store.ts";

const ROW = 24;
const TOP = 6;
const FOOT = 26;
const LABELS = 96;

/** Larger deviations are drawn here. */
const MAX_DEVIATION = 1.4;

interface OverviewProps {
  readonly labs: readonly LabEntry[];
  readonly svgRef: Ref<SVGSVGElement>;
}

export function OverviewChart({ labs, svgRef }: OverviewProps) {
  const bottom = TOP + labs.length * ROW;
  return (
    <Chart
      title="Deviation from the published values, in tolerances"
      description={describe(labs)}
      height={bottom + FOOT}
      svgRef={svgRef}
    >
      {(width) => {
        const scale = linearScale([-MAX_DEVIATION, MAX_DEVIATION], [LABELS + 8, width - 8]);
        return (
          <>
            <Band scale={scale} bottom={bottom} isNarrow={width < NARROW_PX} />
            {labs.map(({ id }, index) => (
              <g key={id} transform={`translate(0 ${TOP + (index + 0.5) * ROW})`}>
                <LabLine id={id} scale={scale} />
              </g>
            ))}
          </>
        );
      }}
    </Chart>
  );
}

const TICKS = [
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
        y={TOP}
        width={round(scale(1) - scale(-1))}
        height={bottom - TOP}
        class="mark-soft"
      />
      {TICKS.map(([value, text]) => (
        <g key={text} transform={`translate(${round(scale(value))} 0)`}>
          <line y1={TOP} y2={bottom + 4} class={value === 0 ? "rule base" : "rule"} />
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
      <text x={LABELS} dy="0.32em" class="tick end">
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

function describe(labs: readonly LabEntry[]): string {
  return labs.map(({ id }) => `${id}: ${verdictOf(runOf(id))}`).join("; ");
}

/** For example "12 of 12 within tolerance". */
export function verdictOf(run: LabRun | undefined): string {
  if (run === undefined) return "not run yet";
  const { rows } = run.report;
  return `${rows.filter(({ ok }) => ok).length} of ${rows.length} within tolerance`;
}
