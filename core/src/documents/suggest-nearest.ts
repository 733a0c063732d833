/**
 * Suggest nearest: the suggestions for unknown fields in a browser, where every byte is sent to its user. It
 * replaces `suggest-name.ts` there (see `imports` in package.json).
 */
export { nearestName as suggestName } from "./nearest-name.ts";
