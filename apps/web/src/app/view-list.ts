/** View list: the tabs of the simulator in order. Each view loads when it is first opened. */
import type { AnyView, ViewId } from "../views/view.ts";

export interface ViewEntry {
  readonly id: ViewId;
  readonly label: string;
  /** The key after `g`. Number keys follow the order of the list. */
  readonly key: string;
  load(): Promise<AnyView>;
}

export const viewEntries: readonly ViewEntry[] = [
  {
    id: "curve",
    label: "Curve",
    key: "c",
    load: async () => (await import("../views/curve/curve-view.tsx")).curveView,
  },
  {
    id: "herd",
    label: "Herd",
    key: "h",
    load: async () => (await import("../views/herd/herd-view.tsx")).herdView,
  },
  {
    id: "system",
    label: "System",
    key: "s",
    load: async () => (await import("../views/system/system-view.tsx")).systemView,
  },
  {
    id: "labs",
    label: "Labs",
    key: "l",
    load: async () => (await import("../views/labs/labs-view.tsx")).labsView,
  },
  {
    id: "advisor",
    label: "Advisor",
    key: "a",
    load: async () => (await import("../views/advisor/advisor-view.tsx")).advisorView,
  },
];

export function entryOf(id: ViewId): ViewEntry {
  return viewEntries.find((entry) => entry.id === id) ?? (viewEntries[0] as ViewEntry);
}
