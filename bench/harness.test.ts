/** The benchmark harness measures contenders with a known cost correctly. */
import { describe, expect, test } from "vitest";
import { type Host, measure, quantile } from "./harness.mjs";
import { spellReport } from "./report.mjs";

/** An environment whose time passes only when a contender advances it. */
function fakeHost() {
  const state = { ns: 0, bytes: 0, turn: 0 };
  const host: Host = {
    nowNs: () => state.ns,
    draw: () => 0,
    heapBytes: () => state.bytes,
    collect: () => {
      state.bytes = 1_000;
    },
  };
  const contender = (name: string, nsPerOp: () => number, bytesPerOp = 0) => ({
    name,
    run: (operations: number) => {
      state.ns += operations * nsPerOp();
      state.bytes += operations * bytesPerOp;
    },
  });
  return { host, contender };
}

describe("measure", () => {
  test("returns cost, ratio to the baseline and bytes of each contender", async () => {
    const { host, contender } = fakeHost();
    const contenders = [contender("ours", () => 50, 16), contender("theirs", () => 150)];
    const { results } = await measure({ name: "x", contenders, rounds: 5, roundMs: 1 }, host);
    expect(results).toMatchObject([
      { name: "ours", nsPerOp: 50, ratio: 1, bytesPerOp: 16 },
      { name: "theirs", nsPerOp: 150, ratio: 3, bytesPerOp: 0 },
    ]);
  });

  test("one bad round does not change the median", async () => {
    const { host, contender } = fakeHost();
    let calls = 0;
    const contenders = [
      contender("a", () => 10),
      contender("b", () => (++calls === 24 ? 9e6 : 20)),
    ];
    const { results } = await measure({ name: "x", contenders, rounds: 9, roundMs: 1 }, host);
    expect(results.map(({ ratio }) => ratio)).toEqual([1, 2]);
  });

  test("every contender runs once in every round", async () => {
    const { host } = fakeHost();
    let ns = 0;
    const order: string[] = [];
    const run = (name: string) => (operations: number) => {
      ns += 1e6;
      order.push(`${name}${operations}`);
    };
    const contenders = ["a", "b", "c"].map((name) => ({ name, run: run(name) }));
    await measure(
      { name: "x", contenders, rounds: 2, roundMs: 1 },
      {
        ...host,
        nowNs: () => ns,
        collect: undefined,
      },
    );
    const rounds = order.slice(3);
    expect(rounds.slice(0, 3).toSorted()).toEqual(["a1", "b1", "c1"]);
    expect(rounds.slice(3).toSorted()).toEqual(["a1", "b1", "c1"]);
    expect(rounds.slice(0, 3)).not.toEqual(["a1", "b1", "c1"]);
  });

  test("starts each round with a garbage collection on request", async () => {
    const { host, contender } = fakeHost();
    const steps: string[] = [];
    const run = (operations: number) => {
      steps.push("run");
      contender("a", () => 1e6).run(operations);
    };
    const collect = () => void steps.push("collect");
    const comparison = { name: "x", contenders: [{ name: "a", run }], rounds: 2, roundMs: 1 };
    await measure({ ...comparison, collects: true }, { ...host, collect });
    expect(steps.slice(0, 5)).toEqual(["run", "collect", "run", "collect", "run"]);
  });

  test("waits for asynchronous contenders", async () => {
    const { host, contender } = fakeHost();
    const slow = contender("slow", () => 100);
    const contenders = [{ name: "slow", run: async (n: number) => slow.run(n) }];
    const { results } = await measure({ name: "x", contenders, rounds: 3, roundMs: 1 }, host);
    expect(results[0]?.nsPerOp).toBe(100);
  });

  test("refuses a baseline that is not a contender", async () => {
    const { host, contender } = fakeHost();
    const contenders = [contender("a", () => 1)];
    await expect(measure({ name: "x", baseline: "b", contenders }, host)).rejects.toThrow(
      'got "b"',
    );
  });
});

test("quantiles are values of the list", () => {
  expect(quantile([3, 1, 2], 0.5)).toBe(2);
  expect(quantile([1, 2, 3, 4], 0.9)).toBe(4);
  expect(quantile([], 0.5)).toBeNaN();
});

test("the table lists the fastest first", () => {
  const row = { nsLow: 1, nsHigh: 2, bytesPerOp: undefined };
  const text = spellReport({
    name: "decide",
    baseline: "ours",
    node: "v20",
    rounds: 3,
    results: [
      { ...row, name: "theirs", nsPerOp: 300, ratio: 3 },
      { ...row, name: "ours", nsPerOp: 100, ratio: 1 },
    ],
  });
  expect(text.split("\n").slice(2, 5)).toEqual([
    "        ns/op  p10  p90  x ours",
    "ours      100  1.0  2.0    1.00",
    "theirs    300  1.0  2.0    3.00",
  ]);
});
