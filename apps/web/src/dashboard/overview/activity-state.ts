/** Activity state: the counts since the dashboard was opened, whatever page is shown. */
import { type ReadonlySignal, signal } from "@preact/signals";
import { now } from "../service/client.ts";
import { onLive } from "../service/live.ts";
import { type Activity, countEvent, emptyActivity } from "./activity.ts";

const state = signal<Activity>(emptyActivity(now()));
export const activity: ReadonlySignal<Activity> = state;

export function startCounting(): void {
  onLive((message) => {
    if (message !== "reset") state.value = countEvent(state.value, message);
  });
}
