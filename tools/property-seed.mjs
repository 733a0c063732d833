/** Property seed: which inputs the properties are tried on. */

/** A whole number; `npm run test:long` draws one, and a failing run is repeated by setting it. */
export const PROPERTY_SEED_VARIABLE = "REDRIVE_PROPERTY_SEED";

/** The seed of every run that names none. */
const USUAL_SEED = "1";

export function propertySeed() {
  const word = process.env[PROPERTY_SEED_VARIABLE] ?? USUAL_SEED;
  if (!/^-?\d{1,10}$/u.test(word)) {
    throw new Error(
      `${PROPERTY_SEED_VARIABLE} must be a whole number, got ${JSON.stringify(word)}`,
    );
  }
  return Number(word);
}
