/** Links: decoding returns the encoded run, and any other text gives a problem. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeRun, encodeRun, linkTo, type SharedRun } from "./share.ts";

const seed = fc.oneof(fc.nat(), fc.stringMatching(/^[\w.-]{1,64}$/u));
const document = fc.oneof(
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.dictionary(
    fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("maxAttempts", "0", "_", "zz", "2g")),
    fc.jsonValue({ maxDepth: 3 }),
    { maxKeys: 6 },
  ),
);

const anyRun = fc.oneof(
  fc.record(
    { view: fc.constant("curve"), seed, policy: document, outageMs: fc.nat(), log: fc.boolean() },
    { requiredKeys: ["view", "seed", "policy"] },
  ),
  fc.record(
    {
      view: fc.constant("herd"),
      seed,
      strategies: fc.array(fc.record({ name: fc.string(), policy: document }), { maxLength: 4 }),
      clients: fc.nat(),
      windowMs: fc.nat(),
      ownScales: fc.boolean(),
    },
    { requiredKeys: ["view", "seed", "strategies", "clients", "windowMs"] },
  ),
  fc.record({
    view: fc.constant("system"),
    seed,
    scenarios: fc.array(document, { maxLength: 4 }),
  }),
  fc.record({ view: fc.constant("labs"), seed, ids: fc.array(fc.string()) }),
  fc.record({ view: fc.constant("advisor"), answers: fc.dictionary(fc.string(), fc.nat()) }),
) as fc.Arbitrary<SharedRun>;

describe("a link", () => {
  test("decodes to the run that was encoded", () => {
    fc.assert(
      fc.property(anyRun, (run) => {
        // Through JSON first, because a link contains JSON (-0, for example, becomes 0).
        const plain = JSON.parse(JSON.stringify(run)) as SharedRun;
        const encoded = encodeRun(plain);
        expect(encoded).toMatch(/^1\.[\w-]+$/u);
        expect(decodeRun(`#${encoded}`)).toEqual({ run: plain });
      }),
    );
  });

  test("never throws, whatever the text", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.string().map((text) => `1.${text}`),
        ),
        (text) => {
          expect(decodeRun(text)).toHaveProperty("problem");
        },
      ),
    );
  });

  test("is rejected if its version is unknown", () => {
    expect(decodeRun("#2.e30")).toEqual({ problem: "the link has version 2, not 1" });
    expect(decodeRun("")).toEqual({ problem: "the link contains no run" });
    expect(decodeRun("1.e30")).toEqual({ problem: "the link is damaged or incomplete" });
    expect(decodeRun(`1.${"A".repeat(40_000)}`)).toEqual({ problem: "the link is too long" });
  });

  /** Existing links must keep working. If this fails, `KEYS` was changed before its end. */
  test("of version 1 keeps its format", () => {
    const run: SharedRun = {
      view: "curve",
      seed: 7,
      policy: { maxAttempts: 6, initialDelayMs: 200, jitterType: "FULL", hedge: 1 } as object,
      outageMs: 8000,
    };
    expect(linkTo("https://x.test/ui", run)).toBe(
      "https://x.test/ui/simulator#1.eyJhIjoiY3VydmUiLCJiIjo3LCJjIjp7Im4iOjYsInAiOjIwMCwicyI6IkZVTEwiLCJLIjoxfSwiZCI6ODAwMH0",
    );
  });
});
