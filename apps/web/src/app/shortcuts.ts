/** Shortcuts: the keys of the page. One table drives both the key handler and the dialog. */
import { signal } from "@preact/signals";
import { goTo, openView } from "./navigation.ts";
import { viewEntries } from "./view-list.ts";

export interface Shortcut {
  readonly keys: string;
  readonly action: string;
}

export const isShortcutDialogOpen = signal(false);

export const shortcuts: readonly Shortcut[] = [
  ...viewEntries.map(({ label, key }, index) => ({
    keys: `${index + 1} or g ${key}`,
    action: `Open ${label}`,
  })),
  { keys: "r", action: "Re-roll: same policy, new seed" },
  { keys: "← → on a slider", action: "Change by one step; Page Up and Page Down by ten" },
  { keys: "← → on the outage bar", action: "Make the outage shorter or longer" },
  { keys: "?", action: "Show or hide this dialog" },
  { keys: "Esc", action: "Close a menu or this dialog" },
];

/** True after `g`, for the next key only. */
let isChord = false;

export function startShortcuts(): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const wasChord = isChord;
    isChord = event.key === "g" && !wasChord;
    if (wasChord ? chord(event.key) : press(event.key)) event.preventDefault();
  });
}

/** Keys typed into a field are not shortcuts. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  const isText =
    target instanceof HTMLInputElement && !["range", "radio", "checkbox"].includes(target.type);
  return isText || target.matches("textarea, select, [contenteditable]");
}

function chord(key: string): boolean {
  return openEntry(viewEntries.find((entry) => entry.key === key));
}

function press(key: string): boolean {
  if (key === "?") {
    isShortcutDialogOpen.value = !isShortcutDialogOpen.value;
    return true;
  }
  if (isShortcutDialogOpen.value) return false;
  if (key === "r") {
    openView.value?.reroll?.();
    return true;
  }
  return /^[1-9]$/u.test(key) && openEntry(viewEntries[Number(key) - 1]);
}

function openEntry(entry: (typeof viewEntries)[number] | undefined): boolean {
  if (entry === undefined) return false;
  goTo(entry.id);
  return true;
}
