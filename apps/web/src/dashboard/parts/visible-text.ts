/** Visible text: shows characters that would hide or reorder other text. */

/** Control characters, and the invisible ones that change the direction of text. */
const HIDDEN = /[\p{Cc}\p{Cf}]/gu;
/** Control characters that people expect, and the joiner of emoji. */
const EXPECTED = new Set(["\t", "\n", "\r", "\u200d", "\u200c"]);

/** Data from elsewhere can contain such characters to deceive a reader. */
export function visibleText(text: string): string {
  return text.replace(HIDDEN, (character) => {
    if (EXPECTED.has(character)) return character;
    const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    return `⟨U+${code}⟩`;
  });
}
