/** Sparkline: one bar per minute, and the value of the minute under the pointer. */
import { useSignal } from "@preact/signals";

const WIDTH = 180;
const HEIGHT = 32;
const GAP = 1;
/** A minute that is not empty stays visible. */
const MIN_HEIGHT = 1.5;

interface SparklineProps {
  /** Per minute, the oldest first; null: that minute has no value. */
  readonly series: readonly (number | null)[];
  /** The value of a full bar. Default: the largest one. */
  readonly max?: number | undefined;
  readonly firstMinuteAt: number;
  readonly minuteMs: number;
  readonly isBad?: boolean;
  /** Null: the minute has no value. */
  formatMinute(value: number | null): string;
  /** Called with the text for the minute under the pointer, or "". */
  onPoint(text: string): void;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

export function Sparkline(props: SparklineProps) {
  const { series, max, firstMinuteAt, minuteMs, isBad = false, formatMinute, onPoint } = props;
  const pointed = useSignal(-1);
  const step = WIDTH / Math.max(1, series.length);
  const point = (index: number) => {
    pointed.value = index;
    const value = series[index];
    const at = CLOCK.format(firstMinuteAt + index * minuteMs);
    onPoint(value === undefined ? "" : `${at}: ${formatMinute(value)}`);
  };
  return (
    <svg
      class={isBad ? "sparkline bad" : "sparkline"}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      onPointerMove={(event) => {
        const { left, width } = event.currentTarget.getBoundingClientRect();
        point(Math.floor(((event.clientX - left) / width) * series.length));
      }}
      onPointerLeave={() => point(-1)}
    >
      <path class="spark-base" d={`M0 ${HEIGHT - 0.5}H${WIDTH}`} />
      <path class="spark-bars" d={barsOf(series, step, max)} />
      {pointed.value >= 0 && (
        <rect class="spark-point" x={pointed.value * step} width={step - GAP} height={HEIGHT} />
      )}
    </svg>
  );
}

/** The bars as one path: five lines have three hundred of them. */
function barsOf(series: readonly (number | null)[], step: number, full?: number): string {
  const max = full ?? Math.max(...series.map((value) => value ?? 0));
  const bars = series.map((value, index) => {
    if (value === 0 || value === null) return "";
    const height = Math.max(MIN_HEIGHT, (value / max) * (HEIGHT - 2)).toFixed(2);
    const [x, width] = [(index * step).toFixed(2), (step - GAP).toFixed(2)];
    return `M${x} ${HEIGHT}v-${height}h${width}v${height}z`;
  });
  return bars.join("");
}
