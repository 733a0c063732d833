/** Entry point of the pages under /ui/: starts the app and marks the document as ready. */
import { render } from "preact";
import { startNavigation } from "./app/navigation.ts";
import { Shell } from "./app/shell.tsx";
import { startShortcuts } from "./app/shortcuts.ts";
import "./style/tokens.css";
import "./style/base.css";
import "./style/parts.css";

const root = document.getElementById("app");
if (root !== null) {
  startNavigation();
  startShortcuts();
  render(<Shell />, root);
  document.documentElement.dataset["redrive"] = "ready";
}
