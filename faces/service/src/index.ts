/**
 * The public surface of `@redrive/service`, which is being built: so far the policy it uses when told
 * nothing.
 */
import { type Policy, preset, resolve } from "@redrive/core";

export const defaultPolicy: Policy = resolve(preset("background"));
