/**
 * Properties: loaded into each worker before its tests, so that fast-check draws the same inputs in
 * every run of `npm test`. A run that is red for one reader and green for the next proves nothing;
 * inputs never drawn before are what `npm run test:long` is for.
 */
import { configureGlobal } from "fast-check";
import { propertySeed } from "./property-seed.mjs";

configureGlobal({ seed: propertySeed() });
