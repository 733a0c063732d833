/** Scope: the name under which tracers and meters are created. */
export const SCOPE = "redrive";
