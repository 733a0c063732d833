/**
 * Entry point of the pages under /ui/: starts the simulator or the dashboard, and marks the document
 * as ready. The dashboard loads separately, so that the simulator stays small.
 */
import { render } from "preact";
import { startNavigation } from "./app/navigation.ts";
import { Shell, startShortcuts } from "./app/shell.tsx";
import { isServed, pageOf } from "./components/pages.ts";
import "./style/tokens.css";
import "./style/base.css";
import "./style/parts.css";

const root = document.getElementById("app");
if (root !== null) {
  if (pageOf(location, isServed()) === "simulator") startSimulator(root);
  else void openDashboard(root);
}

function startSimulator(element: HTMLElement): void {
  startNavigation();
  startShortcuts();
  render(<Shell />, element);
  markReady();
}

async function openDashboard(element: HTMLElement): Promise<void> {
  const { startDashboard } = await import("./dashboard/dashboard.tsx");
  startDashboard(element);
  markReady();
}

function markReady(): void {
  document.documentElement.dataset["redrive"] = "ready";
}
