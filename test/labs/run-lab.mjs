/**
 * Runs one lab with the built simulator and prints its rows as JSON: run-lab.mjs <id> <seed> <effort>.
 * In a module of Vitest, each use of an imported name is a lookup, and a lab takes twice as long.
 */
import { runLab } from "@redrive/simulator";

const [id = "", seed = "", effort = ""] = process.argv.slice(2);
const { rows } = runLab(id, { seed: Number(seed), effort: Number(effort) });
process.stdout.write(JSON.stringify(rows));
