/** Attempt strip: draws the requests and the waits of a task on one time axis. */
import { formatDuration } from "@redrive/core";
import { Chart } from "../../chart/chart.tsx";
import { timeAxis } from "../../chart/time-axis.ts";
import { Legend } from "../../components/legend.tsx";
import { causeLabel } from "../parts/causes.ts";
import { roundDuration } from "../parts/round-duration.ts";
import { formatInstant, tick } from "../parts/times.tsx";
import type { AttemptView, TaskView } from "../service/client.ts";
import { placeBar, type Strip, type StripBar, stripOf, waitTotals } from "./strip.ts";

const REQUESTS = [
  { mark: "request", label: "request that failed", isGood: false },
  { mark: "request good", label: "request that succeeded or runs", isGood: true },
];

const BAR_TOP = 8;
const BAR_HEIGHT = 34;
const HEIGHT = 74;
/** Space on both sides, so that labels at the ends fit. */
const MARGIN = 16;
const TICK_SPACE = 90;

interface AttemptStripProps {
  readonly task: TaskView;
  readonly attempts: readonly AttemptView[];
}

export function AttemptStrip({ task, attempts }: AttemptStripProps) {
  const now = tick.value;
  const strip = stripOf(task, attempts, now);
  const totals = waitTotals(strip.bars, now);
  const waited = totals.map(({ cause, ms }) => `${roundDuration(ms)} for ${causeLabel(cause)}`);
  const requests = strip.bars.filter(({ kind }) => kind === "request").length;
  const description = `${requests} requests. Waited ${waited.join(", ") || "for nothing"}.`;
  return (
    <>
      <Chart title="Requests and waits" description={description} height={HEIGHT}>
        {(width) => <Bars strip={strip} width={width - 2 * MARGIN} now={now} />}
      </Chart>
      <Legend
        entries={[
          ...REQUESTS.filter(({ isGood }) =>
            strip.bars.some((bar) => bar.kind === "request" && bar.isGood === isGood),
          ),
          ...totals.map(({ cause, ms }) => ({
            mark: `wait ${cause}`,
            label: `${causeLabel(cause)}: ${roundDuration(ms)}`,
          })),
        ]}
      />
    </>
  );
}

interface BarsProps {
  readonly strip: Strip;
  readonly width: number;
  readonly now: number;
}

function Bars({ strip, width, now }: BarsProps) {
  const { bars, startAt, endAt, dueAt } = strip;
  const xOf = (at: number) => ((at - startAt) / (endAt - startAt)) * width;
  const axis = timeAxis(endAt - startAt);
  const ticks = axis
    .ticks(Math.max(2, Math.floor(width / TICK_SPACE)))
    .filter((ms) => ms <= endAt - startAt);
  const waits = bars.filter(({ kind }) => kind === "wait");
  const requests = bars.filter(({ kind }) => kind === "request");
  return (
    <g transform={`translate(${MARGIN} 0)`}>
      <line
        class="rule base"
        x1="0"
        x2={width}
        y1={BAR_TOP + BAR_HEIGHT}
        y2={BAR_TOP + BAR_HEIGHT}
      />
      {[...waits, ...requests].map((bar) => (
        <Bar key={`${bar.kind} ${bar.fromAt}`} bar={bar} strip={strip} width={width} />
      ))}
      {ticks.map((ms) => (
        <text key={ms} class="tick middle" x={xOf(startAt + ms)} y={BAR_TOP + BAR_HEIGHT + 18}>
          {axis.format(ms)}
        </text>
      ))}
      {now > startAt && now < endAt && <Marker x={xOf(now)} name="now" text="now" />}
      {dueAt !== null && dueAt >= now && (
        <Marker x={xOf(dueAt)} name="due" text={`next attempt due ${formatInstant(dueAt)}`} />
      )}
    </g>
  );
}

interface BarProps {
  readonly bar: StripBar;
  readonly strip: Strip;
  readonly width: number;
}

function Bar({ bar, strip, width }: BarProps) {
  const { x, width: barWidth } = placeBar(strip, bar, width);
  const isWait = bar.kind === "wait";
  const name = isWait ? `wait ${bar.cause}` : `request ${bar.isGood ? "good" : ""}`;
  return (
    <rect
      class={bar.isPlanned ? `${name} planned` : name}
      x={x}
      width={barWidth}
      y={isWait ? BAR_TOP + 8 : BAR_TOP}
      height={isWait ? BAR_HEIGHT - 8 : BAR_HEIGHT}
      rx="1.5"
    >
      <title>{barTitle(bar)}</title>
    </rect>
  );
}

function barTitle(bar: StripBar): string {
  const length = formatDuration(Math.round(bar.toAt - bar.fromAt));
  const from = `from ${formatInstant(bar.fromAt)}`;
  if (bar.kind === "wait") return `Waited ${length} for ${causeLabel(bar.cause)}, ${from}`;
  return `Attempt ${bar.attemptNumber}: ${bar.result} after ${length}, ${from}`;
}

function Marker({
  x,
  name,
  text,
}: {
  readonly x: number;
  readonly name: string;
  readonly text: string;
}) {
  return (
    <line class={`marker ${name}`} x1={x} x2={x} y1="0" y2={BAR_TOP + BAR_HEIGHT + 4}>
      <title>{text}</title>
    </line>
  );
}
