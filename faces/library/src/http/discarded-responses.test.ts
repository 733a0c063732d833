/** Tests of discarded responses: those that the caller of a fetch does not get free their connection. */
import { describe, expect, test } from "vitest";
import { rejectionOf, world } from "../call/world.testing.ts";
import { destination } from "../destination/destination.ts";
import { createFetch } from "./fetch.ts";

const URL_A = "http://a.example/path?q=1";
const FAST = { initialDelayMs: 10, jitterType: "NONE" } as const;

describe("responses that nobody reads", () => {
  /** A fetch whose responses record when they are canceled. */
  function watched(plan: readonly (readonly [status: number, afterMs: number])[]) {
    const { clock, random } = world();
    const canceled: number[] = [];
    let count = 0;
    const doFetch: typeof fetch = async () => {
      const index = count++;
      const [status, afterMs] = plan[index] ?? [200, 0];
      await clock.sleep(afterMs);
      const cancel = () => void canceled.push(index);
      return new Response(new ReadableStream({ cancel }), { status });
    };
    return { clock, random, canceled, fetch: doFetch };
  }

  test("are discarded once there is another attempt, except the last", async () => {
    const { clock, random, canceled, fetch } = watched([
      [503, 1],
      [503, 1],
      [200, 1],
    ]);
    const response = await clock.run(createFetch({ clock, random, ...FAST }, { fetch })(URL_A));
    // They are read for a second at most: these bodies never end.
    await clock.advance(1000);
    expect(canceled).toEqual([0, 1]);
    expect(response.bodyUsed).toBe(false);
  });

  test("are discarded when a hedge wins, in any order", async () => {
    const { clock, random, canceled, fetch } = watched([
      [503, 60],
      [200, 100],
    ]);
    const shop = destination("s", { clock, random, hedge: { after: 10 } });
    const response = await clock.run(createFetch(shop, { fetch })(URL_A));
    expect(response.status).toBe(200);
    await clock.advance(1000);
    expect(canceled).toEqual([0]);
  });

  test("of a fetch that ignores its signal are discarded when they arrive too late", async () => {
    const { clock, random, canceled, fetch } = watched([
      [200, 500],
      [200, 10],
    ]);
    const shop = destination("s", { clock, random, hedge: { after: 50 } });
    const response = await clock.run(createFetch(shop, { fetch })(URL_A));
    await clock.advance(2000);
    expect(canceled).toEqual([0]);
    expect(response.bodyUsed).toBe(false);
  });

  test("do not include the winner when both copies respond in one turn", async () => {
    const { clock, random } = world("fetch");
    const pending: ((response: Response) => void)[] = [];
    const together = () =>
      new Promise<Response>((resolve) => {
        if (pending.push(resolve) < 2) return;
        for (const [copy, respond] of pending.entries()) respond(new Response(`copy ${copy}`));
      });
    const shop = destination("s", { clock, random, hedge: { after: 10 } });
    const response = await clock.run(createFetch(shop, { fetch: together })(URL_A));
    expect(await response.text()).toBe("copy 0");
  });

  test("are discarded when the caller gives up during a wait", async () => {
    const { clock, random, canceled, fetch } = watched([[503, 1]]);
    const controller = new AbortController();
    const http = createFetch({ clock, random, initialDelayMs: 1000 }, { fetch });
    const call = rejectionOf(http(URL_A, { signal: controller.signal }));
    await clock.advance(5);
    controller.abort(new Error("enough"));
    expect(await call).toMatchObject({ message: "enough" });
    await clock.advance(1000);
    expect(canceled).toEqual([0]);
  });
});
