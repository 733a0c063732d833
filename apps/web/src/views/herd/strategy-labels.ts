/** Strategy labels: readable names of strategies. Presets and catalog entries keep their names. */

const LABELS: Readonly<Record<string, string>> = {
  none: "No jitter",
  full: "Full jitter",
  equal: "Equal jitter",
  decorrelated: "Decorrelated",
  linear: "Linear",
  fixed: "Fixed",
  immediate: "No wait",
};

export function strategyLabel(name: string): string {
  return Object.hasOwn(LABELS, name) ? (LABELS[name] as string) : name;
}
