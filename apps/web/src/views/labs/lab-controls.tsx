/** Lab controls: the seed, the progress, and the choice of labs. */
import { useId } from "preact/hooks";
import { Card } from "../../components/card.tsx";
import type { Seed } from "../seed.ts";
import {
  doneRuns,
  entries,
  isBusy,
  isStopped,
  labProblem,
  resume,
  runAll,
  runningId,
  runningText,
  runOf,
  seed,
  shown,
  stop,
  wanted,
} from "./lab-store.ts";

export function LabControls() {
  return (
    <>
      <Card title="Runs">
        <SeedField />
        <Progress />
      </Card>
      <Card title="Labs" aside={<AllButton />}>
        <ul class="lab-list">
          {entries.value.map(({ id, title }) => (
            <li key={id}>
              <label class="toggle">
                <input
                  type="checkbox"
                  checked={wanted.value.length === 0 || wanted.value.includes(id)}
                  disabled={isLast(id)}
                  onChange={(event) => choose(id, event.currentTarget.checked)}
                />
                <span>
                  {title} <code class="faint">{id}</code>
                </span>
              </label>
              <Mark id={id} />
            </li>
          ))}
        </ul>
      </Card>
    </>
  );
}

/** The last lab cannot be unchecked, because an empty choice means all labs. */
function isLast(id: string): boolean {
  return shown.value.length === 1 && shown.value[0]?.id === id;
}

function SeedField() {
  const id = useId();
  return (
    <div class="field">
      <div class="field-head">
        <label for={id}>Seed</label>
        <input
          id={id}
          class="text-field"
          value={String(seed.value)}
          maxLength={64}
          onChange={(event) => {
            seed.value = parseSeed(event.currentTarget.value);
            event.currentTarget.value = String(seed.value);
            resume();
          }}
        />
      </div>
      <p class="field-hint">The same seed gives the same results here and on the command line.</p>
    </div>
  );
}

/** Digits are a number, anything else a string, as on the command line. */
function parseSeed(text: string): Seed {
  const trimmed = text.trim();
  if (trimmed === "") return seed.peek();
  return /^\d{1,15}$/u.test(trimmed) ? Number(trimmed) : trimmed;
}

function Progress() {
  const total = shown.value.length;
  const done = doneRuns.value.length;
  const isRunning = runningId.value !== undefined;
  return (
    <div class="progress" aria-busy={isBusy.value}>
      <progress max={Math.max(1, total)} value={done} aria-label="Finished labs" />
      <p aria-live="polite">{progressText(done, total)}</p>
      {isRunning && (
        <button type="button" class="button" onClick={stop}>
          Stop
        </button>
      )}
      {!isRunning && done < total && (
        <button type="button" class="button accent" onClick={runAll}>
          Run the remaining labs
        </button>
      )}
    </div>
  );
}

function progressText(done: number, total: number): string {
  if (labProblem.value !== "") return `Stopped: ${labProblem.value}.`;
  if (total === 0) return "Loading…";
  if (runningId.value !== undefined)
    return `${done} of ${total} labs finished, ${runningId.value} is running`;
  if (done < total) return `${done} of ${total} labs finished${isStopped.value ? ", stopped" : ""}`;
  return `${total} of ${total} labs finished`;
}

function AllButton() {
  if (wanted.value.length === 0) return null;
  return (
    <button
      type="button"
      class="button quiet small"
      onClick={() => {
        wanted.value = [];
        resume();
      }}
    >
      Show all
    </button>
  );
}

function choose(id: string, isWanted: boolean): void {
  const ids = new Set(shown.peek().map((entry) => entry.id));
  if (isWanted) ids.add(id);
  else ids.delete(id);
  const all = entries.peek().map((entry) => entry.id);
  wanted.value = ids.size === all.length ? [] : all.filter((one) => ids.has(one));
  resume();
}

function Mark({ id }: { readonly id: string }) {
  const run = runOf(id);
  if (run === undefined)
    return <span class="lab-verdict">{runningId.value === id ? runningText.value : ""}</span>;
  const { ok } = run.report;
  return <span class={ok ? "lab-verdict ok" : "lab-verdict missed"}>{ok ? "ok" : "missed"}</span>;
}
