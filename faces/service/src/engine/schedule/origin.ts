/** Origin: the scheme, host and port of a target URL, which attempts to one server share. */
import { memoize } from "../../collections/bounded-cache.ts";

/** Everything before the path. Tasks differ in their paths and share a few of these. */
const BEFORE_PATH = /^[a-z][a-z0-9+.-]*:\/\/[^/?#\\]*/iu;

/** The cache takes about a hundred kilobytes. */
const CACHED_ORIGINS = 1000;

const normalized = memoize(CACHED_ORIGINS, (text) => {
  if (!URL.canParse(text)) return text;
  const { protocol, host } = new URL(text);
  return `${protocol}//${host}`;
});

/** Without user name, in lower case, and without a port that the scheme implies. */
export function originOf(targetUrl: string): string {
  return normalized(BEFORE_PATH.exec(targetUrl)?.[0] ?? targetUrl);
}
