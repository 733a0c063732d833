/** `redrive policies`: policy documents before a service knows them, and those that it knows. */
import type { Command } from "commander";
import type { Screen } from "../screen.ts";
import { addCatalogue } from "./policies-catalogue.ts";
import { addExport } from "./policies-export.ts";
import { addImport } from "./policies-import.ts";
import { addLint } from "./policies-lint.ts";
import { addServicePolicies } from "./policies-service.ts";

export function addPolicies(parent: Command, screen: Screen): void {
  const policies = parent.command("policies").description("lint, import, export, apply policies");
  addLint(policies, screen);
  addCatalogue(policies, screen);
  addImport(policies, screen);
  addExport(policies, screen);
  addServicePolicies(policies, screen);
}
