/** Markdown: the code blocks of a document, each with the line it starts at. */

export interface Snippet {
  readonly path: string;
  /** Line of the block's first line of code. */
  readonly line: number;
  readonly language: string;
  readonly code: string;
  /** Why it is compiled but not run, if its fence says `no-run because ...`; empty if it gives none. */
  readonly noRun: string | undefined;
}

const FENCE =
  /^(?<indent> *)```(?<language>[a-z]+)(?<rest>[^\n`]*)\n(?<code>[\s\S]*?)^\k<indent>```$/gmu;

export function snippetsOf(path: string, markdown: string): Snippet[] {
  return [...markdown.matchAll(FENCE)].map((match) => {
    const { indent = "", language = "", rest = "", code = "" } = match.groups ?? {};
    return {
      path,
      line: markdown.slice(0, match.index).split("\n").length + 1,
      language,
      code: code.replaceAll(new RegExp(`^${indent}`, "gmu"), ""),
      noRun: /^\s+no-run(?<reason>.*)$/u.exec(rest)?.groups?.["reason"]?.trim(),
    };
  });
}

/** Where a block is, as editors and terminals link to it. */
export function placeOf({ path, line }: Snippet): string {
  return `${path}:${line}`;
}
