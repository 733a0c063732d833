/** Future chart: when the next attempts start if each one fails, one row per attempt. */
import { formatCount, formatInteger } from "@redrive/core";
import { Chart } from "../../chart/chart.tsx";
import { linearScale } from "../../chart/scale.ts";
import { timeAxis } from "../../chart/time-axis.ts";
import { roundDuration } from "../parts/round-duration.ts";
import { formatInstant, tick } from "../parts/times.tsx";
import type { Future, FutureAttempt } from "./future.ts";

const ROW = 22;
const BOTTOM = 22;
const LEFT = 84;
/** Space for the text beside a range. */
const RIGHT = 150;
const TICK_SPACE = 90;
const BAR = 10;

export function FutureChart({ future }: { readonly future: Future }) {
  const now = tick.value;
  const { attempts, giveUpAt, more } = future;
  const lastAt = attempts.at(-1)?.latestAt ?? now;
  const height = attempts.length * ROW + BOTTOM;
  return (
    <div class="future">
      <h3>Next attempts, if each one fails</h3>
      <p class="faint">{futureSentence(future, now)}</p>
      {attempts.length > 0 && (
        <Chart
          title="Next attempts, if each one fails"
          description={attempts
            .map((one) => `Attempt ${one.attempt} ${rangeText(one, now)}.`)
            .join(" ")}
          height={height}
        >
          {(width) => {
            const axis = timeAxis(Math.max(1000, lastAt - now));
            const x = linearScale([0, axis.endMs], [LEFT, Math.max(LEFT + 40, width - RIGHT)]);
            const ticks = axis.ticks(Math.max(2, Math.floor((width - LEFT - RIGHT) / TICK_SPACE)));
            return (
              <>
                {ticks.map((ms) => (
                  <g key={ms}>
                    <line class="rule" x1={x(ms)} x2={x(ms)} y1="0" y2={height - BOTTOM} />
                    <text class="tick middle" x={x(ms)} y={height - 6}>
                      {axis.format(ms)}
                    </text>
                  </g>
                ))}
                {attempts.map((one, row) => (
                  <Row key={one.attempt} one={one} y={row * ROW} x={x} now={now} />
                ))}
              </>
            );
          }}
        </Chart>
      )}
      {more > 0 && (
        <p class="faint">
          and {formatCount(more, "more attempt")}, until {formatInstant(giveUpAt)} at the latest
        </p>
      )}
    </div>
  );
}

interface RowProps {
  readonly one: FutureAttempt;
  readonly y: number;
  readonly x: (ms: number) => number;
  readonly now: number;
}

function Row({ one, y, x, now }: RowProps) {
  const [from, to] = [x(Math.max(0, one.earliestAt - now)), x(Math.max(0, one.latestAt - now))];
  const isExact = one.earliestAt === one.latestAt;
  return (
    <g>
      <title>
        {`Attempt ${one.attempt}: ${formatInstant(one.earliestAt)}${isExact ? "" : ` to ${formatInstant(one.latestAt)}`}`}
      </title>
      <text class="tick" x="0" y={y + 15}>
        attempt {formatInteger(one.attempt)}
      </text>
      <rect
        class={isExact ? "due-exact" : "due-range"}
        x={from}
        width={Math.max(3, to - from)}
        y={y + (ROW - BAR) / 2}
        height={BAR}
        rx="2"
      />
      <text class="tick" x={to + 8} y={y + 15}>
        {rangeText(one, now)}
      </text>
    </g>
  );
}

/** "in 12 s to 40 s". */
export function rangeText({ earliestAt, latestAt }: FutureAttempt, now: number): string {
  const from = roundDuration(Math.max(0, earliestAt - now));
  const to = roundDuration(Math.max(0, latestAt - now));
  if (latestAt <= now) return "due";
  return from === to ? `in ${to}` : `in ${from} to ${to}`;
}

function futureSentence({ attempts, giveUpAt, more }: Future, now: number): string {
  const left = attempts.length + more;
  if (left === 0) return "None is left: its total time is over before the next one could start.";
  const over = giveUpAt > now ? `in ${roundDuration(giveUpAt - now)}` : "now";
  return `${formatCount(left, "attempt")} left. Its total time ends ${over} (${formatInstant(giveUpAt)}). A range is the jitter; the time of the attempts themselves comes on top.`;
}
