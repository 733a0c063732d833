/** Names: strategies as people say them; presets and the catalogue keep their own. */

const NAMES: Readonly<Record<string, string>> = {
  none: "No jitter",
  full: "Full jitter",
  equal: "Equal jitter",
  decorrelated: "Decorrelated",
  linear: "Linear",
  fixed: "Fixed",
  immediate: "No wait",
};

export function strategyLabel(name: string): string {
  return Object.hasOwn(NAMES, name) ? (NAMES[name] as string) : name;
}
