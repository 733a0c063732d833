/**
 * Metrics: what the service has done, for Prometheus, in a registry per app. Engine events update
 * it. Only destinations whose circuit is open are named, and at most `MAX_NAMED` of them: callers choose
 * the names.
 */
import { Counter, Gauge, type Metric, Registry } from "prom-client";
import { type AttemptSummary, type EngineEvent, outcomeLabel } from "../engine/events.ts";
import type { DestinationRow } from "../model/destination-row.ts";
import type { CommitListener } from "../model/guarded-store.ts";
import type { Upkeep } from "../model/store.ts";
import { TASK_STATUSES, type TaskStatus } from "../model/task.ts";
import type { DestinationCounts, TaskCounts } from "../model/task-query.ts";
import type { ClockStatus } from "../time/engine-time.ts";

/** Destinations with an open circuit that get a series. */
const MAX_NAMED = 50;

/** Policies that get their own series. */
const MAX_POLICIES = 100;

/** Where the values come from that are read at scrape time. */
interface MetricsSource {
  onEvent(listener: (event: EngineEvent) => void): () => void;
  onCommit(listener: CommitListener): () => void;
  /** By tenant. */
  counts(): Promise<readonly TaskCounts[]>;
  destinations(): Promise<readonly DestinationCounts[]>;
  /** The destinations whose circuit is not closed. */
  openDestinations(): Promise<readonly Pick<DestinationRow, "tenantId" | "name">[]>;
  /** How long the oldest task is late that waits although no guard holds it, in ms; 0: none is. */
  lateMs(): number;
  /** The age of the oldest task that has not ended, in ms; 0 if all have. */
  oldestAgeMs(): Promise<number>;
  /** Null: the store has nothing to report. */
  upkeep(): Promise<Upkeep | null>;
  clock(): ClockStatus;
}

const SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300];
const COMMIT_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5];
const COMMIT_ITEMS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const LONG_SECONDS = [0.1, 1, 10, 60, 300, 1800, 3600, 21_600, 86_400];

export class Metrics {
  readonly registry = new Registry();
  /** Creates whose idempotency key was known, answered with the existing task. */
  readonly duplicates: Counter;
  readonly #attempts: TallyCounter;
  readonly #durations: TallyHistogram;
  readonly #exhausted: Counter<"reason" | "policy">;
  readonly #ages: TallyHistogram;
  readonly #delays: TallyHistogram;
  readonly #lags: TallyHistogram;
  readonly #settles: TallyHistogram;
  readonly #budgetExhausted: Counter;
  readonly #shortages: Counter;
  readonly #unreadSecrets: Counter;
  readonly #stops: readonly (() => void)[];
  readonly #policies = new Set<string>();

