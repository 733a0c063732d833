/** Markdown: finds the code blocks of a document, each with its line. */

export interface Snippet {
  readonly path: string;
  /** Number of the block's first line of code. */
  readonly line: number;
  readonly language: string;
  readonly code: string;
  /** Why the block is compiled but not run: the text after `no-run` in its fence. Undefined if it runs. */
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

/** The location of a block, in the form that editors and terminals link to. */
export function locationOf({ path, line }: Snippet): string {
  return `${path}:${line}`;
}
