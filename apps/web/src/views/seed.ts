/** Seed: where the random stream of a view starts. A re-roll draws a new one, never the same twice in a row. */
import { systemRandom } from "@redrive/core";

export type Seed = number | string;

export const FIRST_SEED = 1;

/** Short enough to read aloud. */
const MAX_SEED = 99_999;

export function newSeed(seed: Seed): Seed {
  const drawn = 1 + Math.floor(systemRandom.next() * MAX_SEED);
  return drawn === seed ? drawn + 1 : drawn;
}