  constructor(source: MetricsSource) {
    const registers = [this.registry];
    const counter = <Label extends string>(name: string, help: string, labelNames: Label[] = []) =>
      new Counter({ name, help, labelNames, registers });
    const { registry } = this;
    const histogram = this.#histogram.bind(this);
    const byPolicy = ["outcome", "policy"];

    const attempts = { name: "retry_attempts_total", help: "Attempts that ended." };
    this.#attempts = new TallyCounter({ ...attempts, labelNames: byPolicy, registry });
    this.#durations = histogram(
      "retry_attempt_duration_seconds",
      "Duration of attempts.",
      SECONDS,
      byPolicy,
    );
    this.#exhausted = counter("retry_exhausted_total", "Tasks that became dead letters.", [
      "reason",
      "policy",
    ]);
    this.#ages = histogram("retry_task_age_seconds", "Age of tasks when they end.", LONG_SECONDS);
    this.#delays = histogram(
      "retry_backoff_delay_seconds",
      "Delays before the next attempt.",
      LONG_SECONDS,
    );
    this.#lags = histogram(
      "retry_schedule_lag_seconds",
      "Time from due to the first byte.",
      SECONDS,
    );
    this.#settles = histogram(
      "retry_settle_seconds",
      "Time from the response to its commit.",
      SECONDS,
    );
    this.#budgetExhausted = counter(
      "retry_budget_exhausted_total",
      "Retries held by an empty budget.",
    );
    this.#shortages = counter(
      "retry_node_shortages_total",
      "Times that the node lacked files, memory or ports and held new attempts.",
    );
    this.#unreadSecrets = counter(
      "retry_secrets_unavailable_total",
      "Attempts that this node gave back because it lacks the encryption key of a secret.",
    );
    this.duplicates = counter("retry_duplicates_total", "Creates with a known idempotency key.");
    this.#gauges(source);
    this.#troubleGauges(source);
    this.#stops = [source.onEvent((event) => this.#onEvent(event)), this.#observeCommits(source)];
  }

  #histogram(
    name: string,
    help: string,
    bounds: readonly number[],
    labelNames: readonly string[] = [],
  ): TallyHistogram {
    return new TallyHistogram({ name, help, labelNames, registry: this.registry }, bounds);
  }

  #observeCommits(source: MetricsSource): () => void {
    const help = "Duration of store commits until they are durable.";
    const commits = this.#histogram("retry_store_commit_seconds", help, COMMIT_SECONDS);
    const itemsHelp = "Tasks and rows per commit.";
    const items = this.#histogram("retry_store_commit_items", itemsHelp, COMMIT_ITEMS);
    return source.onCommit((commit) => {
      commits.observe(commit.durationMs / 1000);
      items.observe(commit.items);
    });
  }

  stop(): void {
    for (const stop of this.#stops) stop();
  }

  /** Both gauges share one read per scrape. They have no value if the store has nothing to report. */
  #upkeepGauges(source: MetricsSource): void {
    const registers = [this.registry];
    let reading: Promise<Upkeep | null> | undefined;
    const read = () => {
      reading ??= source.upkeep().finally(() => {
        reading = undefined;
      });
      return reading;
    };
    new Gauge({
      name: "retry_store_rows",
      help: "Rows of the store's tables, estimated: live, and dead ones that are not removed yet.",
      labelNames: ["state"],
      registers,
      async collect() {
        const upkeep = await read();
        if (upkeep === null) return;
        this.set({ state: "dead" }, upkeep.deadRows);
        this.set({ state: "live" }, upkeep.liveRows);
      },
    });
    new Gauge({
      name: "retry_store_oldest_transaction_seconds",
      help: "Age of the oldest transaction of the database server. It keeps dead rows.",
      registers,
      async collect() {
        const upkeep = await read();
        if (upkeep === null) this.remove();
        else this.set(upkeep.oldestTransactionMs / 1000);
      },
    });
  }

  #gauges(source: MetricsSource): void {
    this.#upkeepGauges(source);
    const registers = [this.registry];
    new Gauge({
      name: "retry_clock_skew_seconds",
      help: "How far the machine's clock is ahead of the time of the service.",
      registers,
      collect() {
        this.set(source.clock().skewMs / 1000);
      },
    });
    new Gauge({
      name: "retry_tasks",
      help: "Tasks by status.",
      labelNames: ["status"],
      registers,
      async collect() {
        const counts = await source.counts();
        for (const status of TASK_STATUSES) this.set({ status }, sumOf(counts, status));
      },
    });
    new Gauge({
      name: "retry_oldest_task_age_seconds",
      help: "Age of the oldest task that waits or is in flight.",
      registers,
      async collect() {
        this.set((await source.oldestAgeMs()) / 1000);
      },
    });
    new Gauge({
      name: "retry_destinations",
      help: "Destinations by circuit state, and paused destinations.",
      labelNames: ["state"],
      registers,
      async collect() {
        const counts = await source.destinations();
        for (const state of ["open", "closed", "paused"] as const) {
          this.set(
            { state },
            counts.reduce((sum, one) => sum + one[state], 0),
          );
        }
      },
    });
  }

  /** So that an alert can say whose circuit is open, and pages only for tasks that nothing holds. */
  #troubleGauges(source: MetricsSource): void {
    const registers = [this.registry];
    new Gauge({
      name: "retry_open_destination_info",
      help: "1 for each destination whose circuit is open, for the first 50.",
      labelNames: ["tenant", "destination"],
      registers,
      async collect() {
        const open = await source.openDestinations();
        this.reset();
        for (const { tenantId: tenant, name: destination } of open.slice(0, MAX_NAMED)) {
          this.set({ tenant, destination }, 1);
        }
      },
    });
    new Gauge({
      name: "retry_late_task_seconds",
      help: "How long the oldest due task waits on this node although no guard holds it.",
      registers,
      collect() {
        this.set(source.lateMs() / 1000);
      },
    });
  }

  #onEvent(event: EngineEvent): void {
    if (event.type === "attempt.started") {
      this.#lags.observe((event.lagMs ?? 0) / 1000);
      return;
    }
    if (event.type === "node.shortage") this.#shortages.inc();
    if (event.type === "secret.unavailable") this.#unreadSecrets.inc();
    const policy = this.#policyLabel(event.policyId);
    if (event.attempt !== undefined) this.#recordAttempt(event.attempt, policy);
    if (event.type === "task.exhausted") {
      this.#exhausted.inc({ reason: event.reason ?? "unknown", policy });
    }
    const isEnd = event.type === "task.succeeded" || event.type === "task.exhausted";
    if (isEnd && event.createdAt !== undefined) {
      this.#ages.observe(Math.max(0, event.at - event.createdAt) / 1000);
    }
  }

  /**
   * Inline policies are named by digests and would create a series each, so they share one. Only
   * the first `MAX_POLICIES` registered policies get their own.
   */
  #policyLabel(policyId: string | undefined): string {
    if (policyId === undefined) return "unknown";
    if (policyId.startsWith("inline.")) return "inline";
    if (this.#policies.has(policyId)) return policyId;
    if (this.#policies.size >= MAX_POLICIES) return "other";
    this.#policies.add(policyId);
    return policyId;
  }

  #recordAttempt(attempt: AttemptSummary, policy: string): void {
    const outcome = outcomeLabel(attempt);
    this.#attempts.inc(outcome, policy);
    this.#durations.observe(attempt.durationMs / 1000, outcome, policy);
    this.#settles.observe(Math.max(0, attempt.settleMs) / 1000);
    if (attempt.nextDelayMs !== null) this.#delays.observe(attempt.nextDelayMs / 1000);
    if (attempt.delaySource === "retry-budget") this.#budgetExhausted.inc();
  }
}

