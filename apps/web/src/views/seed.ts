/** Seed: a number that chance begins at, drawn anew for a re-roll and never the same twice in a row. */
import { systemRandom } from "@redrive/core";

export type Seed = number | string;

export const FIRST_SEED = 1;

/** Short enough to be read out. */
const MAX_SEED = 99_999;

export function newSeed(seed: Seed): Seed {
  const drawn = 1 + Math.floor(systemRandom.next() * MAX_SEED);
  return drawn === seed ? drawn + 1 : drawn;
}
