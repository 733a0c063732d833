/**
 * Paint: colors text on a terminal that supports it. The text itself always carries the meaning,
 * so output without color loses nothing.
 */

export type Tone = "strong" | "faint" | "accent" | "good" | "warn" | "bad";

/** Applies a tone to text. Does not change the number of visible characters. */
export type Paint = (tone: Tone, text: string) => string;

/** ECMA-48 "Select Graphic Rendition" codes that switch a tone on and off. */
const CODES: Readonly<Record<Tone, readonly [number, number]>> = {
  strong: [1, 22],
  faint: [2, 22],
  accent: [36, 39],
  good: [32, 39],
  warn: [33, 39],
  bad: [31, 39],
};

export const plainPaint: Paint = (_, text) => text;

export const colorPaint: Paint = (tone, text) => {
  const [on, off] = CODES[tone];
  return text === "" ? "" : `\u001b[${on}m${text}\u001b[${off}m`;
};
