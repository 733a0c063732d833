/** Tests of listening: nobody exposes the service by accident. */
import { expect, it } from "vitest";
import { assertMayListen } from "./listen.ts";

it.each(["0.0.0.0", "::", "192.168.1.5", "example.com"])(
  "rejects %s without a key, and says what to do",
  (host) => {
    expect(() => assertMayListen(host, false)).toThrow(/redrive keys add/);
    expect(() => assertMayListen(host, true)).not.toThrow();
  },
);

it.each(["127.0.0.1", "localhost", "::1"])("listens on %s without one", (host) => {
  expect(() => assertMayListen(host, false)).not.toThrow();
});
