/** `redrive policies`: lints and converts policy documents, and manages those of a running service. */
import type { Command } from "commander";
import type { Terminal } from "../print/terminal.ts";
import { addServicePolicies } from "../service/policies.ts";
import { addCatalog } from "./policies-catalog.ts";
import { addExport } from "./policies-export.ts";
import { addImport } from "./policies-import.ts";
import { addLint } from "./policies-lint.ts";

export function addPolicies(parent: Command, terminal: Terminal): void {
  const policies = parent
    .command("policies")
    .description("Lint, convert, list and apply policies.");
  addLint(policies, terminal);
  addCatalog(policies, terminal);
  addImport(policies, terminal);
  addExport(policies, terminal);
  addServicePolicies(policies, terminal);
}
