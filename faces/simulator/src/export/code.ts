/** Code: TypeScript that uses a policy or a destination. */
import type { PolicyDocument } from "@redrive/core";
import type { Advice } from "../advise/advise.ts";

export interface Code {
  /** For a single call. */
  readonly retry: string;
  /** For all calls to the dependency: the guards count them together. */
  readonly destination: string;
}

export function adviceCode({ policy, destination }: Advice): Code {
  return {
    retry: `import { retry } from "redrive";

const response = await retry(call, ${literal(withKey(policy))});`,
    destination: `import { destination } from "redrive";

const dependency = destination("dependency", ${literal(destination)});
const response = await dependency.run(call${keyArgument(policy)});`,
  };
}

/** Adds a key if the policy requires one, so the code works. */
export function withKey(policy: PolicyDocument): object {
  return policy.requireIdempotencyKey ? { ...policy, idempotencyKey: "order-42" } : policy;
}

function keyArgument(policy: PolicyDocument): string {
  return policy.requireIdempotencyKey ? ', { idempotencyKey: "order-42" }' : "";
}

/** A value as a literal with unquoted keys. */
export function literal(value: object): string {
  return JSON.stringify(value, null, 2)
    .replace(/^( *)"([a-zA-Z]\w*)":/gmu, "$1$2:")
    .replace(/([^{[,])\n/gu, "$1,\n")
    .replace(/,\n$/u, "\n");
}
