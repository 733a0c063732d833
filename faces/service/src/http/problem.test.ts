/** Tests of problems: every error has one response, and internal details stay hidden. */
import { DocumentError, RedriveError } from "@redrive/core";
import { expect, it } from "vitest";
import { serviceError } from "../model/errors.ts";
import { problemCatalog, problemOf } from "./problem.ts";

it("has a status and a title for each code", () => {
  for (const { code, status, title } of problemCatalog()) {
    expect(status).toBeGreaterThanOrEqual(400);
    expect(title.length).toBeGreaterThan(10);
    expect(problemOf(new RedriveError(code, "what was wrong")).status).toBe(status);
  }
});

it("names at most twenty fields", () => {
  const problems = Array.from({ length: 30 }, (_, n) => ({
    field: `f${n}`,
    value: "secret",
    message: `f${n} is bad`,
  }));
  const { status, errors } = problemOf(new DocumentError("INVALID_ARGUMENT", problems));
  expect([status, errors?.length]).toEqual([400, 20]);
  expect(JSON.stringify(errors)).not.toContain("secret");
});

it("reveals nothing about unknown errors and store errors", () => {
  const secret = "password at 10.0.0.1";
  for (const error of [
    new Error(secret),
    secret,
    serviceError("STORE_UNAVAILABLE", secret),
    serviceError("STORE_FULL", secret),
    new RedriveError("GAVE_UP", secret),
  ]) {
    expect(JSON.stringify(problemOf(error))).not.toContain(secret);
    expect(problemOf(error).status).toBeGreaterThanOrEqual(500);
  }
});
