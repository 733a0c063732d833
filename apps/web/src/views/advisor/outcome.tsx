/** Outcome: the advised policy with its coverage, reasons, lint findings and code. */

import { formatCount, formatDuration, formatPercent } from "@redrive/core";
import { type Advice, type Answers, schedule } from "@redrive/simulator";
import { encodeRun } from "@redrive/simulator/share";
import { policySummary } from "@redrive/simulator/text";
import { useRef } from "preact/hooks";
import { Card } from "../../components/card.tsx";
import { Stat, Stats } from "../../components/stat.tsx";
import { LintPanel } from "../../panels/lint/lint-panel.tsx";
import { WaitsChart } from "../curve/waits-chart.tsx";
import { FIRST_SEED } from "../seed.ts";
import { adviceQuery } from "./advisor-store.ts";
import { CodeCard } from "./code-card.tsx";
import { useFocus } from "./use-focus.ts";
import { outageOf, viewLinks } from "./view-links.ts";
import "../curve/curve.css";

export function Outcome() {
  const { input, value } = adviceQuery.latest.value ?? {};
  if (input === undefined || value === undefined) return <p class="loading">Loading…</p>;
  // The answers of this advice, not the newest ones, which may still wait for a result.
  const { advice } = value;
  const given = input.answers;
  return (
    <>
      <PolicyCard advice={advice} given={given} />
      <CurveCard advice={advice} />
      <Card title="Why" isBusy={adviceQuery.isBusy.value}>
        <ol class="reasons">
          {advice.reasons.map((reason) => (
            <li key={reason}>{reason}</li>
          ))}
        </ol>
      </Card>
      <DifferenceCard advice={advice} given={given} />
      <LintPanel title="Lint" subject={advice.destination} context={advice.context} />
      <CodeCard advice={advice} />
    </>
  );
}

interface PartProps {
  readonly advice: Advice;
  readonly given: Answers;
}

function PolicyCard({ advice, given }: PartProps) {
  const title = useRef<HTMLParagraphElement>(null);
  useFocus(title, (focus) => focus === "outcome");
  const { policy, coverage } = advice;
  const { maxAttempts = 1, totalBudgetMs } = policy;
  const isRetrying = maxAttempts > 1;
  return (
    <Card title="Your policy" class="advised" isBusy={adviceQuery.isBusy.value}>
      <p class="headline" ref={title} tabIndex={-1}>
        {policySummary(policy)}
      </p>
      <Stats>
        {isRetrying && (
          <Stat
            label="Coverage"
            value={formatPercent(coverage)}
            note={`of the calls outlast ${formatDuration(outageOf(given))}`}
            tone="accent"
          />
        )}
        <Stat
          label="At most"
          value={formatCount(maxAttempts, "attempt")}
          note={isRetrying ? "including the first" : "the first, and no retries"}
        />
        {totalBudgetMs !== undefined && (
          <Stat
            label="Gives up after"
            value={formatDuration(totalBudgetMs)}
            note="attempts and waits"
          />
        )}
      </Stats>
      {isRetrying && (
        <div class="view-links">
          <span class="faint small-text">Open in</span>
          {viewLinks(advice, given).map(({ label, run }) => (
            <a key={label} class="button" href={`#${encodeRun(run())}`} onClick={blockWhileBusy}>
              {label}
            </a>
          ))}
        </div>
      )}
    </Card>
  );
}

/** The waits of one call with this policy. */
function CurveCard({ advice: { policy } }: Pick<PartProps, "advice">) {
  const drawing = useRef<SVGSVGElement>(null);
  if ((policy.maxAttempts ?? 1) <= 1) return null;
  return (
    <Card title="Backoff curve" aside="one call, seed 1" isBusy={adviceQuery.isBusy.value}>
      <WaitsChart schedule={schedule(policy, { seed: FIRST_SEED })} isLog svgRef={drawing} />
    </Card>
  );
}

/** Prevents opening outdated advice. */
function blockWhileBusy(event: MouseEvent): void {
  if (adviceQuery.isBusy.peek()) event.preventDefault();
}

function DifferenceCard({ advice, given }: PartProps) {
  const { differsFromUsual: difference, policy } = advice;
  if (difference === undefined) return null;
  return (
    <Card title="Difference from the usual decision tree" isBusy={adviceQuery.isBusy.value}>
      <div class="table-wrap">
        <table class="table">
          <thead>
            <tr>
              <td />
              <th scope="col">policy</th>
              <th scope="col" class="number">
                outlasts {formatDuration(outageOf(given))}
              </th>
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">the usual tree</th>
              <td>{difference.usual}</td>
              <td class="number">{formatPercent(difference.usualCoverage)}</td>
            </tr>
            <tr>
              <th scope="row">this advice</th>
              <td>{policySummary(policy)}</td>
              <td class="number">{formatPercent(difference.ourCoverage)}</td>
            </tr>
          </tbody>
        </table>
      </div>
    </Card>
  );
}
