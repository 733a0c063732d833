/** Resolver: the type of a function that looks up names. Tests inject one that simulates a DNS. */

export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

/**
 * All addresses of a name, in the order to try them. Rejects with an error that has a code. The
 * limits of the tenant apply.
 */
export type Resolver = (name: string, tenantId: string) => Promise<readonly ResolvedAddress[]>;

/** A resolver without limits. */
export type Lookup = (name: string) => Promise<readonly ResolvedAddress[]>;
