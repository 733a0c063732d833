/** Property seed: the seed for the inputs of property tests. */

/** Environment variable with a whole number. `npm run test:long` draws one; set it to repeat a run. */
export const PROPERTY_SEED_VARIABLE = "REDRIVE_PROPERTY_SEED";

/** The seed of a run without the variable. */
const DEFAULT_SEED = "1";

export function propertySeed() {
  const text = process.env[PROPERTY_SEED_VARIABLE] ?? DEFAULT_SEED;
  if (!/^-?\d{1,10}$/u.test(text)) {
    throw new Error(
      `${PROPERTY_SEED_VARIABLE} must be a whole number, got ${JSON.stringify(text)}`,
    );
  }
  return Number(text);
}
