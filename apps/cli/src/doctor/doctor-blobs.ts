/** Doctor blobs: checks the place where the service stores large bodies, without storing anything. */
import { inspectBlobs } from "@redrive/service";
import { isServerStore, type ServiceConfig } from "../serve/service-config.ts";
import type { Check } from "./doctor-check.ts";

const name = "bodies";

export async function checkBlobs({ store, blobs }: ServiceConfig): Promise<Check> {
  try {
    const { place, exists } = await inspectBlobs(store, blobs);
    if (place === null) return noPlace(store);
    const found = exists
      ? `${place} can be reached`
      : `${place} does not exist yet; the first large body creates it`;
    if (isServerStore(store) && place.startsWith("file:")) {
      return { name, state: "warn", found, fix: "make sure that all nodes share this directory" };
    }
    return { name, state: "ok", found, fix: "" };
  } catch (error) {
    const fix = "correct --blobs, its permissions, or the credentials in the environment";
    return { name, state: "fail", found: (error as Error).message, fix };
  }
}

function noPlace(store: string): Check {
  const found = "no place for bodies above 64 KiB: they are refused";
  const fix = "set --blobs s3://BUCKET/PREFIX, or file:DIR in a directory that all nodes share";
  return { name, state: store === "memory:" ? "ok" : "warn", found, fix };
}
