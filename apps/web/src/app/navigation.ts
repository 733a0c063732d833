/**
 * Navigation: the part of the address after `#` as the open view and its state, both ways. Empty is
 * the first view, `#herd` a view as it opens, `#1.<state>` any state of any view (a link that the
 * command line prints). The address follows the state; whatever it cannot hold is told in a sentence.
 */
import { batch, effect, type ReadonlySignal, signal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { decodeRun, encodeRun, type SharedRun } from "@redrive/simulator/share";
import type { AnyView, ApplyState, ViewId } from "../views/view.ts";
import { entryOf, viewEntries } from "./view-list.ts";

const FIRST: ViewId = "curve";

/** Browsers allow few changes of the address a second, and a slider makes many. */
const ADDRESS_DELAY_MS = 250;

const current = signal<AnyView | undefined>(undefined);
const told = signal("");

/** The view on the stage; undefined until its module is there. */
export const openView: ReadonlySignal<AnyView | undefined> = current;
/** What was wrong with the address, or empty. */
export const addressProblem: ReadonlySignal<string> = told;

/** What each view's state is before anybody touches it: such a state needs no link. */
const untouched = new Map<ViewId, string>();

export function startNavigation(): void {
  addEventListener("hashchange", follow);
  follow();
  effect(() => {
    if (current.value !== undefined) planAddress(hashOf(current.value));
  });
}

let cancelPlan = () => {};

/** A link that could not be opened stays in sight. */
function planAddress(hash: string): void {
  cancelPlan();
  cancelPlan = systemClock.alarm(ADDRESS_DELAY_MS, () => {
    if (told.peek() !== "" || location.hash === hash) return;
    history.replaceState(null, "", hash === "" ? location.pathname : hash);
  });
}

/** Opens a view in the state it was left in. */
export function goTo(id: ViewId): void {
  told.value = "";
  void show(id);
}

/** The address of what is on the stage, for others to open. */
export function shareAddress(view: AnyView): string {
  const { origin, pathname } = location;
  return `${origin === "null" ? "file://" : origin}${pathname}#${encodeRun(view.state())}`;
}

export function dismissProblem(): void {
  told.value = "";
}

function hashOf(view: AnyView): string {
  const encoded = encodeRun(view.state());
  if (encoded !== untouched.get(view.id)) return `#${encoded}`;
  return view.id === FIRST ? "" : `#${view.id}`;
}

/** Takes the address at its word. */
function follow(): void {
  const hash = location.hash.replace(/^#/u, "");
  if (current.peek() !== undefined && `#${hash}` === hashOf(current.peek() as AnyView)) return;
  told.value = "";
  const named = viewEntries.find(({ id }) => id === hash);
  if (hash === "" || named !== undefined) {
    void show(named?.id ?? FIRST);
    return;
  }
  const decoded = decodeRun(hash);
  if ("run" in decoded) void show(decoded.run.view, decoded.run);
  else void show(FIRST, undefined, `This link cannot be opened: ${decoded.problem}.`);
}

let turn = 0;

/** Whoever asked last is shown, however long the modules of those before take. */
async function show(id: ViewId, run?: SharedRun, problem = ""): Promise<void> {
  turn++;
  const asked = turn;
  try {
    const view = await entryOf(id).load();
    if (!untouched.has(id)) untouched.set(id, encodeRun(view.state()));
    const [fill, wrong] = run === undefined ? [() => {}, problem] : await read(view, run);
    if (asked !== turn) return;
    // In one: nothing is asked or drawn of a state that is half another's.
    batch(() => {
      fill();
      told.value = wrong;
      current.value = view;
    });
    planAddress(hashOf(view));
  } catch (error) {
    if (asked === turn) told.value = `This view could not be loaded: ${(error as Error).message}`;
  }
}

/** What fills the view, and what was wrong. One that cannot open its run shows what it opens with. */
async function read(view: AnyView, run: SharedRun): Promise<readonly [ApplyState, string]> {
  try {
    return [await view.open(run as never), ""];
  } catch (error) {
    const { message } = error as Error;
    return [
      () => view.reset(),
      `This link cannot be opened: ${message}. Shown is what the view opens with.`,
    ];
  }
}
