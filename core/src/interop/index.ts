/**
 * The public API of `@redrive/core/interop`: reads and writes the retry configurations of other
 * systems, and lists the defaults of those systems.
 */
export { type AwsRetryMode, type AwsTarget, exportAws, importAws } from "./aws-config.ts";
export { catalog, catalogEntry } from "./catalog.ts";
export type { CatalogEntry } from "./catalog-entry.ts";
export type { DestinationParts, Imported } from "./config-reader.ts";
export { type EnvoyRoute, exportEnvoy, importEnvoy } from "./envoy-config.ts";
export { exportGrpc, type GrpcServiceConfig, type GrpcTarget, importGrpc } from "./grpc-config.ts";
