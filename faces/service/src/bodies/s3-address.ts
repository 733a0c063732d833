/**
 * S3 address: reads `s3://BUCKET/PREFIX`, with the parameters `region`, `endpoint` (a server other than
 * AWS) and `spool` (a directory for uploads). Credentials come from the environment, as for every
 * program that uses the AWS SDK, and never from this text.
 */
import { quote } from "@redrive/core";
import { serviceError } from "../model/errors.ts";

export interface S3Address {
  readonly bucket: string;
  /** Empty, or ends with a slash. */
  readonly prefix: string;
  readonly region?: string;
  readonly endpoint?: string;
  readonly spool?: string;
}

const PARAMETERS = ["region", "endpoint", "spool"] as const;

/** Throws `INVALID_ARGUMENT`. */
export function parseS3Address(text: string): S3Address {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const bucket = url?.hostname ?? "";
  if (url?.protocol !== "s3:" || !/^[a-z\d][a-z\d.-]{1,61}[a-z\d]$/.test(bucket)) {
    throw invalid(text, "must be s3://BUCKET or s3://BUCKET/PREFIX");
  }
  if (url.username !== "" || url.password !== "") {
    throw serviceError("INVALID_ARGUMENT", "the credentials of S3 come from the environment");
  }
  const unknown = [...url.searchParams.keys()].find((name) => !isParameter(name));
  if (unknown !== undefined) {
    throw invalid(text, `has the unknown parameter ${quote(unknown)}`);
  }
  const endpoint = url.searchParams.get("endpoint");
  if (endpoint !== null && !/^https?:\/\//.test(endpoint)) {
    throw invalid(text, "must have an endpoint that begins with http:// or https://");
  }
  const path = decodeURIComponent(url.pathname).replace(/^\/+|\/+$/g, "");
  const given = PARAMETERS.flatMap((name) => {
    const value = url.searchParams.get(name);
    return value === null || value === "" ? [] : [[name, value] as const];
  });
  return { bucket, prefix: path === "" ? "" : `${path}/`, ...Object.fromEntries(given) };
}

function isParameter(name: string): boolean {
  return (PARAMETERS as readonly string[]).includes(name);
}

function invalid(text: string, problem: string): Error {
  return serviceError("INVALID_ARGUMENT", `blobs ${problem}, got ${quote(text)}`);
}
