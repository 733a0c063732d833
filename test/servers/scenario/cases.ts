/**
 * Cases: the traffic that every broker must stand, and what must hold for it. The tests run them for a few
 * minutes of virtual time, `npm run bench -- consumers` for an hour.
 */
import type { DestinationInput } from "redrive";
import { CAPACITY, minutesOf, type Report, rate, type ScenarioOptions } from "./scenario.ts";

export interface Case {
  readonly name: string;
  readonly scenario: ScenarioOptions;
  /** What does not hold, in words; empty if all is well. */
  problems(report: Report): readonly string[];
}

/** Of a hundred messages per second. */
const PER_SECOND = 100;

/** At least this share of the good messages must be handled, in every minute: 88 of 90. */
const MIN_SHARE = 88 / 90;

const MINUTE_MS = 60_000;

/** How long each kind of case lasts. */
export interface CaseMinutes {
  readonly steady: number;
  readonly before: number;
  readonly outage: number;
  /** After the outage. The waits of the policy are as long as the outage. */
  readonly after: number;
}

/** A policy like `background`, as a program may have it. */
export const TWELVE = {
  maxAttempts: 12,
  initialDelayMs: 1000,
  multiplier: 3,
  maxDelayMs: 3_600_000,
  totalBudgetMs: 86_400_000,
} as const;

/** The program's own destination. */
const own =
  (document: DestinationInput): NonNullable<ScenarioOptions["options"]> =>
  ({ clock, library }) => ({
    destination: library.destination("shop", { policy: "background", clock, ...document }),
  });

const ALL_GUARDS: DestinationInput = {
  breaker: {},
  rate: { perSecond: 2 * PER_SECOND },
  concurrency: { max: 8 },
  retryAfterGate: {},
};

function nothingLost({ deadGood, overcounted, repeated }: Report): readonly string[] {
  return [
    ...(deadGood > 0 ? [`${deadGood} good messages are dead letters`] : []),
    ...(overcounted > 0 ? [`${overcounted} attempts were counted that nobody made`] : []),
    ...(repeated > 0 ? [`${repeated} messages were handled twice`] : []),
  ];
}

function steady(failing: number, minutes: number, options?: ScenarioOptions["options"]): Case {
  const least = MIN_SHARE * (PER_SECOND - failing);
  return {
    name: `${failing} % fail`,
    scenario: { minutes, failing, ...(options && { options }) },
    problems(report) {
      // The first minute includes the start.
      const worst = Math.min(...minutesOf(report.good).slice(1));
      const tooFew = `${worst.toFixed(1)} good per second in the worst minute, not ${least.toFixed(1)}`;
      return [...nothingLost(report), ...(worst < least ? [tooFew] : [])];
    },
  };
}

/** How fast a backlog must drain: most of the capacity, because each broker needs a moment per message. */
const DRAIN = 0.7 * CAPACITY;

/** Of the messages of the outage, so many may still wait at the end. */
const LEFT = 0.02;

function bestTenSeconds(counts: Uint32Array, fromSecond: number): number {
  let best = 0;
  for (let from = fromSecond; from + 10 < counts.length; from++) {
    best = Math.max(best, rate(counts, from, from + 10));
  }
  return best;
}

function down(
  { before, outage, after }: CaseMinutes,
  name: string,
  options?: ScenarioOptions["options"],
): Case {
  const upAt = before + outage;
  const times = { fromMs: before * MINUTE_MS, toMs: upAt * MINUTE_MS };
  return {
    name: `down for ${outage} min${name}`,
    scenario: { minutes: upAt + after, outage: times, ...(options && { options }) },
    problems(report) {
      const { good, left } = report;
      const drain = bestTenSeconds(good, upAt * 60);
      const usual = rate(good, 30, before * 60);
      return [
        ...nothingLost(report),
        ...(usual < MIN_SHARE * PER_SECOND ? [`${usual} good per second before it`] : []),
        ...(drain < DRAIN ? [`at most ${drain.toFixed(0)} per second after it`] : []),
        // A few have waits of the policy that are longer than the outage was.
        ...(left > LEFT * outage * 60 * PER_SECOND ? [`${left} messages were left`] : []),
      ];
    },
  };
}

export function casesFor(minutes: CaseMinutes): readonly Case[] {
  const { steady: steadyMinutes } = minutes;
  return [
    steady(1, steadyMinutes),
    steady(10, steadyMinutes),
    steady(50, steadyMinutes),
    { ...steady(10, steadyMinutes, own({})), name: "10 % fail, own retry budget" },
    { ...steady(10, steadyMinutes, own(ALL_GUARDS)), name: "10 % fail, all guards" },
    down(minutes, ""),
    down(minutes, ", 12 attempts in 24 h", () => ({ policy: TWELVE })),
    down(minutes, ", with a breaker", own({ breaker: {}, retryBudget: false })),
    down(minutes, ", with breaker and budget", own({ breaker: {} })),
  ];
}

/** Processes that share a queue through an outage of ten minutes, without and with an open breaker. */
export const fleetCases: readonly Case[] = [1, 2, 4, 8].flatMap((processes) => [
  fleet(processes, 50, "", () => ({ policy: TWELVE })),
  fleet(processes, 20, ", with a breaker", ({ clock, library }) => ({
    destination: library.destination("shop", {
      policy: TWELVE,
      clock,
      breaker: { minCalls: 2, failureRate: 0.5 },
    }),
  })),
]);

function fleet(
  processes: number,
  burst: number,
  name: string,
  options: NonNullable<ScenarioOptions["options"]>,
): Case {
  const outage = { fromMs: 0, toMs: 10 * MINUTE_MS };
  return {
    name: `${processes} processes${name}`,
    scenario: { minutes: 240, burst, perSecond: 0, processes, outage, options },
    problems: (report) => [
      ...nothingLost(report),
      ...(report.left > 0 ? [`${report.left} messages were left`] : []),
    ],
  };
}
