/** Visible text: shows characters that would hide or reorder other text, also in the name of a redrive. */
import type { RedriveView } from "./client.ts";

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

/** Names the dead letters of a redrive: "billing, attempts" or "selected dead letters". */
export function setText({ filter }: Pick<RedriveView, "filter">): string {
  if (filter === null) return "selected dead letters";
  const { destination, reason, label, policyId, lastStatus, idempotencyKey } = filter;
  const parts = [destination, reason, label, policyId, lastStatus, idempotencyKey];
  const given = parts.filter((part) => part !== undefined).map((part) => visibleText(String(part)));
  return given.length === 0 ? "all dead letters" : given.join(", ");
}
