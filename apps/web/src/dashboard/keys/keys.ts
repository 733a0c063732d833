/** Keys: the keyboard shortcuts of the dashboard. One table drives both the handler and the dialog. */
import { signal } from "@preact/signals";
import type { DashboardPage } from "../../app/pages.ts";
import { isTyping, type Shortcut } from "../../app/shortcuts.ts";
import { goTo } from "../routing/route.ts";
import { togglePause } from "../service/live.ts";
import { moveRow, rowOf } from "./rows.ts";

export const isKeysDialogOpen = signal(false);

interface PageKey {
  readonly key: string;
  readonly label: string;
  open(): void;
}

const page = (key: string, label: string, name: DashboardPage): PageKey => ({
  key,
  label,
  open: () => goTo(name),
});

/** The key after `g`. */
const PAGES: readonly PageKey[] = [
  page("o", "Overview", "overview"),
  page("t", "Tasks", "tasks"),
  page("d", "Destinations", "destinations"),
  page("l", "Dead letters", "dead-letters"),
  page("r", "Redrives", "redrives"),
  page("p", "Policies", "policies"),
  { key: "s", label: "Simulator", open: () => location.assign("./simulator") },
  page("e", "Settings", "settings"),
  page("a", "API docs", "docs"),
];

/** Each returns false if the page has nothing to apply it to. */
const ACTIONS: Readonly<Record<string, () => boolean>> = {
  "/": () => press("/", "focus"),
  j: () => moveRow(1),
  k: () => moveRow(-1),
  x: () => toggleRow(),
  r: () => press("r", "click"),
  ".": () => {
    togglePause();
    return true;
  },
};

export const shortcuts: readonly Shortcut[] = [
  ...PAGES.map(({ key, label }) => ({ keys: `g ${key}`, action: `Open ${label}` })),
  { keys: "/", action: "Go to the filters" },
  { keys: "j and k", action: "Next and previous row; Enter opens it" },
  { keys: "x", action: "Select the row" },
  { keys: "r", action: "Retry now: the task, or the selected ones" },
  { keys: ".", action: "Pause or resume live updates" },
  { keys: "?", action: "Show or hide this dialog" },
  { keys: "Esc", action: "Close a dialog or a list of suggestions" },
];

/** True after `g`, for the next key only. */
let isChord = false;

export function startKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const wasChord = isChord;
    isChord = event.key === "g" && !wasChord;
    if (wasChord ? openPage(event.key) : act(event.key)) event.preventDefault();
  });
}

function openPage(key: string): boolean {
  const found = PAGES.find((one) => one.key === key);
  found?.open();
  return found !== undefined;
}

function act(key: string): boolean {
  if (key === "?") {
    isKeysDialogOpen.value = !isKeysDialogOpen.value;
    return true;
  }
  // Inside a dialog, keys belong to it.
  if (document.querySelector("dialog[open]") !== null) return false;
  return ACTIONS[key]?.() ?? false;
}

/** A page marks the element that a key is for. */
function press(key: string, verb: "focus" | "click"): boolean {
  const element = document.querySelector<HTMLElement>(`main [data-key="${key}"]`);
  element?.[verb]();
  return element !== null;
}

function toggleRow(): boolean {
  const box = rowOf(document.activeElement)?.querySelector<HTMLElement>('input[type="checkbox"]');
  box?.click();
  return box !== undefined && box !== null;
}
