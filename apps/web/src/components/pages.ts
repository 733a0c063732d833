/** Pages: the names under /ui/ that serve the app. The build writes one HTML file for each. */

export const pageNames = [
  "simulator",
  "overview",
  "tasks",
  "task",
  "destinations",
  "destination",
  "dead-letters",
  "redrives",
  "policies",
  "settings",
  "docs",
] as const;

export type PageName = (typeof pageNames)[number];
/** The pages that show what a service does. A static host has none. */
export type DashboardPage = Exclude<PageName, "simulator">;

/** The pages of the menu, in order. */
export const menuPages: readonly { readonly name: PageName; readonly label: string }[] = [
  { name: "overview", label: "Overview" },
  { name: "tasks", label: "Tasks" },
  { name: "destinations", label: "Destinations" },
  { name: "dead-letters", label: "Dead letters" },
  { name: "redrives", label: "Redrives" },
  { name: "policies", label: "Policies" },
  { name: "simulator", label: "Simulator" },
  { name: "settings", label: "Settings" },
  { name: "docs", label: "API docs" },
];

/**
 * The page of an address. The folder itself is the overview if a service serves it. On a static host,
 * and for a link with the state of a simulation after `#`, it is the simulator.
 */
export function pageOf(
  { pathname, hash }: Pick<Location, "pathname" | "hash">,
  isServed: boolean,
): PageName {
  if (!isServed) return "simulator";
  const last =
    pathname
      .split("/")
      .at(-1)
      ?.replace(/\.html$/u, "") ?? "";
  const named = pageNames.find((name) => name === last);
  if (named !== undefined) return named;
  return hash.length > 1 ? "simulator" : "overview";
}

/** True if a service serves this page. It marks the document; a static host does not. */
export function isServed(): boolean {
  return document.documentElement.dataset["service"] !== undefined;
}

/** The menu entry that a page belongs to. */
export function menuPageOf(page: PageName): PageName {
  if (page === "task") return "tasks";
  return page === "destination" ? "destinations" : page;
}
