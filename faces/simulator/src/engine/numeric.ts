/**
 * Numeric: logarithm, exponential and square root from + - * / alone. The language specification
 * lets engines approximate `Math.log` and `Math.exp`, but a seed must give the same run in all of
 * them. Accuracy: within 4e-16 x max(1, |result|) for `ln`, 1e-14 relative for `exp` and `root`.
 */

// biome-ignore lint/suspicious/noApproximativeNumericConstant: engines may differ in Math.LN2.
const LN_2 = 0.6931471805599453;
/** Any two bounds around 1 with a ratio of 2 work. */
const LOW = 0.7;
const HIGH = 1.4;

/** The natural logarithm of a number above 0. */
export function ln(x: number): number {
  let mantissa = x;
  let twos = 0;
  // Halving and doubling are exact, so only the series below rounds.
  while (mantissa < LOW) {
    mantissa *= 2;
    twos--;
  }
  while (mantissa > HIGH) {
    mantissa /= 2;
    twos++;
  }
  // ln m = 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1) / (m + 1), |s| <= 0.177.
  const s = (mantissa - 1) / (mantissa + 1);
  const square = s * s;
  let sum = 0;
  for (let odd = 21; odd >= 1; odd -= 2) sum = sum * square + 1 / odd;
  return 2 * s * sum + twos * LN_2;
}

/** e to the `x`, for |x| up to 700. */
export function exp(x: number): number {
  const twos = Math.floor(x / LN_2 + 0.5);
  const rest = x - twos * LN_2;
  let sum = 1;
  for (let n = 16; n >= 1; n--) sum = 1 + (rest * sum) / n;
  let power = 1;
  for (let n = twos; n > 0; n--) power *= 2;
  for (let n = twos; n < 0; n++) power /= 2;
  return sum * power;
}

/** The square root of a number >= 0, by Newton's method. */
export function root(x: number): number {
  if (x <= 0) return 0;
  let guess = Math.max(1, x);
  for (;;) {
    const next = (guess + x / guess) / 2;
    if (next >= guess) return guess;
    guess = next;
  }
}

/** `base` to a whole power >= 0, by repeated multiplication. */
export function power(base: number, exponent: number): number {
  let result = 1;
  for (let n = 0; n < exponent; n++) result *= base;
  return result;
}
