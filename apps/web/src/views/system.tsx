/** System: a server in trouble, the clients that retry, and what becomes of both. */
import "./system/system.css";
import type { View } from "../app/view.ts";
import { exportables } from "../exports/exportables.ts";
import { Controls } from "./system/controls.tsx";
import { exportsOf } from "./system/export.ts";
import { Stage } from "./system/stage.tsx";
import { openState, reroll, resetState, stateOf } from "./system/store.ts";

export const systemView: View<"system"> = {
  id: "system",
  explanation:
    "A server gets into trouble, its clients retry, and if attempts stay above capacity it serves only calls that nobody waits for any more. Drag the trouble, switch guards on and off, and see whether goodput comes back.",
  Controls,
  Stage,
  state: stateOf,
  open: openState,
  reset: resetState,
  reroll,
  exports: () => exportables(exportsOf()),
};
