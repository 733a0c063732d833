/** Tests that attempts are read with all their waits, on every page. */
import { describe, expect, it } from "vitest";
import type { AttemptLog } from "../model/task.ts";
import { attemptLog } from "../stores/store.testing.ts";
import { attemptsWithWaits, withPlannedWaits } from "./planned-waits.ts";

const first = attemptLog({ startedAt: 1000, durationMs: 40, nextDelayMs: 2000, waits: [] });
const second = (fields: Partial<AttemptLog>) =>
  attemptLog({ attemptNumber: 2, durationMs: 10, waits: [], ...fields });
const waitsOf = (attempt: AttemptLog) => withPlannedWaits([first, attempt], undefined)[1]?.waits;

describe("the waits before an attempt", () => {
  it("are the delay of the policy and then the guard that held it", () => {
    const held = { cause: "circuit-open", sinceAt: 3040, durationMs: 7160 } as const;
    expect(waitsOf(second({ startedAt: 10_200, waits: [held] }))).toEqual([
      { cause: "policy", sinceAt: 1040, durationMs: 2000 },
      held,
    ]);
  });

  it("are shorter than the delay if a person made the task due earlier", () => {
    const waits = [{ cause: "policy", sinceAt: 1040, durationMs: 460 }];
    expect(waitsOf(second({ startedAt: 1500 }))).toEqual(waits);
  });

  it("include a time that nothing explains, as late", () => {
    expect(waitsOf(second({ startedAt: 4000 }))).toEqual([
      { cause: "policy", sinceAt: 1040, durationMs: 2000 },
      { cause: "late", sinceAt: 3040, durationMs: 960 },
    ]);
  });

  it("are not guessed for an attempt whose predecessor is not known", () => {
    expect(withPlannedWaits([second({ startedAt: 4000 })], undefined)[0]?.waits).toEqual([]);
  });
});

describe("pages of attempts", () => {
  const all = Array.from({ length: 7 }, (_, index) =>
    attemptLog({
      attemptNumber: index + 1,
      startedAt: index * 100,
      durationMs: 10,
      nextDelayMs: 90,
      waits: [],
    }),
  );
  const query = (attempts: readonly AttemptLog[]) => ({
    attempts: async (
      _tenant: string,
      _task: string,
      { limit, cursor = "0" }: { limit: number; cursor?: string },
    ) => {
      const rest = attempts.filter((one) => one.attemptNumber > Number(cursor));
      const page = rest.slice(0, limit);
      const last = page.at(-1)?.attemptNumber;
      return { attempts: page, cursor: rest.length > limit ? String(last) : null };
    },
  });
  async function pages(attempts: readonly AttemptLog[], limit: number) {
    const found: AttemptLog[][] = [];
    let cursor: string | null = null;
    do {
      const page = await attemptsWithWaits(query(attempts), "t", "id", {
        limit,
        ...(cursor !== null && { cursor }),
      });
      found.push([...page.attempts]);
      cursor = page.cursor;
    } while (cursor !== null && found.length < 20);
    return found;
  }

  it.each([1, 2, 3, 7, 50])("of %i have the same attempts with the same waits", async (limit) => {
    const found = await pages(all, limit);
    expect(found.flat()).toEqual(withPlannedWaits(all, undefined));
    expect(found.every((page) => page.length <= limit)).toBe(true);
    expect(found).toHaveLength(Math.ceil(all.length / limit));
  });

  it("lose no attempt if the last one of the previous page was removed meanwhile", async () => {
    const without = all.filter(({ attemptNumber }) => attemptNumber !== 2);
    const read = query(without);
    const page = await attemptsWithWaits(read, "t", "id", { limit: 2, cursor: "2" });
    expect(page.attempts.map(({ attemptNumber }) => attemptNumber)).toEqual([3, 4]);
    expect(page.cursor).toBe("4");
  });
});
