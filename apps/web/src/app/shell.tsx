/**
 * Shell: the frame around every view of the simulator: header, tabs, toolbar, the controls beside
 * the stage, and the keys.
 */
import { batch, type Signal, signal, useSignal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import type { ComponentChildren, FunctionComponent } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { copyText } from "../components/clipboard.ts";
import { type ExportItem, shownCode } from "../components/export-menu.ts";
import { Notice } from "../components/frames.tsx";
import { Header } from "../components/header.tsx";
import { isServed } from "../components/pages.ts";
import { onKeys, type Shortcut, ShortcutDialog } from "../components/shortcuts.tsx";
import type { AnyView } from "../views/view.ts";
import type { AppliedRun } from "./apply-run.ts";
import {
  addressProblem,
  dismissProblem,
  entryOf,
  goTo,
  openView,
  shareAddress,
  viewEntries,
} from "./navigation.ts";

export function Shell() {
  const view = openView.value;
  return (
    <>
      <button type="button" class="button skip" onClick={skipToMain}>
        Skip to the chart
      </button>
      <Header page="simulator">
        <KeysButton />
      </Header>
      <Tabs view={view} />
      <main id="main" tabIndex={-1}>
        {addressProblem.value !== "" && (
          <Notice tone="bad" onDismiss={dismissProblem}>
            {addressProblem.value}
          </Notice>
        )}
        {view === undefined ? <p class="loading">Loading…</p> : <Workbench view={view} />}
      </main>
      <ShortcutDialog shown={isShortcutDialogOpen} shortcuts={shortcuts} />
      <LazyCodeDialog />
    </>
  );
}

/** A button, not a link, because the hash holds the state of the view. */
function skipToMain(): void {
  document.getElementById("main")?.focus();
}

function KeysButton() {
  return (
    <button
      type="button"
      class="button quiet keys-button"
      aria-haspopup="dialog"
      onClick={() => {
        isShortcutDialogOpen.value = true;
      }}
    >
      Shortcuts <kbd>?</kbd>
    </button>
  );
}

function Tabs({ view }: { readonly view: AnyView | undefined }) {
  return (
    <div class="tabs">
      <nav aria-label="Views">
        {viewEntries.map(({ id, label }) => (
          <a key={id} href={`#${id}`} aria-current={view?.id === id ? "page" : undefined}>
            {label}
          </a>
        ))}
      </nav>
      {view !== undefined && <Toolbar view={view} />}
    </div>
  );
}

function Workbench({ view }: { readonly view: AnyView }) {
  const { Controls, Stage, explanation, id } = view;
  return (
    <div class="workbench">
      <section class="controls" aria-label="Controls">
        <Controls />
      </section>
      <section class="stage" aria-labelledby="view-title">
        <h1 id="view-title" class="visually-hidden">
          {entryOf(id).label}
        </h1>
        <Explanation>{explanation}</Explanation>
        <Stage />
      </section>
    </div>
  );
}

// Toolbar: the actions of the open view: re-roll, share, export, reset.

function Toolbar({ view }: { readonly view: AnyView }) {
  const status = useSignal("");
  const share = async () => {
    const text = await copyLink(shareAddress(view));
    status.value = text;
    systemClock.alarm(STATUS_SHOWN_MS, () => {
      if (status.peek() === text) status.value = "";
    });
  };
  const items = view.exports?.() ?? [];
  return (
    <div class="toolbar" role="toolbar" aria-label="View">
      <output class="toolbar-status" aria-live="polite">
        {status.value}
      </output>
      {view.reroll !== undefined && (
        <button type="button" class="button accent" onClick={() => view.reroll?.()}>
          Re-roll <kbd>r</kbd>
        </button>
      )}
      <button type="button" class="button" onClick={share}>
        Share
      </button>
      {items.length > 0 && (
        <Menu label="Export">
          {(close) =>
            items.map((item) => (
              <MenuItem
                key={item.label}
                label={item.label}
                hint={item.hint}
                onSelect={() => {
                  close();
                  void runExport(item, status);
                }}
              />
            ))
          }
        </Menu>
      )}
      {isServed() && (view.id === "curve" || view.id === "system") && (
        <button type="button" class="button" onClick={() => void apply(view.state())}>
          Apply to…
        </button>
      )}
      <button
        type="button"
        class="button quiet"
        onClick={() => {
          status.value = "";
          batch(() => view.reset());
        }}
      >
        Reset
      </button>
    </div>
  );
}

async function apply(run: AppliedRun): Promise<void> {
  const { applyRun } = await import("./apply-run.ts");
  await applyRun(run);
}

/** How long a message stays that asks for nothing. */
const STATUS_SHOWN_MS = 4000;

/** An export that takes longer than this shows a status. */
const STATUS_DELAY_MS = 300;

/** Waits for the current result if the worker is still busy. */
async function runExport({ label, run }: ExportItem, status: Signal<string>): Promise<void> {
  status.value = "";
  const cancel = systemClock.alarm(STATUS_DELAY_MS, () => {
    status.value = `${label}: waiting for the result…`;
  });
  const problem = await run().then(
    () => "",
    (error: Error) => `No ${label}: ${error.message}`,
  );
  cancel();
  status.value = problem;
}

/** If the browser denies clipboard access, puts the link into the address bar. */
async function copyLink(text: string): Promise<string> {
  if (await copyText(text)) return "Link copied";
  history.replaceState(null, "", new URL(text).hash);
  return "Link is in the address bar";
}

interface MenuProps {
  readonly label: string;
  readonly children: (close: () => void) => ComponentChildren;
}

/** A button that opens a list of actions. Escape and losing focus close it. */
function Menu({ label, children }: MenuProps) {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: handles keys and focus of the elements inside.
    <div
      class="menu"
      onKeyDown={(event) => {
        if (event.key === "Escape" && isOpen) close();
      }}
      onFocusOut={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOpen(false);
      }}
    >
      <button
        ref={button}
        type="button"
        class="button"
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={() => setOpen(!isOpen)}
      >
        {label} <span aria-hidden="true">▾</span>
      </button>
      <div id={id} class="menu-list" hidden={!isOpen} tabIndex={-1}>
        {isOpen && children(close)}
      </div>
    </div>
  );
}

