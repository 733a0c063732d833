/** System view: a server with faults and the clients that retry. */
import "./system.css";
import { exportMenu } from "../../exports/export-menu.ts";
import type { View } from "../view.ts";
import { SystemControls } from "./controls/system-controls.tsx";
import { SystemStage } from "./results/system-stage.tsx";
import { openSystem, reroll, resetSystem, systemRun } from "./state/system-store.ts";
import { systemExports } from "./system-exports.ts";

export const systemView: View<"system"> = {
  id: "system",
  explanation:
    "A server fails and its clients retry; if attempts stay above capacity, it serves only calls whose clients have given up. Drag the faults, switch guards on and off, and see whether goodput recovers.",
  Controls: SystemControls,
  Stage: SystemStage,
  state: systemRun,
  open: openSystem,
  reset: resetSystem,
  reroll,
  exports: () => exportMenu(systemExports()),
};
