/**
 * The pages under /ui/: dashboard and simulator. The service will serve them; until then this
 * module only marks the document as alive, which the browser suite will look for.
 */
document.documentElement.dataset["redrive"] = "ready";
