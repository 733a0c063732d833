/**
 * Navigation: the tabs of the simulator, and the part of the address after `#`, which names the
 * open view and its state. An empty hash opens the first view, `#herd` opens a view in its initial
 * state, and `#1.<state>` opens any state of any view (the command line prints such links). The
 * address follows the state. A link that cannot be opened produces an error message.
 */
import { batch, effect, type ReadonlySignal, signal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { decodeRun, encodeRun, type SharedRun } from "@redrive/simulator/share";
import type { AnyView, ApplyState, ViewId } from "../views/view.ts";

const FIRST: ViewId = "curve";

/** Browsers limit address changes per second, and a slider makes many. */
const ADDRESS_DELAY_MS = 250;

const current = signal<AnyView | undefined>(undefined);
const problem = signal("");

/** The open view; undefined until its module has loaded. */
export const openView: ReadonlySignal<AnyView | undefined> = current;
/** The problem with the address, or empty. */
export const addressProblem: ReadonlySignal<string> = problem;

/** The initial state of each view, encoded. The address of such a state is just the view's id. */
const initialStates = new Map<ViewId, string>();

export function startNavigation(): void {
  addEventListener("hashchange", follow);
  follow();
  effect(() => {
    if (current.value !== undefined) scheduleAddress(hashOf(current.value));
  });
}

let cancelScheduled = () => {};
/** The hash that was last followed or written. Another one in the address is a click to follow. */
let knownHash = "";

/** Leaves a link that could not be opened in the address bar. */
function scheduleAddress(hash: string): void {
  cancelScheduled();
  cancelScheduled = systemClock.alarm(ADDRESS_DELAY_MS, () => {
    if (problem.peek() !== "" || location.hash === hash || location.hash !== knownHash) return;
    history.replaceState(null, "", hash === "" ? location.pathname : hash);
    knownHash = location.hash;
  });
}

/** Opens a view in its last state, as a click on its tab does: Back returns from it. */
export function goTo(id: ViewId): void {
  problem.value = "";
  if (current.peek()?.id !== id) location.hash = `#${id}`;
}

/** A link to the current state of the view. */
export function shareAddress(view: AnyView): string {
  const { origin, pathname } = location;
  return `${origin === "null" ? "file://" : origin}${pathname}#${encodeRun(view.state())}`;
}

export function dismissProblem(): void {
  problem.value = "";
}

function hashOf(view: AnyView): string {
  const encoded = encodeRun(view.state());
  if (encoded !== initialStates.get(view.id)) return `#${encoded}`;
  return view.id === FIRST ? "" : `#${view.id}`;
}

/** Opens what the address says. */
function follow(): void {
  knownHash = location.hash;
  const hash = location.hash.replace(/^#/u, "");
  if (current.peek() !== undefined && `#${hash}` === hashOf(current.peek() as AnyView)) return;
  problem.value = "";
  const named = viewEntries.find(({ id }) => id === hash);
  if (hash === "" || named !== undefined) {
    void show(named?.id ?? FIRST);
    return;
  }
  const decoded = decodeRun(hash);
  if ("run" in decoded) void show(decoded.run.view, decoded.run);
  else void show(FIRST, undefined, `This link cannot be opened: ${decoded.problem}.`);
}

let lastRequest = 0;

/** Shows a view. The last request wins, even if an earlier module loads later. */
async function show(id: ViewId, run?: SharedRun, message = ""): Promise<void> {
  // The address of the view before must not replace the one that is being opened.
  cancelScheduled();
  lastRequest++;
  const request = lastRequest;
  try {
    const view = await entryOf(id).load();
    if (!initialStates.has(id)) initialStates.set(id, encodeRun(view.state()));
    const [apply, found] = run === undefined ? [() => {}, message] : await read(view, run);
    if (request !== lastRequest) return;
    // In one batch, so that nothing is requested or drawn for a mixed state.
    batch(() => {
      apply();
      problem.value = found;
      current.value = view;
    });
    scheduleAddress(hashOf(view));
  } catch (error) {
    if (request !== lastRequest) return;
    problem.value = `This view could not be loaded: ${(error as Error).message}`;
  }
}

/** The state to apply and the problem. A view that cannot open the run shows its initial state. */
async function read(view: AnyView, run: SharedRun): Promise<readonly [ApplyState, string]> {
  try {
    return [await view.open(run as never), ""];
  } catch (error) {
    const { message } = error as Error;
    return [
      () => view.reset(),
      `This link cannot be opened: ${message}. The view shows its defaults.`,
    ];
  }
}

interface ViewEntry {
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

/** The tabs of the simulator in order. Each view loads when it is first opened. */
export function entryOf(id: ViewId): ViewEntry {
  return viewEntries.find((entry) => entry.id === id) ?? (viewEntries[0] as ViewEntry);
}
