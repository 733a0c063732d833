/** Keys dialog: lists the keyboard shortcuts of the dashboard. */
import { ShortcutDialog } from "../../app/shortcut-dialog.tsx";
import { isKeysDialogOpen, shortcuts } from "./keys.ts";

export function KeysDialog() {
  return <ShortcutDialog shown={isKeysDialogOpen} shortcuts={shortcuts} />;
}
