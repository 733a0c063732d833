/**
 * Herd chart: the arrivals of each strategy in stacked panels with one time axis. On a shared scale, the
 * panel under the pointer has its own, because the lowest one would be a few pixels tall.
 */
import { useSignal } from "@preact/signals";
import { formatDuration, formatInteger, formatNumber, formatPercent } from "@redrive/core";
import type { Ref } from "preact";
import { BottomAxis, round } from "../../chart/axis.tsx";
import { Chart } from "../../chart/chart.tsx";
import { linearScale, niceMax, type Scale } from "../../chart/scale.ts";
import { timeAxis } from "../../chart/time-axis.ts";
import { columnsPath } from "./columns.ts";
import type { StrategyResult } from "./herd-store.ts";
import { strategyLabel } from "./strategy-labels.ts";

interface HerdChartProps {
  readonly results: readonly StrategyResult[];
  readonly isScaleShared: boolean;
  readonly svgRef: Ref<SVGSVGElement>;
}

const PANEL = 132;
const PLOT = 84;
const HEAD = 34;
const AXIS = 26;
const LEFT = 58;

export function HerdChart({ results, isScaleShared, svgRef }: HerdChartProps) {
  const endMs = Math.max(1, ...results.map(({ herd }) => herd.arrivals.length * herd.windowMs));
  const axis = timeAxis(endMs);
  const read = useSignal<number | undefined>(undefined);
  const maxPeak = Math.max(1, ...results.map(({ herd }) => herd.peak.count));
  return (
    <Chart
      title="Arrivals over time"
      description={results.map(describePeak).join(" ")}
      height={results.length * PANEL + AXIS}
      svgRef={svgRef}
    >
      {(width) => {
        const scale = linearScale([0, axis.endMs], [LEFT, width - 2]);
        const bottom = results.length * PANEL - (PANEL - PLOT - HEAD);
        return (
          <>
            {results.map((result, index) => (
              <Panel
                key={`${index}-${result.name}`}
                result={result}
                y={index * PANEL}
                scale={scale}
                isOwnScale={isScaleShared && read.value === index}
                top={niceMax(
                  isScaleShared && read.value !== index ? maxPeak : result.herd.peak.count,
                )}
                onRead={(isRead) => {
                  read.value = isRead ? index : undefined;
                }}
              />
            ))}
            <BottomAxis
              scale={scale}
              ticks={axis.ticks(width < 480 ? 4 : 8)}
              format={axis.format}
              bottom={bottom}
            />
          </>
        );
      }}
    </Chart>
  );
}

/** Short enough for the margin: 1M, 250k, 8,000. */
function formatCompact(count: number): string {
  if (count >= 1_000_000) return `${formatNumber(count / 1_000_000)}M`;
  return count >= 10_000 ? `${formatNumber(count / 1000)}k` : formatInteger(count);
}

function describePeak({ name, herd: { peak } }: StrategyResult): string {
  return `${strategyLabel(name)}: peak ${formatInteger(peak.count)}, ${formatPercent(peak.share)} of the clients, at ${formatDuration(peak.atMs)}.`;
}

interface PanelProps {
  readonly result: StrategyResult;
  readonly y: number;
  readonly scale: Scale;
  readonly top: number;
  /** True if only this panel has another scale. */
  readonly isOwnScale: boolean;
  onRead(isRead: boolean): void;
}

function Panel({ result, y, scale, top, isOwnScale, onRead }: PanelProps) {
  const { name, herd } = result;
  const [left, right] = scale.range;
  const base = y + HEAD + PLOT;
  const frame = { left, right, base, height: PLOT };
  const { peak } = herd;
  const peakX = round(scale(peak.atMs + herd.windowMs / 2));
  const peakY = round(base - Math.min(1, peak.count / top) * PLOT);
  const isLate = peakX > right - 60;
  const isNarrow = right - left < 420;
  return (
    <g onPointerEnter={() => onRead(true)} onPointerLeave={() => onRead(false)}>
      <rect x={0} y={y} width={right} height={PANEL} class="pointer-area" data-export="no" />
      <text x={left} y={y + 14} class="strong">
        {strategyLabel(name)}
        {isOwnScale && <tspan class="caption"> (own scale)</tspan>}
      </text>
      <text x={right} y={y + 14} class="caption end">
        peak {formatInteger(peak.count)} in {formatDuration(herd.windowMs)}
        {isNarrow
          ? ""
          : `, ${formatPercent(peak.share)} of the clients, at ${formatDuration(peak.atMs)}`}
      </text>
      <line x1={left} x2={right} y1={base - PLOT} y2={base - PLOT} class="rule" />
      <line x1={left} x2={right} y1={base} y2={base} class="rule base" />
      <text x={left - 8} y={base - PLOT + 4} class="tick end">
        {formatCompact(top)}
      </text>
      <text x={left - 8} y={base + 4} class="tick end">
        0
      </text>
      <path
        d={columnsPath(herd.arrivals, herd.windowMs, scale.domain[1], top, frame)}
        class="mark"
      />
      <circle cx={peakX} cy={peakY} r="3" class="peak-dot" />
      <text
        x={isLate ? peakX - 7 : peakX + 7}
        y={peakY - 5}
        class={`strong halo ${isLate ? "end" : ""}`}
      >
        {formatInteger(peak.count)}
      </text>
    </g>
  );
}
