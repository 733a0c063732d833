/**
 * Strategy table: measures of every backoff strategy with the numbers of the controls, from the
 * simulator. Loaded when it scrolls into view.
 */
import {
  formatDuration,
  formatInteger,
  formatNumber,
  formatPercent,
  type PolicyDocument,
} from "@redrive/core";
import {
  BottomAxis,
  Chart,
  formatLogTick,
  LeftAxis,
  linearScale,
  logScale,
  logTimeTicks,
  round,
  type Scale,
} from "../../components/chart.tsx";
import { Card } from "../../components/frames.tsx";
import { createWorkerQuery } from "../../worker/query.ts";
import { BUCKET_RETRIES, type StrategyMeasures } from "../../worker/strategy-requests.ts";
import { outageMs, resolved, seed } from "./curve-store.ts";

interface StrategyRow {
  /** The name in `redrive sim herd --compare`. */
  readonly name: string;
  readonly label: string;
  /** The wait after failure n. */
  readonly formula: string;
  /** What it must know for the next wait. */
  readonly state: string;
  readonly use: string;
}

const ROWS: readonly StrategyRow[] = [
  {
    name: "immediate",
    label: "No wait",
    formula: "0, three times",
    state: "none",
    use: "Never: it retries while the fault still lasts.",
  },
  {
    name: "fixed",
    label: "Fixed",
    formula: "base",
    state: "none",
    use: "For polling. Retries of all clients stay synchronized.",
  },
  {
    name: "linear",
    label: "Linear",
    formula: "min(max, base × n)",
    state: "the attempt",
    use: "For one client with a known rate limit.",
  },
  {
    name: "none",
    label: "Exponential",
    formula: "min(max, base × mⁿ⁻¹)",
    state: "the attempt",
    use: "For one client. Many clients arrive at the same time.",
  },
  {
    name: "proportional",
    label: "Proportional",
    formula: "ceiling × (1 − r … 1 + r)",
    state: "the attempt, a random number",
    use: "For long schedules, where full jitter could turn hours into minutes.",
  },
  {
    name: "equal",
    label: "Equal jitter",
    formula: "ceiling ÷ 2 + random(0, ceiling ÷ 2)",
    state: "the attempt, a random number",
    use: "When every retry needs a minimum wait.",
  },
  {
    name: "full",
    label: "Full jitter",
    formula: "random(0, ceiling)",
    state: "the attempt, a random number",
    use: "The default for many clients, with enough attempts for the outage.",
  },
  {
    name: "decorrelated",
    label: "Decorrelated",
    formula: "random(base, min(max, previous × 3))",
    state: "the previous wait, a random number",
    use: "The widest spread. Needs the previous wait and ends late.",
  },
  {
    name: "token-bucket",
    label: "Exponential + token bucket",
    formula: "min(max, base × mⁿ⁻¹), if the bucket has a token",
    state: "the attempt, a bucket that all calls share",
    use: "To limit the load of an outage. Most calls give up early.",
  },
];

const strategyQuery = createWorkerQuery("strategies", "strategies", () => ({
  curve: curveOfControls(),
  outageMs: outageMs.value,
  seed: seed.value,
  names: ROWS.map(({ name }) => name),
}));

/** A list of waits has no base, so the defaults of the policy document are used. */
function curveOfControls(): PolicyDocument {
  const { initialDelayMs, maxDelayMs, multiplier, maxAttempts, totalBudgetMs } = resolved.value;
  return {
    maxAttempts,
    totalBudgetMs,
    ...(initialDelayMs !== undefined && { initialDelayMs, maxDelayMs, multiplier }),
  };
}

export function StrategyTable() {
  return (
    <Card title="All strategies with these settings" aside={inputText()}>
      <Overlay />
      <div class="table-wrap" aria-busy={strategyQuery.isBusy.value}>
        <table class="table strategies">
          <thead>
            <tr>
              <th scope="col">Strategy</th>
              <th scope="col">Wait after failure n</th>
              <th scope="col">Complexity: keeps</th>
              <th scope="col" class="number">
                Herd peak
              </th>
              <th scope="col" class="number">
                Sum of waits
              </th>
              <th scope="col" class="number">
                Fairness
              </th>
              <th scope="col" class="number">
                Outlasts {formatDuration(outageMs.value)}
              </th>
              <th scope="col">When to use it</th>
            </tr>
          </thead>
          <tbody>
            {ROWS.map((row) => (
              <Row
                key={row.name}
                row={row}
                measures={strategyQuery.value.value?.find(({ name }) => name === row.name)}
              />
            ))}
          </tbody>
        </table>
      </div>
      <p class="faint table-note">
        Herd peak: the arrivals in the fullest window, as a share of the clients. Sum of waits: the
        mean, and the range of 90 % of the calls. Fairness: Jain's index over those sums; 1 means
        all are equal. Complexity: what a client keeps for the next wait; each takes constant time.
        The token bucket holds {BUCKET_RETRIES} retries, as in the AWS SDKs. See System for other
        budgets.
      </p>
      {strategyQuery.problem.value !== "" && <p class="problem">{strategyQuery.problem.value}</p>}
    </Card>
  );
}

