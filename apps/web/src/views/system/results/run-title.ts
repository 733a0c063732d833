/** Run title: names a compared run by what differs from the scenario that it came from. */
import { formatDuration } from "@redrive/core";
import type { ScenarioDocument } from "@redrive/simulator";

/** A title with more of them does not fit into a table. */
const MAX_NAMED = 2;

type Leaves = ReadonlyMap<string, unknown>;

/** For example "maxAttempts 3, breaker"; empty if only name and description differ. */
export function differenceText(base: ScenarioDocument, document: ScenarioDocument): string {
  const [before, after] = [leavesOf(base), leavesOf(document)];
  const paths = [...new Set([...before.keys(), ...after.keys()])].filter(
    (path) => JSON.stringify(before.get(path)) !== JSON.stringify(after.get(path)),
  );
  const texts = [...new Set(paths.map((path) => changeText(path, before, after)))];
  const more = texts.length > MAX_NAMED ? `, ${texts.length - MAX_NAMED} more` : "";
  return `${texts.slice(0, MAX_NAMED).join(", ")}${more}`;
}

const GUARDS = ["breaker", "retryBudget", "concurrency", "rate", "throttle", "hedge"];

function changeText(path: string, before: Leaves, after: Leaves): string {
  const parts = path.split(".");
  const guard = parts.findIndex((part) => GUARDS.includes(part));
  if (guard >= 0) {
    const root = parts.slice(0, guard + 1).join(".");
    const [had, has] = [before, after].map((leaves) => isOn(leaves, root));
    if (had !== has) return has ? String(parts[guard]) : `no ${parts[guard]}`;
  }
  const [name = path] = parts.slice(-1);
  return after.has(path) ? `${name} ${valueText(name, after.get(path))}` : `default ${name}`;
}

function isOn(leaves: Leaves, root: string): boolean {
  if (leaves.has(root)) return leaves.get(root) !== false;
  return [...leaves.keys()].some((path) => path.startsWith(`${root}.`));
}

function valueText(name: string, value: unknown): string {
  if (typeof value === "number" && name.endsWith("Ms")) return formatDuration(value);
  return String(value).toLowerCase();
}

/** The values by path. An empty object is a value, because it turns a guard on. */
function leavesOf(document: ScenarioDocument): Leaves {
  const leaves = new Map<string, unknown>();
  const add = (path: string, value: unknown) => {
    const isLeaf = typeof value !== "object" || value === null;
    const entries = isLeaf ? [] : Object.entries(value);
    if (entries.length === 0) leaves.set(path, isLeaf ? value : "{}");
    for (const [name, part] of entries) add(`${path}.${name}`, part);
  };
  for (const [name, value] of Object.entries(document)) {
    if (name !== "name" && name !== "description" && value !== undefined) add(name, value);
  }
  return leaves;
}
