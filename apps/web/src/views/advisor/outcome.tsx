/** Outcome: the advised policy with its coverage, reasons, lint findings and code. */
import { formatCount, formatDuration, formatPercent } from "@redrive/core";
import {
  type Advice,
  type Answers,
  LINT_CLIENTS,
  type ScenarioDocument,
  schedule,
} from "@redrive/simulator";
import { adviceCode, type CodeTarget, codeFor, codeTargets } from "@redrive/simulator/export";
import { encodeRun, type SharedRun } from "@redrive/simulator/share";
import { policySummary } from "@redrive/simulator/text";
import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { type CodeChoice, CodeView } from "../../components/code-dialog.tsx";
import { Card, Stat, Stats } from "../../components/frames.tsx";
import { LintPanel } from "../../components/lint-panel.tsx";
import { whenIdle } from "../../worker/query.ts";
import { WaitsChart } from "../curve/waits-chart.tsx";
import { FIRST_SEED } from "../view.ts";
import { adviceQuery, type Focus, focusNext, questionOf } from "./advisor-store.ts";
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
  const { policy, coverage, survival } = advice;
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
            note={`of single calls outlast ${formatDuration(outageOf(given))}`}
            tone="accent"
          />
        )}
        {isRetrying && survival.calls > 1 && (
          <Stat
            label="With the guards"
            value={formatPercent(survival.share)}
            note={`of ${formatCount(survival.calls, "call")} of one process survive`}
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

type Shown = CodeTarget | "destination";

/** The destination comes first, because only it includes the guards. */
const TARGETS: readonly CodeChoice<Shown>[] = [
  { value: "destination", label: "Redrive" },
  ...codeTargets.map(({ id, label }) => ({
    value: id,
    label: id === "redrive" ? "Redrive, one call" : label,
  })),
];

/** The advised policy as code for Redrive and other libraries. */
function CodeCard({ advice }: { readonly advice: Advice }) {
  return (
    <Card title="Code" isBusy={adviceQuery.isBusy.value}>
      <CodeView
        first="destination"
        targets={TARGETS}
        codeOf={(target) => codeOf(advice, target)}
        whenIdle={() => whenIdle(adviceQuery.isBusy)}
      />
    </Card>
  );
}

function codeOf(advice: Advice, shown: Shown): { text: string; notes: readonly string[] } {
  if (shown === "destination") return { text: adviceCode(advice).destination, notes: [] };
  return codeFor(shown, advice.policy);
}

// View links: opens the advised policy in the other views, with the outage from the answers.

interface ViewLink {
  readonly label: string;
  run(): SharedRun;
}

function outageOf(answers: Answers): number {
  return answers.outageMs ?? Number(questionOf("outageMs").fallback);
}

export function viewLinks(advice: Advice, answers: Answers): readonly ViewLink[] {
  const { policy, context } = advice;
  const clients = context.clients ?? LINT_CLIENTS;
  return [
    {
      label: "Curve",
      run: () => ({ view: "curve", seed: FIRST_SEED, policy, outageMs: outageOf(answers) }),
    },
    {
      label: "Herd",
      run: () => ({
        view: "herd",
        seed: FIRST_SEED,
        strategies: [
          { name: "advised", policy },
          { name: "without jitter", policy: { ...policy, jitterType: "NONE" } },
        ],
        clients: Math.max(LINT_CLIENTS, clients),
        windowMs: Math.max(1, Math.round((policy.initialDelayMs ?? 100) / 10)),
      }),
    },
    {
      label: "System",
      run: () => ({
        view: "system",
        seed: FIRST_SEED,
        scenarios: [scenarioOf(advice, outageOf(answers))],
      }),
    },
  ];
}

/** Time before the outage. */
const WARM_UP_MS = 10_000;
const DAY_MS = 86_400_000;

/** Enough for a chart, few enough for a phone. */
const MAX_CALLS = 40_000;
const MAX_PER_SECOND = 200;

/** Open traffic against a server with 1.5 times the needed capacity, and the outage in the middle. */
export function scenarioOf({ destination, context }: Advice, outageMs: number): ScenarioDocument {
  const horizonMs = Math.min(DAY_MS, WARM_UP_MS + outageMs + Math.max(60_000, outageMs));
  const ratePerSecond = Math.max(
    1,
    Math.min(MAX_PER_SECOND, Math.floor((MAX_CALLS * 1000) / horizonMs)),
  );
  const { clients = LINT_CLIENTS, shards = 1 } = context;
  return {
    name: "advised",
    description: "The advised policy under open traffic, with the outage from the answers.",
    horizonMs,
    clients: { kind: "OPEN", count: Math.min(1000, clients), ratePerSecond },
    tiers: [
      {
        name: "dependency",
        destination,
        ...(shards > 1 && { breakerPerShard: true }),
        server: {
          capacityPerSecond: 1.5 * ratePerSecond,
          service: "EXPONENTIAL",
          queueMs: 500,
          ...(shards > 1 && { shards }),
        },
      },
    ],
    timeline:
      outageMs === 0
        ? []
        : [
            {
              kind: "OUTAGE",
              atMs: WARM_UP_MS,
              forMs: Math.min(outageMs, horizonMs - WARM_UP_MS),
            },
          ],
  };
}

/** Focuses an element when the conversation reaches it, but not when the page opens. */
export function useFocus(
  target: RefObject<HTMLElement | null>,
  isTarget: (focus: Focus) => boolean,
): void {
  const focus = focusNext.value;
  useLayoutEffect(() => {
    if (focus === undefined || target.current === null || !isTarget(focus)) return;
    focusNext.value = undefined;
    target.current.focus();
  });
}
