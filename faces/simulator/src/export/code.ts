/** Code: a policy or a destination as the lines of TypeScript that use it. */
import type { PolicyDocument } from "@redrive/core";
import type { Advice } from "../advise/advise.ts";

export interface Code {
  /** For one call on its own. */
  readonly retry: string;
  /** For everything that calls the dependency: the guards see all calls together. */
  readonly destination: string;
}

export function adviceCode({ policy, destination }: Advice): Code {
  return {
    retry: `import { retry } from "redrive";

const answer = await retry(call, ${literal(withKey(policy))});`,
    destination: `import { destination } from "redrive";

const dependency = destination("dependency", ${literal(destination)});
const answer = await dependency.run(call${keyArgument(policy)});`,
  };
}

/** A policy that refuses calls without a key is of no use without one. */
export function withKey(policy: PolicyDocument): object {
  return policy.requireIdempotencyKey ? { ...policy, idempotencyKey: "order-42" } : policy;
}

function keyArgument(policy: PolicyDocument): string {
  return policy.requireIdempotencyKey ? ', { idempotencyKey: "order-42" }' : "";
}

/** A value as a literal, keys without quotes. */
export function literal(value: object): string {
  return JSON.stringify(value, null, 2)
    .replace(/^( *)"([a-zA-Z]\w*)":/gmu, "$1$2:")
    .replace(/([^{[,])\n/gu, "$1,\n")
    .replace(/,\n$/u, "\n");
}
