/** Resolv conf: which names to ask for, by the search list in the text of `/etc/resolv.conf`. */

export interface SearchList {
  readonly domains: readonly string[];
  /** A name with at least this many dots is asked for as it is first. */
  readonly ndots: number;
}

export const NO_SEARCH: SearchList = { domains: [], ndots: 1 };

/** The limit of Kubernetes. */
const MAX_DOMAINS = 32;
const MAX_NDOTS = 15;

/** The last `search` or `domain` line counts, as in the C library. */
export function parseResolvConf(text: string): SearchList {
  let { domains, ndots } = NO_SEARCH;
  for (const line of text.split("\n")) {
    const [keyword, ...values] = line
      .replace(/[#;].*$/u, "")
      .trim()
      .split(/\s+/u);
    if (keyword === "search") domains = values;
    if (keyword === "domain") domains = values.slice(0, 1);
    const given = keyword === "options" && /(?:^| )ndots:(\d+)/u.exec(values.join(" "))?.[1];
    if (given) ndots = Math.min(Number(given), MAX_NDOTS);
  }
  const bare = domains
    .map((domain) => domain.replace(/\.$/u, ""))
    .filter((domain) => domain !== "");
  return { domains: bare.slice(0, MAX_DOMAINS), ndots };
}

/** The names to ask for, in order. A dot at the end means that the name is complete. */
export function candidates(name: string, { domains, ndots }: SearchList): readonly string[] {
  if (name.endsWith(".")) return [name.slice(0, -1)];
  const searched = domains.map((domain) => `${name}.${domain}`);
  const dots = name.split(".").length - 1;
  return dots >= ndots ? [name, ...searched] : [...searched, name];
}
