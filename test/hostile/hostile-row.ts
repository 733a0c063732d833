/**
 * Hostile row: a row of the table of hostile targets, as a task of the service meets it: what the target does,
 * how the only attempt ends, and how the task ends.
 */
import type {
  Behavior,
  HostileOptions,
  ReceivedRequest,
} from "../../faces/service/src/deliver/hostile-server.testing.ts";
import type { Row } from "../../faces/service/src/deliver/hostile-table.testing.ts";
import type { AttemptView, TaskView } from "../../faces/service/src/schemas/task-schemas.ts";

export interface HostileRow {
  /** The number in the table. */
  readonly row: number;
  readonly does: string;
  readonly behavior: Behavior;
  readonly server?: HostileOptions;
  /** The name in the URL. Default: the address of the server. */
  readonly host?: string;
  /** Further fields of the task. */
  readonly task?: Readonly<Record<string, unknown>>;
  readonly policy: keyof typeof POLICIES;
  /** Outcome, status and error class of the attempt, then status and reason of the task. */
  readonly expected: string;
  /** More of what was seen, and what it must be. */
  readonly facts?: (seen: Seen) => unknown;
  readonly expectedFacts?: unknown;
}

/** What was seen of a row. */
export interface Seen {
  readonly task: TaskView;
  readonly attempt: AttemptView | undefined;
  /** The requests of the task, without the honest one that follows. */
  readonly requests: readonly ReceivedRequest[];
  /** The request of the honest task that follows. */
  readonly honest: ReceivedRequest | undefined;
}

/** The policies of the tasks, by name. */
export const POLICIES = {
  /** One attempt, which fails the test if it takes as long as this. */
  ample: { maxAttempts: 1, attemptTimeoutMs: 20_000, connectTimeoutMs: 20_000 },
  /** For a target that never ends its response. */
  short: { maxAttempts: 1, attemptTimeoutMs: 1500, connectTimeoutMs: 1500 },
  /** The retry comes long after the test has ended, whatever the jitter draws. */
  later: {
    maxAttempts: 2,
    backoff: "FIXED",
    initialDelayMs: 86_400_000,
    maxDelayMs: 86_400_000,
    totalBudgetMs: 30 * 86_400_000,
  },
  /** The retry comes at once. */
  twice: { maxAttempts: 2, backoff: "FIXED", initialDelayMs: 1, jitterType: "NONE" },
  /** Also retries the status that a server sends if it does not know the method. */
  patient501: { maxAttempts: 1, retryableStatusCodes: [501] },
} as const;

/** The rest of a row, if it needs more than its number, its behavior and its result. */
export type Extra = Partial<Omit<HostileRow, "row" | "does" | "behavior" | "expected">>;

export function hostile(
  row: number,
  does: string,
  behavior: Behavior,
  expected: string,
  extra: Extra = {},
): HostileRow {
  return { row, does, behavior, expected, policy: "ample", ...extra };
}

export const SUCCEEDED = "SUCCEEDED succeeded";
const RETRYABLE_STATUSES = ["408", "425", "429", "500", "502", "503", "504"];

/**
 * For a target that responds without reading, and resets. A larger body would be streamed: its next
 * write may fail before the response is read.
 */
const UNREAD_BODY = "x".repeat(60_000);

/** A row of the deliverer's tables. Its task has one attempt, so a retryable failure ends as `attempts`. */
export function fromDeliverer(given: Row): HostileRow {
  const { row, does, behavior, expected, server, late, body } = given;
  const seen = expected.replace(" truncated", "");
  const [outcome, status = ""] = seen.split(" ");
  const isRetryable =
    outcome === "error" ? !seen.includes("tls") : RETRYABLE_STATUSES.includes(status);
  const end = isRetryable ? "EXHAUSTED attempts" : "EXHAUSTED not-retryable";
  return hostile(row, does, behavior, `${seen}, ${outcome === "success" ? SUCCEEDED : end}`, {
    policy: late ? "short" : "ample",
    ...(server && { server }),
    ...(body && { task: { body: UNREAD_BODY } }),
  });
}

/** In the words of `expected`. */
export function summaryOf(task: TaskView, attempt: AttemptView | undefined): string {
  const { outcome, responseStatus, errorClass } = attempt ?? {};
  const words = [outcome ?? "no attempt", responseStatus, errorClass];
  const ended = [task.status, task.reason].filter((word) => word !== null).join(" ");
  return `${words.filter((word) => word !== null && word !== undefined).join(" ")}, ${ended}`;
}
