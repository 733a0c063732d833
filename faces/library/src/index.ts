/**
 * The public surface of `redrive`, which is being built: so far the policy document and its error.
 */
export { DocumentError, type PolicyDocument, RedriveError, resolve } from "@redrive/core";
