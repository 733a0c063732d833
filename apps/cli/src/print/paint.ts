/**
 * Paint: tones of text, as terminal colours or as nothing. What a tone says is also said in words,
 * so that output without colour loses nothing.
 */

export type Tone = "strong" | "faint" | "accent" | "good" | "warn" | "bad";

/** Gives text its tone; the number of visible characters stays what it is. */
export type Paint = (tone: Tone, text: string) => string;

/** Select Graphic Rendition codes of ECMA-48: on and off. */
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