interface MenuItemProps {
  readonly label: string;
  readonly hint?: string;
  onSelect(): void;
}

function MenuItem({ label, hint, onSelect }: MenuItemProps) {
  return (
    <button type="button" class="menu-item" onClick={onSelect}>
      <span>{label}</span>
      {hint !== undefined && <small>{hint}</small>}
    </button>
  );
}

type CodeDialog = typeof import("../components/code-dialog.tsx").CodeDialog;

/** Loads the code dialog when it is first opened. */
function LazyCodeDialog() {
  const loaded = useSignal<
    { readonly Dialog: FunctionComponent<Parameters<CodeDialog>[0]> } | undefined
  >(undefined);
  const shown = shownCode.value;
  useEffect(() => {
    if (shown === undefined || loaded.value !== undefined) return;
    void import("../components/code-dialog.tsx").then(({ CodeDialog }) => {
      loaded.value = { Dialog: CodeDialog };
    });
  }, [shown, loaded]);
  if (shown === undefined || loaded.value === undefined) return null;
  const { Dialog } = loaded.value;
  return <Dialog {...shown} />;
}

/** Two sentences above the chart that say what the view shows. */
function Explanation({ children }: { readonly children: ComponentChildren }) {
  return <p class="explanation">{children}</p>;
}

// Shortcuts: one table drives both the key handler and the dialog.

const isShortcutDialogOpen = signal(false);

const shortcuts: readonly Shortcut[] = [
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

export function startShortcuts(): void {
  onKeys(press, chord);
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