function sumOf(counts: readonly TaskCounts[], status: TaskStatus): number {
  return counts.reduce((sum, one) => sum + (one[status] ?? 0), 0);
}

// Tallies: a counter and a histogram that are cheap to update. An observation adds to a few
// numbers, and the scrape writes them out. In prom-client, each observation sorts and joins its
// labels, which costs microseconds per attempt.

/** The values of the labels, in the order of their names. */
type LabelValues = readonly string[];

interface TallyOptions {
  readonly name: string;
  readonly help: string;
  /** Default: none. */
  readonly labelNames?: readonly string[];
  readonly registry: Registry;
}

interface Sample {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly metricName?: string;
}

/** What prom-client calls of a metric at the scrape. */
interface Scraped {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "histogram";
  readonly aggregator: "sum";
  readonly values: readonly Sample[];
}

/** A metric of which each combination of labels has a series. */
abstract class Tally<Series> {
  readonly name: string;
  readonly help: string;
  abstract readonly type: Scraped["type"];
  readonly aggregator = "sum";
  readonly #labelNames: readonly string[];
  readonly #series = new Map<string, { readonly values: LabelValues; readonly series: Series }>();
  // Most observations have the labels of the one before.
  #lastValues: LabelValues | undefined;
  #last: Series | undefined;

  constructor({ name, help, labelNames = [], registry }: TallyOptions) {
    this.name = name;
    this.help = help;
    this.#labelNames = labelNames;
    registry.registerMetric(this as unknown as Metric);
  }

  abstract createSeries(): Series;
  abstract samplesOf(series: Series, labels: Record<string, string>): readonly Sample[];

  seriesOf(values: LabelValues): Series {
    const last = this.#lastValues;
    const isSame = last !== undefined && last[0] === values[0] && last[1] === values[1];
    if (this.#last !== undefined && isSame && values.length <= 2) return this.#last;
    const key = values.join("\n");
    const known = this.#series.get(key) ?? { values, series: this.createSeries() };
    this.#series.set(key, known);
    this.#lastValues = values;
    this.#last = known.series;
    return known.series;
  }

  /** prom-client calls it at the scrape. A series without labels exists from the start. */
  async get(): Promise<Scraped> {
    const { name, help, type, aggregator } = this;
    if (this.#labelNames.length === 0) this.seriesOf([]);
    const values = [...this.#series.values()].flatMap((one) =>
      this.samplesOf(one.series, this.#labelsOf(one.values)),
    );
    return { name, help, type, aggregator, values };
  }

  #labelsOf(values: LabelValues): Record<string, string> {
    return Object.fromEntries(this.#labelNames.map((name, index) => [name, values[index] ?? ""]));
  }
}

export class TallyCounter extends Tally<{ count: number }> {
  readonly type = "counter";

  inc(...values: LabelValues): void {
    this.seriesOf(values).count++;
  }

  createSeries(): { count: number } {
    return { count: 0 };
  }

  samplesOf({ count }: { readonly count: number }, labels: Record<string, string>): Sample[] {
    return [{ value: count, labels }];
  }
}

interface Buckets {
  /** Of each bucket alone; the last one has no upper bound. */
  readonly counts: Float64Array;
  sum: number;
}

export class TallyHistogram extends Tally<Buckets> {
  readonly type = "histogram";
  readonly #bounds: readonly number[];
  /** Of a histogram without labels, once it has an observation. */
  #unlabeled: Buckets | undefined;

  /** `bounds`: the upper bounds of the buckets, ascending. */
  constructor(options: TallyOptions, bounds: readonly number[]) {
    super(options);
    this.#bounds = bounds;
  }

  observe(value: number, ...values: LabelValues): void {
    const bounds = this.#bounds;
    if (values.length === 0) this.#unlabeled ??= this.seriesOf(values);
    const buckets = this.#unlabeled ?? this.seriesOf(values);
    let index = 0;
    while (index < bounds.length && value > (bounds[index] ?? 0)) index++;
    buckets.counts[index] = (buckets.counts[index] ?? 0) + 1;
    buckets.sum += value;
  }

  createSeries(): Buckets {
    return { counts: new Float64Array(this.#bounds.length + 1), sum: 0 };
  }

  samplesOf({ counts, sum }: Buckets, labels: Record<string, string>): Sample[] {
    let count = 0;
    const samples: Sample[] = [...counts].map((own, index) => {
      count += own;
      const le = this.#bounds[index] ?? "+Inf";
      return { value: count, labels: { le, ...labels }, metricName: `${this.name}_bucket` };
    });
    samples.push({ value: sum, labels, metricName: `${this.name}_sum` });
    samples.push({ value: count, labels, metricName: `${this.name}_count` });
    return samples;
  }
}
