/** Tests of the text of signing secrets. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { secretBase64 } from "./signing-secret.ts";

const LAST = fc.constantFrom(..."ABEQZagwz048+/-_*=");

test("a secret is good if Node writes the bytes that it reads in the same way", () => {
  const bytes = fc.uint8Array({ minLength: 20, maxLength: 68 });
  fc.assert(
    fc.property(bytes, fc.array(LAST, { maxLength: 3 }), (start, end) => {
      const written = Buffer.from(start).toString("base64").replace(/=+$/u, "");
      const text = `${written.slice(0, -1)}${end.join("")}`;
      const unpadded = text.replace(/=+$/u, "");
      const read = Buffer.from(unpadded, "base64");
      const isSame = read.toString("base64").replace(/=+$/u, "") === unpadded;
      const isGood = isSame && read.length >= 24 && read.length <= 64;
      expect(secretBase64(`whsec_${text}`)).toBe(isGood ? unpadded : undefined);
    }),
    { numRuns: 2000 },
  );
});
