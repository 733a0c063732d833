/**
 * Properties: makes fast-check generate the same inputs in every run of `npm test`, so that a result
 * is reproducible. `npm run test:long` uses new inputs. Each worker loads this before its tests.
 */
import { configureGlobal } from "fast-check";
import { propertySeed } from "./property-seed.mjs";

configureGlobal({ seed: propertySeed() });
