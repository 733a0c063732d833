/** Bodies: mutants of the verified stream, the directory of blobs and the collector. */

/** @type {readonly import("../mutant.mjs").Mutant[]} */
export const bodies = [
  {
    name: "the last part of a body is sent before it is verified",
    in: "verified",
    search: "      if (held !== undefined) yield held;\n      held = chunk;\n",
    replace: "      yield chunk;\n",
  },
  {
    name: "the hash of a body is not compared",
    in: "verified",
    search: ' || hash.digest("hex") !== ref.sha256',
    replace: "",
  },
  {
    name: "a directory that is not mounted has no blobs",
    in: "FileBlobs.#readError",
    search: "if (isMounted) return",
    replace: "if (isMounted || true) return",
  },
  {
    name: "a blob is removed while its create runs",
    in: "BlobCollector.#examine",
    search: "now() - storedAt < MIN_AGE_MS || ",
    replace: "",
  },
  {
    name: "a blob is removed when it is first found unused",
    in: "BlobCollector.#examine",
    search: "now() - since >= ROUND_MS",
    replace: "true",
  },
  {
    name: "a service uses the blobs of another store",
    in: "openBlobs",
    search: "if (owner === storeId) return blobs;",
    replace: "if (owner !== '') return blobs;",
  },
];
