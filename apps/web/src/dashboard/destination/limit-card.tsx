/** Limit card: how the concurrency limit changed, drawn over time and in sentences. */
import { useSignal } from "@preact/signals";
import { formatCount, formatInteger } from "@redrive/core";
import { Chart } from "../../chart/chart.tsx";
import { linearScale, niceMax } from "../../chart/scale.ts";
import { Card } from "../../components/card.tsx";
import { roundDuration } from "../parts/round-duration.ts";
import { tick, When } from "../parts/times.tsx";
import type { LimitChange } from "../service/client.ts";
import { limitLine, limitReason } from "./limit-history.ts";

const HEIGHT = 110;
const TOP = 8;
const BOTTOM = 22;
const LEFT = 34;
/** Rows before the user asks for all. */
const FEW = 6;

interface LimitCardProps {
  readonly changes: readonly LimitChange[];
  readonly limit: number;
}

export function LimitCard({ changes, limit }: LimitCardProps) {
  return (
    <Card title="Concurrency limit" aside={`now ${formatInteger(limit)}`}>
      {changes.length === 0 ? (
        <p class="faint">
          It has not changed since the node that answers was started. It grows while calls succeed,
          and is cut when the target refuses calls for overload.
        </p>
      ) : (
        <>
          <LimitChart changes={changes} />
          <ChangeTable changes={changes} />
        </>
      )}
    </Card>
  );
}

function LimitChart({ changes }: Pick<LimitCardProps, "changes">) {
  const now = tick.value;
  const points = limitLine(changes, now);
  const startAt = points[0]?.at ?? now;
  const max = Math.max(...points.map(({ limit }) => limit));
  const texts = changes.map((change) => `${change.from} to ${change.to}: ${limitReason(change)}`);
  return (
    <Chart title="Concurrency limit over time" description={texts.join(" ")} height={HEIGHT}>
      {(width) => {
        const x = linearScale([startAt, Math.max(now, startAt + 1000)], [LEFT, width - 4]);
        const y = linearScale([0, niceMax(max, 2)], [HEIGHT - BOTTOM, TOP]);
        const line = points.map(({ at, limit }) => `${x(at).toFixed(1)},${y(limit).toFixed(1)}`);
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
            <polyline class="stroke" points={line.join(" ")} />
            <text class="tick" x={LEFT} y={HEIGHT - 4}>
              {roundDuration(now - startAt)} ago
            </text>
            <text class="tick end" x={width - 4} y={HEIGHT - 4}>
              now
            </text>
          </>
        );
      }}
    </Chart>
  );
}

function ChangeTable({ changes }: Pick<LimitCardProps, "changes">) {
  const isAll = useSignal(false);
  const newest = changes.toReversed();
  const shown = isAll.value ? newest : newest.slice(0, FEW);
  return (
    <>
      <div class="table-wrap">
        <table class="table rows">
          <caption class="visually-hidden">Changes of the limit, the newest first</caption>
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">Limit</th>
              <th scope="col">Why</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((change) => (
              <tr key={`${change.sinceAt} ${change.from}`}>
                <td data-label="When">
                  <When at={change.at} />
                </td>
                <td data-label="Limit">
                  {formatInteger(change.from)} → {formatInteger(change.to)}
                </td>
                <td data-label="Why" class="wrap">
                  {limitReason(change)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {newest.length > FEW && (
        <button
          type="button"
          class="button small"
          onClick={() => {
            isAll.value = !isAll.value;
          }}
        >
          {isAll.value ? "Show fewer" : `Show all ${formatCount(newest.length, "change")}`}
        </button>
      )}
    </>
  );
}
