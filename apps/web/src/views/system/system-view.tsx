/** System: a server in trouble, the clients that retry, and what becomes of both. */
import "./system.css";
import { exportMenu } from "../../exports/export-menu.ts";
import type { View } from "../view.ts";
import { SystemControls } from "./controls/system-controls.tsx";
import { SystemStage } from "./stage/system-stage.tsx";
import { openSystem, reroll, resetSystem, systemRun } from "./state/system-store.ts";
import { systemExports } from "./system-exports.ts";

export const systemView: View<"system"> = {
  id: "system",
  explanation:
    "A server gets into trouble, its clients retry, and if attempts stay above capacity it serves only calls that nobody waits for any more. Drag the trouble, switch guards on and off, and see whether goodput comes back.",
  Controls: SystemControls,
  Stage: SystemStage,
  state: systemRun,
  open: openSystem,
  reset: resetSystem,
  reroll,
  exports: () => exportMenu(systemExports()),
};