/** The token bucket has the waits of the exponential, so it has no line of its own. */
function Overlay() {
  const lines = ROWS.slice(0, -1).map(({ name, label }) => {
    const found = strategyQuery.value.value?.find((one) => one.name === name);
    return { label, waitsMs: found?.meanWaitsMs ?? [] };
  });
  return (
    <div aria-busy={strategyQuery.isBusy.value}>
      <OverlayChart lines={lines} />
      <ul class="legend">
        {lines.map(({ label }, index) => (
          <li key={label}>
            <svg width="22" height="10" aria-hidden="true">
              <path d="M0 5H22" class={lineClass(index)} />
            </svg>
            {label}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Describes the input of the shown result, which can be older than the controls. */
function inputText(): string {
  const { input, value = [] } = strategyQuery.latest.value ?? {};
  const [first] = value;
  if (first === undefined) return strategyQuery.isBusy.value ? "measuring…" : "";
  return `${formatInteger(first.clients)} clients fail at the same time, windows of ${formatDuration(first.windowMs)}, seed ${input?.seed}`;
}

interface RowProps {
  readonly row: StrategyRow;
  readonly measures: StrategyMeasures | undefined;
}

function Row({ row, measures }: RowProps) {
  return (
    <tr>
      <th scope="row">{row.label}</th>
      <td class="formula">{row.formula}</td>
      <td class="formula">{row.state}</td>
      <td class="number">{measures === undefined ? "…" : formatPercent(measures.peakShare)}</td>
      <td class="number">
        {measures === undefined ? "…" : formatDuration(Math.round(measures.meanMs))}
        {measures !== undefined && measures.highMs > measures.lowMs && (
          <small>
            {formatDuration(measures.lowMs)} – {formatDuration(measures.highMs)}
          </small>
        )}
      </td>
      <td class="number">{measures === undefined ? "…" : formatNumber(measures.fairness)}</td>
      <td class="number">{measures === undefined ? "…" : formatPercent(measures.coverage)}</td>
      <td class="use">{row.use}</td>
    </tr>
  );
}

// Overlay chart: the mean wait before each attempt, one line for each strategy.

interface OverlayLine {
  readonly label: string;
  /** The mean wait before attempt 2, 3 and so on. */
  readonly waitsMs: readonly number[];
}

const OVERLAY_HEIGHT = 260;
const OVERLAY_TOP = 14;
const OVERLAY_BOTTOM = OVERLAY_HEIGHT - 30;
const OVERLAY_LEFT = 56;
/** The axis is linear below this, so that waits of 0 have a place. */
const LOG_FROM_MS = 10;
/** More ticks of attempts would touch on a phone. */
const MAX_TICKS = 10;

/** The class of the line and of its entry in the legend. Dashes tell lines apart without color. */
const lineClass = (index: number) => `overlay overlay-${index % 8}`;

function OverlayChart({ lines }: { readonly lines: readonly OverlayLine[] }) {
  const longest = Math.max(1, ...lines.map(({ waitsMs }) => waitsMs.length));
  const endMs = Math.max(LOG_FROM_MS, ...lines.flatMap(({ waitsMs }) => waitsMs)) * 1.2;
  const y = logScale([0, endMs], [OVERLAY_BOTTOM, OVERLAY_TOP], LOG_FROM_MS);
  return (
    <Chart
      title="The mean wait before each attempt, by strategy"
      description={lines.map(describe).join(" ")}
      height={OVERLAY_HEIGHT}
    >
      {(width) => {
        const x = linearScale([2, Math.max(3, longest + 1)], [OVERLAY_LEFT + 6, width - 12]);
        return (
          <>
            <LeftAxis
              scale={y}
              ticks={logTimeTicks(LOG_FROM_MS, endMs)}
              format={formatLogTick}
              left={OVERLAY_LEFT}
              right={width}
            />
            <BottomAxis scale={x} ticks={attemptTicks(x)} format={String} bottom={OVERLAY_BOTTOM} />
            {lines.map(({ label, waitsMs }, index) => (
              <path key={label} d={pathOf(waitsMs, x, y)} class={lineClass(index)} />
            ))}
          </>
        );
      }}
    </Chart>
  );
}

function attemptTicks(x: Scale): readonly number[] {
  return x.ticks(MAX_TICKS).filter(Number.isInteger);
}

function pathOf(waitsMs: readonly number[], x: Scale, y: Scale): string {
  const points = waitsMs.map((ms, index) => `${round(x(index + 2))} ${round(y(ms))}`);
  return points.length === 0 ? "" : `M${points.join("L")}`;
}

function describe({ label, waitsMs }: OverlayLine): string {
  const last = waitsMs.at(-1);
  return last === undefined ? "" : `${label}: ${formatDuration(Math.round(last))} at the end.`;
}
