/** Lab controls: the seed, how far the runs have come, and which labs stand on the stage. */
import { useId } from "preact/hooks";
import { Card } from "../../parts/card.tsx";
import type { Seed } from "../seed.ts";
import {
  doneRuns,
  entries,
  isBusy,
  isStopped,
  labProblem,
  resume,
  runningId,
  runningWords,
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
              <label class="toggle" title={title}>
                <input
                  type="checkbox"
                  checked={wanted.value.length === 0 || wanted.value.includes(id)}
                  disabled={isLast(id)}
                  onChange={(event) => choose(id, event.currentTarget.checked)}
                />
                <span>{id}</span>
              </label>
              <Mark id={id} />
            </li>
          ))}
        </ul>
      </Card>
    </>
  );
}

/** The last one stays: none would stand for all. */
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
            seed.value = seedOf(event.currentTarget.value);
            event.currentTarget.value = String(seed.value);
            resume();
          }}
        />
      </div>
      <p class="field-hint">The same seed gives the same figures, here and at the prompt.</p>
    </div>
  );
}

/** As the command line reads it: digits are a number, anything else a word. */
function seedOf(text: string): Seed {
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
      <progress max={Math.max(1, total)} value={done} aria-label="Labs that have run" />
      <p aria-live="polite">{progressWords(done, total)}</p>
      {isRunning && (
        <button type="button" class="button" onClick={stop}>
          Stop
        </button>
      )}
      {!isRunning && done < total && (
        <button type="button" class="button accent" onClick={resume}>
          Run the rest
        </button>
      )}
    </div>
  );
}

function progressWords(done: number, total: number): string {
  if (labProblem.value !== "") return `Stopped: ${labProblem.value}.`;
  if (total === 0) return "Loading…";
  if (runningId.value !== undefined)
    return `${done} of ${total} labs, ${runningId.value} is running`;
  if (done < total) return `${done} of ${total} labs${isStopped.value ? ", stopped" : ""}`;
  return `${total} of ${total} labs have run`;
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
  const then = new Set(shown.peek().map((entry) => entry.id));
  if (isWanted) then.add(id);
  else then.delete(id);
  const all = entries.peek().map((entry) => entry.id);
  wanted.value = then.size === all.length ? [] : all.filter((one) => then.has(one));
  resume();
}

function Mark({ id }: { readonly id: string }) {
  const run = runOf(id);
  if (run === undefined)
    return <span class="lab-verdict">{runningId.value === id ? runningWords.value : ""}</span>;
  const { ok } = run.report;
  return <span class={ok ? "lab-verdict ok" : "lab-verdict missed"}>{ok ? "ok" : "missed"}</span>;
}
