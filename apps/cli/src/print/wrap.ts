/**
 * Wrap: breaks a sentence between its words, so that no line is wider than the terminal. A number
 * and its unit stay together.
 */

/** Blanks, but not those before a unit. */
const BREAKS = / +(?!(?:%|ms|s|min|h|d)(?![\w-]))/u;

/** Lines of at most `width` characters; a longer word is broken where the line ends. */
export function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(BREAKS).flatMap((whole) => pieces(whole, width))) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}

function pieces(word: string, width: number): readonly string[] {
  if (word.length <= width || width < 1) return [word];
  return [word.slice(0, width), ...pieces(word.slice(width), width)];
}

/** The same with a mark before the first line and as many blanks before the others. */
export function wrapWithPrefix(mark: string, text: string, width: number): readonly string[] {
  const lines = wrap(text, width - mark.length);
  return lines.map((line, index) => (index === 0 ? mark : " ".repeat(mark.length)) + line);
}
