/** Tests which transactions and tasks are refused, with which code, and that the transaction stays usable. */
// needs: postgres
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRedrive } from "@redrive/service";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { codeOf, outboxPlace, type Work } from "./outbox-place.ts";

const place = outboxPlace();
const { inTransaction, taskOf, order, delivered } = place;
const open = (schema = place.nextSchema()) => place.open(schema);

describe("a bad transaction", () => {
  it("is refused with a code that says what is wrong", async () => {
    const redrive = await open();
    const enqueue = (tx: unknown) => codeOf(redrive.enqueue(taskOf("bad"), { tx } as never));
    for (const tx of [undefined, null, 5, "client", {}, { query: 1 }]) {
      expect(await enqueue(tx)).toMatch(/^INVALID_ARGUMENT: tx must be a pg client/u);
    }
    expect(await enqueue(place.pool())).toMatch(
      /^INVALID_ARGUMENT: tx must be one connection.*BEGIN/u,
    );
    expect(await enqueue({ query: async () => 5 })).toMatch(/^INVALID_ARGUMENT: tx\.query/u);
    expect(await codeOf(redrive.enqueue(taskOf("bad"), { txx: place.pool() } as never))).toMatch(
      /^INVALID_ARGUMENT: unknown field "txx", did you mean "tx"/u,
    );
    expect(await redrive.count()).toEqual({});
  });

  it("is refused if it has failed, cannot write, or is of another database", async () => {
    const redrive = await open();
    const write: Work<unknown> = (client) => redrive.enqueue(taskOf("bad"), { tx: client });
    const failed: Work<unknown> = async (client) => {
      await client.query("SELECT 1 / 0").catch(() => {});
      return write(client);
    };
    expect(await codeOf(inTransaction(failed))).toMatch(/^TRANSACTION_FAILED: .*roll it back/u);
    expect(await codeOf(inTransaction(write, "BEGIN READ ONLY"))).toMatch(
      /^INVALID_ARGUMENT: .*able to write/u,
    );
    await place.pool().query("CREATE DATABASE other");
    const other = new pg.Client(place.url().replace(/postgres$/u, "other"));
    await other.connect();
    await other.query("BEGIN");
    expect(await codeOf(redrive.enqueue(taskOf("bad"), { tx: other }))).toMatch(
      /^INVALID_ARGUMENT: .*database of the store.*other/u,
    );
    // The transaction of the caller is still usable.
    expect((await other.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    await other.end();
    expect(await redrive.count()).toEqual({});
  });

  it("is refused if the same schema is in another database", async () => {
    const schema = place.nextSchema();
    const redrive = await open(schema);
    await place.pool().query("CREATE DATABASE copied");
    const copyUrl = place.url().replace(/postgres$/u, "copied");
    const copy = await createRedrive({ store: `${copyUrl}?schema=${schema}` });
    place.stopLater(copy);
    const client = new pg.Client(copyUrl);
    await client.connect();
    await client.query("BEGIN");
    expect(await codeOf(redrive.enqueue(taskOf("copy"), { tx: client }))).toMatch(
      /^INVALID_ARGUMENT: tx must be one connection.*copied/u,
    );
    await client.query("COMMIT");
    await client.end();
    expect(await copy.count()).toEqual({});
  });

  it("is refused for an unknown policy, and the transaction stays usable", async () => {
    const redrive = await open();
    await inTransaction(async (client) => {
      const refused = redrive.enqueue({ ...taskOf("p"), policyId: "nope" }, { tx: client });
      expect(await codeOf(refused)).toMatch(/^UNKNOWN_POLICY: .*"nope"/u);
      await order(client, redrive, "after a policy");
    });
    await delivered(["after a policy"]);
  });

  it.each(["memory:", "sqlite:"])("is refused by a store %s", async (kind) => {
    const folder = mkdtempSync(join(tmpdir(), "redrive-outbox-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const store = kind === "sqlite:" ? `sqlite:${join(folder, "redrive.db")}` : kind;
    const redrive = await createRedrive({ store });
    const refused = redrive.enqueue(taskOf("other store"), { tx: place.pool() });
    expect(await codeOf(refused)).toMatch(
      /^INVALID_ARGUMENT: enqueue with a transaction needs a PostgreSQL store/u,
    );
    expect(await redrive.count()).toEqual({});
    await redrive.stop(0);
  });

  it("is refused once the service has stopped", async () => {
    const redrive = await open();
    await redrive.stop(0);
    const write: Work<unknown> = (client) => redrive.enqueue(taskOf("late"), { tx: client });
    expect(await codeOf(inTransaction(write))).toMatch(/^(SERVICE_STOPPED|STORE_UNAVAILABLE)/u);
  });
});
