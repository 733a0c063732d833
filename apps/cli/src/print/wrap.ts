/** Wrap: breaks text into lines that fit the terminal. A number and its unit stay on one line. */

/** Spaces, except before a unit. */
const BREAKS = / +(?!(?:%|ms|s|min|h|d)(?![\w-]))/u;

/** Returns lines of at most `width` characters. Splits a word that is longer than a line. */
export function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(BREAKS).flatMap((part) => splitWord(part, width))) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}

function splitWord(word: string, width: number): readonly string[] {
  if (word.length <= width || width < 1) return [word];
  return [word.slice(0, width), ...splitWord(word.slice(width), width)];
}

/** Wraps text after a prefix on the first line and indents the other lines by the prefix's length. */
export function wrapWithPrefix(prefix: string, text: string, width: number): readonly string[] {
  const lines = wrap(text, width - prefix.length);
  return lines.map((line, index) => (index === 0 ? prefix : " ".repeat(prefix.length)) + line);
}
