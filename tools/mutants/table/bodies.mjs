/** Bodies: mutants of the verified stream, the directory of blobs and the collector. */
import { inService } from "../mutant.mjs";

export const bodies = [
  inService("bodies/blob-store.ts", [
    {
      name: "the last part of a body is sent before it is verified",
      search: "      if (held !== undefined) yield held;\n      held = chunk;\n",
      replace: "      yield chunk;\n",
    },
    {
      name: "the hash of a body is not compared",
      search: ' || hash.digest("hex") !== ref.sha256',
      replace: "",
    },
  ]),
  inService("bodies/file-blobs.ts", [
    {
      name: "a directory that is not mounted has no blobs",
      search: "if (isMounted) return",
      replace: "if (isMounted || true) return",
    },
  ]),
  inService("bodies/blob-collector.ts", [
    {
      name: "a blob is removed while its create runs",
      search: "now() - storedAt < MIN_AGE_MS || ",
      replace: "",
    },
    {
      name: "a blob is removed when it is first found unused",
      search: "now() - since >= ROUND_MS",
      replace: "true",
    },
  ]),
  inService("bodies/open-blobs.ts", [
    {
      name: "a service uses the blobs of another store",
      search: "if (owner === storeId) return blobs;",
      replace: "if (owner !== '') return blobs;",
    },
  ]),
].flat();
