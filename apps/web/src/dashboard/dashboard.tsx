/**
 * Dashboard: the pages that show and change what a service does, with the header and the keys
 * around them. It shows the sign-in form while the service requires a key and nobody is signed in.
 */
import { effect, type Signal, signal, useSignal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { type FunctionComponent, render } from "preact";
import { useEffect } from "preact/hooks";
import { Problem } from "../components/controls.tsx";
import { Card, Notice } from "../components/frames.tsx";
import { Header } from "../components/header.tsx";
import { type DashboardPage, menuPageOf, menuPages, type PageName } from "../components/pages.ts";
import { onKeys, type Shortcut, ShortcutDialog } from "../components/shortcuts.tsx";
import { OverviewPage } from "./overview-page.tsx";
import { isSignedOut, loadSession, session, signIn, signOut } from "./parts/client.ts";
import { goTo, isPlainClick, route, startRouting } from "./parts/link.tsx";
import { liveState, startLive, togglePause } from "./parts/live.ts";
import { startTicking } from "./parts/times.tsx";
import "./dashboard.css";

/** Only the overview is in the first load. */
const LAZY: Readonly<Record<Exclude<DashboardPage, "overview">, LazyPage>> = {
  tasks: lazyPage(async () => (await import("./tasks-page.tsx")).TasksPage),
  task: lazyPage(async () => (await import("./task-page.tsx")).TaskPage),
  destinations: lazyPage(async () => (await import("./destinations-page.tsx")).DestinationsPage),
  destination: lazyPage(async () => (await import("./destination-page.tsx")).DestinationPage),
  "dead-letters": lazyPage(async () => (await import("./dead-letters-page.tsx")).DeadLettersPage),
  redrives: lazyPage(async () => (await import("./redrives-page.tsx")).RedrivesPage),
  policies: lazyPage(async () => (await import("./policies-page.tsx")).PoliciesPage),
  settings: lazyPage(async () => (await import("./settings-page.tsx")).SettingsPage),
  docs: lazyPage(async () => (await import("./docs-page.tsx")).DocsPage),
};

/** Pages that people open next are loaded when nothing else happens. */
const PRELOAD_MS = 1500;

function pageOf(page: DashboardPage): FunctionComponent {
  return page === "overview" ? OverviewPage : LAZY[page].Page;
}

export function startDashboard(element: HTMLElement): void {
  startRouting();
  startTicking();
  startKeys();
  effect(() => {
    const { page, query } = route.value;
    const label = menuPages.find(({ name }) => name === menuPageOf(page))?.label;
    const subject = page === "destination" ? query["name"] : undefined;
    document.title = `${subject ?? label} - Redrive`;
  });
  render(<Dashboard />, element);
  systemClock.alarm(PRELOAD_MS, () => {
    for (const name of ["tasks", "task", "destinations", "destination"] as const) {
      LAZY[name].preload();
    }
  });
}

function Dashboard() {
  const { page } = route.value;
  return (
    <>
      <button
        type="button"
        class="button skip"
        onClick={() => document.getElementById("main")?.focus()}
      >
        Skip to the content
      </button>
      <Header page={page} onOpen={openInPlace}>
        <Connection />
      </Header>
      <main id="main" tabIndex={-1}>
        <Content />
      </main>
      <KeysDialog />
    </>
  );
}

function openInPlace(page: PageName, event: MouseEvent): void {
  if (page === "simulator" || !isPlainClick(event)) return;
  event.preventDefault();
  goTo(page);
}

function Content() {
  const problem = useSignal("");
  useEffect(() => {
    void loadSession().then((found) => {
      problem.value = found;
    });
  }, []);
  const isKnown = session.value !== undefined;
  useEffect(() => {
    if (isKnown) startLive();
  }, [isKnown]);
  if (isSignedOut.value) return <SignIn />;
  if (problem.value !== "") return <Notice tone="bad">{problem.value} Reload the page.</Notice>;
  if (!isKnown) return <p class="loading">Loading…</p>;
  const Page = pageOf(route.value.page);
  return <Page key={route.value.page} />;
}

type Loaded = { readonly Page: FunctionComponent } | { readonly problem: string };

interface LazyPage {
  readonly Page: FunctionComponent;
  /** Loads the code, so that the page opens at once later. */
  preload(): void;
}

/** A page whose code is loaded when it is first opened. */
function lazyPage(load: () => Promise<FunctionComponent>): LazyPage {
  const loaded: Signal<Loaded | undefined> = signal(undefined);
  let isStarted = false;
  const preload = () => {
    if (isStarted) return;
    isStarted = true;
    load().then(
      (Page) => {
        loaded.value = { Page };
      },
      (error: Error) => {
        isStarted = false;
        loaded.value = { problem: error.message };
      },
    );
  };
  function Page() {
    preload();
    const found = loaded.value;
    if (found === undefined) return <p class="loading">Loading…</p>;
    if ("Page" in found) return <found.Page />;
    return (
      <Notice tone="bad">
        This page could not be loaded: {found.problem}. If the service was updated, reload the page.
      </Notice>
    );
  }
  return { Page, preload };
}

const STATES = {
  live: { tone: "good", text: "live", action: "Pause live updates" },
  connecting: { tone: "warn", text: "connecting", action: "Pause live updates" },
  hidden: { tone: "plain", text: "paused", action: "Pause live updates" },
  paused: { tone: "plain", text: "paused", action: "Resume live updates" },
} as const;

/** Whether the page is live, a button that pauses it, the keys, and signing out. */
function Connection() {
  const { tone, text, action } = STATES[liveState.value];
  if (isSignedOut.value) return null;
  return (
    <div class="connection">
      <button type="button" class={`status ${tone} live`} title={action} onClick={togglePause}>
        <span role="status">{text}</span>
        <span class="visually-hidden">: {action}</span>
      </button>
      <button
        type="button"
        class="button quiet keys-button"
        aria-haspopup="dialog"
        onClick={() => {
          isKeysDialogOpen.value = true;
        }}
      >
        Shortcuts <kbd>?</kbd>
      </button>
      {session.value?.hasCookie === true && (
        <button type="button" class="button quiet" onClick={() => void signOut()}>
          Sign out
        </button>
      )}
    </div>
  );
}

/** Exchanges an API key for a cookie. The key itself is not stored in the browser. */
function SignIn() {
  const key = useSignal("");
  const problem = useSignal("");
  const isBusy = useSignal(false);
  const submit = async () => {
    isBusy.value = true;
    problem.value = await signIn(key.value.trim());
    isBusy.value = false;
  };
  return (
    <div class="page stage sign-in">
      <h1>Sign in</h1>
      <Card>
        <form
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            void submit();
          }}
        >
          <div class="select">
            <label for="api-key">API key</label>
            <input
              id="api-key"
              class="text-area"
              type="password"
              autocomplete="off"
              required
              placeholder="rdv_…"
              value={key.value}
              onInput={(event) => {
                key.value = event.currentTarget.value;
              }}
            />
          </div>
          <Problem message={problem.value} />
          <button type="submit" class="button accent" disabled={isBusy.value}>
            Sign in
          </button>
        </form>
        <p class="faint">
          This service requires an API key. The page exchanges it for a cookie that lasts 12 hours
          and has the rights of the key. To create a key, run{" "}
          <code>redrive keys add --name ops</code>.
        </p>
      </Card>
    </div>
  );
}

