/**
 * Link: the open page of the dashboard with its query, as in the address, and links to pages. Pages
 * open in place, so that the stream of events and its history stay.
 */
import { type ReadonlySignal, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { type DashboardPage, isServed, pageOf } from "../../components/pages.ts";

export type Query = Readonly<Record<string, string>>;

interface Route {
  readonly page: DashboardPage;
  readonly query: Query;
}

function readAddress(): Route {
  const page = pageOf(location, isServed());
  return {
    page: page === "simulator" ? "overview" : page,
    query: Object.fromEntries(new URLSearchParams(location.search)),
  };
}

const current = signal<Route>({ page: "overview", query: {} });
export const route: ReadonlySignal<Route> = current;

export function startRouting(): void {
  current.value = readAddress();
  addEventListener("popstate", () => {
    current.value = readAddress();
  });
}

/** The relative address of a page. Empty values are left out. */
function addressOf(page: DashboardPage, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== "");
  const text = new URLSearchParams(given).toString();
  return text === "" ? `./${page}` : `./${page}?${text}`;
}

export function goTo(page: DashboardPage, query: Query = {}): void {
  const isOther = current.value.page !== page;
  history.pushState(null, "", addressOf(page, query));
  current.value = readAddress();
  if (!isOther) return;
  scrollTo(0, 0);
  document.getElementById("main")?.focus();
}

interface LinkProps {
  readonly page: DashboardPage;
  readonly query?: Query;
  readonly class?: string;
  readonly title?: string;
  /** Marks the link of the shown page. */
  readonly isCurrent?: boolean;
  readonly children: ComponentChildren;
}

/** A link to a page of the dashboard that opens in place. */
export function Link(props: LinkProps) {
  const { page, query = {}, class: name, title, isCurrent = false, children } = props;
  return (
    <a
      href={addressOf(page, query)}
      class={name}
      title={title}
      aria-current={isCurrent ? "page" : undefined}
      onClick={(event) => {
        if (!isPlainClick(event)) return;
        event.preventDefault();
        goTo(page, query);
      }}
    >
      {children}
    </a>
  );
}

/** Other clicks open a new tab or window. */
export function isPlainClick(event: MouseEvent): boolean {
  const { button, ctrlKey, metaKey, shiftKey, altKey } = event;
  return button === 0 && !ctrlKey && !metaKey && !shiftKey && !altKey;
}
