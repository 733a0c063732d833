/**
 * Route: the open page of the dashboard and its query, as in the address. Pages of the dashboard open
 * in place, so that the stream of events and its history stay.
 */
import { type ReadonlySignal, signal } from "@preact/signals";
import { isServed } from "../../app/header.tsx";
import { type DashboardPage, pageOf } from "../../app/pages.ts";

export type Query = Readonly<Record<string, string>>;

export interface Route {
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

const current = signal<Route>(readAddress());
export const route: ReadonlySignal<Route> = current;

export function startRouting(): void {
  addEventListener("popstate", () => {
    current.value = readAddress();
  });
}

/** The relative address of a page. Empty values are left out. */
export function addressOf(page: DashboardPage, query: Query = {}): string {
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
