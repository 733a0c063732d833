/** Attempts chart: the attempts of the last hour, one column per minute, failed ones on top. */
import { formatInteger } from "@redrive/core";
import { Chart } from "../../chart/chart.tsx";
import { linearScale, niceMax } from "../../chart/scale.ts";
import { Card } from "../../components/card.tsx";
import { Legend } from "../../components/legend.tsx";
import type { DestinationHistory } from "../service/client.ts";

const HEIGHT = 120;
const TOP = 8;
const BOTTOM = 22;
const LEFT = 44;
const GAP = 1;

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

export function AttemptsCard({ history }: { readonly history: DestinationHistory }) {
  const { attempts, failed } = history.counts;
  const all = sumOf(attempts);
  return (
    <Card title="Attempts of the last hour" aside="per minute, on the node that answers">
      {all === 0 ? (
        <p class="faint">No attempt in the last hour.</p>
      ) : (
        <>
          <Columns history={history} />
          <Legend
            entries={[
              { mark: "column good", label: `${formatInteger(all - sumOf(failed))} succeeded` },
              { mark: "column bad", label: `${formatInteger(sumOf(failed))} failed` },
            ]}
          />
        </>
      )}
    </Card>
  );
}

function Columns({ history }: { readonly history: DestinationHistory }) {
  const { counts, firstMinuteAt, minuteMs } = history;
  const { attempts, failed } = counts;
  const top = niceMax(Math.max(...attempts), 2);
  const description = `${formatInteger(sumOf(attempts))} attempts, ${formatInteger(sumOf(failed))} failed.`;
  return (
    <Chart title="Attempts of the last hour" description={description} height={HEIGHT}>
      {(width) => {
        const step = (width - LEFT) / attempts.length;
        const y = linearScale([0, top], [HEIGHT - BOTTOM, TOP]);
        return (
          <>
            {y.ticks(2).map((value) => (
              <g key={value}>
                <line class="rule" x1={LEFT} x2={width} y1={y(value)} y2={y(value)} />
                <text class="tick end" x={LEFT - 6} y={y(value) + 4}>
                  {formatInteger(value)}
                </text>
              </g>
            ))}
            {attempts.map((count, minute) => {
              const bad = Math.min(count, failed[minute] ?? 0);
              const at = CLOCK.format(firstMinuteAt + minute * minuteMs);
              const x = LEFT + minute * step;
              const column = (name: string, from: number, to: number) => (
                <rect
                  class={`column ${name}`}
                  x={x}
                  width={Math.max(1, step - GAP)}
                  y={y(to)}
                  height={Math.max(0, y(from) - y(to))}
                />
              );
              return (
                <g key={minute}>
                  <title>{`${at}: ${count} attempts, ${bad} failed`}</title>
                  {count > bad && column("good", 0, count - bad)}
                  {bad > 0 && column("bad", count - bad, count)}
                </g>
              );
            })}
            <text class="tick" x={LEFT} y={HEIGHT - 4}>
              {CLOCK.format(firstMinuteAt)}
            </text>
            <text class="tick end" x={width} y={HEIGHT - 4}>
              now
            </text>
          </>
        );
      }}
    </Chart>
  );
}

function sumOf(values: readonly number[]): number {
  return values.reduce((total, each) => total + each, 0);
}
