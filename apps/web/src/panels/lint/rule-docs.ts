/** Rule docs: the section of the lint documentation about a rule. The build puts it beside the pages. */

/** The paragraphs of the section, as plain text. */
export async function loadRuleDocs(id: string): Promise<string> {
  const response = await fetch("./lint.txt");
  if (!response.ok) throw new Error(`lint.txt has the status ${response.status}`);
  return sectionOf(await response.text(), id);
}

/** The text below the heading of the rule, up to the next heading. */
export function sectionOf(page: string, id: string): string {
  const sections = page.split(/^#{2,3} /mu);
  const [heading, ...lines] = sections.find((one) => one.startsWith(`${id}\n`))?.split("\n") ?? [];
  if (heading === undefined) return "This rule has no documentation.";
  return lines.join(" ").replaceAll("`", "").replaceAll(/\s+/gu, " ").trim();
}
