/**
 * Tallies: a counter and a histogram that are cheap to update. An observation adds to a few numbers, and
 * the scrape writes them out. In prom-client, each observation sorts and joins its labels, which costs
 * microseconds per attempt.
 */
import type { Metric, Registry } from "prom-client";

/** The values of the labels, in the order of their names. */
type LabelValues = readonly string[];

export interface TallyOptions {
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
    if (this.#last !== undefined && last !== undefined && isEqual(last, values)) return this.#last;
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

function isEqual(one: LabelValues, other: LabelValues): boolean {
  return one[0] === other[0] && one[1] === other[1] && one.length <= 2;
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

  /** `bounds`: the upper bounds of the buckets, ascending. */
  constructor(options: TallyOptions, bounds: readonly number[]) {
    super(options);
    this.#bounds = bounds;
  }

  observe(value: number, ...values: LabelValues): void {
    const bounds = this.#bounds;
    const buckets = this.seriesOf(values);
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
