/** `redrive policies`: what can be done with policy documents before a service knows them. */
import type { Command } from "commander";
import type { Screen } from "../screen.ts";
import { addCatalogue } from "./policies-catalogue.ts";
import { addExport } from "./policies-export.ts";
import { addImport } from "./policies-import.ts";
import { addLint } from "./policies-lint.ts";

export function addPolicies(parent: Command, screen: Screen): void {
  const policies = parent.command("policies").description("lint, import, export, look up policies");
  addLint(policies, screen);
  addCatalogue(policies, screen);
  addImport(policies, screen);
  addExport(policies, screen);
}
