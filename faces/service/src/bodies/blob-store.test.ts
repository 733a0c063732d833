/** The verified stream never hands out a complete wrong body. */
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import fc from "fast-check";
import { expect, test } from "vitest";
import { bodyRefText, parseBodyRef, verifiedStream } from "./blob-store.ts";

const BLOB_ID = "0192f0c1-2345-7abc-8def-0123456789ab";

function refOf(bytes: Uint8Array) {
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  return { blobId: BLOB_ID, length: bytes.length, sha256 };
}

/** What a reader gets, and the error at the end. */
async function readAll(stream: Readable): Promise<{ bytes: Buffer; error: unknown }> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of stream) chunks.push(chunk);
    return { bytes: Buffer.concat(chunks), error: undefined };
  } catch (error) {
    return { bytes: Buffer.concat(chunks), error };
  }
}

const parts = fc.array(fc.uint8Array({ minLength: 1, maxLength: 50 }), {
  minLength: 1,
  maxLength: 9,
});

test("the bytes pass unchanged, however they are divided", async () => {
  await fc.assert(
    fc.asyncProperty(parts, async (chunks) => {
      const all = Buffer.concat(chunks);
      const { bytes, error } = await readAll(verifiedStream(Readable.from(chunks), refOf(all)));
      expect(error).toBeUndefined();
      expect(bytes.equals(all)).toBe(true);
    }),
  );
});

test("with any changed, missing or additional byte, the reader gets fewer bytes than announced", async () => {
  const change = fc.constantFrom("flip", "cut", "add");
  await fc.assert(
    fc.asyncProperty(parts, change, fc.nat(), async (chunks, kind, at) => {
      const ref = refOf(Buffer.concat(chunks));
      const wrong = chunks.map((chunk) => Buffer.from(chunk));
      const hit = wrong[at % wrong.length]!;
      if (kind === "flip") hit[at % hit.length]! ^= 1;
      if (kind === "cut") wrong[at % wrong.length] = hit.subarray(1);
      if (kind === "add") wrong.push(Buffer.from([at % 256]));
      const { bytes, error } = await readAll(verifiedStream(Readable.from(wrong), ref));
      expect(error).toMatchObject({ fault: "corrupt" });
      expect(bytes.length).toBeLessThan(ref.length);
    }),
  );
});

test("a source that fails makes the stream fail as unavailable", async () => {
  const source = new Readable({
    read() {
      this.destroy(Object.assign(new Error("input/output error"), { code: "EIO" }));
    },
  });
  const { error } = await readAll(verifiedStream(source, refOf(Buffer.from("x"))));
  expect(error).toMatchObject({ fault: "unavailable", message: expect.stringContaining("EIO") });
});

test("destroying the stream, even unread, destroys the source", async () => {
  const source = Readable.from([Buffer.from("x")]);
  verifiedStream(source, refOf(Buffer.from("x"))).destroy();
  await expect.poll(() => source.destroyed).toBe(true);
});

test("a ref is read back, and any other text is none", () => {
  const ref = refOf(Buffer.from("hello"));
  const text = bodyRefText(ref);
  expect(parseBodyRef(text)).toEqual(ref);
  for (const wrong of [
    "",
    "x",
    `${text}0`,
    text.toUpperCase(),
    text.replace(".5.", ".05."),
    `/${text}`,
  ]) {
    expect(parseBodyRef(wrong)).toBeUndefined();
  }
});
