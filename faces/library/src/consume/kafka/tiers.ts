/**
 * Kafka tiers: the retry topics of a policy. A topic delivers its messages in order, so all messages of
 * a retry topic wait equally long: its consumer can stop at the first message that is not due, because
 * those behind it are due later. This file is arithmetic only; the recipe shows the loop.
 */
import {
  compilePolicy,
  invalidArgument,
  type PolicyDocument,
  type PresetName,
  policyDocumentOf,
  resolvePolicy,
} from "@redrive/core";
import { tierFor } from "../delay-tiers.ts";
import type { Disposition } from "../message.ts";

export interface TiersOptions {
  /** The topic that producers write. */
  readonly topic: string;
  /** The consumer group. Part of the names, because groups retry independently. */
  readonly group: string;
  /** The most retry topics. Delays are rounded up to the next topic. 1 to 100. Default: 8. */
  readonly maxTiers?: number | undefined;
}

export interface RetryTopic {
  readonly name: string;
  /** Every message of the topic waits this long, counted from its timestamp. */
  readonly delayMs: number;
}

/** Where a message goes next. */
export interface Placement {
  readonly topic: string;
  /** The disposition asks for no earlier delivery; epoch ms. Keep it with the message. */
  readonly notBeforeAt: number;
}

export interface Tiers {
  readonly topic: string;
  /** In ascending order of their delays. */
  readonly retryTopics: readonly RetryTopic[];
  readonly deadLetterTopic: string;
  /** The retry topic after attempt number `attempt` failed, from 1; undefined after the last attempt. */
  tierOf(attempt: number): RetryTopic | undefined;
  /** The retry topic for a wait: the shortest that is not shorter, or the longest. */
  tierFor(delayMs: number): RetryTopic;
  /** Where a disposition sends the message; undefined for `ack`. */
  placementOf(disposition: Disposition, now: number): Placement | undefined;
  /** When a message of a retry topic is due; epoch ms. `timestamp`: when it was written there. */
  dueAt(topic: string, timestamp: number): number;
}

/** The names that Kafka allows, with room for the suffix. */
const NAME = /^[a-zA-Z0-9._-]{1,100}$/;

const MAX_TIERS = 100;

/** Computes the retry topics of a policy. */
export function tiers(policy: PolicyDocument | PresetName, options: TiersOptions): Tiers {
  const { topic, group, maxTiers = 8 } = options;
  assertName("topic", topic);
  assertName("group", group);
  if (!Number.isInteger(maxTiers) || maxTiers < 1 || maxTiers > MAX_TIERS) {
    throw invalidArgument(`maxTiers must be a whole number from 1 to ${MAX_TIERS}`, maxTiers);
  }
  const { maxAttempts, ceilingMs } = compilePolicy(resolvePolicy(policyDocumentOf(policy)));
  const ceilings = ceilingsOf(maxAttempts, ceilingMs);
  const delays = atMost(maxTiers, ceilings);
  const prefix = `${topic}.${group}`;
  const retryTopics = delays.map((delayMs) => ({ name: `${prefix}.retry-${delayMs}`, delayMs }));
  const byDelay = new Map(retryTopics.map((one) => [one.delayMs, one]));
  const byName = new Map(retryTopics.map((one) => [one.name, one]));
  const deadLetterTopic = `${prefix}.dead`;
  const topicFor = (delayMs: number) => byDelay.get(tierFor(delays, delayMs)) as RetryTopic;
  return {
    topic,
    retryTopics,
    deadLetterTopic,
    tierFor: topicFor,
    tierOf(attempt) {
      return attempt < maxAttempts ? topicFor(Math.max(1, ceilingMs(attempt))) : undefined;
    },
    placementOf(disposition, now) {
      if (disposition.kind === "ack") return undefined;
      if (disposition.kind === "dead-letter") return { topic: deadLetterTopic, notBeforeAt: now };
      const { delayMs } = disposition;
      return { topic: topicFor(delayMs).name, notBeforeAt: now + delayMs };
    },
    dueAt(name, timestamp) {
      return timestamp + (byName.get(name)?.delayMs ?? 0);
    },
  };
}

function assertName(field: string, name: string): void {
  if (typeof name === "string" && NAME.test(name)) return;
  throw invalidArgument(`${field} must be 1 to 100 characters of A-Z a-z 0-9 . _ -`, name);
}

/** The longest wait after each attempt, without repetitions, in ascending order. At least 1 ms. */
function ceilingsOf(maxAttempts: number, ceilingMs: (attempt: number) => number): number[] {
  const all = new Set<number>();
  for (let attempt = 1; attempt < maxAttempts; attempt++) all.add(Math.max(1, ceilingMs(attempt)));
  // A policy without retries still defers messages.
  if (all.size === 0) all.add(Math.max(1, ceilingMs(1)));
  return [...all].sort((a, b) => a - b);
}

/** So many of the delays, evenly spread, with the longest one. */
function atMost(count: number, delays: readonly number[]): readonly number[] {
  if (delays.length <= count) return delays;
  return Array.from(
    { length: count },
    (_, index) => delays[Math.ceil(((index + 1) * delays.length) / count) - 1] as number,
  );
}
