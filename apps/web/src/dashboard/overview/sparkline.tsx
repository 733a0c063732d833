/** Sparkline: a small line without axes beside a figure that says the same in words. */

const WIDTH = 120;
const HEIGHT = 28;

export function Sparkline({ values }: { readonly values: readonly number[] }) {
  // One value is drawn as a line, too.
  const drawn = values.length === 1 ? [...values, ...values] : values;
  const max = Math.max(1, ...drawn);
  const step = WIDTH / Math.max(1, drawn.length - 1);
  const points = drawn.map((value, index) => {
    const y = HEIGHT - 2 - (value / max) * (HEIGHT - 4);
    return `${(index * step).toFixed(1)},${y.toFixed(1)}`;
  });
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
      <polyline class="stroke" points={points.join(" ")} />
    </svg>
  );
}
