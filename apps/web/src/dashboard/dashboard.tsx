/**
 * Dashboard: the pages that show and change what a service does. It shows the sign-in form while the
 * service requires a key and nobody is signed in.
 */
import { effect, useSignal } from "@preact/signals";
import { type FunctionComponent, render } from "preact";
import { useEffect } from "preact/hooks";
import { Header } from "../app/header.tsx";
import { type DashboardPage, menuPageOf, menuPages, type PageName } from "../app/pages.ts";
import { Notice } from "../components/notice.tsx";
import { DeadLettersPage } from "./dead-letters/dead-letters-page.tsx";
import { DestinationPage } from "./destinations/destination-page.tsx";
import { DestinationsPage } from "./destinations/destinations-page.tsx";
import { startCounting } from "./overview/activity-state.ts";
import { OverviewPage } from "./overview/overview-page.tsx";
import { SignIn } from "./parts/sign-in.tsx";
import { startTicking } from "./parts/times.tsx";
import { PoliciesPage } from "./policies/policies-page.tsx";
import { RedrivesPage } from "./redrives/redrives-page.tsx";
import { isPlainClick } from "./routing/link.tsx";
import { goTo, route, startRouting } from "./routing/route.ts";
import { isSignedOut } from "./service/client.ts";
import { liveState, startLive } from "./service/live.ts";
import { loadSession, session, signOut } from "./service/session.ts";
import { TaskPage } from "./task/task-page.tsx";
import { TasksPage } from "./tasks/tasks-page.tsx";
import "./dashboard.css";

const PAGES: Readonly<Record<DashboardPage, FunctionComponent>> = {
  overview: OverviewPage,
  tasks: TasksPage,
  task: TaskPage,
  destinations: DestinationsPage,
  destination: DestinationPage,
  "dead-letters": DeadLettersPage,
  redrives: RedrivesPage,
  policies: PoliciesPage,
};

export function startDashboard(element: HTMLElement): void {
  startRouting();
  startTicking();
  startCounting();
  effect(() => {
    const name = menuPageOf(route.value.page);
    const label = menuPages.find((page) => page.name === name)?.label;
    document.title = `${label} - Redrive`;
  });
  render(<Dashboard />, element);
}

function Dashboard() {
  return (
    <>
      <button
        type="button"
        class="button skip"
        onClick={() => document.getElementById("main")?.focus()}
      >
        Skip to the content
      </button>
      <Header page={route.value.page} onOpen={openInPlace}>
        <Connection />
      </Header>
      <main id="main" tabIndex={-1}>
        <Content />
      </main>
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
  const Page = PAGES[route.value.page];
  return <Page key={route.value.page} />;
}

const CONNECTION = {
  live: { tone: "good", text: "live" },
  connecting: { tone: "warn", text: "connecting" },
  hidden: { tone: "plain", text: "paused" },
} as const;

function Connection() {
  const { tone, text } = CONNECTION[liveState.value];
  if (isSignedOut.value) return null;
  return (
    <span class="connection">
      <span class={`status ${tone}`} role="status">
        {text}
      </span>
      {session.value?.hasCookie === true && (
        <button type="button" class="button quiet" onClick={() => void signOut()}>
          Sign out
        </button>
      )}
    </span>
  );
}
