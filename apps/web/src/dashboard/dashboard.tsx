/**
 * Dashboard: the pages that show and change what a service does. It shows the sign-in form while the
 * service requires a key and nobody is signed in.
 */
import { effect, useSignal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { type FunctionComponent, render } from "preact";
import { useEffect } from "preact/hooks";
import { Header } from "../app/header.tsx";
import { type DashboardPage, menuPageOf, menuPages, type PageName } from "../app/pages.ts";
import { Notice } from "../components/notice.tsx";
import { startKeys } from "./keys/keys.ts";
import { KeysDialog } from "./keys/keys-dialog.tsx";
import { OverviewPage } from "./overview/overview-page.tsx";
import { Connection } from "./parts/connection.tsx";
import { SignIn } from "./parts/sign-in.tsx";
import { startTicking } from "./parts/times.tsx";
import { type LazyPage, lazyPage } from "./routing/lazy-page.tsx";
import { isPlainClick } from "./routing/link.tsx";
import { goTo, route, startRouting } from "./routing/route.ts";
import { isSignedOut } from "./service/client.ts";
import { startLive } from "./service/live.ts";
import { loadSession, session } from "./service/session.ts";
import "./dashboard.css";
import "./style/causes.css";
import "./style/forms.css";
import "./style/tables.css";
import "./style/tiles.css";

/** Only the overview is in the first load. */
const LAZY: Readonly<Record<Exclude<DashboardPage, "overview">, LazyPage>> = {
  tasks: lazyPage(async () => (await import("./tasks/tasks-page.tsx")).TasksPage),
  task: lazyPage(async () => (await import("./task/task-page.tsx")).TaskPage),
  destinations: lazyPage(
    async () => (await import("./destinations/destinations-page.tsx")).DestinationsPage,
  ),
  destination: lazyPage(
    async () => (await import("./destination/destination-page.tsx")).DestinationPage,
  ),
  "dead-letters": lazyPage(
    async () => (await import("./dead-letters/dead-letters-page.tsx")).DeadLettersPage,
  ),
  redrives: lazyPage(async () => (await import("./redrives/redrives-page.tsx")).RedrivesPage),
  policies: lazyPage(async () => (await import("./policies/policies-page.tsx")).PoliciesPage),
  settings: lazyPage(async () => (await import("./settings/settings-page.tsx")).SettingsPage),
  docs: lazyPage(async () => (await import("./docs/docs-page.tsx")).DocsPage),
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
