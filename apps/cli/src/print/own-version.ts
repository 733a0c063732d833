/** Own version: the version of this package, from its manifest. */
import { readFileSync } from "node:fs";

export function ownVersion(): string {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}
