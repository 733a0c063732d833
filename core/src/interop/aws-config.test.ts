/**
 * Tests of reading and writing the retry settings of `~/.aws/config`.
 * Tests of the INI parser for `~/.aws/config`.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  awsAdaptive,
  awsLegacy,
  awsStandard,
  exportAws,
  importAws,
  parseIni,
} from "./aws-config.ts";
import { expectImportOrRefusal } from "./config-reader.testing.ts";

const FILE = `# made by hand
[default]
region = eu-central-1
retry_mode = standard   ; the default anyway
max_attempts=4

[profile batch]
Retry_Mode = adaptive
s3 =
  max_concurrent_requests = 20
  max_attempts = 99
max_attempts = 10 # more patience

[profile "old one"]
retry_mode = legacy
[sso-session corp]
sso_region = us-east-1
[profile bare]
`;

describe("importAws", () => {
  test("reads the default profile with the constants of the standard mode since 2.1", () => {
    const { policy, destination, notes } = importAws(FILE);
    expect(policy).toMatchObject({
      maxAttempts: 4,
      initialDelayMs: 50,
      throttleDelayMs: 1000,
      maxDelayMs: 20_000,
      retryableStatusCodes: [429, 500, 502, 503, 504],
    });
    expect(policy.policyId).toBeUndefined();
    expect(destination.retryBudget).toEqual({
      kind: "TOKENS",
      maxTokens: 500,
      costPerRetry: 14,
      costPerThrottle: 5,
      refillPerSuccess: 1,
    });
    expect(destination.rate).toBe(false);
    expect(notes).toEqual(awsStandard.differs);
  });

  test("reads a named profile; adaptive also limits the rate, and nested blocks are ignored", () => {
    const { policy, destination, notes } = importAws(FILE, { profile: "batch" });
    expect(policy.maxAttempts).toBe(10);
    expect(destination.rate).toEqual({ adaptive: true });
    expect(notes).toEqual(awsAdaptive.differs);
  });

  test("reads legacy, whose last wait is the cap", () => {
    const { policy, destination, notes } = importAws(FILE, { profile: "old one" });
    expect(policy).toMatchObject({ maxAttempts: 5, initialDelayMs: 1000, maxDelayMs: 8000 });
    expect(destination.retryBudget).toBe(false);
    expect(notes).toEqual(awsLegacy.differs);
    const patient = importAws("[default]\nretry_mode=legacy\nmax_attempts=9");
    expect(patient.policy.maxDelayMs).toBe(128_000);
    const endless = importAws("[default]\nretry_mode=legacy\nmax_attempts=1000");
    expect(endless.policy.maxDelayMs).toBe(2_592_000_000);
    expect(importAws("[default]\nretry_mode=legacy\nmax_attempts=1").policy.maxDelayMs).toBe(1000);
  });

  test("uses AWS's own defaults if the file has none, and says so", () => {
    expect(importAws(FILE, { profile: "bare" }).policy.maxAttempts).toBe(3);
    expect(importAws("").notes.slice(0, 2)).toEqual([
      "The file has no [default] section, so AWS's own defaults apply.",
      "The profile has no retry_mode; standard is the default since 2.1.",
    ]);
  });

  test("prefers [profile default] to [default] in any order, as AWS does", () => {
    const bare = "[default]\nmax_attempts = 2\n";
    const named = "[profile default]\r\nmax_attempts = 7\r\n";
    expect(importAws(bare + named).policy.maxAttempts).toBe(7);
    expect(importAws(named + bare).policy.maxAttempts).toBe(7);
  });

  test("limits attempts to the maximum of a policy, and says so", () => {
    const { policy, notes } = importAws("[default]\nmax_attempts = 5000");
    expect(policy.maxAttempts).toBe(1000);
    expect(notes).toContain("max_attempts 5000 became 1000: the range is 1 to 1000.");
  });
});

describe("refusals name the field and quote the value", () => {
  test.each<[unknown, string]>([
    [undefined, "the AWS config must be a text, got undefined"],
    [
      "[default]\nretry_mode = Standard",
      'retry_mode must be legacy, standard or adaptive, got "Standard"',
    ],
    ["[default]\nretry_mode =", 'retry_mode must be legacy, standard or adaptive, got ""'],
    ["[default]\nretry_mode = toString", 'got "toString"'],
    ["[default]\nmax_attempts = 0", 'max_attempts must be a whole number of at least 1, got "0"'],
    ["[default]\nmax_attempts = 3.5", 'got "3.5"'],
    ["[default]\nnonsense", 'line 2 must be a [section] or name = value, got "nonsense"'],
    ["retry_mode = standard", 'line 1 must come after a [section], got "retry_mode = standard"'],
    ["x".repeat(1_000_001), "the file must have at most 1000000 characters, got 1000001"],
  ])("%#", (text, message) => {
    expect(() => importAws(text)).toThrow(message);
  });

  test("an unknown profile gets a suggestion", () => {
    expect(() => importAws(FILE, { profile: "bacth" })).toThrow(
      'the file has no profile "bacth", did you mean "batch"?',
    );
    expect(() => importAws(FILE, { profile: "production" })).toThrow(/no profile "production"$/);
  });

  test("any value gives an import or INVALID_IMPORT", () => {
    const line = fc.oneof(
      fc.constantFrom("[default]", "[profile x]", "retry_mode = adaptive", "s3 =", "  a = b"),
      fc.stringMatching(/^(retry_mode|max_attempts) ?= ?\w{0,5}$/),
      fc.string(),
    );
    const text = fc.array(line).map((lines) => lines.join("\n"));
    fc.assert(
      fc.property(fc.oneof(text, fc.anything()), fc.constantFrom("default", "x"), (any, profile) =>
        expectImportOrRefusal(() => importAws(any, { profile })),
      ),
    );
  });
});

describe("exportAws", () => {
  test.each(["legacy", "standard", "adaptive"])(
    "%s and its attempts survive a round trip",
    (mode) => {
      fc.assert(
        fc.property(fc.integer({ min: 1, max: 1000 }), (attempts) => {
          const text = `[profile x]\nretry_mode = ${mode}\nmax_attempts = ${attempts}\n`;
          const { policy, destination } = importAws(text, { profile: "x" });
          expect(exportAws(policy, destination, { profile: "x" })).toEqual({ text, notes: [] });
        }),
        { numRuns: 30 },
      );
    },
  );

  test("reports which of the policy's fields the mode replaces", () => {
    const { text, notes } = exportAws({ maxAttempts: 3, initialDelayMs: 200 }, { breaker: {} });
    expect(text).toBe("[default]\nretry_mode = standard\nmax_attempts = 3\n");
    expect(notes[0]).toMatch(
      /^AWS's standard mode has its own .*initialDelayMs, .*throttleDelayMs/,
    );
    expect(notes[1]).toBe("AWS cannot express breaker; left out.");
  });

  test.each([false, { ratio: 0.1 }, { kind: "TOKENS", costPerRetry: 5 }] as const)(
    "reports that AWS has its own budget instead of %j",
    (retryBudget) => {
      expect(exportAws({}, { retryBudget }).notes).toContain(
        "AWS's standard mode has its own retry budget: 500 tokens, 14 per retry.",
      );
    },
  );

  test("reports the other rate options that are lost", () => {
    const { text, notes } = exportAws(awsAdaptive.policy, {
      retryBudget: { kind: "TOKENS" },
      rate: { adaptive: true, perSecond: 5 },
    });
    expect(text).toContain("retry_mode = adaptive");
    expect(notes).toEqual(["AWS's rate cannot express perSecond; left out."]);
  });

  test("quotes a profile's name if necessary, and refuses one that cannot be quoted", () => {
    expect(exportAws({}, {}, { profile: "old one" }).text).toMatch(/^\[profile "old one"\]\n/);
    expect(() => exportAws({}, {}, { profile: "a]b" })).toThrow(/^profile must be a name without/);
  });
});

const valuesOf = (text: string, heading = "a") =>
  Object.fromEntries(parseIni(text).get(heading) ?? []);

test("reads sections with their values, with any line breaks", () => {
  const text = "[a]\nx=1\r\ny = two words \r[ b ]  ; of others\nx=3";
  expect(valuesOf(text)).toEqual({ x: "1", y: "two words" });
  expect(valuesOf(text, "b")).toEqual({ x: "3" });
});

test("ignores comments, blank lines and indented blocks", () => {
  expect(valuesOf("# one\n; two\n\n[a]\ns3 =\n  x = 1\n\ty = 2\n   # three\nz = 3")).toEqual({
    s3: "",
    z: "3",
  });
});

test("removes a comment from a value only after a blank", () => {
  expect(valuesOf("[a]\nx = 1 # one\ny = 2#two\nz = 3 ;three")).toEqual({
    x: "1",
    y: "2#two",
    z: "3",
  });
});

test("the last of several equal names counts, also in a section that starts twice", () => {
  expect(valuesOf("[a]\nX=1\nx=2\n[b]\n[a]\ny=3")).toEqual({ x: "2", y: "3" });
});

test.each([
  ["[a]\n=1", 'line 2 must be a [section] or name = value, got "=1"'],
  ["[a", 'line 1 must be a [section] or name = value, got "[a"'],
  ["x=1", 'line 1 must come after a [section], got "x=1"'],
])("refuses %j", (text, message) => {
  expect(() => parseIni(text)).toThrow(message);
});
