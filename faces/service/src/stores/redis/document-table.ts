/** Document table: the documents of a Redis store. All are on one server, in the order of lists. */
import type { DocumentTable } from "../../model/document-table.ts";
import { allDone, bytesOf, bytesOrNull, type Link, listOf, textOf } from "./connection/link.ts";
import { pack, unpackList } from "./message-pack.ts";
import { joined, type Keys } from "./rows.ts";
import { LIST_DOCUMENTS, PUT_DOCUMENT, WRITE_DOCUMENTS } from "./scripts/row-scripts.ts";

export function documentTable(link: Link, { control }: Keys): DocumentTable {
  const key = (kind: string) => `${control}:doc:${kind}`;
  return {
    put: ({ kind, tenantId, id, version, text }) =>
      link.replicated(async () => {
        const args = [kind, joined(tenantId, id), version, text];
        const [written] = await allDone([link.run(PUT_DOCUMENT, [control], args)]);
        return written === 1;
      }),
    async get(kind, tenantId, id) {
      const stored = await link.call("hget", key(kind), joined(tenantId, id));
      return stored === null ? null : { kind, tenantId, id, ...contentOf(bytesOf(stored)) };
    },
    async getMany(kind, keys) {
      if (keys.length === 0) return [];
      const ids = keys.map(({ tenantId, id }) => joined(tenantId, id));
      const found = await link.call("hmget", key(kind), ...ids);
      return listOf(found).map((one) => {
        const stored = bytesOrNull(one);
        return stored === null ? null : contentOf(stored).text;
      });
    },
    async list(kind, { limit, tenantId, cursor }) {
      const [from, to] = boundsOf(tenantId, cursor);
      const reply = await link.run(LIST_DOCUMENTS, [control], [kind, from, to, limit + 1]);
      const found = listOf(reply);
      const documents = found.flatMap((one, at) => {
        if (at % 2 === 1 || at / 2 >= limit) return [];
        const [owner = "", id = ""] = textOf(one).split("\n");
        return [{ kind, tenantId: owner, id, ...contentOf(bytesOf(found[at + 1])) }];
      });
      const last = found.length / 2 > limit ? documents.at(-1) : undefined;
      return { documents, cursor: last ? joined(last.tenantId, last.id) : null };
    },
    remove: (kind, tenantId, id) =>
      link.replicated(async () => {
        const item = [kind, joined(tenantId, id), null];
        return (await link.run(WRITE_DOCUMENTS, [control], [pack([item])])) === 1;
      }),
  };
}

/** Members are `tenant\nid`, so those of a tenant are before its name with the next character. */
function boundsOf(tenantId: string | undefined, cursor: string | undefined): [string, string] {
  const [first, last] = tenantId === undefined ? ["-", "+"] : [`[${tenantId}\n`, `(${tenantId}\v`];
  return [cursor === undefined ? first : `(${cursor}`, last];
}

function contentOf(stored: Buffer): { readonly version: number; readonly text: string } {
  const [version, text] = unpackList(stored) as [number, string];
  return { version, text };
}
