/**
 * Turn off for hooks: ends the direct path of an app to which the host program adds a hook of requests,
 * because that hook must see every request.
 */
import type { FastifyInstance } from "fastify";
import type { DirectCreates } from "./direct-creates.ts";

/** Hooks of the server itself. They run when a route is added or the server closes, not per request. */
const SERVER_HOOKS: ReadonlySet<string> = new Set([
  "onRoute",
  "onRegister",
  "onReady",
  "onListen",
  "preClose",
  "onClose",
]);

/** Plugins of this server add server hooks later, when it gets ready. A closing server refuses in its routes. */
export function turnOffForHooks(app: FastifyInstance, direct: readonly DirectCreates[]): void {
  const turnOff = () => {
    for (const creates of direct) creates.isOff = true;
  };
  app.addHook("preClose", async () => turnOff());
  const { addHook } = app;
  app.addHook = function (this: FastifyInstance, ...hook: Parameters<typeof addHook>) {
    if (!SERVER_HOOKS.has(hook[0])) turnOff();
    return addHook.apply(this, hook);
  } as typeof addHook;
}