// Keys: the keyboard shortcuts of the dashboard. One table drives both the handler and the dialog.

const isKeysDialogOpen = signal(false);

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

const shortcuts: readonly Shortcut[] = [
  ...PAGES.map(({ key, label }) => ({ keys: `g ${key}`, action: `Open ${label}` })),
  { keys: "/", action: "Go to the filters" },
  { keys: "j and k", action: "Next and previous row; Enter opens it" },
  { keys: "x", action: "Select the row" },
  { keys: "r", action: "Retry now: the task, or the selected ones" },
  { keys: ".", action: "Pause or resume live updates" },
  { keys: "?", action: "Show or hide this dialog" },
  { keys: "Esc", action: "Close a dialog or a list of suggestions" },
];

function startKeys(): void {
  onKeys(act, openPage);
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

const ROWS = "main tbody tr";

/** The row that contains the element; undefined: none does. */
function rowOf(element: Element | null): HTMLTableRowElement | undefined {
  return element?.closest<HTMLTableRowElement>(ROWS) ?? undefined;
}

/** Focuses the first link of the next or previous row. False if there is no row. */
function moveRow(step: 1 | -1): boolean {
  const rows = [...document.querySelectorAll<HTMLTableRowElement>(ROWS)];
  const current = rowOf(document.activeElement);
  const index = current === undefined ? -1 : rows.indexOf(current);
  const next = index < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, index + step));
  const link = rows[next]?.querySelector<HTMLElement>("a, button");
  link?.focus();
  return link !== null && link !== undefined;
}

/** Lists the keyboard shortcuts of the dashboard. */
function KeysDialog() {
  return <ShortcutDialog shown={isKeysDialogOpen} shortcuts={shortcuts} />;
}
